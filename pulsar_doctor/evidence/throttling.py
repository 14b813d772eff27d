"""Which dispatch rate limit delayed reads, and whether consumers could have taken more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Reads that a limit held back, or made smaller, within the window.

    whose: subscription, topic or broker. counter: as the broker calls it.
    """

    whose: str
    counter: str
    reads: int


@dataclass(frozen=True, slots=True)
class Throttling:
    """What the broker counts of throttled reads.

    reads: since the topic was loaded, all of them. lately: those of the window. ready: the share of
    the samples in which a consumer could receive; 0 where none was held back lately.
    """

    reads: int
    lately: tuple[HeldBack, ...]
    ready: float
