"""How long one answer is waited for, and how much of it is read.

A slow answer that keeps coming is read: each SLOWEST bytes bring another second, up to a limit. One
that drips, or has no end, is given up. Only waiting counts: the work on a piece does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import httpx2

from pulsar_doctor.errors import DoctorError

T = TypeVar("T")
SLOWEST = 1 << 13  # bytes a second, as they are sent


class TooSlow(ValueError):
    """An answer did not come in time, or not all of it."""

    def __init__(self, seconds: float, received: int) -> None:
        super().__init__(f"{received} bytes in {seconds:.3g} s")
        self.seconds = seconds  # that were waited
        self.received = received  # bytes of the body


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The limits of one kind of answers."""

    what: str
    bytes_most: int  # unpacked
    longest: int = 1  # times the time-out, for what keeps coming
    more: str = ""  # other limits, for a person

    def sentence(self, seconds: float) -> str:
        """For a person. seconds: the time-out."""
        return (
            f"{self.what}: {seconds:g} s without a byte; {seconds:g} s in all, and 1 s for each "
            f"{SLOWEST >> 10} KiB, up to {seconds * self.longest:g} s; "
            f"{self.bytes_most >> 20:,} MiB unpacked{self.more}"
        )


async def within(seconds: float | None, question: Awaitable[T]) -> T | None:
    """The answer; None where it is refused, is not what it should be, or takes longer."""
    with suppress(DoctorError, TimeoutError):
        async with asyncio.timeout(seconds):
            return await question
    return None


class AnswerPatience:
    """The time that is left for one answer, its redirects included. Changes in place."""

    def __init__(self, limits: AnswerLimits, seconds: float) -> None:
        self.limits = limits
        self._left = seconds
        self._more = seconds * (limits.longest - 1)
        self._waited = 0.0

    async def of(self, step: Awaitable[T], response: httpx2.Response | None = None) -> T:
        """One step on the network. response: the one with the body that is read. Raises TooSlow."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._left):
                return await step
        except (TimeoutError, httpx2.TimeoutException):
            received = 0 if response is None else response.num_bytes_downloaded
            waited = min(clock() - began, self._left)  # a busy machine comes back late
            raise TooSlow(self._waited + waited, received) from None
        finally:
            took = clock() - began
            self._left -= took
            self._waited += took

    def came(self, length: int) -> None:
        """So many bytes of the body."""
        more = min(length / SLOWEST, self._more)
        self._left += more
        self._more -= more
