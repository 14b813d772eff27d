"""What is kept of a healthy subscription: signs of life, and its fullest partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Self

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.diagnosis.impact import soon
from pulsar_doctor.diagnosis.pace import SubscriptionPace
from pulsar_doctor.diagnosis.thresholds import PAUSE_SECONDS
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.account import Account
from pulsar_doctor.evidence.balance import Balance
from pulsar_doctor.evidence.values import Count, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed, many
from pulsar_doctor.wording.sentences import values_in

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
    oldest_ack: Age | None = None  # the oldest last one of a consumer that holds messages
    never_acked: bool = True  # no consumer has acknowledged any yet

    def add(self, diagnosis: Diagnosis) -> None:
        """One more partition, or the whole topic."""
        there = diagnosis.consumers
        self.growth = both(self.growth, diagnosis.growth)
        self.pace = _pace(diagnosis) or self.pace
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
                if least(each.unacked_messages):
                    self.oldest_ack = max(self.oldest_ack or acked, acked, key=lambda age: age.ms)

    def words(self, backlog: int | None, following: str = "") -> str:
        """`: backlog 3, falling by 2 a minute; 2 consumers with 1990 permits, last ack 2 s ago`.

        following: the sentence below it, with numbers that are left out here.
        """
        parts = [*self._backlog(backlog, values_in(following)), *self._consumers()]
        if backlog == 0 and self.consumers is None:
            parts.append("its consumers are not reported")
        return f": {'; '.join(parts)}" if parts else ""

    def _backlog(self, backlog: int | None, known: Set[str]) -> Iterator[str]:
        if backlog is None or str(backlog) in known:
            yield from filter(None, (self.pace,))
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
        known = self.last_ack and (self._oldest or not self.last_ack.says_nothing)
        acked = f", last ack {self.last_ack}{self._oldest} ago" if known else ""
        if held and self.never_acked:
            acked = ", no ack yet"
        yield f"{many(self.consumers, 'consumer')}{shown}{acked}"

    @property
    def _oldest(self) -> str:
        """How old that of the most silent consumer is, where others acknowledged long after it."""
        oldest, last = self.oldest_ack, self.last_ack
        apart = oldest is not None and last is not None and oldest.seconds - last.seconds
        return f" to {oldest}" if apart and apart >= PAUSE_SECONDS else ""


def _sum(one: Count | None, other: Count | None) -> Count | None:
    if one is None or other is None:
        return None
    return Count(both(one.least, other.least), both(one.most, other.most))


def both(one: int | None, other: int | None) -> int | None:
    """The sum; None where one of them is not reported."""
    return None if one is None or other is None else one + other


def total(numbers: Iterable[int | None]) -> int | None:
    """The sum of those that are reported; None: none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


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
        """The vitals of a verdict, which itself is not kept."""
        entries, place = diagnosis.backlog or 0, (diagnosis.whole, diagnosis.part)
        return cls(entries, *place, diagnosis.account, diagnosis.balance, diagnosis.pace)


def moved(growth: int | None) -> str:
    """`growing by 3 a minute`; nothing where it is steady or that is not reported."""
    return f"{'growing' if growth > 0 else 'falling'} by {abs(growth)} a minute" if growth else ""


def _pace(diagnosis: Diagnosis) -> str:
    """`catches up in about 40 min`; nothing where it keeps up, or in less than a minute.

    Of one that keeps up, the limit that it reaches all the same.
    """
    of = diagnosis.balance
    if of is None or of.seconds is None or of.seconds < MINUTE:
        return soon(diagnosis.deadlines[0]) if diagnosis.deadlines else ""
    if of.pace == "catches-up":
        return f"catches up in about {duration(of.seconds)}"
    if of.pace == "not-known" and of.growth is not None and of.growth.rises:
        burst = f"a burst, or falling behind; {duration(of.seconds)} more would show it"
        return f"{moved(diagnosis.growth) or 'growing'} ({burst})"
    return ""
