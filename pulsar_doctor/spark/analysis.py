"""What `analyze` found in traces: the tables of a finished analysis, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pulsar_doctor.diagnosis.status import Status

TABLES = ("consumers", "gaps", "stalls", "timeline", "subscriptions", "holes")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TableRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A trace that was not analyzed. trace: where it is; why: a sentence, with the file."""

    trace: str
    why: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """A finished analysis. Nobody changes it or its rows.

    events, traces: how many were read, each once.
    first, last: moments of the first and the last event; None where there is none.
    bucket_seconds: length of a bucket of the timeline; None where there is no timeline.
    consumers ... holes: rows with the columns and units of spark.aggregations. Null is
        None; a moment is a datetime with its zone. The worst come first, and only the worst may be
        there; of the stalls, the worst by severity and then by duration. `timeline` is over all
        traces and topics (start, delivered, acknowledged, flows, lowest_available,
        starved_consumers), `subscriptions` over all traces.
    stall_floor_seconds: times without permits from so long on are rows of `stalls`, and those with
        a finding; None: all. brief_stalls: the others, counted: below_us, count, total_us.
    totals: table -> how many rows it has in all; a table that is not named has no more than here.
    percentile_error: a percentile of `gaps` is at most this share above the exact one; 0.0: exact.
    notes: sentences about what could not be read or is not certain.
    left_out: traces that are damaged, or none; nothing here is of them.
    damaged: whether some of what was recorded in a trace is lost; `notes` say which journals.
    since, until, topic, subscription: what of the traces was asked for; None: all.
    """

    events: int
    traces: int
    first: datetime | None
    last: datetime | None
    bucket_seconds: float | None
    consumers: Sequence[TableRow] = ()
    gaps: Sequence[TableRow] = ()
    stalls: Sequence[TableRow] = ()
    timeline: Sequence[TableRow] = ()
    subscriptions: Sequence[TableRow] = ()
    holes: Sequence[TableRow] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    percentile_error: float = 0.0
    notes: Sequence[str] = ()
    left_out: Sequence[LeftOut] = ()
    damaged: bool = False
    stall_floor_seconds: float | None = None
    brief_stalls: Sequence[TableRow] = ()
    since: datetime | None = None
    until: datetime | None = None
    topic: str | None = None
    subscription: str | None = None

    def rows(self, table: str) -> Sequence[TableRow]:
        """The rows that are here of one of TABLES."""
        rows: Sequence[TableRow] = getattr(self, table)
        return rows

    def total(self, table: str) -> int:
        """How many rows it has in all, those that are not here included."""
        return max(self.totals.get(table, 0), len(self.rows(table)))

    @property
    def verdict(self) -> Status:
        """The worst that a stall was found to be; healthy where none is worse than `info`.

        unknown where nothing was read, and instead of healthy where some of a trace is lost.
        """
        if not self.events:
            return "unknown"
        found = {row["severity"] for row in self.stalls}
        if "stalled" in found:
            return "stalled"
        if "warning" in found:
            return "warning"
        return "unknown" if self.damaged else "healthy"


def moment(us: int | None) -> datetime | None:
    """Microseconds since 1970 as a moment in UTC; None stays None."""
    return None if us is None else EPOCH + timedelta(microseconds=us)
