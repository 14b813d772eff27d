"""Traces as a DataFrame of their rows, each of which comes once.

On this machine the traces are looked at first: what a crash left is sealed, what is no trace or is
not as it was sealed (by its SHA-256) is refused, and the list of segments tells which rows are
there twice (a copy, a ring and what was kept of it). Where only Spark can look (s3a://, hdfs://,
the disk of a Spark Connect server) a pass over three columns tells that: a segment never changes,
so copies of it hold the same rows, and of two that begin with the same row one is the other, cut
short.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pulsar_doctor.errors import InputError, needing
from pulsar_doctor.spark.failures import told_in_one_sentence
from pulsar_doctor.wire.columns import COLUMNS, IDS, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = {
    "string": "string",
    "binary": "binary",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    TIME: "timestamp",
    IDS: "array<struct<ledger_id: bigint, entry_id: bigint, ack_set: binary>>",
}
SCHEMA = ", ".join(f"{column.name} {TYPES[column.type]}" for column in COLUMNS)
SEGMENTS = "seg-*.parquet"
OPTIONS = {"parquet.page.verify-checksum.enabled": "true"}
MAGIC = set("*?[")
LITERALLY = str.maketrans({char: f"\\{char}" for char in "\\*?[]{}"})  # Spark takes all for globs


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of rows. first_us, last_us: of its rows' `ts`, UTC."""

    path: str
    trace_id: str
    first_seq: int
    last_seq: int
    first_us: int
    last_us: int

    @property
    def rows(self) -> int:
        """How many it has."""
        return self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True)
class TraceSource:
    """Traces that were found. rows: the columns of TRACE(5). segments: of which, none twice.

    notes: what whoever reads the result should be told.
    """

    rows: DataFrame
    segments: Sequence[Segment]
    notes: list[str] = field(default_factory=list)

    @property
    def events(self) -> int:
        """How many rows there are."""
        return sum(segment.rows for segment in self.segments)

    @property
    def traces(self) -> int:
        """How many traces they are of."""
        return len({segment.trace_id for segment in self.segments})

    @property
    def breaks(self) -> list[tuple[str, int]]:
        """trace_id and seq of rows before which others of their trace are missing."""
        found, before = [], None
        for segment in self.segments:
            same = before is not None and before.trace_id == segment.trace_id
            expected = before.last_seq + 1 if same and before else 0
            if segment.first_seq > expected:
                found.append((segment.trace_id, segment.first_seq))
            before = segment
        return found

    @property
    def first_us(self) -> int | None:
        """The `ts` of the earliest row."""
        return min((segment.first_us for segment in self.segments), default=None)

    @property
    def last_us(self) -> int | None:
        """The `ts` of the latest row."""
        return max((segment.last_us for segment in self.segments), default=None)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found on this machine, before there is a Spark. elsewhere: paths for Spark alone."""

    segments: Sequence[Segment]
    elsewhere: Sequence[str]
    notes: Sequence[str] = ()


def look(paths: Sequence[str], *, here: bool | None) -> Looked:
    """Looks at the traces that this machine can read; what crashed ones left is sealed.

    here: whether Spark runs in this machine's process; False: on a cluster, whose file system may
    have what is not found here; None: a Spark Connect server, which reads its own disk.
    Raises TraceError or InputError for what is no trace, is damaged, or holds no row.
    """
    notes: list[str] = []
    local = [path for path in paths if is_local(path, here=here)]
    elsewhere = [path for path in paths if path not in local]
    segments = list(_on_this_machine(local, notes))
    if not elsewhere:
        _kept(paths, segments)
    return Looked(segments, elsewhere, notes)


def read_traces(
    spark: SparkSession, paths: Sequence[str], looked: Looked | None = None
) -> TraceSource:
    """The rows of traces: folders of a trace, folders of such folders, globs, URIs.

    looked: what `look` found at these paths; None: it is looked for. Raises as `look` does.
    """
    looked = looked or look(paths, here=is_here(spark))
    notes, segments = list(looked.notes), list(looked.segments)
    if looked.elsewhere:
        segments += _where_spark_looks(spark, looked.elsewhere)
    kept = _kept(paths, segments)
    twice = sum(segment.rows for segment in segments) - sum(segment.rows for segment in kept)
    if twice:
        notes.append(f"{twice:,} rows are there twice and counted once")
    files = (each.path.translate(LITERALLY) for each in kept)
    rows = spark.read.schema(SCHEMA).options(**OPTIONS).parquet(*files)
    return TraceSource(rows, kept, notes)


def _kept(paths: Sequence[str], segments: Iterable[Segment]) -> list[Segment]:
    kept = each_once(segments)
    if not kept:
        raise InputError(f"{', '.join(paths)}: no command was recorded there yet")
    return kept


def is_here(spark: SparkSession) -> bool | None:
    """Where a session runs, as `look` wants it."""
    if "connect" in type(spark).__module__:
        return None
    return (spark.conf.get("spark.master", "local") or "").startswith("local")


def is_local(path: str, *, here: bool | None) -> bool:
    """Whether a path is one of this machine's: on a cluster it may be one of its file system's."""
    scheme = urlsplit(path).scheme
    if here is None or scheme not in ("", "file"):
        return False
    return here or scheme == "file" or bool(_matches(path))


def each_once(segments: Iterable[Segment]) -> list[Segment]:
    """Leaves out what is there twice, so that each row of a trace comes once.

    Raises InputError where two segments share some rows and neither has all of the other's.
    """
    kept: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (s.trace_id, s.first_seq, -s.last_seq)):
        before = kept[-1] if kept and kept[-1].trace_id == segment.trace_id else None
        if before is None or segment.first_seq > before.last_seq:
            kept.append(segment)
        elif segment.last_seq > before.last_seq:
            raise InputError(
                f"{segment.path} has rows of {before.path} and others: one of them is damaged; "
                "`pulsar-doctor trace verify` tells which"
            )
    return kept


def _on_this_machine(paths: Sequence[str], notes: list[str]) -> Iterator[Segment]:
    if not paths:
        return
    with needing("trace", "reading a trace"):
        import pyarrow.parquet  # noqa: F401
    seen: set[Path] = set()
    for path in paths:
        for trace in traces_at(path):
            if trace.resolve() not in seen:
                seen.add(trace.resolve())
                yield from _of_trace(trace, notes)


def traces_at(path: str) -> list[Path]:
    """The traces that a path means: itself, those below it, or those that its pattern fits."""
    from pulsar_doctor.trace import folder

    found = _matches(path)
    if not found and MAGIC.intersection(path):
        raise InputError(f"no trace fits {path}")
    traces = []
    for each in found or [Path(path)]:
        below = [] if (each / folder.META).exists() else list(_below(each, folder.META))
        traces += below or [each]  # which is then found to be none, and why
    return traces


def _matches(path: str) -> list[Path]:
    """What is there of a path, a file: URI or a pattern."""
    plain = unquote(urlsplit(path).path) if urlsplit(path).scheme == "file" else path
    if Path(plain).exists():
        return [Path(plain)]
    matches = glob.glob(plain)  # noqa: PTH207 - a Path only looks below itself
    return sorted(match for match in map(Path, matches) if match.is_dir())


def _below(root: Path, name: str) -> Iterator[Path]:
    """Folders below this one that hold a file of that name; not those that are hidden."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "_")))
        if name in files:
            folders.clear()
            yield Path(folder)


def _of_trace(path: Path, notes: list[str]) -> Iterator[Segment]:
    """What is sealed of a trace; what a crash left of it is sealed first."""
    from pulsar_doctor.trace.sealing import open_trace
    from pulsar_doctor.trace.segments import times_of

    trace = open_trace(path)
    if trace.live:
        notes.append(f"{path} still grows: what is not sealed yet is left out (see --follow)")
    for part in trace.proved_parts():
        if part.name is None or part.first_seq is None or part.last_seq is None:
            continue
        file = path / part.name
        first_us, last_us = times_of(file, part.bytes)
        yield Segment(
            f"file:{file.resolve()}",
            trace.meta.trace_id,
            part.first_seq,
            part.last_seq,
            first_us,
            last_us,
        )
    notes += trace.notes


def _where_spark_looks(spark: SparkSession, paths: Sequence[str]) -> list[Segment]:
    from pyspark.sql import functions as F

    with told_in_one_sentence("reading the traces"):
        files = (
            spark.read.schema(SCHEMA)
            .options(pathGlobFilter=SEGMENTS, recursiveFileLookup="true", **OPTIONS)
            .parquet(*paths)
            .groupBy(F.col("_metadata.file_path").alias("path"), "trace_id")
            .agg(
                F.min("seq").alias("first_seq"),
                F.max("seq").alias("last_seq"),
                F.min(F.unix_micros("ts")).alias("first_us"),
                F.max(F.unix_micros("ts")).alias("last_us"),
                F.count(F.lit(1)).alias("rows"),
            )
            .collect()
        )
    segments = []
    for file in files:
        whole = file["rows"] == (file["last_seq"] or 0) - (file["first_seq"] or 0) + 1
        if file["trace_id"] is None or not whole:
            raise InputError(f"{file['path']} is no segment of a trace of pulsar-doctor")
        values = (file[name] for name in ("first_seq", "last_seq", "first_us", "last_us"))
        segments.append(Segment(file["path"], file["trace_id"], *values))
    return segments
