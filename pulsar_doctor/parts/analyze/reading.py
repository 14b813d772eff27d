"""Reads traces into a DataFrame, each row once.

On this machine the traces are checked first: what a crash left is sealed, what is no trace or is
not as it was sealed (by its SHA-256) is refused, and the list of segments shows which rows are
there twice (a copy, a ring and what was kept of it): a segment never changes, so copies of it hold
the same rows, and of two that begin with the same row one is the other, cut short. Where only Spark
can read (s3a://, hdfs://, the disk of a Spark Connect server) it does it in the same way.

One bad trace does not stop the others: it is left out by name, unless all is required (strict).
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pulsar_doctor.errors import InputError, TraceError, needing
from pulsar_doctor.parts.analyze.analysis import LeftOut
from pulsar_doctor.parts.analyze.elsewhere import look_elsewhere
from pulsar_doctor.parts.analyze.failures import failures_in_one_sentence
from pulsar_doctor.parts.analyze.masters import is_here
from pulsar_doctor.parts.analyze.paths import literally
from pulsar_doctor.parts.analyze.segments import OverlapError, Segment, each_once
from pulsar_doctor.parts.analyze.selection import EVER, EVERYTHING, Selection, TimeSpan
from pulsar_doctor.parts.analyze.source import TraceSource
from pulsar_doctor.parts.analyze.verdicts import REPLAYED_MOST, TraceEnd, end_here
from pulsar_doctor.wire.columns import COLUMNS, IDS, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pulsar_doctor.trace.reading import Trace

TYPES = {
    "string": "string",
    "binary": "binary",
    "bool": "boolean",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    TIME: "timestamp",
    IDS: "array<struct<ledger_id: bigint, entry_id: bigint, ack_set: binary>>",
}
SCHEMA = ", ".join(f"{column.name} {TYPES[column.type]}" for column in COLUMNS)
OPTIONS = {"parquet.page.verify-checksum.enabled": "true"}
MAGIC = set("*?[")


@dataclass(frozen=True, slots=True)
class Opened:
    """A trace of this machine with its list read, and no segment yet."""

    path: Path
    trace: Trace

    @property
    def end_us(self) -> int:
        """Until when it was watched, as far as it is sealed."""
        return self.trace.opened.until_us


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found on this machine, before there is a Spark."""

    segments: Sequence[Segment]
    elsewhere: Sequence[str]  # paths that only Spark can read
    notes: Sequence[str] = ()
    left_out: Sequence[LeftOut] = ()
    ends: Sequence[TraceEnd] = ()
    opened: Sequence[Opened] = ()  # not read yet: first, all ends must be known
    span: TimeSpan = EVER  # the requested time

    @property
    def rows(self) -> float:
        """How many rows there are; where others are elsewhere nobody knows yet: any number."""
        return math.inf if self.elsewhere else sum(each.rows for each in self.segments)


@dataclass(frozen=True, slots=True)
class OpenedTraces:
    """What is known of traces while they are opened; the lists grow."""

    notes: list[str]
    ends: list[TraceEnd]
    replayed_most: int  # rows of one trace that are read to rebuild missing ledgers


def look(
    paths: Sequence[str],
    *,
    here: bool | None,
    strict: bool = False,
    selection: Selection = EVERYTHING,
    listed: Callable[[int], object] = lambda _: None,
) -> Looked:
    """Checks the traces that this machine can read; what crashed ones left is sealed.

    here: whether Spark runs in this machine's process; False: on a cluster, with a file system that
    may have what is not found here; None: a Spark Connect server, which reads its own disk. strict:
    what is no trace or is damaged is not left out, but refused. selection: of what time segments
    are wanted; others are not opened. listed: hears how many rows there are at most, if all are on
    this machine and there are some, before they are read. Raises TraceError or InputError for what
    is not there, and where no trace with a row is left.
    """
    notes: list[str] = []
    left_out: list[LeftOut] = []
    local = [path for path in paths if is_local(path, here=here)]
    elsewhere = [path for path in paths if path not in local]
    opened = list(_opened(local, None if strict else left_out, selection))
    if opened and not elsewhere:
        listed(sum(part.rows for each in opened for part in each.trace.opened.parts))
    elif elsewhere and selection.counts_back:
        return Looked([], elsewhere, notes, left_out, opened=opened)
    span = selection.span(max((each.end_us for each in opened), default=0))
    ends: list[TraceEnd] = []
    segments = _segments(opened, span, notes, None if strict else left_out, ends)
    if not elsewhere:
        _kept(paths, segments, list(left_out), strict=strict, span=span)
    return Looked(segments, elsewhere, notes, left_out, ends, span=span)


def read_traces(
    spark: SparkSession,
    paths: Sequence[str],
    looked: Looked | None = None,
    *,
    strict: bool = False,
    selection: Selection = EVERYTHING,
) -> TraceSource:
    """The rows of traces: folders of a trace, folders of such folders, globs, URIs.

    looked: what `look` found at these paths; None: it is looked for. selection: which rows are
    wanted. Raises as `look` does.
    """
    looked = looked or look(paths, here=is_here(spark), strict=strict, selection=selection)
    notes, segments = list(looked.notes), list(looked.segments)
    left_out, ends = list(looked.left_out), list(looked.ends)
    span = looked.span

    def rows_in(files: Sequence[str]) -> DataFrame:
        return spark.read.schema(SCHEMA).options(**OPTIONS).parquet(*files)

    if looked.elsewhere:
        with failures_in_one_sentence("reading the traces"):
            end_us = max((each.end_us for each in looked.opened), default=0)
            found = look_elsewhere(spark, looked.elsewhere, rows_in, selection, end_us)
        span = found.span
        segments += _segments(looked.opened, span, notes, None if strict else left_out, ends)
        segments += found.segments
        notes += found.notes
        left_out += found.left_out
        ends += found.ends
    kept = _kept(paths, segments, left_out, strict=strict, span=span)
    names = {each.trace for each in left_out}
    counted = [segment for segment in segments if segment.trace not in names]
    twice = sum(each.rows for each in counted) - sum(each.rows for each in kept)
    if twice:
        notes.append(f"{twice:,} rows are there twice and counted once")

    def rows_of(segments: Sequence[Segment]) -> DataFrame:
        return rows_in([literally(each.path) for each in segments])

    rows = rows_of(kept)
    if any(each.captured for each in kept):
        from pulsar_doctor.parts.analyze.graded import notes_on

        with failures_in_one_sentence("looking for what was taken back"):
            notes += notes_on(rows)
    counts = counting(rows, kept, selection)
    source = TraceSource(counts, kept, notes, left_out, ends, selection=selection)
    if not selection.all:
        with failures_in_one_sentence("looking for what is asked for"):
            source = _selected(paths, replace(source, span=span), rows_of)
    notes += dict.fromkeys(each for each in source.not_judged if each not in notes)
    return source


def counting(rows: DataFrame, segments: Sequence[Segment], selection: Selection) -> DataFrame:
    """Counts the rows of these segments that count; see graded.py."""
    if not any(each.captured for each in segments):
        return rows
    from pulsar_doctor.parts.analyze.graded import of_what_counts

    return of_what_counts(rows, proven_only=selection.proven_only)


def _selected(
    paths: Sequence[str], source: TraceSource, rows_of: Callable[[Sequence[Segment]], DataFrame]
) -> TraceSource:
    """Selects what was requested; InputError where that is nothing."""
    from pulsar_doctor.parts.analyze.selected import carried, counted, cut_to, named, within

    span, selection = source.span, source.selection
    where = ", ".join(paths)
    segments = cut_to(source.segments, span, rows_of)
    if not segments:
        raise InputError(f"{where}: no command was recorded there{span}")
    rows, count = within(source.rows, span), None
    silent = carried(rows, segments, source.without_permits, span)
    if silent is not None:
        rows = rows.unionByName(silent, allowMissingColumns=True)
    if selection.by_name:
        count = counted(rows, selection, where)
        rows = named(rows, segments, selection)
    return replace(source, rows=rows, segments=segments, counted=count)


def _kept(
    paths: Sequence[str],
    segments: Iterable[Segment],
    left_out: list[LeftOut],
    *,
    strict: bool,
    span: TimeSpan,
) -> list[Segment]:
    """Each row once. Adds to left_out the traces that contradict each other."""
    if strict and left_out:
        raise TraceError(left_out[0].why)
    left = list(segments)
    while True:
        try:
            kept = each_once(left)
            break
        except OverlapError as error:
            if strict:
                raise
            bad = {each.trace for each in left if each.trace_id == error.trace_id}
            left_out += [LeftOut(trace, str(error)) for trace in sorted(bad)]
            left = [each for each in left if each.trace_id != error.trace_id]
    if not kept and left_out:
        more = f"; and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        raise TraceError(left_out[0].why + more)
    if not kept:
        when = " yet" if span == EVER else str(span)
        raise InputError(f"{', '.join(paths)}: no command was recorded there{when}")
    return kept


def is_local(path: str, *, here: bool | None) -> bool:
    """Whether a path is one of this machine's: on a cluster it may be one of its file system's."""
    scheme = urlsplit(path).scheme
    if here is None or scheme not in ("", "file"):
        return False
    return here or scheme == "file" or bool(_matches(path))


def _opened(
    paths: Sequence[str], left_out: list[LeftOut] | None, selection: Selection
) -> Iterator[Opened]:
    """What a crash left is sealed. left_out: None where a trace that is damaged stops all."""
    if not paths:
        return
    with needing("trace", "reading a trace"):
        import pyarrow.parquet  # noqa: F401
    from pulsar_doctor.trace.sealing import open_trace

    seen: set[Path] = set()
    for path in paths:
        for trace in _traces_at(path):
            if trace.resolve() not in seen:
                seen.add(trace.resolve())
                try:
                    opened = open_trace(trace, proven_only=selection.proven_only)
                    yield Opened(trace, opened)
                except TraceError as error:
                    if left_out is None or not trace.exists():
                        raise
                    left_out.append(LeftOut(str(trace), str(error)))


def _segments(
    opened: Sequence[Opened],
    span: TimeSpan,
    notes: list[str],
    left_out: list[LeftOut] | None,
    ends: list[TraceEnd],
) -> list[Segment]:
    """Proves the segments of this time; adds to notes and ends, and to left_out as above."""
    found: list[Segment] = []
    known = OpenedTraces(notes, ends, REPLAYED_MOST // max(1, len(opened)))
    for each in opened:
        try:
            found += _of_trace(each.path, each.trace, span, known)
        except TraceError as error:
            if left_out is None:
                raise
            left_out.append(LeftOut(str(each.path), str(error)))
    return found


def _traces_at(path: str) -> list[Path]:
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
    matches = glob.glob(plain)  # noqa: PTH207 - a Path only searches below itself
    return sorted(match for match in map(Path, matches) if match.is_dir())


def _below(root: Path, name: str) -> Iterator[Path]:
    """Folders below this one that hold a file of that name; not those that are hidden."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "_")))
        if name in files:
            folders.clear()
            yield Path(folder)


def _of_trace(path: Path, trace: Trace, span: TimeSpan, known: OpenedTraces) -> list[Segment]:
    """What is sealed of a trace in this time."""
    if trace.live:
        known.notes.append(f"{path} still grows: what is not sealed yet is left out")
    parts = [part for part in trace.opened.parts if part.name]
    trace.require(parts)
    all_times = zip(parts, trace.times(parts), strict=True)
    times = {part.number: times for part, times in all_times if times and span.has_some(times)}
    wanted = [part for part in parts if part.number in times]
    folder = f"file:{path.resolve()}"
    segments = []
    for part in trace.proved(wanted):
        segments.append(
            Segment(
                f"{folder}/{part.name}",
                trace.meta.trace_id,
                part.first_seq or 0,
                part.last_seq or 0,
                *times[part.number],
                str(path),
                bool(trace.meta.capture),
            )
        )
    if segments:
        known.ends.append(end_here(path, trace, known.replayed_most))
    elif not parts and not trace.live:
        known.notes.append(f"{path}: no command was recorded there yet")
        if span.has_some((0, trace.opened.until_us)):
            known.ends.append(TraceEnd(str(path), trace.meta.trace_id, trace.opened.until_us))
    known.notes.extend(trace.notes)
    return segments
