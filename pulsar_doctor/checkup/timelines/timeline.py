"""One consumer or subscription over time, as it is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pulsar_doctor.checkup.timelines.thinned import (
    Moved,
    Point,
    Slots,
    Starved,
    StepPoints,
    points_of,
)

DRAWN_MOST = 12  # consumers; the others are counted
SLOTS_IN_ALL = 3000  # of all consumers together, which bounds the size of the page
SLOTS_LEAST = 150
UNSET = -(1 << 62)  # no number of permits
NEVER = Starved(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ConsumerTimeline:
    """One life of one consumer: from SUBSCRIBE to its end, as far as it was recorded.

    A line without points was not reported. permits_at_most: available permits are upper bounds.
    delivered, acknowledged: messages in all; None: not reported. starved: times without permits.
    sampled: by statistics at single moments; what was between them is not known.
    """

    topic: str
    subscription: str
    name: str
    address: str
    since_us: int
    until_us: int
    permits: tuple[Point, ...]
    unsent: tuple[Point, ...]
    held: tuple[Point, ...]
    moved: tuple[Moved, ...]
    starved: tuple[Starved, ...]
    delivered: int | None
    acknowledged: int | None
    permits_at_most: bool = False
    sampled: bool = False

    @property
    def starved_in_all(self) -> Starved:
        """All its times without permits as one."""
        return in_all(self.starved)


@dataclass(frozen=True, slots=True)
class SubscriptionTimeline:
    """Backlog and unacknowledged messages, as the broker reported them."""

    topic: str
    subscription: str
    backlog: tuple[Point, ...]
    unacked: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Timelines:
    """All that is drawn. consumers: what was longest without permits first.

    left_out: consumers that are not drawn.
    """

    consumers: tuple[ConsumerTimeline, ...] = ()
    subscriptions: tuple[SubscriptionTimeline, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Recording:
    """A consumer's timeline while it is read. Changes in place.

    starved_seen_us: until then its commands show that it had no permits.
    """

    topic: str
    subscription: str
    name: str
    address: str
    since_us: int
    seen_us: int = 0
    sampled: bool = False
    delivered: int | None = 0
    acknowledged: int | None = 0
    permits_at_most: bool = False
    starved_since_us: int | None = None
    starved_seen_us: int = 0
    permits: Slots[StepPoints] = field(default_factory=Slots)
    unsent: Slots[StepPoints] = field(default_factory=Slots)
    held: Slots[StepPoints] = field(default_factory=Slots)
    moved: Slots[Moved] = field(default_factory=Slots)
    starved: Slots[Starved] = field(default_factory=Slots)
    last: tuple[int | None, ...] = ()

    def is_at(self, us: int, *numbers: int | None) -> None:
        """From this moment on: permits, messages held, unsent permits. None: not known."""
        before = self.last or (UNSET,) * len(numbers)
        lines = (self.permits, self.held, self.unsent)
        for line, number, last in zip(lines, numbers, before, strict=False):
            if number != last:
                line.add(StepPoints(((us, number),)))
        self.seen_us, self.last = us, numbers

    def without_permits(self, us: int) -> None:
        """It has none at this moment."""
        if self.starved_since_us is None:
            self.starved_since_us = us
        self.starved_seen_us = us

    def end_starvation(self, us: int) -> None:
        """Its time without permits is over, or not known to last."""
        if self.starved_since_us is not None:
            self.starved.add(Starved.once(self.starved_since_us, us))
            self.starved_since_us = None

    def lose_track(self, us: int) -> None:
        """Commands are missing from here on."""
        self.end_starvation(self.starved_seen_us)
        if any(number is not None for number in self.last):
            self.is_at(us, *(None for _ in self.last))

    def finish(self, until_us: int) -> None:
        """It ended, or the recording did: what it had last it had until then."""
        self.end_starvation(until_us)
        last, self.last = self.last, ()
        self.is_at(max(self.seen_us, until_us), *last)

    def timeline(self, slots: int) -> ConsumerTimeline:
        """As it is drawn, with at most so many slots for each line."""
        return ConsumerTimeline(
            self.topic,
            self.subscription,
            self.name,
            self.address,
            self.since_us,
            self.seen_us,
            points_of(self.permits, slots),
            points_of(self.unsent, slots),
            points_of(self.held, slots),
            self.moved.values(slots),
            self.starved.values(slots),
            self.delivered,
            self.acknowledged,
            self.permits_at_most,
            self.sampled,
        )


def in_all(starved: Iterable[Starved]) -> Starved:
    """Times without permits as one."""
    return sum(starved, NEVER)


def drawn(recordings: Sequence[Recording]) -> Timelines:
    """All of them, in this order, each line in as many slots as the page has room for."""
    slots = max(SLOTS_LEAST, SLOTS_IN_ALL // max(1, len(recordings)))
    return Timelines(tuple(each.timeline(slots) for each in recordings))


def together(recorded: Timelines, sampled: Timelines) -> Timelines:
    """A trace and statistics of the same time: of a consumer in both, the trace shows more."""
    there = {(each.subscription, each.name) for each in recorded.consumers}
    more = (each for each in sampled.consumers if (each.subscription, each.name) not in there)
    return Timelines(
        (*recorded.consumers, *more),
        sampled.subscriptions,
        recorded.left_out + sampled.left_out,
        (*recorded.notes, *sampled.notes),
    )
