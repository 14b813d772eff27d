"""Keeps rounds in a folder: a journal of the running hour, and a Parquet file of each hour before.

    DIR/cluster=NAME/.journal-20261129T160012000000      the running hour
    DIR/cluster=NAME/day=2026-11-29/20261129T160012000000.parquet

A round is one frame of the journal: its length, its CRC-32, its rows as packed JSON, written and
synced at once. So a kill loses at most the running round. The Parquet file bears the name of its
journal and is put in place whole, before the journal is deleted: nothing is there twice. Spark,
DuckDB and others leave out names that begin with a dot.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from struct import Struct
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_doctor.errors import InputError
from pulsar_doctor.owners import locked
from pulsar_doctor.parts.fleet.record import RecordRow
from pulsar_doctor.trace.folder import STAY_INSIDE, for_owner, put_in_place, sync_folder, write_file

TIME = pa.timestamp("us", tz="UTC")


def _list(**fields: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct(list(fields.items())))


TEXT, WHOLE, SHORT, RATE, FLOAT = (pa.string(), pa.int64(), pa.int32(), pa.float32(), pa.float64())
SCHEMA = pa.schema(
    {
        "schema_version": pa.int16(),
        "seen_at": TIME,
        "kind": TEXT,  # round, seen, gone, unread
        "topic": TEXT,  # with its partition
        "subscription": TEXT,
        "type": TEXT,
        "status": TEXT,
        "cause": TEXT,
        "certainty": RATE,
        "consumer": TEXT,  # that the cause names
        "broker_version": TEXT,
        "backlog": WHOLE,  # entries
        "oldest_seconds": WHOLE,
        "pace": TEXT,  # keeps-up, catches-up, falls-behind, not-known
        "comes_in": RATE,  # messages a second, as all of these rates
        "sent_out": RATE,
        "acknowledged": RATE,
        "redelivered": RATE,
        "growth": RATE,
        "account": _list(place=TEXT, least=WHOLE, most=WHOLE),
        "limits": _list(name=TEXT, level=FLOAT, most=FLOAT, seconds=FLOAT),
        "consumers": _list(
            name=TEXT, version=TEXT, host=TEXT, connected=TIME, permits=WHOLE, unacked=WHOLE,
            rate=RATE, queue_size=WHOLE,
        ),
        "subscriptions": SHORT,  # of a round
        "unread": SHORT,
        "every_seconds": RATE,
    }
)  # fmt: skip
COUNTS = ("backlog", *(f"consumers.list.element.{x}" for x in ("permits", "unacked")))
# Neighbours in a file are rows of one subscription, so a name that comes again is a short match of
# zstd. A dictionary of thousands of names would cost more.
PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 9,
    "use_dictionary": ["kind", "type", "status", "cause", "broker_version", "pace"],
    "column_encoding": dict.fromkeys(COUNTS, "DELTA_BINARY_PACKED"),
    "write_page_checksum": True,
}
FRAME = Struct("<II")  # length, CRC-32
FRAME_MOST = 1 << 30
JOURNAL = ".journal-"
KEY_BYTES = 16


class Keeper:
    """Keeps the rounds of one cluster. Changes in place; to be closed."""

    def __init__(self, folder: Path, cluster: str | None, *, seconds: float, size: int) -> None:
        self._root, self._seconds, self._size = folder, seconds, size
        self.folder = folder / f"cluster={partition_name(cluster or 'unknown')}"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | STAY_INSIDE, 0o600)
        if locked(self._lock) is False:
            os.close(self._lock)
            raise InputError(f"another watch records this cluster in {folder}")
        self._stem: str | None = None  # of the running journal
        for journal in sorted(self.folder.glob(f"{JOURNAL}*")):
            self._take_over(journal)

    def _take_over(self, journal: Path) -> None:
        """What an earlier watch left: the newest one of this hour goes on."""
        if self._stem is not None:
            self.seal()
        self._stem = journal.name.removeprefix(JOURNAL)
        if self._sealed.exists():  # killed before it was deleted
            journal.unlink()
            self._stem = None
            return
        sound = sum(FRAME.size + len(body) for body in frames(journal))
        os.truncate(journal, sound)

    def append(self, rows: Sequence[RecordRow]) -> None:
        """A round that has ended. Raises OSError; then it is not kept, and the journal is whole."""
        at = datetime.fromtimestamp(rows[0]["seen_at"] / 1e6, UTC)
        if self._stem is not None and hour_of(self._stem) != f"{at:%Y%m%dT%H}":
            self.seal()
        if self._stem is None:
            self._stem = self._new_stem(at)
        text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
        body = zlib.compress(text.encode("utf-8", "replace"), 1)  # half a character is none
        with open(self._journal, "ab", buffering=0, opener=for_owner) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                _write_all(file.fileno(), FRAME.pack(len(body), zlib.crc32(body)) + body)
                os.fsync(file.fileno())
            except OSError:
                file.truncate(before)
                raise
            if not before:
                sync_folder(self.folder)

    def seal(self) -> None:
        """Makes the running journal a Parquet file, and deletes what is too old or too much."""
        if self._stem is None:
            return
        rows = [row for body in frames(self._journal) for row in json.loads(zlib.decompress(body))]
        if rows:
            self._sealed.parent.mkdir(exist_ok=True, mode=0o700)
            write_hour(self._sealed, rows)
        self._journal.unlink()
        self._stem = None
        self._bound()

    def close(self) -> None:
        """Ends the running hour, so that it can be read."""
        try:
            self.seal()
        finally:
            os.close(self._lock)

    @property
    def _journal(self) -> Path:
        return self.folder / f"{JOURNAL}{self._stem}"

    @property
    def _sealed(self) -> Path:
        return hour_file(self.folder, self._stem or "")

    def _new_stem(self, at: datetime) -> str:
        number = int(f"{at:%f}")
        while hour_file(self.folder, stem := f"{at:%Y%m%dT%H%M%S}{number:06d}").exists():
            number += 1  # a clock that was set back
        return stem

    def _bound(self) -> None:
        """By age and by size, the oldest first; never the newest file."""
        files = sorted(self._root.glob("cluster=*/day=*/*.parquet"), key=lambda file: file.name)
        sizes = {file: file.stat().st_size for file in files}
        oldest = datetime.now(UTC).timestamp() - self._seconds
        total = sum(sizes.values())
        for file in files[:-1]:
            began = datetime.strptime(file.stem[:11], "%Y%m%dT%H").replace(tzinfo=UTC)
            if total <= self._size and began.timestamp() >= oldest:
                return
            total -= sizes[file]
            file.unlink()
            with suppress(OSError):  # not empty
                file.parent.rmdir()


def partition_name(name: str) -> str:
    """Writes the value of a partition as Hive, Spark and DuckDB do."""
    return quote(name, safe=" ")


def hour_of(stem: str) -> str:
    """`20261129T16`."""
    return stem[:11]


def hour_file(cluster: Path, stem: str) -> Path:
    """Where a journal of this name becomes Parquet."""
    return cluster / f"day={stem[:4]}-{stem[4:6]}-{stem[6:8]}" / f"{stem}.parquet"


def frames(journal: Path) -> Iterator[bytes]:
    """The packed rounds of a journal, up to the first that is not whole."""
    with journal.open("rb") as file:
        while len(head := file.read(FRAME.size)) == FRAME.size:
            length, checksum = FRAME.unpack(head)
            body = file.read(min(length, FRAME_MOST))
            if len(body) < length or zlib.crc32(body) != checksum:
                return
            yield body


def write_hour(path: Path, rows: Iterable[RecordRow]) -> None:
    """Writes rows as one Parquet file, whole or not at all."""
    ordered = sorted(
        rows, key=lambda row: (_name(row, "topic"), _name(row, "subscription"), row["seen_at"])
    )
    columns = [_column([row.get(of.name) for row in ordered], of.type) for of in SCHEMA]
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb", opener=for_owner) as file:
        pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), file, **PARQUET)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(temporary, path)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column. What it cannot hold, such as a number beyond 64 bits, is not reported."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        if len(values) == 1:
            return pa.nulls(1, kind)
        half = len(values) // 2
        return pa.concat_arrays([_column(values[:half], kind), _column(values[half:], kind)])


def _name(row: RecordRow, column: str) -> str:
    return row.get(column) or ""


def require_folder(folder: Path, shown: str) -> None:
    """Raises InputError where it is none, and says why. shown: the folder as it was typed."""
    if not folder.is_dir():
        why = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{shown} {why}; expected is a folder of `stall-check --watch --keep`")


def require_records(folder: Path, shown: str) -> None:
    """Raises InputError where a folder has none. shown: the folder as it was typed."""
    require_folder(folder, shown)
    if next(folder.glob("cluster=*/day=*/*.parquet"), None) is None:
        raise InputError(
            f"{shown} holds no records of `stall-check --all --watch --keep`; an hour is there "
            "once it is over, or once the watch has ended"
        )


def key_of(folder: Path) -> bytes:
    """The key of the pseudonyms in this folder; made where there is none."""
    file = folder / ".key"
    try:
        key = bytes.fromhex(file.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        key = secrets.token_bytes(KEY_BYTES)
        write_file(file, key.hex().encode())
    return key


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
