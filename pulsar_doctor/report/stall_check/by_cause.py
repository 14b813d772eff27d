"""The causes of verdicts, each partition apart, for JSON: in as much memory as there are causes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.short_form import CauseKey, first_cause
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.report.stall_check.vitals import total

LARGEST_MOST = 10  # of one cause
KEPT_MOST = 10 * LARGEST_MOST  # before the smallest are left out


class _Named(NamedTuple):
    topic: str
    partition: int | None
    subscription: str
    backlog: int | None


@dataclass(slots=True)
class _Cost:
    count: int = 0  # of all
    backlog: int | None = None  # of those that report it; None: none does
    growth: int | None = None  # a minute, of those that report it; None: none does
    soonest: float = math.inf  # seconds until one of them reaches a limit
    members: list[_Named] = field(default_factory=list)  # the largest, if there are very many

    def add(self, one: Diagnosis) -> None:
        """One more."""
        self.count += 1
        self.backlog = total((self.backlog, one.backlog))
        self.growth = total((self.growth, one.growth))
        self.soonest = min(self.soonest, one.soonest)
        self.members.append(_Named(one.topic, one.partition, one.subscription, one.backlog))
        if len(self.members) >= KEPT_MOST:
            self.members = self.largest()

    def largest(self) -> list[_Named]:
        """The largest backlogs first, of those as large who came first."""
        return nlargest(LARGEST_MOST, self.members, key=lambda member: member.backlog or 0)


@dataclass(slots=True)
class Causes:
    """Keeps the causes of verdicts that go by."""

    _known: dict[CauseKey, _Cost] = field(default_factory=dict)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for each in diagnoses:
            key = first_cause(each)
            if key is not None:
                self._known.setdefault(key, _Cost()).add(each)
            yield each

    def document(self) -> list[dict[str, Any]]:
        """The document's causes, the worst first, and of those as bad what costs most."""
        return [
            {
                "code": code,
                "severity": severity,
                "subscriptions": cost.count,
                "backlog": cost.backlog,
                "growth": cost.growth,
                "largest": [each._asdict() for each in cost.largest()],
            }
            for (code, severity), cost in sorted(self._known.items(), key=_worst_first)
        ]


def _worst_first(known: tuple[CauseKey, _Cost]) -> tuple[int, float, int, int]:
    (_, severity), cost = known  # what is information is no cause
    place = STATUSES.index(severity or "unknown")
    return place, cost.soonest, -(cost.backlog or 0), -(cost.growth or 0)
