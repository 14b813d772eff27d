"""When a delayed message is due, how late it was, and the highest rate that a delay allows.

A message is due so long after it was published; several delays take turns by entry. Where the delay
is counted from receipt, it is still late against that moment: it is what the user requested.

What makes messages late
------------------------
K consumers, a queue of q (RQS) each, refilled h = max(1, q/2) at a time, p seconds of work for each
message, r messages per second, a delay of d seconds.

*One delay, counted from publish*: nothing. The due time runs with the publish time, so messages
become due as fast as they were published and in the order of the queue. The queue holds what is
published in the last q/r seconds of the delay, the rest of it waits in the broker. The only
condition is that a refill comes before the queue has run dry: a round trip shorter than (q - h +
1)/r.

*Slow work*: at most K/p messages per second, like without a delay.

*Counted from receipt*: w messages wait at a time, and each holds its place for d: at most K w / d
per second (Little's law). With its own queue w is q: a refill leaves with the h-th message taken of
a burst, (h - 1) p after the first was due, so w messages go round in d + (h - 1) p. Above a library
with a receive() that gives the permit back w is 1, and the next wait begins after the work: d + p.

What lets through m < r per second is late by more and more: 1 - m/r seconds in each second.

*Several delays, counted from publish*: the lateness has a limit. In the order of due times
(a queue of our own), messages that wait long fill the queue, and the broker sends a message when it
is L old, where (r/n) x sum of max(0, d_i - L) = q over the n delays: with smaller d_i it is late by
L - d_i. A refill in halves holds up to h - 1 permits back: L lies between those of q and q - h + 1.
Holding the head only, a message waits for a longer one before it: d_j - d_i less the time between.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pulsar_doctor.model.levers import Workload
from pulsar_doctor.parts.consume.engines import Plan

ON_TIME_MS = 50  # handed out no later than so is on time


def delay_of(plan: Plan, entry_id: int) -> float:
    """Seconds that this message is held back; several delays take turns."""
    delays = plan.receiver_delay_seconds
    return delays[entry_id % len(delays)] if delays else 0.0


def due_ms(plan: Plan, published_ms: float, entry_id: int, received_ms: float) -> float:
    """When a message may be handed out, epoch milliseconds."""
    start = received_ms if plan.delay_from == "receipt" else published_ms
    return start + delay_of(plan, entry_id) * 1000


@dataclass(slots=True)
class Lateness:
    """By how much messages were handed out after they were due, in whole milliseconds.

    Redelivered messages and those delayed by the broker do not count: they do not show what our
    delay costs.
    """

    delay_seconds: float
    counts: Counter[int] = field(default_factory=Counter)
    early: int = 0
    redelivered: int = 0  # had been delivered before
    delayed_by_broker: int = 0  # with a deliver_at, before which the broker does not deliver
    first_published_ms: float = math.inf
    last_published_ms: float = -math.inf
    first_handed_ms: float = math.inf
    last_handed_ms: float = -math.inf

    def add(self, published_ms: float, handed_ms: float) -> None:
        """One message, delivered for the first time."""
        late_ms = math.floor(handed_ms - published_ms - self.delay_seconds * 1000)
        self.counts[max(0, late_ms)] += 1
        self.early += late_ms < 0
        self.first_published_ms = min(self.first_published_ms, published_ms)
        self.last_published_ms = max(self.last_published_ms, published_ms)
        self.first_handed_ms = min(self.first_handed_ms, handed_ms)
        self.last_handed_ms = max(self.last_handed_ms, handed_ms)

    @property
    def messages(self) -> int:
        """How many were handed out for the first time."""
        return self.counts.total()

    @property
    def on_time(self) -> int:
        """How many of them no later than ON_TIME_MS."""
        return sum(count for late_ms, count in self.counts.items() if late_ms <= ON_TIME_MS)

    @property
    def max_ms(self) -> int | None:
        """The latest; None where there was none."""
        return max(self.counts, default=None)

    def quantile_ms(self, share: float) -> int | None:
        """That share of the messages, from 0 to 1, was no later; None where there was none."""
        left = math.ceil(share * self.messages)
        for late_ms, count in sorted(self.counts.items()):
            left -= count
            if left <= 0:
                return late_ms
        return None


def arrival_rate(seen: Sequence[Lateness]) -> float | None:
    """Messages published per second, of those handed out; None where two moments do not tell."""
    return _rate(
        sum(each.messages for each in seen),
        min((each.first_published_ms for each in seen), default=math.inf),
        max((each.last_published_ms for each in seen), default=-math.inf),
    )


def handing_rate(seen: Sequence[Lateness]) -> float | None:
    """Messages handed out per second, at most; None as above."""
    return _rate(
        sum(each.messages for each in seen),
        min((each.first_handed_ms for each in seen), default=math.inf),
        max((each.last_handed_ms for each in seen), default=-math.inf),
    )


def _rate(messages: int, first_ms: float, last_ms: float) -> float | None:
    return (messages - 1) / (last_ms - first_ms) * 1000 if last_ms > first_ms else None


@dataclass(frozen=True, slots=True)
class Bound:
    """What a delay lets through at most, in messages per second, and why."""

    rate: float
    formula: str

    def growth(self, arrival_rate: float) -> float:
        """Seconds of lateness that each second adds."""
        return max(0.0, 1 - self.rate / arrival_rate)


def bound(plan: Plan, consumers: int, *, own_queue: bool) -> Bound | None:
    """The least of what work and delay let through; None where neither sets a limit.

    own_queue: whether all of the queue waits together, or its head alone.
    """
    delays, work = plan.receiver_delay_seconds, plan.process_seconds or 0.0
    if delays and plan.delay_from == "receipt":
        return _from_receipt(plan, consumers, sum(delays) / len(delays), own_queue)
    if not work:
        return None
    return Bound(consumers / work, f"consumers / process time = {consumers} / {work:g} s")


def _from_receipt(plan: Plan, consumers: int, delay: float, own_queue: bool) -> Bound:
    size, work = plan.receiver_queue_size, plan.process_seconds or 0.0
    alone = Workload(
        process_seconds=work,
        receiver_queue_size=size if own_queue else 0,
        round_trip_seconds=delay,
    )
    each = alone.rate
    if work and each == 1 / work:
        return Bound(consumers / work, f"consumers / process time = {consumers} / {work:g} s")
    many, refill = f"{consumers} x {size}", max(1, size // 2)
    pause = f" + {refill - 1} x {work:g} s" if work and refill > 1 else ""
    formula = f"consumers x queue / (delay + (refill - 1) x process time) = {many} / "
    if not own_queue or not size:
        formula = f"consumers / (delay + process time) = {consumers} / "
        pause = f" + {work:g} s" if work else ""
    return Bound(consumers * each, f"{formula}({delay:g} s{pause})")


def limit_of_lateness(
    plan: Plan, arrival_rate: float, consumers: int, *, own_queue: bool
) -> dict[float, float]:
    """Several delays counted from publish: each with the seconds by which it is late at most."""
    delays = plan.receiver_delay_seconds
    if not own_queue:
        return {delay: _behind_longer(delays, delay, arrival_rate) for delay in sorted(set(delays))}
    size = plan.receiver_queue_size
    refill = max(1, size // 2)
    queue = consumers * max(1, size - refill + 1)
    age = age_at_delivery(delays, arrival_rate, queue)
    return {delay: max(0.0, age - delay) for delay in sorted(set(delays))}


def age_at_delivery(delays: Sequence[float], arrival_rate: float, queue: int) -> float:
    """The L of the text above: how old a message is when the broker sends it; 0: at once."""
    longest_first = sorted(delays, reverse=True)
    each = arrival_rate / len(delays)
    total = 0.0
    for number, delay in enumerate(longest_first, 1):
        total += delay
        age = (total - queue / each) / number
        shorter = longest_first[number] if number < len(longest_first) else 0.0
        if age >= shorter:
            return max(0.0, age)
    return 0.0


def _behind_longer(delays: Sequence[float], delay: float, arrival_rate: float) -> float:
    worst = 0.0
    for place, own in enumerate(delays):
        if own == delay:
            worst = max(
                worst,
                *(
                    delays[place - back] - delay - back / arrival_rate
                    for back in range(1, len(delays))
                ),
                0.0,
            )
    return worst
