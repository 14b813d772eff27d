"""The causes that were found, each with all who have it: how many, what it costs, the largest.

Kept while verdicts go by, in as much memory as there are causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.answers import Severity
from pulsar_doctor.diagnosis.weighing import Diagnosis

NAMED_MOST = 10
KEPT_MOST = 10 * NAMED_MOST  # before the smallest are left out


@dataclass(slots=True)
class CauseSummary:
    """All subscriptions whose first cause it is, each partition apart.

    severity: None where it is suspected only. backlog: entries, of those that tell; None: nobody
    does. backlog_change: in the window, likewise.
    """

    code: str
    severity: Severity | None
    subscriptions: int = 0
    backlog: int | None = None
    backlog_change: int | None = None
    _some: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, diagnosis: Diagnosis) -> None:
        """One more that has it."""
        self.subscriptions += 1
        self.backlog = _plus(self.backlog, diagnosis.backlog)
        self.backlog_change = _plus(self.backlog_change, diagnosis.backlog_change)
        self._some.append((-(diagnosis.backlog or 0), self.subscriptions, _named(diagnosis)))
        if len(self._some) >= KEPT_MOST:
            self._some = nsmallest(NAMED_MOST, self._some)

    def document(self) -> dict[str, Any]:
        """One of the document's causes."""
        return {
            "code": self.code,
            "severity": self.severity,
            "subscriptions": self.subscriptions,
            "backlog": self.backlog,
            "backlog_change": self.backlog_change,
            "largest": [each for *_, each in nsmallest(NAMED_MOST, self._some)],
        }


@dataclass(slots=True)
class Causes:
    """Of verdicts that go by."""

    _known: dict[tuple[str, Severity | None], CauseSummary] = field(default_factory=dict)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for diagnosis in diagnoses:
            key = first_cause(diagnosis)
            if key is not None:
                self._known.setdefault(key, CauseSummary(*key)).add(diagnosis)
            yield diagnosis

    def ordered(self) -> list[CauseSummary]:
        """The worst first, and of those as bad what costs most."""
        return sorted(self._known.values(), key=_costliest_first)


def first_cause(diagnosis: Diagnosis) -> tuple[str, Severity | None] | None:
    """Its code and severity; of what is not decided the first suspect's code; None: neither."""
    if diagnosis.status in ("stalled", "warning"):
        return diagnosis.findings[0].code, diagnosis.findings[0].severity
    if diagnosis.status == "unknown" and diagnosis.suspects:
        return diagnosis.suspects[0].code, None
    return None


def _costliest_first(cause: CauseSummary) -> tuple[int, int, int]:
    status = STATUSES.index(cause.severity or "unknown")  # what is information is no cause
    return status, -(cause.backlog or 0), -(cause.backlog_change or 0)


def _plus(total: int | None, one: int | None) -> int | None:
    return total if one is None else (total or 0) + one


def _named(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "topic": diagnosis.topic,
        "partition": diagnosis.partition,
        "subscription": diagnosis.subscription,
        "backlog": diagnosis.backlog,
    }
