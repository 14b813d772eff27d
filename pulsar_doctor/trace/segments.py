"""One segment: a Parquet file of rows, written once and never changed.

zstd level 1, dictionaries, and a checksum on every page: without those a flipped bit goes unnoticed
more often than not. Rows are turned into Arrow columns a few thousand at a time and written as a
row group when enough have come together: a long journal needs no more memory than a short one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_doctor.columns import COLUMNS, IDS, TIME, MessageId, Row, values_of
from pulsar_doctor.errors import TraceError

GROUP_ROWS = 65_536
BATCH_ROWS = 4_096
READ_ROWS = 16_384

TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
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


def schema() -> pa.Schema:
    """The columns of a trace in the words of Arrow."""
    return pa.schema(pa.field(c.name, TYPES[c.type], nullable=c.nullable) for c in COLUMNS)


SCHEMA = schema()


class SegmentWriter:
    """Writes rows to a file that is a segment once it is closed. Overwrites what is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row_count = 0
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._parquet = pq.ParquetWriter(
            path,
            SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=True,
            write_page_checksum=True,
        )

    def add(self, row: Row) -> None:
        """Adds a row, which must not change any more."""
        self._rows.append(row)
        self.row_count += 1
        if len(self._rows) == BATCH_ROWS:
            self._batch()
        if self.row_count % GROUP_ROWS == 0:
            self._group()

    def close(self) -> None:
        """Writes what is left; when this returns the file is complete on disk."""
        self._batch()
        self._group()
        self._parquet.close()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())

    def abandon(self) -> None:
        """Closes and removes a file that is not to become a segment."""
        with suppress(OSError):  # a full disk may be why
            self._parquet.close()
        self.path.unlink(missing_ok=True)

    def _batch(self) -> None:
        if self._rows:
            columns = zip(*map(values_of, self._rows), strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            self._batches.append(pa.record_batch(arrays, schema=SCHEMA))
            self._rows = []

    def _group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, SCHEMA)
            self._parquet.write_table(table, row_group_size=GROUP_ROWS)
            self._batches = []


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
    with _said_as_damage(path):
        for batch in _batches(path, columns, since_us, sha256):
            yield from _rows(batch)


def count_rows(path: Path) -> int:
    """How many rows a segment has, with every page read and its checksum compared."""
    with _said_as_damage(path):
        return sum(batch.num_rows for batch in _batches(path, None, None, None))


def read_schema(path: Path) -> pa.Schema:
    """The schema of a segment as it stands in the file; TraceError where that cannot be read."""
    with _said_as_damage(path):
        return pq.read_schema(path)


@contextmanager
def _said_as_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise TraceError(f"{path} is missing; `pulsar-doctor trace verify` tells more") from None
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise TraceError(f"{path} is damaged: {_first_line(error)}") from None


def _batches(
    path: Path, columns: Sequence[str] | None, since_us: int | None, sha256: str | None
) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        groups = [g for g in range(file.num_row_groups) if not _older(file, g, since_us)]
        if groups and sha256 is not None and sha256_of(path) != sha256:
            raise ValueError("it does not agree with its SHA-256")
        there = file.schema_arrow.names  # an older version may have fewer
        names = [name for name in there if columns is None or name in columns]
        yield from file.iter_batches(READ_ROWS, row_groups=groups, columns=names)


def sha256_of(path: Path) -> str:
    """Of a whole file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _older(file: Any, group: int, since_us: int | None) -> bool:
    if since_us is None:
        return False
    statistics = file.metadata.row_group(group).column(SCHEMA.names.index("ts")).statistics
    if statistics is None or not statistics.has_min_max:
        return False
    newest: int = statistics.max_raw
    return newest < since_us


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    present = [i for i, column in enumerate(batch.columns) if column.null_count < len(column)]
    names = [batch.schema.names[i] for i in present]
    for values in zip(*(_values(batch.column(i)) for i in present), strict=True):
        row = Row()
        row.__dict__.update(zip(names, values, strict=True))
        yield row


def _values(column: pa.Array) -> list[Any]:
    if column.type == TYPES[TIME]:
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if column.type == TYPES[IDS]:
        return [None if ids is None else [MessageId(**each) for each in ids] for ids in values]
    return values


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
