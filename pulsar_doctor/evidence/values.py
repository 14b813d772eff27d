"""Numbers that may be exact, or known as a lower or upper bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from pulsar_doctor.wording.sentences import say


@dataclass(frozen=True, slots=True)
class Count:
    """A number of which the bounds are known; equal where it is exact. None: no bound there."""

    least: int | None
    most: int | None

    @property
    def exact(self) -> int | None:
        """The number; None where only bounds are known."""
        return self.least if self.least == self.most else None

    def __str__(self) -> str:
        """The count in words: `12`, `at least 12`, `at most 12`, `12 to 15`."""
        if self.exact is not None:
            return str(self.exact)
        if self.most is None:
            return say("at least {}", self.least)
        if self.least is None:
            return say("at most {}", self.most)
        return say("{} to {}", self.least, self.most)


@overload
def exactly(number: int) -> Count: ...
@overload
def exactly(number: int | None) -> Count | None: ...
def exactly(number: int | None) -> Count | None:
    """An exact number; None where it is not reported."""
    return None if number is None else Count(number, number)


def at_least(number: int) -> Count:
    """A number that is known from below."""
    return Count(number, None)


def at_most(number: int) -> Count:
    """A number that is known from above."""
    return Count(None, number)


def narrowed(one: Count, other: Count) -> Count | None:
    """Within the bounds of both; None where they contradict."""
    least = max((n for n in (one.least, other.least) if n is not None), default=None)
    most = min((n for n in (one.most, other.most) if n is not None), default=None)
    if least is not None and most is not None and least > most:
        return None
    return Count(least, most)


def exact(count: Count | None) -> int | None:
    """The number where it is exact; None where it is not reported or only bounded."""
    return None if count is None else count.exact


def most(count: Count | None) -> int | None:
    """How many at most; None where that is not reported."""
    return None if count is None else count.most


def least(count: Count | None) -> int | None:
    """How many at least; None where that is not reported."""
    return None if count is None else count.least
