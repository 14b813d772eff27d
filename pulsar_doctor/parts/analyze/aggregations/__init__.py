"""The tables of an analysis, in plain Spark SQL on a DataFrame of rows.

One pass reads all commands (profile), a second the times between them (histogram), a third the
times without permits, and single rows that show what each consumer was (moments).
Whatever else is needed follows from these, which are small. None of them sorts the rows or moves
them between executors: the rows carry their gaps already (see TRACE(5)), so that grouping is
enough. Only *holes*, which must look at each entry, is a pass that moves rows.

Nothing here is a Python function that an executor would have to run: any Spark 3.5 or 4 will do,
Spark Connect too. Times are in microseconds, `ts` is a timestamp, counts are of messages unless a
name says otherwise, and null means "not reported".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulsar_doctor.parts.analyze.aggregations.consumers import consumers
from pulsar_doctor.parts.analyze.aggregations.gaps import UNTOLD, gaps, waits
from pulsar_doctor.parts.analyze.aggregations.histogram import histogram
from pulsar_doctor.parts.analyze.aggregations.holes import blocks, holes
from pulsar_doctor.parts.analyze.aggregations.lives import Breaks, lives
from pulsar_doctor.parts.analyze.aggregations.passes import PERSISTED, Keeping, SharedRows
from pulsar_doctor.parts.analyze.aggregations.profile import profile
from pulsar_doctor.parts.analyze.aggregations.stalls import (
    as_the_rules_say,
    brief,
    long_or_found,
    moments,
    stalls,
)
from pulsar_doctor.parts.analyze.aggregations.subscriptions import subscriptions
from pulsar_doctor.parts.analyze.aggregations.timeline import timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pulsar_doctor.parts.analyze.at_the_end import AtTheEnd


@dataclass(frozen=True, slots=True)
class Tables:
    """The aggregates of some traces, not computed yet; see the function of each name."""

    consumers: DataFrame
    gaps: DataFrame
    stalls: DataFrame
    timeline: DataFrame
    subscriptions: DataFrame
    holes: DataFrame
    brief_stalls: DataFrame
    passes: Mapping[str, SharedRows]  # that the tables share; Spark keeps them until `forget`

    def forget(self) -> None:
        """Lets Spark forget what it has kept."""
        for each in self.passes.values():
            each.forget()


def aggregate(
    rows: DataFrame,
    *,
    bucket_us: int,
    exact: bool,
    breaks: Breaks | None = None,
    stall_floor_us: int = 0,
    ends: Sequence[AtTheEnd] = (),
    keeping: Keeping = PERSISTED,
) -> Tables:
    """Aggregates these rows, each (trace_id, seq) of which comes once.

    bucket_us: length of a step of the timeline. exact: percentiles are of the values themselves,
    for traces of some million rows; otherwise of their buckets, see `histogram`.
    breaks: trace_id and seq of rows before which some are missing that no GAP covers, also of the
    first of a trace; None: not known, which takes longer. stall_floor_us: shorter times without
    permits are no rows of `stalls`, unless with a finding; `brief_stalls` counts them. ends: what
    the checks answer for those that last where a trace ends. keeping: how what they share is kept.
    """
    passes: dict[str, SharedRows] = {}

    def kept(name: str, made: DataFrame) -> DataFrame:
        passes[name] = keeping.kept(made, name)
        return passes[name].rows

    rows = kept("rows", rows) if keeping.once else rows
    profiled = kept("profile", profile(rows, bucket_us))
    passes["profile"].begin()
    moved = kept("moments", moments(rows))
    passes["moments"].begin()
    lived = kept("lives", lives(rows, moved, profiled, breaks))
    stood = kept("stalls", as_the_rules_say(stalls(moved, lived), ends))
    waited = kept("waits", waits(histogram(rows, exact=exact), stood, exact=exact))
    each = kept("consumers", consumers(lived, waited, stood))
    touched = kept("blocks", blocks(rows))
    return Tables(
        consumers=each.drop(*UNTOLD),
        gaps=gaps(waited, each, exact=exact),
        stalls=long_or_found(stood, stall_floor_us),
        timeline=timeline(profiled, lived, stood, bucket_us),
        subscriptions=subscriptions(each),
        holes=holes(touched, lived),
        brief_stalls=brief(stood, stall_floor_us),
        passes=passes,
    )
