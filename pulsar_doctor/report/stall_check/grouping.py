"""Groups subscriptions with the same verdict and cause, so that it is printed once.

Dead test subscriptions are one line, and the one that has stalled beside them stands out. JSON has
the same groups, of single partitions, in as much memory as there are causes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.answers import Severity
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.weighing import Diagnosis, reader_rests
from pulsar_doctor.ledger.consumers import PERSISTENT
from pulsar_doctor.report.stall_check.folding import Alike, Folded, FoldedFleet, costliest_first
from pulsar_doctor.report.words import READERS_REST, backlog, cause, moved
from pulsar_doctor.wording.printable import listed, many, printable

APART_MOST = 5  # of one cause that have a row or a block each
NAMED_MOST = 3
LARGEST_MOST = 10  # of one cause in JSON
KEPT_MOST = 10 * LARGEST_MOST  # before the smallest are left out

CauseKey = tuple[str, Severity | None]  # code; severity, None where it is suspected only


class _Named(NamedTuple):
    topic: str
    partition: int | None
    subscription: str
    backlog: int | None
    growth: int | None
    soonest: float


Member = TypeVar("Member", Folded, _Named)


@dataclass(slots=True)
class Group(Generic[Member]):
    """Those with one verdict for one cause, in the order in which they came."""

    count: int = 0  # of all
    backlog: int | None = None  # of those that report it; None: none does
    growth: int | None = None  # a minute, of those that report it; None: none does
    soonest: float = math.inf  # seconds until one of them reaches a limit
    members: list[Member] = field(default_factory=list)  # the largest, if there are very many

    def add(self, member: Member) -> None:
        """One more."""
        self.count += 1
        self.backlog = _plus(self.backlog, member.backlog)
        self.growth = _plus(self.growth, member.growth)
        self.soonest = min(self.soonest, member.soonest)
        self.members.append(member)

    def largest(self, most: int) -> list[Member]:
        """The largest backlogs first, of those as large who came first."""
        return nlargest(most, self.members, key=lambda member: member.backlog or 0)

    def costliest_first(self, status: str) -> tuple[int, float, int, int]:
        """Its place among others."""
        return costliest_first(status, self.soonest, self.backlog, self.growth)


@dataclass(slots=True)
class Unwell(Group[Folded]):
    """One subscription, or many with one verdict and one cause, the largest backlog first."""

    @classmethod
    def of(cls, *members: Folded) -> Self:
        """All of these."""
        group = cls()
        for each in members:
            group.add(each)
        return group

    @property
    def shown(self) -> Diagnosis:
        """The one whose cause and numbers are shown."""
        return self.members[0].shown

    @property
    def status(self) -> Status:
        """The verdict that they share."""
        return self.members[0].status

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """All of them, each partition apart."""
        return tuple(diagnosis for folded in self.members for diagnosis in folded.unwell)

    @property
    def head(self) -> str:
        """`48 subscriptions: no-consumer, backlog 12345 in all`."""
        readers = self.cause == READERS_REST
        who = str(self.count) if readers else f"{many(self.count, 'subscription')}:"
        return f"{who} {self.cause}, {self.cost}"

    @property
    def cause(self) -> str:
        """What they have in common, without names; of several readers, without numbers too."""
        if self.count > 1 and reader_rests(self.shown):
            return READERS_REST
        return cause(self.shown, with_name=False)

    @property
    def subscriptions(self) -> str:
        """`48 subscriptions: audit, billing, mail and 45 more`, each name once."""
        names = list(dict.fromkeys(printable(each.subscription) for each in self.members))
        first = listed(names, NAMED_MOST)
        unit = "reader" if reader_rests(self.shown) else "subscription"
        return first if self.count == 1 else f"{many(self.count, unit)}: {first}"

    @property
    def topics(self) -> str:
        """`3 topics: a, b and c`; of one subscription, how many partitions have other causes."""
        if self.count == 1:
            worst, *others = self.members[0].alike()
            milder = sum(len(alike.diagnoses) for alike in others)
            return f"{worst.place}; {milder} more with other causes" if milder else worst.place
        topics = dict.fromkeys(each.topic.removeprefix(PERSISTENT) for each in self.members)
        names = [*map(printable, topics)]
        first = listed(names, NAMED_MOST)
        return first if len(names) == 1 else f"{len(names)} topics: {first}"

    @property
    def where(self) -> str:
        """Which they are."""
        return f"{self.subscriptions} on {self.topics}"

    @property
    def cost(self) -> str:
        """`backlog 12345 in all, growing by 17 a minute`; of one subscription only the backlog."""
        if self.backlog is None or self.count == 1:
            return f"backlog {backlog(self.backlog)}"
        whole = all(each.backlog is not None for each in self.members)
        least, how = "" if whole else "at least ", moved(self.growth)
        return f"backlog {least}{backlog(self.backlog)} in all{', ' if how else ''}{how}"

    @property
    def summary(self) -> str:
        """`6 subscriptions: a, b, c and 3 more on x: no-consumer, backlog 17 in all`."""
        return f"{self.where}: {self.cause}, {self.cost}"


@dataclass(slots=True)
class Causes:
    """The causes of verdicts that go by, each partition apart, for JSON."""

    _known: dict[CauseKey, Group[_Named]] = field(default_factory=dict)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for each in diagnoses:
            key = first_cause(each)
            if key is not None:
                group = self._known.setdefault(key, Group())
                names = each.topic, each.partition, each.subscription
                group.add(_Named(*names, each.backlog, each.growth, each.soonest))
                if len(group.members) >= KEPT_MOST:
                    group.members = group.largest(LARGEST_MOST)
            yield each

    def document(self) -> list[dict[str, Any]]:
        """The document's causes, the worst first, and of those as bad what costs most."""
        ordered = sorted(self._known.items(), key=_worst_cause_first)
        return [
            {
                "code": code,
                "severity": severity,
                "subscriptions": group.count,
                "backlog": group.backlog,
                "growth": group.growth,
                "largest": [
                    dict(zip(_Named._fields[:4], each, strict=False))
                    for each in group.largest(LARGEST_MOST)
                ],
            }
            for (code, severity), group in ordered
        ]


def first_cause(diagnosis: Diagnosis) -> CauseKey | None:
    """Its code and severity; of what is not decided the first suspect's code; None: neither."""
    if diagnosis.status in ("stalled", "warning"):
        return diagnosis.findings[0].code, diagnosis.findings[0].severity
    if diagnosis.status == "unknown" and diagnosis.suspects:
        return diagnosis.suspects[0].code, None
    return None


def grouped(unwell: Iterable[Folded], *, apart: bool = False) -> list[Unwell]:
    """By their first cause, the worst first, then what costs most. apart: each for itself."""
    causes: dict[tuple[object, ...], list[Folded]] = {}
    for folded in unwell:
        key = _namespace(folded) or first_cause(folded.shown) or folded.shown.not_told[:1]
        causes.setdefault((folded.status, key), []).append(folded)
    groups: list[Unwell] = []
    for members in causes.values():
        few = len(members) <= APART_MOST and not reader_rests(members[0].shown)
        if apart or few:
            groups += map(Unwell.of, members)
        else:
            groups.append(Unwell.of(*members))
    return sorted(groups, key=lambda group: group.costliest_first(group.status))


def _namespace(folded: Folded) -> str | None:
    """Of a reader that rests, its namespace: the readers of one namespace are one row."""
    return folded.topic.rpartition("/")[0] if reader_rests(folded.shown) else None


def unwell_of(fleet: FoldedFleet) -> list[Unwell | Alike]:
    """What is not healthy, one cause an entry, for formats that show only the first of it.

    The worst first, then what costs most.
    """
    entries: list[Unwell | Alike] = []
    for group in grouped(fleet.unwell):
        entries += [group] if group.count > 1 else group.members[0].alike()
    return sorted(entries, key=lambda each: STATUSES.index(each.status))


def _worst_cause_first(known: tuple[CauseKey, Group[_Named]]) -> tuple[int, float, int, int]:
    (_, severity), group = known
    return group.costliest_first(severity or "unknown")  # what is information is no cause


def _plus(total: int | None, one: int | None) -> int | None:
    return total if one is None else (total or 0) + one
