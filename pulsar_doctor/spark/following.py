"""Follows traces that grow: `analyze --follow`.

A loop of steps. Each reads the segments that have been sealed since the last one (arriving),
merges what they tell into what is kept (aggregations.growing), and keeps that (kept). Stopped or
killed at any moment and started again it goes on without counting a row twice or leaving one out.

What is kept is bounded: by the consumers that are there at one time, and by the steps of time that
late rows may still reach. A step reads so many rows at most, so that one who starts behind a month
of segments sees how it goes on.

Nothing here runs on executors, or needs Python on a Spark Connect server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.spark import kept
from pulsar_doctor.spark.aggregations import growing
from pulsar_doctor.spark.aggregations.told import told
from pulsar_doctor.spark.analysis import Analysis
from pulsar_doctor.spark.arriving import Arrived, Arriving
from pulsar_doctor.spark.checkpoint import OTHERWISE, Terms, taken
from pulsar_doctor.spark.failures import cause, full_text, told_in_one_sentence
from pulsar_doctor.spark.followed import CONSUMERS_MOST, STEPS_MOST, found, nothing
from pulsar_doctor.spark.kept import ReadSoFar, SoFar
from pulsar_doctor.spark.paths import literally
from pulsar_doctor.spark.reading import OPTIONS, SCHEMA
from pulsar_doctor.spark.segments import Segment
from pulsar_doctor.spark.session import having

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHAT = "following the traces"
POLL_SECONDS = 0.2
ROWS_FIRST = 100_000  # of a step; the first shall be seen soon
ROWS_MOST = 2_000_000
GONE_MOST = 5  # times in a row that segments go away while they are read
SETTINGS = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}


def follow(  # noqa: PLR0913  (all by name)
    spark: SparkSession,
    paths: Sequence[str],
    *,
    bucket_us: int,
    checkpoint: str,
    every_seconds: float,
    late_seconds: float,
    on_update: Callable[[Analysis], None],
    stop: Callable[[], bool],
    on_pause: Callable[[Analysis], None] = lambda analysis: None,
) -> Analysis:
    """Reads segments as they are sealed until `stop` says so; how the traces stand then.

    paths: traces, folders of traces, globs. checkpoint: a folder, which is made; with a scheme or
    through Spark Connect as Spark sees it. every_seconds: how often it looks; late_seconds: by how
    much rows may be younger than others that come first. on_update: told how things stand, when
    they have changed; on_pause: likewise whenever there is nothing more to be read at once. The
    consumers are as in aggregations.consumers, without the sizes of FLOWs; the stalls are the times
    without permits that go on.
    Raises InputError for a checkpoint of something else, DoctorError where Spark fails.
    """
    terms = Terms.of(paths, bucket_us=bucket_us, late_seconds=late_seconds)
    last = None
    with told_in_one_sentence(WHAT), taken(spark, checkpoint, terms) as place:
        try:
            follower = Follower(spark, terms, place)
            while not stop():
                if follower.go_on():
                    last = follower.analysis()
                    on_update(last)
                if last is not None and not follower.behind and not stop():
                    on_pause(last)
                _wait(0.0 if follower.behind else every_seconds, stop)
            return last or follower.analysis()
        except Exception as error:
            if last is not None and stop():
                return last  # whoever ends a service ends its Java, too, and perhaps first
            raise _about_checkpoint(error, checkpoint, place) from error


def _wait(seconds: float, stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stop():
        time.sleep(min(POLL_SECONDS, seconds))


@dataclass
class Follower:
    """Where it stands, and what it last saw of the traces. Changes in place."""

    spark: SparkSession
    terms: Terms
    place: str
    standing: SoFar = field(init=False)
    seen: Arrived | None = None
    looked: Arrived | None = None  # what is to be read next, where that has been told already
    shown: object = None
    gone: int = 0

    def __post_init__(self) -> None:
        self.standing = kept.newest(self.spark, self.place)
        self.arriving = Arriving(self.spark, self.terms.paths)

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        return self.seen is not None and self.seen.left > 0

    def go_on(self) -> bool:
        """Reads what has come; whether there is something new to show."""
        if self.standing.step and self.shown is None:
            self.shown = self.standing.step
            return True  # what was kept can be shown at once
        through = {name: trace.through for name, trace in self.standing.traces.items()}
        most = ROWS_MOST if self.standing.step else ROWS_FIRST
        seen = self.seen = self.looked or self.arriving.arrived(through, most)
        self.looked = None
        if seen.segments and self.shown is None:
            self.looked = seen
            rows = sum(segment.rows for segment in seen.segments)
            self.seen = replace(seen, segments=[], left=seen.left + rows)
            self.shown = self.standing.step
            return True  # how much there is to be read is told before Spark has read a row
        if seen.segments:
            self._step(seen.segments)
        before = self.shown
        self.shown = (self.standing.step, seen.left, seen.left_out, seen.waits_for, seen.empty)
        return self.shown != before

    def _step(self, segments: Sequence[Segment]) -> None:
        try:
            with having(self.spark, SETTINGS):
                self.standing = _stepped(self, segments)
            self.gone = 0
        except Exception as error:
            self.gone += 1
            if not _segment_gone(error, self.place) or self.gone > GONE_MOST:
                raise

    def analysis(self) -> Analysis:
        """How the traces stand."""
        if not self.standing.step:
            return nothing(self.terms, self.seen)
        with having(self.spark, SETTINGS):
            return found(self.spark, self.place, self.terms, self.standing, self.seen)


def _stepped(follower: Follower, segments: Sequence[Segment]) -> SoFar:
    """Reads these segments, and keeps what they have changed."""
    spark, place, before = follower.spark, follower.place, follower.standing
    reader = spark.read.schema(SCHEMA).options(**OPTIONS)
    rows = reader.parquet(*(literally(segment.path) for segment in segments))
    after, breaks = _read(before, segments)
    known = kept.consumers(spark, place, before)
    ended = known.where(growing.ended_in(before.step)).count() if before.step else 0
    after = replace(after, ended=before.ended + ended)
    events = growing.events(rows).persist()
    try:
        consumers = _consumers(rows, known, events, breaks, after.step)
        kept.keep(place, after, consumers, _timeline(follower, rows, after))
    finally:
        events.unpersist()
    return after


def _consumers(
    rows: DataFrame,
    known: DataFrame,
    events: DataFrame,
    breaks: Sequence[tuple[str, int]],
    step: int,
) -> DataFrame:
    known = growing.without_most_ended(known, CONSUMERS_MOST)
    seen = growing.seen(rows)
    consumers = growing.merged(known, seen) if step > 1 else growing.as_kept(seen)
    # Most steps have few kinds of events: a plan without the others is made much sooner.
    kinds = {row["command"] for row in events.select("command").distinct().collect()}
    consumers = growing.with_ends(consumers, events, kinds, step)
    if not breaks and not kinds.intersection(growing.DOUBTS):
        return consumers
    doubts = events.where(events["command"].isin(*growing.DOUBTS))
    doubts = doubts.select("trace_id", "conn_id", "seq")
    values = [{"trace_id": trace_id, "seq": seq} for trace_id, seq in breaks]
    columns = "trace_id: string, conn_id: int, seq: bigint"
    return growing.with_doubts(
        consumers, doubts.unionByName(told(rows.sparkSession, values, columns))
    )


def _timeline(follower: Follower, rows: DataFrame, after: SoFar) -> DataFrame:
    """The steps of time: none that was over before is changed any more."""
    terms, before = follower.terms, follower.standing
    over_us = None if before.last_us is None else before.last_us - terms.late_us
    assert after.last_us is not None
    from_us = after.last_us - max(STEPS_MOST * terms.bucket_us, terms.late_us + terms.bucket_us)
    new = growing.steps(rows, terms.bucket_us, over_us)
    known = kept.timeline(follower.spark, follower.place, before)
    return growing.merged_steps(known, new, from_us)


def _read(before: SoFar, segments: Sequence[Segment]) -> tuple[SoFar, list[tuple[str, int]]]:
    """With these segments; and trace_id and seq of rows before which others are missing."""
    traces = dict(before.traces)
    breaks = []
    for segment in segments:
        known = traces.get(segment.trace_id)
        if known is None:
            known = ReadSoFar(0, segment.first_seq, segment.first_seq - 1, segment.first_us, 0)
        missing = segment.first_seq - known.through - 1
        if missing or (not known.events and segment.first_seq):
            breaks.append((segment.trace_id, segment.first_seq))
        traces[segment.trace_id] = ReadSoFar(
            known.events + segment.rows,
            known.first_seq,
            segment.last_seq,
            min(known.first_us, segment.first_us),
            max(known.last_us, segment.last_us),
            known.missing + missing,
        )
    return SoFar(before.step + 1, before.ended, traces), breaks


NOT_THERE = r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException|does not exist"


def _segment_gone(error: Exception, place: str) -> bool:
    """Whether a ring has dropped a segment while it was read: the next look tells."""
    text = full_text(error)
    return re.search(NOT_THERE, text) is not None and place.removeprefix("file://") not in text


def _about_checkpoint(error: Exception, checkpoint: str, place: str) -> Exception:
    """The sentence where it is the checkpoint that cannot be gone on from."""
    text = full_text(error)
    told = isinstance(error, DoctorError)
    if not told and place.removeprefix("file://") in text and "No space left" not in text:
        why = cause(error)
        return InputError(f"the checkpoint {checkpoint} cannot be gone on from: {why}; {OTHERWISE}")
    return error
