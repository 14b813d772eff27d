"""The traces of an analysis: their rows for Spark, and their final verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pulsar_doctor.parts.analyze.analysis import LeftOut
from pulsar_doctor.parts.analyze.at_the_end import AtTheEnd
from pulsar_doctor.parts.analyze.segments import Segment
from pulsar_doctor.parts.analyze.selection import EVER, EVERYTHING, Selection, TimeSpan
from pulsar_doctor.parts.analyze.verdicts import NO_CONSUMER, TraceEnd, TraceVerdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pulsar_doctor.parts.analyze.selected import OfTheNames

NOT_THE_END = "how a subscription stood at --until is not judged where its trace goes on behind it"


@dataclass(frozen=True, slots=True)
class TraceSource:
    """Traces that were found."""

    rows: DataFrame  # in the columns of TRACE(5)
    segments: Sequence[Segment]  # that the rows are from, each once
    notes: list[str] = field(default_factory=list)  # for the reader of the result
    left_out: list[LeftOut] = field(default_factory=list)  # damaged, or not a trace
    ends: Sequence[TraceEnd] = ()  # how each trace ends
    selection: Selection = EVERYTHING  # what was requested
    span: TimeSpan = EVER  # the time that `selection` means
    counted: OfTheNames | None = None  # rows of the selected topic or subscription

    @property
    def events(self) -> int:
        """How many rows there are."""
        if self.counted is not None:
            return self.counted.events
        return sum(segment.rows for segment in self.segments)

    @property
    def traces(self) -> int:
        """How many traces they are of."""
        if self.counted is not None:
            return self.counted.traces
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
    def ended(self) -> list[TraceEnd]:
        """How each trace ends; of copies of one trace, the one that lasts longest."""
        newest = {segment.trace_id: segment.trace for segment in self.segments}  # in order
        bad = {each.trace for each in self.left_out}
        return [
            end
            for end in self.ends
            if end.folder not in bad and newest.get(end.trace_id, end.folder) == end.folder
        ]

    @property
    def verdicts(self) -> list[TraceVerdict]:
        """The verdicts on the requested subscriptions, each where its trace ends.

        None where the trace lasts beyond the requested time, or was over before.
        """
        ended = [end for end in self.ended if self.span.has_end(end.until_us)]
        verdicts = (each for end in ended for each in end.verdicts)
        return [each for each in verdicts if self._is_wanted(each)]

    def _is_wanted(self, verdict: TraceVerdict) -> bool:
        since_us, of = self.span.since_us, verdict.diagnosis
        topic = of.full_topic
        is_over = since_us is not None and verdict.at_us < since_us
        return not is_over and self.selection.has(topic, of.subscription)

    @property
    def not_judged(self) -> Iterator[str]:
        """Why there is no verdict on something that was requested."""
        for end in self.ended:
            if not self.span.has_end(end.until_us):
                yield NOT_THE_END
            elif end.not_judged:
                yield end.not_judged
            elif not end.verdicts and not self.selection.by_name:
                yield NO_CONSUMER.format(end.folder)

    @property
    def at_the_end(self) -> list[AtTheEnd]:
        """What the checks say, of each trace as of the last row that there is.

        Not of one that lasts beyond the time that was requested.
        """
        return [each for each in self.without_permits if self.span.has_end(each.until_us)]

    @property
    def without_permits(self) -> list[AtTheEnd]:
        """Who had no permits where each trace ends, whatever time was requested."""
        return [each for end in self.ended for each in end.without_permits]

    @property
    def first_us(self) -> int | None:
        """The `ts` of the earliest row."""
        if self.counted is not None:
            return self.counted.first_us
        return min((segment.first_us for segment in self.segments), default=None)

    @property
    def last_us(self) -> int | None:
        """The `ts` of the latest row."""
        if self.counted is not None:
            return self.counted.last_us
        return max((segment.last_us for segment in self.segments), default=None)
