"""What has been sealed of growing traces since they were last looked at, in order.

As in a finished analysis a segment counts once it is in the list of its trace (_segments.jsonl) and
agrees with it (SHA-256). Of a trace in which one is listed and missing, is damaged, or is not
listed nothing is taken any more from there on, and that is told; the other traces go on, and so
does this one, once it is right again or a ring has dropped what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pulsar_doctor.errors import InputError, TraceError
from pulsar_doctor.spark.analysis import LeftOut
from pulsar_doctor.spark.elsewhere import There, listed_elsewhere, proofs_elsewhere
from pulsar_doctor.spark.reading import OPTIONS, SCHEMA, is_here, is_local, traces_at
from pulsar_doctor.spark.segments import Segment
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.index import Part
from pulsar_doctor.trace.reading import Trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SHARED = (
    "{} has rows that were read already, and others: one of the two is damaged; "
    "`pulsar-doctor trace verify` tells which"
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A segment that is in the list of its trace. there: where only Spark can look."""

    trace: str
    trace_id: str
    part: Part
    there: There | None = None

    @property
    def first_seq(self) -> int:
        """Of its rows."""
        return self.part.first_seq or 0

    @property
    def last_seq(self) -> int:
        """Of its rows."""
        return self.part.last_seq or 0


@dataclass(slots=True)
class Arrived:
    """segments: to be read next, those of a trace in order; left: rows of others, for later.

    waits_for: paths where nothing is yet. empty: nothing was ever sealed anywhere.
    """

    segments: list[Segment] = field(default_factory=list)
    left: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    empty: bool = False


@dataclass(slots=True)
class Arriving:
    """Looks at the traces of these paths again and again. Changes in place."""

    spark: SparkSession
    paths: Sequence[str]
    _known: dict[Path, tuple[object, list[Listed], LeftOut | None]] = field(default_factory=dict)

    def arrived(self, through: Mapping[str, int], rows_most: int) -> Arrived:
        """What has come, up to so many rows, but one segment at least.

        through: trace_id -> the last seq that was read of it. Raises whatever Spark raises.
        """
        found = Arrived()
        here = is_here(self.spark)
        listed: list[Listed] = []
        for path in self.paths:
            try:
                there = self._here(path, found) if is_local(path, here=here) else None
                listed += _elsewhere(self.spark, path, found) if there is None else there
            except InputError:
                found.waits_for.append(path)
        found.empty = not listed and not found.left_out
        chosen = _chosen(_in_order(listed), found, through, rows_most)
        _prove(self.spark, chosen, found, through)
        return found

    def _here(self, path: str, found: Arrived) -> list[Listed]:
        listed: list[Listed] = []
        for trace in traces_at(path):
            if not trace.is_dir():
                raise InputError(f"{trace} is not there")
            if not (trace / folder.META).is_file():
                continue
            state = _state(trace)
            if trace not in self._known or self._known[trace][0] != state:
                self._known[trace] = (state, *_of_trace(trace))
            _, parts, left_out = self._known[trace]
            listed += parts
            found.left_out += [left_out] if left_out else []
        return listed


def _state(trace: Path) -> object:
    """Another one once something was added to a trace, or went."""
    try:
        index = (trace / folder.INDEX).stat()
        return trace.stat().st_mtime_ns, index.st_mtime_ns, index.st_size, index.st_ino
    except OSError:
        return object()


def _of_trace(path: Path) -> tuple[list[Listed], LeftOut | None]:
    """What is in its list, as far as that is there."""
    listed: list[Listed] = []
    try:
        trace = Trace(path)  # which looks for what is not in the list
        for part in trace.parts():
            if part.name is None or part.last_seq is None:
                continue
            if not (path / part.name).is_file() and trace.expired().through < part.number:
                raise TraceError(
                    f"{path / part.name} is missing; `pulsar-doctor trace verify` tells more"
                )
            listed.append(Listed(str(path), trace.meta.trace_id, part))
    except TraceError as error:
        return listed, LeftOut(str(path), str(error))
    return listed, None


def _elsewhere(spark: SparkSession, path: str, found: Arrived) -> Iterator[Listed]:
    """Where only Spark can look."""
    try:
        traces, left_out = listed_elsewhere(spark, [path])
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            raise InputError(f"{path} is not there") from error
        raise
    found.left_out += left_out
    for trace in traces:
        assert trace.meta is not None
        for part in trace.parts:
            if part.last_seq is not None:
                yield Listed(trace.folder, trace.meta.trace_id, part, trace)


def _in_order(listed: Sequence[Listed]) -> list[Listed]:
    """Those of a trace by their rows, and all of them by the time at which they were sealed."""
    until: dict[str, int] = {}
    keyed: dict[tuple[int, str, int, int], Listed] = {}
    for each in sorted(listed, key=lambda each: (each.trace_id, each.first_seq, -each.last_seq)):
        until[each.trace_id] = max(until.get(each.trace_id, 0), each.part.until_us)
        keyed[until[each.trace_id], each.trace_id, each.first_seq, len(keyed)] = each
    return [keyed[key] for key in sorted(keyed)]


def _chosen(
    listed: Sequence[Listed], found: Arrived, through: Mapping[str, int], rows_most: int
) -> list[Listed]:
    """What was not read yet, up to so many rows; what is behind those is left."""
    chosen: list[Listed] = []
    rows, read, full = 0, dict(through), False
    for each in listed:
        if each.last_seq <= read.get(each.trace_id, -1):
            continue
        full = full or bool(rows and rows + each.part.rows > rows_most)
        if full:
            found.left += each.part.rows
            continue
        chosen.append(each)
        read[each.trace_id] = each.last_seq
        rows += each.part.rows
    return chosen


def _prove(
    spark: SparkSession, chosen: Sequence[Listed], found: Arrived, through: Mapping[str, int]
) -> None:
    """Those that are what was sealed; behind one that is not, none of its trace."""
    read = dict(through)
    wrong: set[str] = set()
    for each, prove in zip(chosen, _proofs(spark, chosen), strict=True):
        if each.trace_id in wrong:
            continue
        try:
            if each.first_seq <= read.get(each.trace_id, -1):
                raise TraceError(SHARED.format(f"{each.trace}/{each.part.name}"))
            found.segments.append(prove())
        except TraceError as error:
            wrong.add(each.trace_id)
            found.left_out.append(LeftOut(each.trace, str(error)))
        read[each.trace_id] = each.last_seq


def _proofs(spark: SparkSession, chosen: Sequence[Listed]) -> Iterator[Callable[[], Segment]]:
    """What raises TraceError where one is not what was sealed. Spark is asked for all at once."""
    there = [(each.there, each.part) for each in chosen if each.there is not None]
    prove = proofs_elsewhere(
        spark, there, lambda files: spark.read.schema(SCHEMA).options(**OPTIONS).parquet(*files)
    )
    for each in chosen:
        if each.there is None:
            yield partial(_proved_here, each)
        else:
            yield partial(prove, each.there, each.part)


def _proved_here(each: Listed) -> Segment:
    path, part = Path(each.trace), each.part
    file = path / (part.name or "")
    if part.sha256 is not None:
        segments.prove(file, part.sha256)
    first_us, last_us = segments.times_of(file, part.bytes)
    where = f"file:{file.resolve()}"
    return Segment(
        where, each.trace_id, each.first_seq, each.last_seq, first_us, last_us, each.trace
    )
