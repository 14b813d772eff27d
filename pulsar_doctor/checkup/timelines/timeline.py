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

DRAWN_MOST = 6  # consumers with all their lines: a browser takes about 0.1 s for each
SHOWN_MOST = 100  # with their times without permits; the others are counted
SLOTS_MOST = 400
SLOTS_IN_ALL = 1800  # of all lines together, which bounds the size of the page
STARVED_IN_ALL = 5000  # of all consumers that have no lines
UNSET = -(1 << 62)  # no number of permits
NEVER = Starved(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ConsumerTimeline:
    """One life of one consumer: from SUBSCRIBE to its end, as far as it was recorded.

    A line without points was not reported, or has no room on the page. permits_at_most: these are
    upper bounds.
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
    def has_lines(self) -> bool:
        """Whether more of it is drawn than its times without permits."""
        return bool(self.permits or self.held)

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
    """All that is drawn. consumers: the first DRAWN_MOST have lines and are the worst.

    left_out: how many more there are.
    """

    consumers: tuple[ConsumerTimeline, ...] = ()
    subscriptions: tuple[SubscriptionTimeline, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def compares(self) -> bool:
        """Whether there are several consumers, and times without permits to compare."""
        return len(self.consumers) > 1 and any(each.starved for each in self.consumers)


@dataclass(slots=True)
class Recording:
    """A consumer's timeline while it is read. Changes in place.

    lines: whether its numbers are kept. starved_seen_us: until then it showed no permits.
    """

    topic: str
    subscription: str
    name: str
    address: str
    since_us: int
    seen_us: int = 0
    lines: bool = True
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
            if number != last and self.lines:
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
        permits, unsent, held = (
            points_of(line, slots) if self.lines else ()
            for line in (self.permits, self.unsent, self.held)
        )
        return ConsumerTimeline(
            self.topic, self.subscription, self.name, self.address, self.since_us, self.seen_us,
            permits, unsent, held, self.moved.values(slots) if self.lines else (),
            self.starved.values(slots), self.delivered, self.acknowledged, self.permits_at_most,
            self.sampled,
        )  # fmt: skip


def in_all(starved: Iterable[Starved]) -> Starved:
    """Times without permits as one."""
    return sum(starved, NEVER)


def drawn(recordings: Sequence[Recording]) -> Timelines:
    """All of them, in this order, each line in as many slots as the page has room for."""
    lined = sum(each.lines for each in recordings)
    slots = min(SLOTS_MOST, SLOTS_IN_ALL // max(1, lined))
    bars = max(1, STARVED_IN_ALL // max(1, len(recordings) - lined))
    return Timelines(tuple(each.timeline(slots if each.lines else bars) for each in recordings))


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
