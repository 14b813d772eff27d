"""One segment: a Parquet file of rows that is written once.

zstd level 1, dictionaries (differences where a number hardly comes twice), and a checksum on every
page: without those a flipped bit stays unnoticed more often than not. Rows are turned into Arrow
columns a thousand at a time and written as a row group when enough have come together: a long
journal needs no more memory than a short one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace.folder import for_owner, open_regular, require_regular
from pulsar_doctor.wire.columns import (
    COLUMNS,
    IDS,
    NAMES,
    TIME,
    MessageId,
    Row,
    maker_of,
    values_of,
)
from pulsar_doctor.wire.text import text_of

GROUP_ROWS = 65_536
BATCH_ROWS = 1_024
GROUP_BYTES = 1 << 27  # in memory; in front of what readers take, and what sealing costs
BATCH_BYTES = 1 << 25  # of what may be long in a row: acknowledged indexes and ids
ID_BYTES = 24
READ_ROWS = 4_096

TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    TIME: pa.timestamp("us", tz="UTC"),
    IDS: pa.list_(
        pa.struct(
            [("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("ack_set", pa.binary())],
        )
    ),
}

INTEGER_FORMATS: dict[pa.DataType, Literal["h", "i", "q"]] = {  # of Python's struct
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    TYPES[TIME]: "q",
}
# Numbers that hardly come twice: their differences take half the room of a dictionary.
ENTRY_IDS = "message_ids.list.element.entry_id"
DIFFERENCES = ("seq", "ts", "mono_ns", "entry_id", ENTRY_IDS)

SCHEMA = pa.schema(pa.field(c.name, TYPES[c.type], nullable=c.nullable) for c in COLUMNS)
LEAST = NAMES.index("raw") + 1  # columns that the first version had
DICTIONARIES = [
    *(c.name for c in COLUMNS if c.name not in (*DIFFERENCES, "message_ids") and c.type != "bool"),
    "message_ids.list.element.ledger_id",
    "message_ids.list.element.ack_set",
]
# How a segment is written.
PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": DICTIONARIES,
    "column_encoding": dict.fromkeys(DIFFERENCES, "DELTA_BINARY_PACKED"),
    "write_page_checksum": True,
}
# Read as what they are in the file, each text once: a small file may name a large one often.
TEXTS = [c.name for c in COLUMNS if c.type in ("string", "binary")]
GROUP_BYTES_MOST = 1 << 29  # uncompressed
CHANGED = "it does not agree with its SHA-256"


class SegmentWriter:
    """Writes rows to a file that is a segment once it is closed. Overwrites what is there.

    room: called before so many more bytes are written; if it says no, left_out becomes true, the
    file is emptied, and nothing more is written.
    """

    def __init__(self, path: Path, room: Callable[[int], bool] | None = None) -> None:
        self.path = path
        self._sink = _Sink(path, room)
        self.row_count = 0
        self.first_us: int | None = None  # least `ts`, once it is closed
        self.last_us: int | None = None  # greatest
        self._values: list[Any] = []  # of row after row: no tuple a row that would burden the GC
        self._batches: list[pa.RecordBatch] = []
        self._long_bytes = self._group_bytes = 0
        try:
            self._parquet = pq.ParquetWriter(
                self._sink,
                SCHEMA,
                **PARQUET,
            )
        except BaseException:
            self._sink.close()
            raise

    @property
    def left_out(self) -> bool:
        """Whether there was no room for it: this is no segment."""
        return self._sink.left_out

    def add(self, row: Row) -> None:
        """Adds a row as it is now."""
        self._values += values_of(row)
        self.row_count += 1
        if row.ack_set is not None or row.message_ids is not None:
            self._weigh(row)
        if self.row_count % BATCH_ROWS == 0:
            self._batch()
            if self.row_count % GROUP_ROWS == 0:
                self._group()

    def _weigh(self, row: Row) -> None:
        """Few rows may be as large as many."""
        ids = row.message_ids or ()
        self._long_bytes += len(row.ack_set or b"") + ID_BYTES * len(ids)
        self._long_bytes += sum(len(each.ack_set) for each in ids if each.ack_set)
        if self._long_bytes > BATCH_BYTES:
            self._batch()

    def close(self) -> None:
        """Writes what is left; when this returns the file is complete on disk."""
        self._batch()
        self._group()
        self._parquet.close()
        self._sink.sync()
        self._sink.close()

    def abandon(self) -> None:
        """Closes and removes a file that is not to become a segment."""
        self._sink.left_out = True  # what is in memory is not written
        with suppress(OSError):  # a full disk may be why
            self._parquet.close()
        self._sink.close()
        self.path.unlink(missing_ok=True)

    def _batch(self) -> None:
        if self._values:
            width = len(SCHEMA)
            arrays = [_array(self._values[at::width], f.type) for at, f in enumerate(SCHEMA)]
            self._batches.append(pa.record_batch(arrays, schema=SCHEMA))
            self._values.clear()
            self._long_bytes = 0
            self._group_bytes += self._batches[-1].nbytes
            if self._group_bytes > GROUP_BYTES:
                self._group()

    def _group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, SCHEMA)
            self._note_times(table["ts"])
            self._parquet.write_table(table, row_group_size=GROUP_ROWS)
            self._batches = []
            self._group_bytes = 0

    def _note_times(self, ts: pa.ChunkedArray) -> None:
        first_us, last_us = (each.value for each in pc.min_max(ts).values())
        self.first_us = first_us if self.first_us is None else min(self.first_us, first_us)
        self.last_us = last_us if self.last_us is None else max(self.last_us, last_us)


def _array(values: list[Any], column_type: pa.DataType) -> pa.Array:
    """A column. What it cannot hold is the nearest that fits: a record that is odd in some way
    costs that value, never its neighbours."""
    first, count = values[0], len(values)
    alike = values[-1] is first and values.count(first) == count  # as most are: a seventh of it
    if alike and first is None:
        return pa.nulls(count, column_type)
    try:
        if alike:
            return pa.repeat(pa.scalar(first, column_type), count)
        return pa.array(values, column_type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return pa.array([_fitting(value, column_type) for value in values], column_type)


def as_held(name: str, value: Any) -> Any:
    """A value as the column of this name holds it."""
    return _fitting(value, SCHEMA.field(name).type)


def _fitting(value: Any, column_type: pa.DataType) -> Any:
    if isinstance(value, int) and column_type in INTEGER_FORMATS:
        most = (1 << (column_type.bit_width - 1)) - 1
        return max(-most - 1, min(value, most))
    if isinstance(value, str | bytes) and column_type == pa.string():
        return text_of(value)
    try:
        pa.array([value], column_type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
    return value


class _Sink:
    """A file that asks for room before it grows. Nobody but its owner may read it."""

    def __init__(self, path: Path, room: Callable[[int], bool] | None) -> None:
        descriptor = for_owner(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._room = room
        self._position = 0
        self.left_out = False

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._position += len(view)
        if not self.left_out and self._room is not None and not self._room(len(view)):
            self.left_out = True
            self._file.truncate(0)
        if not self.left_out:
            rest = view
            while rest:
                rest = rest[self._file.write(rest) :]
        return len(view)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is held back."""

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_rows(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    since_us: int | None = None,
    sha256: str | None = None,
) -> Iterator[Row]:
    """The rows of a segment. Raises TraceError where it is missing or damaged.

    columns: only these, the others are None; since_us: leaves out row groups that are older.
    sha256: as in the list; without it a change in the file's footer may go unnoticed.
    """
    with _reported_as_damage(path):
        for batch in _batches(path, columns, since_us, sha256):
            yield from _rows(batch)


def require_there(path: Path) -> None:
    """Raises TraceError where a segment is missing, or is no file."""
    with _reported_as_damage(path):
        require_regular(path)


def prove(path: Path, sha256: str) -> None:
    """Raises TraceError where a segment is missing, or is not the one that was sealed."""
    with _reported_as_damage(path):
        _prove(path, sha256)


def _prove(path: Path, sha256: str) -> None:
    if sha256_of(path) != sha256:
        raise ValueError(CHANGED)


def count_rows(path: Path) -> int:
    """How many rows a segment has, with every page read and its checksum compared."""
    with _reported_as_damage(path):
        return sum(batch.num_rows for batch in _batches(path, None, None, None))


def read_names(path: Path) -> list[str]:
    """The columns of a segment, those of a newer program included; TraceError as for its rows."""
    with _reported_as_damage(path), _parquet(path) as file:
        return _names(file)


def _names(file: Any) -> list[str]:
    """The columns of a file: at least those of the first version, and any new ones behind ours."""
    names: list[str] = file.schema_arrow.names
    known = all(field == ours for field, ours in zip(file.schema_arrow, SCHEMA, strict=False))
    if not known or len(names) < LEAST or len(set(names)) < len(names):
        raise ValueError("it does not have the columns of a trace")
    return names


def _parquet(path: Path, **settings: Any) -> Any:
    require_regular(path)
    return pq.ParquetFile(path, **settings)


@contextmanager
def _reported_as_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise TraceError(f"{path} is missing; `pulsar-doctor trace verify` tells more") from None
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise TraceError(f"{path} is damaged: {_first_line(error)}") from None


def _batches(
    path: Path, columns: Sequence[str] | None, since_us: int | None, sha256: str | None
) -> Iterator[pa.RecordBatch]:
    with _parquet(path) as file:
        there = _names(file)
    texts = [name for name in there if name in TEXTS]
    with _parquet(path, page_checksum_verification=True, read_dictionary=texts) as file:
        groups = [g for g in range(file.num_row_groups) if not _older(file, g, since_us)]
        if sha256 is not None and (groups or since_us is None):
            _prove(path, sha256)
        wanted = NAMES if columns is None else columns
        sizes = [file.metadata.row_group(group).total_byte_size for group in groups]
        if (size := max(sizes, default=0)) > GROUP_BYTES_MOST:
            raise ValueError(f"a row group of {size >> 20} MiB is none of a trace")
        # An older version may have fewer, and what is not ours is left alone.
        names = [name for name in there if name in NAMES and name in wanted]
        yield from file.iter_batches(READ_ROWS, row_groups=groups, columns=names)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a whole file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def times_of(path: Path, size: int) -> tuple[int, int]:
    """The earliest and the latest `ts` of a segment of so many bytes, in microseconds.

    Only the file's footer is read. Raises TraceError where it is missing or damaged.
    """
    with _reported_as_damage(path), _parquet(path) as file:
        if path.stat().st_size != size:
            raise ValueError(f"it has {path.stat().st_size} bytes and should have {size}")
        times = [_times_in(file, group) for group in range(file.num_row_groups)]
        if None in times:
            raise ValueError("it does not say of what times it is")
        first, last = zip(*filter(None, times), strict=True)
        return min(first), max(last)


def _times_in(file: Any, group: int) -> tuple[int, int] | None:
    ts = file.metadata.row_group(group).column(file.schema_arrow.names.index("ts")).statistics
    return (ts.min_raw, ts.max_raw) if ts is not None and ts.has_min_max else None


def _older(file: Any, group: int, since_us: int | None) -> bool:
    times = None if since_us is None else _times_in(file, group)
    return since_us is not None and times is not None and times[1] < since_us


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    present = {name: each for name, each in columns.items() if each.null_count < len(each)}
    if not present:
        return (Row() for _ in range(batch.num_rows))
    return map(maker_of(tuple(present)), *map(_values, present.values()))


def _values(column: pa.Array) -> list[Any]:
    """The values as Python's own. to_pylist is slow: it makes an object of Arrow's first."""
    width = INTEGER_FORMATS.get(column.type)
    if width is not None:
        return _integers(column, width)
    if pa.types.is_dictionary(column.type) or column.type == pa.string():
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        words = [*coded.dictionary.to_pylist(), None]
        return [words[at] for at in _integers(coded.indices.fill_null(len(words) - 1), "i")]
    values: list[Any] = column.to_pylist()
    if column.type == TYPES[IDS]:
        return [None if ids is None else [MessageId(**each) for each in ids] for ids in values]
    return values


def _integers(column: pa.Array, width: Literal["h", "i", "q", "Q"]) -> list[Any]:
    start, end = column.offset, column.offset + len(column)
    values: list[Any] = memoryview(column.buffers()[1]).cast(width)[start:end].tolist()
    if column.null_count:
        missing = pc.indices_nonzero(column.is_null())
        for at in _integers(missing, "Q"):
            values[at] = None
    return values


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
