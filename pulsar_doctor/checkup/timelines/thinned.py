"""Keeps a course of numbers small without losing its extremes, or any time without permits.

Time is cut into slots of equal width, and what begins in one slot becomes one value. Where there
would be too many slots, they become twice as wide. Moments must not decrease. Changes in place:
each row of a trace comes by here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

SLOTS_MOST = 600
Point = tuple[int, int | None]  # microseconds since 1970; None: not known from here on


class Joinable(Protocol):
    """What begins at a moment, and can be made one with what begins later in its slot."""

    @property
    def since_us(self) -> int:
        """When it begins."""

    def __add__(self, later: Self, /) -> Self: ...


Joined = TypeVar("Joined", bound=Joinable)


class Slots(Generic[Joined]):
    """Values in order of time, those of one slot as one."""

    __slots__ = ("_kept", "_most", "_width_us")

    def __init__(self, most: int = SLOTS_MOST) -> None:
        self._most = most
        self._width_us = 1  # what is of one moment is one value
        self._kept: list[Joined] = []

    def add(self, value: Joined) -> None:
        """One more."""
        self._join(value)
        while len(self._kept) > self._most:
            self._widen()

    def values(self, most: int = SLOTS_MOST) -> tuple[Joined, ...]:
        """At most so many."""
        while len(self._kept) > most:
            self._widen()
        return tuple(self._kept)

    def _widen(self) -> None:
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
        if len(points) <= 2:
            return StepPoints(points)
        known = [at for at, (_, value) in enumerate(points) if value is not None]
        kept = {0, len(points) - 1}
        for extreme in (min, max) if known else ():
            kept.add(extreme(known, key=lambda at: points[at][1] or 0))
        if len(known) < len(points):
            kept.add(next(at for at, (_, value) in enumerate(points) if value is None))
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
