"""The verdict on one subscription, as a value, and what follows from it alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from pulsar_doctor.broker.stats.segments import TopicSegment
from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    HIDING,
    NONE_OF_THESE,
    POSSIBLE,
    UNDECIDED,
    DecideStep,
    Finding,
    ReaderRests,
    Rests,
    RuledOut,
    Severity,
    Suspect,
    Unknown,
)
from pulsar_doctor.diagnosis.followup import After
from pulsar_doctor.diagnosis.known.matching import KnownIssue
from pulsar_doctor.diagnosis.pace import SubscriptionPace
from pulsar_doctor.diagnosis.ranking import EVEN
from pulsar_doctor.diagnosis.status import FAILS, AcceptUnknown, FailOn, Status, status_of
from pulsar_doctor.diagnosis.suppression import Suppression
from pulsar_doctor.diagnosis.usual import Usual
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.evidence.account import Account
from pulsar_doctor.evidence.balance import Balance
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.ledger.topics import AboutSubscription, split_segment
from pulsar_doctor.wording.typed_json import written_as

VerdictKey = tuple[str, str]  # full name of the topic or partition, subscription
CauseKey = tuple[str, Severity | None]  # code; severity, None where it is suspected only
ReportedBy = Literal["stats", "internal-stats", "trace", "capture", "process"]


@dataclass(frozen=True, slots=True)
class Steady:
    """What a watch shows."""

    status: Status
    before: Status | None  # what it showed until then; None: nothing
    alone: Status  # the status of this round alone


@dataclass(frozen=True, slots=True)
class Diagnosis(AboutSubscription):
    """The verdict on one subscription, worst finding first."""

    topic: str
    partition: int | None
    subscription: str
    type: str | None
    status: Status
    findings: tuple[Finding, ...]
    unknowns: tuple[str, ...] = field(metadata=written_as("not_told"))
    unknown: tuple[Unknown, ...] = ()  # what the evidence did not decide
    incarnations: frozenset[int] = frozenset()  # consumers that were judged
    backlog: int | None = None  # entries; by positions if the counter is wrong; None: not reported
    account: Account | None = None  # where its messages are; None: nobody made one
    balance: Balance | None = None  # whether it keeps up; None: nobody made one
    deadlines: tuple[Deadline, ...] = ()  # the soonest first
    pace: SubscriptionPace | None = None  # what sets it; None: nothing tells
    oldest_seconds: int | None = None  # age of the oldest unacknowledged message, at least
    flow_seconds: float | None = None  # to the last FLOW that is expected; None: none is
    ranges: AckedRanges | None = None  # None: not reported
    consumers: tuple[ReportedConsumer, ...] | None = None  # all, healthy or not; None: not reported
    suspects: tuple[Suspect, ...] = ()  # most likely first; if healthy: what is not ruled out
    ruled_out: tuple[RuledOut, ...] = ()
    sources: tuple[ReportedBy, ...] = ()  # that reported something of it
    # Samples to decide it; None: not requested.
    decide_steps: tuple[DecideStep, ...] | None = field(default=None, metadata=written_as("looks"))
    after: After | None = None  # what became of it since an earlier reading
    steady: Steady | None = None  # over the rounds of a watch
    suppressed: Suppression | None = None  # what says that it does not count as failed
    usual: Usual | None = None  # what is normal at this hour; None: not requested
    known_issues: tuple[KnownIssue, ...] = ()  # defects of Pulsar that fit, the surest first
    # what was judged; None: not kept
    view: SubscriptionView | None = field(default=None, compare=False, repr=False)
    # of a segment: all segments of the scalable topic; None: not reported
    segments: tuple[TopicSegment, ...] | None = None

    @property
    def growth(self) -> int | None:
        """By how much its backlog grows in a minute, or falls below 0; None: not reported."""
        return None if self.balance is None else self.balance.a_minute

    @property
    def soonest(self) -> float:
        """Seconds until it reaches its first limit."""
        return min((each.seconds for each in self.deadlines), default=math.inf)

    @property
    def whole(self) -> str:
        """The topic without its partition, the scalable topic of a segment."""
        return split_segment(self.topic)[0]

    @property
    def part(self) -> int | None:
        """The number of the partition or segment; None where it is neither."""
        return split_segment(self.topic)[1] if self.partition is None else self.partition

    def judges(self, consumer: Consumer) -> bool:
        """Whether this is the verdict on that incarnation of a consumer."""
        return consumer.incarnation in self.incarnations

    @property
    def likeliest(self) -> Suspect | None:
        """The likeliest cause: that nothing is wrong is none."""
        no_cause = (HEALTHY, NONE_OF_THESE)
        return next((each for each in self.suspects if each.code not in no_cause), None)

    @property
    def suspected(self) -> Suspect | None:
        """The likeliest cause, if it is at least possible and anything that was seen speaks for it.

        That its check is undecided does not. What rests for too long says more than a cause that is
        less likely than that nothing is wrong; that nothing moves, or that what was read
        contradicts itself, more than any that is less likely than all others together.
        """
        first = self.likeliest
        hiding = any(isinstance(each, HIDING) for each in self.unknown)
        if first is None or first.probability < (EVEN if hiding else POSSIBLE):
            return None
        if first != self.suspects[0] and any(isinstance(each, Rests) for each in self.unknown):
            return None
        return first if any(clue.name != UNDECIDED for clue in first.speaks_for) else None

    @property
    def first(self) -> Finding | Suspect | None:
        """The likeliest cause of an undecided verdict; otherwise the first finding."""
        undecided = self.likeliest if self.status == "unknown" else None
        return undecided or next(iter(self.findings), None)

    @property
    def first_cause(self) -> CauseKey | None:
        """Code and severity of the first cause; of an undecided one the likeliest cause's code."""
        if self.status in ("stalled", "warning"):
            return self.findings[0].code, self.findings[0].severity
        suspect = self.likeliest if self.status == "unknown" else None
        return (suspect.code, None) if suspect else None

    @property
    def resting_readers(self) -> tuple[ReaderRests, ...]:
        """The reader that rests, of an unknown verdict."""
        doubts = self.unknown if self.status == "unknown" else ()
        return tuple(each for each in doubts if isinstance(each, ReaderRests))

    @property
    def reader_rests(self) -> bool:
        """Whether it is unknown for nothing else than that a reader rests."""
        return bool(self.resting_readers) and len(self.resting_readers) == len(self.unknown)

    @property
    def stall_is_likely(self) -> bool:
        """Whether one of its suspects would be a stall and is likely; what is healthy is none."""
        likely = (each.stalls and each.likelihood == "likely" for each in self.suspects)
        return self.status != "healthy" and any(likely)

    def accepts(self, accept: AcceptUnknown | None) -> bool:
        """Whether it is unknown, which counts as healthy."""
        if accept == "readers":
            return self.reader_rests
        return accept == "all" and self.status == "unknown"

    def fails(self, fail_on: FailOn) -> bool:
        """Whether it is as bad as that or worse; to a suspicion, a likely stall is."""
        suspected = fail_on == "suspect" and self.stall_is_likely
        return suspected or self.status in FAILS[fail_on]

    def status_of(self, consumer: Consumer) -> Status:
        """The verdict on one consumer: by its own findings and those of the whole subscription."""
        concerned = (None, *consumer.labels)
        findings = [each for each in self.findings if each.consumer in concerned]
        return status_of(findings, [each for each in self.unknown if each.consumer in concerned])


def exit_code(
    diagnoses: Iterable[Diagnosis], fail_on: FailOn = "stalled", accept: AcceptUnknown | None = None
) -> int:
    """1 where one fails; else 3 where one is not known, or there is none; else 0."""
    judged = tuple(diagnoses)
    if any(each.fails(fail_on) for each in judged):
        return 1
    known = (each.status != "unknown" or each.accepts(accept) for each in judged)
    return 0 if accept == "all" or (judged and all(known)) else DoctorError.exit_code
