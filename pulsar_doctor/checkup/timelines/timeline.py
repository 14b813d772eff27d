"""One consumer or subscription over time, as it is drawn, and how that is kept small.

No extreme of a number is lost, and no time without permits. Time is cut into slots of equal width,
and what begins in one slot becomes one value. Where there would be too many slots, they become
twice as wide. Moments must not decrease. What is filled from each row of a trace changes in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pulsar_doctor.wording.durations import duration

DRAWN_MOST = 6  # consumers with all their lines: a browser takes about 0.1 s for each
SHOWN_MOST = 100  # with their times without permits; the others are counted
SLOTS_MOST = 600  # of a line while it is read
SLOTS_DRAWN = 400
SLOTS_IN_ALL = 1800  # of all lines together, which bounds the size of the page
STARVED_IN_ALL = 5000  # of all consumers that have no lines
UNSET = -(1 << 62)  # no number of permits
Point = tuple[int, int | None]  # microseconds since 1970; None: not known from here on
Joined = TypeVar("Joined", "StepPoints", "Moved", "Starved")


class Slots(Generic[Joined]):
    """Values in order of time, those of one slot as one."""

    __slots__ = ("_kept", "_width_us")

    def __init__(self) -> None:
        self._width_us = 1  # what is of one moment is one value
        self._kept: list[Joined] = []

    def add(self, value: Joined) -> None:
        """One more."""
        self._join(value)
        self._widen(SLOTS_MOST)

    def values(self, most: int = SLOTS_MOST) -> tuple[Joined, ...]:
        """At most so many."""
        self._widen(most)
        return tuple(self._kept)

    def _widen(self, most: int) -> None:
        while len(self._kept) > most:
            self._width_us *= 2
            before, self._kept = self._kept, []
            for value in before:
                self._join(value)

    def _join(self, value: Joined) -> None:
        kept, width = self._kept, self._width_us
        if kept and kept[-1].since_us // width == value.since_us // width:
            kept[-1] += value
        else:
            kept.append(value)


@dataclass(frozen=True, slots=True)
class StepPoints:
    """A number in one slot: its first, last, smallest and largest value, and where not known."""

    points: tuple[Point, ...]

    @property
    def since_us(self) -> int:
        """When it begins."""
        return self.points[0][0]

    def __add__(self, later: StepPoints) -> StepPoints:
        points = self.points + later.points
        values = [value for _, value in points]
        known = [value for value in values if value is not None]
        wanted = [*(f(known) for f in (min, max) if known), *[None] * (len(known) < len(points))]
        kept = {0, len(points) - 1, *map(values.index, wanted)}
        return StepPoints(tuple(points[at] for at in sorted(kept)))


@dataclass(frozen=True, slots=True)
class Moved:
    """What was delivered and acknowledged in one slot, and its FLOWs with their permits."""

    since_us: int
    until_us: int
    delivered: int = 0
    acknowledged: int = 0
    flows: int = 0
    permits: int = 0

    def __add__(self, later: Moved) -> Moved:
        return Moved(
            self.since_us,
            max(self.until_us, later.until_us),
            self.delivered + later.delivered,
            self.acknowledged + later.acknowledged,
            self.flows + later.flows,
            self.permits + later.permits,
        )


@dataclass(frozen=True, slots=True)
class Starved:
    """Times without permits that are drawn as one: how many, how long in all, the longest."""

    since_us: int
    until_us: int
    times: int
    total_us: int
    longest_us: int

    @classmethod
    def once(cls, since_us: int, until_us: int) -> Starved:
        """One time without permits."""
        lasted = max(0, until_us - since_us)
        return cls(since_us, since_us + lasted, 1, lasted, lasted)

    def __add__(self, later: Starved) -> Starved:
        return Starved(
            self.since_us,
            max(self.until_us, later.until_us),
            self.times + later.times,
            self.total_us + later.total_us,
            max(self.longest_us, later.longest_us),
        )


def points_of(line: Slots[StepPoints], most: int = SLOTS_MOST) -> tuple[Point, ...]:
    """The points of a line of at most so many slots, in order of time."""
    return tuple(point for steps in line.values(most) for point in steps.points)


@dataclass(frozen=True, slots=True)
class ConsumerTimeline:
    """One life of one consumer: from SUBSCRIBE to its end, as far as it was recorded.

    A line without points was not reported, or has no room on the page.
    """

    topic: str
    subscription: str
    name: str
    address: str
    since_us: int
    until_us: int = 0
    permits: tuple[Point, ...] = ()
    unsent: tuple[Point, ...] = ()
    held: tuple[Point, ...] = ()
    moved: tuple[Moved, ...] = ()
    starved: tuple[Starved, ...] = ()  # times without permits
    delivered: int | None = None  # messages in all; None: not reported
    acknowledged: int | None = None  # messages in all; None: not reported
    permits_at_most: bool = False  # permits are upper bounds
    sampled: bool = False  # by statistics at single moments; what was between is not known

    @property
    def has_lines(self) -> bool:
        """Whether more of it is drawn than its times without permits."""
        return bool(self.permits or self.held)

    @property
    def starved_in_all(self) -> Starved:
        """Every time of the consumer without permits, added to one."""
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
    """Everything that is drawn."""

    consumers: tuple[ConsumerTimeline, ...] = ()  # the worst; the first DRAWN_MOST have lines
    subscriptions: tuple[SubscriptionTimeline, ...] = ()
    left_out: int = 0  # how many more there are
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Recording:
    """A consumer's timeline while it is read. Changes in place."""

    of: ConsumerTimeline  # what does not change
    connection: int | None = None
    lines: bool = True  # keep its numbers
    seen_us: int = 0
    delivered: int | None = 0
    acknowledged: int | None = 0
    permits_at_most: bool = False
    starved_since_us: int | None = None
    starved_seen_us: int = 0  # until then it showed no permits
    steps: dict[str, Slots[StepPoints]] = field(
        default_factory=lambda: {name: Slots() for name in ("permits", "held", "unsent")}
    )
    moved: Slots[Moved] = field(default_factory=Slots)
    starved: Slots[Starved] = field(default_factory=Slots)
    last: tuple[int | None, ...] = ()

    def is_at(self, us: int, *numbers: int | None) -> None:
        """From this moment on: permits, messages held, unsent permits. None: not known."""
        before = self.last or (UNSET,) * len(numbers)
        for line, number, last in zip(self.steps.values(), numbers, before, strict=False):
            if number != last and self.lines:
                line.add(StepPoints(((us, number),)))
        self.seen_us, self.last = us, numbers

    def without_permits(self, us: int) -> None:
        """It has none at this moment."""
        if self.starved_since_us is None:
            self.starved_since_us = us
        self.starved_seen_us = us

    def end_starvation(self, us: int) -> None:
        """Ends the consumer's time without permits: it is over, or not known to last."""
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
        """The recording as a timeline, with at most so many slots for each line."""
        lines: dict[str, Any] = {}
        if self.lines:
            lines = {name: points_of(line, slots) for name, line in self.steps.items()}
            lines["moved"] = self.moved.values(slots)
        return replace(
            self.of, until_us=self.seen_us, starved=self.starved.values(slots),
            delivered=self.delivered, acknowledged=self.acknowledged,
            permits_at_most=self.permits_at_most, **lines,
        )  # fmt: skip


def without_permits(starved: Starved) -> str:
    """`3 times, 12 s in all, longest 8 s`."""
    if not starved.times:
        return "never"
    in_all, longest = duration(starved.total_us / 1e6), duration(starved.longest_us / 1e6)
    several = f"{starved.times} times, {in_all} in all, longest {longest}"
    return several if starved.times > 1 else in_all


def in_all(starved: Iterable[Starved]) -> Starved:
    """Times without permits as one."""
    return sum(starved, Starved(0, 0, 0, 0, 0))


def drawn(recordings: Sequence[Recording]) -> Timelines:
    """Draws the timelines in this order, each line in as many slots as the page has room for."""
    lined = sum(each.lines for each in recordings)
    slots = min(SLOTS_DRAWN, SLOTS_IN_ALL // max(1, lined))
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
