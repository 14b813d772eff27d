"""The files in the folder of a trace: names, description, saved accounts, locks.

A part is one journal, or the segment that it became; both bear its number.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import stat
import sys
import time
import zlib
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from pulsar_doctor import __version__
from pulsar_doctor.errors import DoctorError, InputError, TraceError
from pulsar_doctor.ledger.acks.persisting import Storing, storing_of
from pulsar_doctor.owners import locked
from pulsar_doctor.wire.columns import SCHEMA_VERSION

META = "_meta.json"
REDACTION = (
    "payloads, properties, credentials and error details are not recorded; keys are hashed with "
    "a salt that is not kept"
)
INDEX = "_segments.jsonl"
RING = "_ring.json"
KEPT = "_kept"
WHY_KEPT = "_kept.json"
RELAY_LOCK = ".relay.lock"
SEAL_LOCK = ".seal.lock"
LOCK_RETRY_SECONDS = 0.05
ROTATE_BYTES, JOURNAL_BYTES_MOST = 64 << 20, 4 << 30


# Nothing of a trace is larger, and what is larger is nothing of ours.
SMALL_BYTES_MOST = 16 << 20
INDEX_BYTES_MOST = 256 << 20
STATE_BYTES_MOST = 1 << 30
# Raised with each change to how a timeline saves its ledgers, or to what a command does to them.
LEDGER_FORMAT = 6
PACKED_LEVEL = 1
PACKED_MOST = 100  # times: what unpacks to more, and to more than a small file, is none of ours
# Follow no link, wait for no pipe, with the flags that this system knows.
STAY_INSIDE = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def journal_name(number: int) -> str:
    """The name of the journal of a part."""
    return f".journal-{number:06d}.pdj"


def segment_name(number: int) -> str:
    """The name of the segment of a part."""
    return f"seg-{number:06d}.parquet"


def state_name(number: int) -> str:
    """The name of the ledgers as they were at the end of a part."""
    return f".state-{number:06d}"


def number_in(name: str) -> int:
    """The number of the part in a name; 0 where it has none."""
    number = name.partition("-")[2].partition(".")[0]
    return int(number) if number.isdecimal() else 0


def numbers(folder: Path, pattern: str) -> list[int]:
    """Parts that have a file of this pattern, e.g. ".journal-*.pdj", in order."""
    names = fnmatch.filter(names_in(folder), pattern)
    return sorted(number for name in names if (number := number_in(name)))


def names_in(folder: Path) -> set[str]:
    """What lies in a folder; nothing where it is none."""
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - a Path for each of 100,000 is dear
    except (FileNotFoundError, NotADirectoryError):
        return set()


def remove(folder: Path, pattern: str, some: Container[int]) -> None:
    """Removes the files of this pattern whose parts are among these; 0: those without a number."""
    for path in folder.glob(pattern):
        if number_in(path.name) in some:
            with suppress(FileNotFoundError, IsADirectoryError):  # such a folder is not ours
                path.unlink()


def journals(folder: Path) -> list[int]:
    """Parts of which a journal is there, in order."""
    return numbers(folder, ".journal-*.pdj")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """When the next journal begins, and how much there may be."""

    rotate_seconds: float = 60.0  # after so long the next one begins
    rotate_bytes: int = ROTATE_BYTES  # or after so many bytes
    journal_bytes_most: int = JOURNAL_BYTES_MOST  # of all journals that nobody has sealed yet


@dataclass(frozen=True, slots=True)
class Meta:
    """What _meta.json says of a trace."""

    trace_id: str
    schema_version: int = SCHEMA_VERSION
    program_version: str = __version__
    tap_address: str = ""
    upstream_address: str = ""
    clocks: Mapping[str, int] = field(default_factory=dict)  # wall_us, mono_ns at one moment
    redaction: Any = None
    # consumer name -> receiver_queue_size, process_seconds, unacked_limit; see timeline
    told: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # `version`, and of `configuration` what holes.persisting.SETTINGS names, as the broker reported
    # them at the start; empty: not reported
    broker: Mapping[str, Any] = field(default_factory=dict)
    # from which packets it was made, and what was lost; empty: not made from a capture
    capture: Mapping[str, Any] = field(default_factory=dict)

    @property
    def broker_version(self) -> str | None:
        """The version of the broker that answered at the start."""
        version = self.broker.get("version")
        return version if isinstance(version, str) else None

    @property
    def storing(self) -> Storing:
        """How the broker keeps acknowledgements, as far as it was reported."""
        configuration = self.broker.get("configuration")
        known = configuration if isinstance(configuration, dict) else {}
        return storing_of(known, self.broker_version)

    def begin(self, folder: Path, who: str) -> None:
        """Makes the folder where it is not there. InputError where it holds something; OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty: a {who} begins a trace of its own")
        self.write(folder)

    def write(self, folder: Path) -> None:
        """Makes `folder` a trace; what is known later of a capture is written again."""
        write_file(folder / META, json.dumps(asdict(self), indent=1).encode() + b"\n")


def read_meta(folder: Path) -> Meta:
    """The description of a trace; TraceError where this is none, or one for a newer program."""
    try:
        content = read_bytes(folder / META)
    except (FileNotFoundError, NotADirectoryError):
        if not folder.exists():
            raise TraceError(f"there is no folder {folder}: expected is a trace") from None
        what = "has no _meta.json" if folder.is_dir() else "is not a folder"
        raise TraceError(f"{folder} is not a trace of pulsar-doctor: it {what}") from None
    except OSError as error:
        raise TraceError(f"{folder / META} cannot be read: {error.strerror}") from None
    return meta_of(content, folder)


def meta_of(content: bytes, folder: Path | str) -> Meta:
    """The description in the content of a trace's file. Raises as read_meta."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise TraceError(f"{folder}/{META} cannot be read: {error}") from None
    try:
        values = json.loads(text)
        version = values["schema_version"]
        given = ((f.name, values.get(f.name)) for f in fields(Meta))
        meta = Meta(**{name: value for name, value in given if value is not None})
        sound = isinstance(version, int) and isinstance(meta.trace_id, str)
        sound &= all(isinstance(each, dict) for each in (meta.told, meta.broker, meta.capture))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise TraceError(f"{folder}/{META} is damaged, or the file of another program")
    if version > SCHEMA_VERSION:
        raise TraceError(
            f"{folder} has schema version {version}, this program reads {SCHEMA_VERSION}: "
            "use a newer pulsar-doctor"
        )
    return meta


def open_regular(path: Path) -> FileIO:
    """Opens a file. Raises TraceError for a link, pipe or device; FileNotFoundError, OSError."""
    require_regular(path)
    file = open(path, "rb", buffering=0, opener=_stay_inside)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _not_regular(path)
    return file


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has that name; not so once it is deleted or moved away."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def require_regular(path: Path) -> None:
    """Raises TraceError where this is not a regular file, FileNotFoundError where nothing is "
    "there."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise _not_regular(path)


def _not_regular(path: Path) -> TraceError:
    return TraceError(f"{path} is not a regular file: a trace has no links, pipes or devices")


def _stay_inside(path: str, flags: int) -> int:
    return os.open(path, flags | STAY_INSIDE)


def read_bytes(path: Path, bytes_most: int = SMALL_BYTES_MOST) -> bytes:
    """Reads a small file. Raises TraceError where it is larger or no regular file; OSError."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size <= bytes_most:
            content = file.read(bytes_most + 1) or b""
            if len(content) <= bytes_most:
                return content
    raise TraceError(f"{path} is larger than {bytes_most >> 20} MiB: it is no file of a trace")


def state_bytes(state: Mapping[str, Any]) -> bytes:
    """The ledgers as the file of them holds them: a line with a checksum, and then they, packed.

    Those of consumers that came and went differ little from each other: a ring of few bytes has
    room for those of a thousand too. Without them its end is read anew, and knows less.
    """
    body = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), PACKED_LEVEL)
    head = {"format": LEDGER_FORMAT, "crc32": zlib.crc32(body)}
    return json.dumps(head).encode() + b"\n" + body


def read_state(folder: Path, number: int) -> dict[str, Any] | None:
    """The ledgers at the end of a part; None where they are not there or not to be relied on.

    They can always be had from the sealed rows, so a damaged file is no error; nor is one of
    another format.
    """
    try:
        return state_of(read_bytes(folder / state_name(number), STATE_BYTES_MOST))
    except (OSError, TraceError):
        return None


def state_of(content: bytes) -> dict[str, Any] | None:
    """The ledgers in the content of their file; None where they are not to be relied on."""
    try:
        head, _, body = content.partition(b"\n")
        if json.loads(head) != {"format": LEDGER_FORMAT, "crc32": zlib.crc32(body)}:
            return None
        bytes_most = min(STATE_BYTES_MOST, max(SMALL_BYTES_MOST, PACKED_MOST * len(body)))
        state = json.loads(zlib.decompressobj().decompress(body, bytes_most))
    except (ValueError, RecursionError, zlib.error):
        return None
    return state if isinstance(state, dict) else None


def write_file(path: Path, content: bytes) -> None:
    """Writes a file so that after a crash it is there wholly or not at all."""
    temporary = path.with_name(f".{path.name.lstrip('.')}.tmp")
    with open(temporary, "wb", opener=for_owner) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(temporary, path)


def for_owner(path: str, flags: int) -> int:
    """Opens a file that nobody else may read, where it is new."""
    return os.open(path, flags | STAY_INSIDE, 0o600)


def put_in_place(temporary: Path, path: Path) -> None:
    """Renames a file that is complete on disk, durably."""
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    if sys.platform == "win32":  # which opens no folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_live(folder: Path) -> bool:
    """Whether the relay of this trace still runs: it holds a lock for its life."""
    try:
        file = open_regular(folder / RELAY_LOCK)
    except FileNotFoundError:
        return False
    with file:
        return locked(file.fileno(), shared=True) is False


def take_relay_lock(folder: Path) -> int:
    """What says that a trace is live, as long as this descriptor, or a copy of it, is open.

    Raises DoctorError where another tap has it, OSError where the folder cannot be written to.
    """
    lock = os.open(folder / RELAY_LOCK, os.O_RDWR | os.O_CREAT | STAY_INSIDE, 0o600)
    if locked(lock):
        return lock
    os.close(lock)
    raise DoctorError(f"another tap writes to {folder}")


def take_seal_lock(folder: Path, wait_seconds: float = 0.0) -> BinaryIO | None:
    """The right to seal, until the file is closed; None where another process has it."""
    lock = folder / SEAL_LOCK
    try:
        require_regular(lock)
    except FileNotFoundError:
        pass
    except TraceError:
        raise OSError(errno.EINVAL, f"{SEAL_LOCK} is not a regular file") from None
    file = open(lock, "ab", opener=for_owner)  # noqa: SIM115
    until = time.monotonic() + wait_seconds
    while not locked(file.fileno()):
        if time.monotonic() >= until:
            file.close()
            return None
        time.sleep(LOCK_RETRY_SECONDS)
    return file
