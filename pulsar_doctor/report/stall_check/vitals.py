"""What a healthy subscription lives by, in one line: its backlog, its consumers, its last ack."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.report.words import moved
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.sentences import values_in

NONE = Count(0, 0)


@dataclass(slots=True)
class Vitals:
    """Of all partitions together; None where one of them does not tell. last_ack: the youngest."""

    change: int | None = 0
    consumers: int | None = 0
    permits: Count | None = NONE
    last_ack: Age | None = None

    def add(self, diagnosis: Diagnosis) -> None:
        """One more partition, or the whole topic."""
        there = diagnosis.consumers
        self.change = both(self.change, diagnosis.backlog_change)
        if there is None or self.consumers is None:
            self.consumers = self.permits = None
            return
        self.consumers += len(there)
        for each in there:
            self.permits = _sum(self.permits, each.available_permits)
            acked = each.since_last_ack
            if acked is not None:
                self.last_ack = min(self.last_ack or acked, acked, key=_ms)

    def words(self, backlog: int | None, following: str = "") -> str:
        """`: backlog 3, falling by 2; 2 consumers with 1990 permits, last ack 2 s ago`.

        following: the sentence below it, whose numbers are left out here.
        """
        parts = [*self._backlog(backlog, values_in(following)), *self._consumers()]
        return f": {'; '.join(parts)}" if parts else ""

    def _backlog(self, backlog: int | None, known: Set[str]) -> Iterator[str]:
        if backlog is None or str(backlog) in known:
            return
        how = moved(self.change) or ("steady" if self.change == 0 and backlog > 0 else "")
        yield f"backlog {backlog}{', ' if how else ''}{how}"

    def _consumers(self) -> Iterator[str]:
        if self.consumers is None:
            return
        if not self.consumers:
            yield "nobody attached"
            return
        permits = "" if self.permits is None else f" with {self.permits} permits"
        acked = f", last ack {self.last_ack} ago" if self.last_ack else ""
        yield f"{many(self.consumers, 'consumer')}{permits}{acked}"


def _ms(age: Age) -> int:
    return age.ms


def _sum(one: Count | None, other: Count | None) -> Count | None:
    if one is None or other is None:
        return None
    return Count(both(one.least, other.least), both(one.most, other.most))


def both(one: int | None, other: int | None) -> int | None:
    """The sum; None where one of them is not reported."""
    return None if one is None or other is None else one + other
