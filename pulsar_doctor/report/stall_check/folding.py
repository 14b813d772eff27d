"""Joins the partitions or segments of a topic, so that its verdict is printed once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Self

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.pace import SubscriptionPace
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.account import Account
from pulsar_doctor.evidence.balance import Balance
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.ledger.consumers import NON_PERSISTENT, PERSISTENT
from pulsar_doctor.report.words import backlog, cause, moved, pace
from pulsar_doctor.wording.printable import listed, many, printable
from pulsar_doctor.wording.sentences import joined, values_in

HEALTHY_SHOWN_MOST = 10  # by name; more are only counted
PARTITIONS_SHOWN_MOST = 5
NONE = Count(0, 0)


@dataclass(slots=True)
class Vitals:
    """The signs of life of a healthy subscription, all partitions. None: one does not report it."""

    growth: int | None = 0  # of the backlog, a minute
    pace: str = ""  # of the only one, or of the last that does not keep up
    consumers: int | None = 0
    permits: Count | None = NONE
    unacked: Count | None = NONE
    last_ack: Age | None = None  # the youngest
    never_acked: bool = True  # no consumer has acknowledged any yet

    def add(self, diagnosis: Diagnosis) -> None:
        """One more partition, or the whole topic."""
        there = diagnosis.consumers
        self.growth = both(self.growth, diagnosis.growth)
        self.pace = pace(diagnosis) or self.pace
        if there is None or self.consumers is None:
            self.consumers = self.permits = self.unacked = None
            return
        self.consumers += len(there)
        for each in there:
            self.permits = _sum(self.permits, each.available_permits)
            self.unacked = _sum(self.unacked, each.unacked_messages)
            self.never_acked = self.never_acked and each.never_acked is True
            acked = each.since_last_ack
            if acked is not None:
                self.last_ack = min(self.last_ack or acked, acked, key=lambda age: age.ms)

    def words(self, backlog: int | None, following: str = "") -> str:
        """`: backlog 3, falling by 2 a minute; 2 consumers with 1990 permits, last ack 2 s ago`.

        following: the sentence below it, whose numbers are left out here.
        """
        parts = [*self._backlog(backlog, values_in(following)), *self._consumers()]
        return f": {'; '.join(parts)}" if parts else ""

    def _backlog(self, backlog: int | None, known: Set[str]) -> Iterator[str]:
        if backlog is None or str(backlog) in known:
            return
        still = "steady" if self.growth == 0 and backlog > 0 else ""
        how = self.pace or moved(self.growth) or still
        yield f"backlog {backlog}{', ' if how else ''}{how}"

    def _consumers(self) -> Iterator[str]:
        if self.consumers is None:
            return
        if not self.consumers:
            yield "nobody attached"
            return
        held = self.unacked if self.unacked and self.unacked.least else None
        numbers = [
            f"{count} {what}{'' if count.exact == 1 else 's'}"
            for count, what in ((self.permits, "permit"), (held, "unacknowledged message"))
            if count is not None
        ]
        shown = f" with {listed(numbers, len(numbers))}" if numbers else ""
        acked = f", last ack {self.last_ack} ago" if self.last_ack else ""
        if held and self.never_acked:
            acked = ", no ack yet"
        yield f"{many(self.consumers, 'consumer')}{shown}{acked}"


def _sum(one: Count | None, other: Count | None) -> Count | None:
    if one is None or other is None:
        return None
    return Count(both(one.least, other.least), both(one.most, other.most))


def both(one: int | None, other: int | None) -> int | None:
    """The sum; None where one of them is not reported."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class Fullest:
    """What is kept of the healthy partition with the largest backlog."""

    backlog: int
    whole: str
    part: int | None
    account: Account | None
    balance: Balance | None
    pace: SubscriptionPace | None

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> Self:
        """Of a verdict, which itself is not kept."""
        entries, place = diagnosis.backlog or 0, (diagnosis.whole, diagnosis.part)
        return cls(entries, *place, diagnosis.account, diagnosis.balance, diagnosis.pace)


@dataclass(slots=True)
class Folded:
    """One subscription of one topic, with all its partitions (segments of a scalable topic)."""

    topic: str
    subscription: str
    type: str | None
    partitions: int = 0  # that were judged; 0: the topic has none
    backlog: int | None = 0  # entries of all; None: one is not reported
    unwell: list[Diagnosis] = field(default_factory=list)  # verdicts that are not healthy
    info: Finding | None = None  # of the first healthy one with something to know
    doubt: Diagnosis | None = None  # the first healthy one that may hide something
    fullest: Fullest | None = None
    vitals: Vitals = field(default_factory=Vitals)

    def add(self, diagnosis: Diagnosis) -> None:
        """One more partition, or the whole topic."""
        self.backlog = both(self.backlog, diagnosis.backlog)
        self.partitions += diagnosis.part is not None
        self.vitals.add(diagnosis)
        if diagnosis.status != "healthy":
            self.unwell.append(diagnosis)
            return
        if self.fullest is None or (diagnosis.backlog or 0) > self.fullest.backlog:
            self.fullest = Fullest.of(diagnosis)
        if diagnosis.findings:
            self.info = self.info or diagnosis.findings[0]
        if diagnosis.suspects:
            self.doubt = self.doubt or diagnosis

    @property
    def entries(self) -> str:
        """`498 entries in all partitions`."""
        unit = "" if self.backlog is None else " entry" if self.backlog == 1 else " entries"
        where = f" in all {parts_of(self.topic)}s" if self.partitions > 1 else ""
        return f"{backlog(self.backlog)}{unit}{where}"

    @property
    def key(self) -> tuple[str, str]:
        """Its topic and name."""
        return self.topic, self.subscription

    @property
    def growth(self) -> int | None:
        """By how much it grows in a minute; None where one partition does not report it."""
        return self.vitals.growth

    @property
    def soonest(self) -> float:
        """Seconds until the first limit is reached."""
        return min((each.soonest for each in self.unwell), default=math.inf)

    @property
    def status(self) -> Status:
        """The worst of its partitions."""
        return min((one.status for one in self.unwell), key=STATUSES.index, default="healthy")

    @property
    def shown(self) -> Diagnosis:
        """Of one that is not healthy, the partition whose cause and numbers are shown."""
        return self.alike()[0].shown

    def alike(self) -> list[Alike]:
        """What is not healthy, the partitions with the same causes together, worst first."""
        ordered = sorted(self.unwell, key=_causes)
        return [Alike(self, tuple(same)) for _, same in groupby(ordered, key=_causes)]


@dataclass(frozen=True, slots=True)
class Alike:
    """Partitions of one subscription that have the same verdict for the same causes."""

    cost: ClassVar[str] = ""  # stands beside the numbers

    of: Folded
    diagnoses: tuple[Diagnosis, ...]

    @classmethod
    def single(cls, diagnosis: Diagnosis) -> Self:
        """One verdict, of one partition or of the whole topic."""
        of = Folded(diagnosis.whole, diagnosis.subscription, diagnosis.type)
        of.add(diagnosis)
        return cls(of, (diagnosis,))

    @property
    def shown(self) -> Diagnosis:
        """The one whose numbers are shown: the largest backlog."""
        return max(self.diagnoses, key=lambda diagnosis: diagnosis.backlog or 0)

    @property
    def status(self) -> Status:
        """The verdict that they share."""
        return self.diagnoses[0].status

    @property
    def backlog_words(self) -> str:
        """`498 entries, growing by 3 a minute`; without the number where a sentence has it."""
        if self.of.topic.startswith(NON_PERSISTENT):
            return "none: a non-persistent topic keeps nothing"
        said = "" if self._says_backlog() else self.of.entries
        return ", ".join(part for part in (said, moved(self.of.growth)) if part)

    def _says_backlog(self) -> bool:
        """Whether a sentence has it."""
        texts = (text for each in self.shown.findings for text in (each.summary, each.impact or ""))
        entries = {f"{self.shown.backlog} {unit}" for unit in ("entry", "entries")}
        return self.of.partitions <= 1 and not entries.isdisjoint(values_in(joined("", texts)))

    @property
    def where(self) -> str:
        """`billing on public/default/orders, partitions 3 and 7 of 100`."""
        return f"{printable(self.of.subscription)} on {self.place}"

    @property
    def summary(self) -> str:
        """`billing on public/default/orders: permits-exhausted of worker-3`."""
        return f"{self.where}: {cause(self.shown)}"

    @property
    def place(self) -> str:
        """`public/default/orders, partitions 3 and 7 of 100`."""
        topic = printable(self.of.topic.removeprefix(PERSISTENT))
        return f"{topic}{partitions(self.diagnoses, self.of.partitions)}"


@dataclass(slots=True)
class FoldedFleet:
    """All that was judged. Healthy topics without partitions are only counted beyond a few."""

    partitioned: dict[tuple[str, str], Folded] = field(default_factory=dict)
    plain_unwell: list[Folded] = field(default_factory=list)
    plain_healthy: list[Folded] = field(default_factory=list)
    plain_healthy_count: int = 0

    def add(self, diagnosis: Diagnosis) -> None:
        """One more verdict."""
        key = (diagnosis.whole, diagnosis.subscription)
        if diagnosis.part is not None:
            known = self.partitioned.get(key) or Folded(*key, diagnosis.type)
            self.partitioned.setdefault(key, known).add(diagnosis)
            return
        healthy = diagnosis.status == "healthy"
        self.plain_healthy_count += healthy
        if healthy and len(self.plain_healthy) >= HEALTHY_SHOWN_MOST:
            return  # only counted
        new = Folded(*key, diagnosis.type)
        new.add(diagnosis)
        (self.plain_healthy if healthy else self.plain_unwell).append(new)

    @property
    def unwell(self) -> list[Folded]:
        """What is not healthy, worst first, and of the same verdict the largest backlog first."""
        folded = (one for one in self.partitioned.values() if one.unwell)
        return sorted((*self.plain_unwell, *folded), key=_worst_first)

    @property
    def healthy(self) -> list[Folded]:
        """Those that are kept by name; whether that is all, `counts` says."""
        folded = (one for one in self.partitioned.values() if not one.unwell)
        return [*self.plain_healthy, *folded]

    @property
    def counts(self) -> Counter[Status]:
        """How many have which verdict, a topic's partitions as one."""
        counts = Counter(one.status for one in (*self.plain_unwell, *self.partitioned.values()))
        counts["healthy"] += self.plain_healthy_count
        return counts


def fold(diagnoses: Iterable[Diagnosis]) -> FoldedFleet:
    """All of them, in any order."""
    fleet = FoldedFleet()
    for diagnosis in diagnoses:
        fleet.add(diagnosis)
    return fleet


def partitions(diagnoses: Sequence[Diagnosis], of: int) -> str:
    """`, partitions 3 and 7 of 100`; nothing for a topic without partitions."""
    numbers = sorted(d.part for d in diagnoses if d.part is not None)
    if not numbers:
        return ""
    part = parts_of(diagnoses[0].whole)
    if len(numbers) == of > 1:
        return f", all {of} {part}s"
    word = part if len(numbers) == 1 else f"{part}s"
    told = listed([str(number) for number in numbers], PARTITIONS_SHOWN_MOST)
    return f", {word} {told} of {of}" if of > 1 else f", {word} {told}"


def parts_of(topic: str) -> str:
    """`segment` of a scalable topic, `partition` of any other."""
    return "segment" if topic.startswith("topic://") else "partition"


def _causes(diagnosis: Diagnosis) -> tuple[int, tuple[str, ...]]:
    codes = [finding.code for finding in diagnosis.findings]
    codes += [suspect.code for suspect in diagnosis.suspects[:1]]
    return STATUSES.index(diagnosis.status), tuple(codes)


def _worst_first(folded: Folded) -> tuple[int, float, int, int]:
    return costliest_first(folded.status, folded.soonest, folded.backlog, folded.growth)


def costliest_first(
    status: str, soonest: float, backlog: int | None, growth: int | None
) -> tuple[int, float, int, int]:
    """The worst verdict first, then the first limit that is reached, then what costs most."""
    return STATUSES.index(status), soonest, -(backlog or 0), -(growth or 0)
