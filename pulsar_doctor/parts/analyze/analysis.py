"""The tables of a finished analysis, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.status import FAILS, AcceptUnknown, FailOn, Status
from pulsar_doctor.diagnosis.verdict import exit_code
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.analyze.verdicts import TraceVerdict

TABLES = ("consumers", "gaps", "stalls", "timeline", "subscriptions", "holes")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

AnalysisRows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A trace that was not analyzed."""

    trace: str  # its folder
    why: str  # a sentence that names the file


@dataclass(frozen=True, slots=True)
class Analysis:
    """A finished analysis: nobody changes it or its rows.

    The rows of a table have the columns and units of spark.aggregations: null is None, a moment is
    a datetime with its zone. The worst come first, and only the worst may be there (see `totals`).
    """

    events: int  # that were read, each once
    traces: int
    first: datetime | None  # when the first event happened; None: there is none
    last: datetime | None  # when the last event happened; None: there is none
    bucket_seconds: float | None  # length of a bucket of `timeline`; None: no timeline
    consumers: AnalysisRows = ()
    gaps: AnalysisRows = ()
    stalls: AnalysisRows = ()  # the worst by severity, then by duration
    # over all traces: start, delivered, acknowledged, flows, lowest_available, starved_consumers
    timeline: AnalysisRows = ()
    subscriptions: AnalysisRows = ()  # over all traces
    holes: AnalysisRows = ()
    totals: Mapping[str, int] = field(default_factory=dict)  # rows in all of tables that were cut
    percentile_error: float = 0.0  # percentiles of `gaps` are at most this share too high; 0: exact
    notes: Sequence[str] = ()  # sentences about what could not be read or is not certain
    left_out: Sequence[LeftOut] = ()  # damaged, or not a trace; nothing here is from them
    verdicts: Sequence[TraceVerdict] = ()  # of each subscription where its trace ends, worst first
    all_judged: bool = True  # False: `notes` name what could not be judged
    # `stalls` has those that lasted so long or longer, and those with a finding; None: all
    stall_floor_seconds: float | None = None
    brief_stalls: AnalysisRows = ()  # the other stalls, counted: below_us, count, total_us
    # the selection; None: all
    since: datetime | None = None
    until: datetime | None = None
    topic: str | None = None
    subscription: str | None = None

    def rows(self, table: str) -> AnalysisRows:
        """The rows that are here of one of TABLES."""
        rows: AnalysisRows = getattr(self, table)
        return rows

    def total(self, table: str) -> int:
        """How many rows it has in all, those that are not here included."""
        return max(self.totals.get(table, 0), len(self.rows(table)))

    @property
    def status(self) -> Status:
        """The worst status of a verdict; unknown where there is none.

        Also unknown instead of healthy or a warning where something could not be judged, and
        instead of healthy where a time without permits was a stall, which is over: nobody judged
        whether messages waited then.
        """
        found = {each.diagnosis.status for each in self.verdicts}
        worst: Status = next((status for status in STATUSES if status in found), "unknown")
        in_doubt = not self.all_judged or (worst == "healthy" and self.stalled_before)
        return "unknown" if in_doubt and worst != "stalled" else worst

    @property
    def stalled_before(self) -> bool:
        """Whether a time without permits was as long as a stall, as columns judge it."""
        return "stalled" in self._severities

    @property
    def _severities(self) -> set[str | None]:
        return {row["severity"] for row in self.stalls}

    def exit_code(self, fail_on: FailOn, accept: AcceptUnknown | None = None) -> int:
        """1 where a verdict is as bad as that; else 3 where something is not decided; else 0.

        Not decided is also what is over and was as bad. accept: what of it counts as healthy.
        """
        judged = (each.diagnosis for each in self.verdicts)
        code = exit_code(judged, fail_on, accept)
        in_doubt = self.status == "unknown" or self._severities & FAILS[fail_on]
        return code or (DoctorError.exit_code if in_doubt and accept != "all" else 0)

    def accepted(self, accept: AcceptUnknown | None) -> int:
        """How many subscriptions nobody could decide on, and which count as healthy."""
        return sum(each.diagnosis.accepts(accept) for each in self.verdicts)


def moment(us: int | None) -> datetime | None:
    """Microseconds since 1970 as a moment in UTC; None stays None."""
    return None if us is None else EPOCH + timedelta(microseconds=us)
