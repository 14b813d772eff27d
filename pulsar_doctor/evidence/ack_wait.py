"""How long something that waits for acknowledgements goes on waiting.

A limit of unacknowledged messages, or a key that is handed over, is released by so many acks. When
that will be follows from the pace of the window, or from the pace of all a consumer's life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.answers import Severity, Unknown


@dataclass(frozen=True, slots=True)
class Acks:
    """How the acks of one consumer, or of several, come.

    acknowledged: messages within the window (or given back); None: not comparable. acked: whether
    any ack came within it. quiet: since the last ack or delivery, at least. rhythm_seconds: for
    one message, while it acknowledges as it did all its life; None: it does not, or nothing tells.
    may_fit: whether its silence may yet be part of that: somewhat longer, or not told exactly.
    """

    acknowledged: int | None
    acked: bool | None
    span_ms: int | None
    quiet: Age | None
    batches: bool = False
    rhythm_seconds: float | None = None
    may_fit: bool = False

    def until(self, needed: int) -> AckWait:
        """What waits for so many more of them, at most."""
        return AckWait(needed, self)


NOTHING_TOLD = Acks(None, None, None, None)


@dataclass(frozen=True, slots=True)
class AckWait:
    """What waits for acks: how many more at most, and how they come."""

    needed: int
    acks: Acks

    @property
    def seconds(self) -> float | None:
        """Until so many are acknowledged, by the window's pace or its rhythm; None: by neither."""
        if self.acks.acknowledged:
            span_ms = self.acks.span_ms
            return self.needed * span_ms / self.acks.acknowledged / 1000 if span_ms else None
        return None if self.acks.rhythm_seconds is None else self.needed * self.acks.rhythm_seconds

    def verdict(self, limits: Mapping[str, float]) -> Severity | Unknown | None:
        """By `slow_wait`, `refill_wait` and `just_now`; None: they come soon enough."""
        if self.acks.quiet is not None and self.acks.quiet.ms >= limits["refill_wait"] * 1000:
            return "stalled"
        if self.acks.acknowledged:
            return self._by_pace(limits)
        if self.acks.quiet is None:
            return Unknown("since when nothing is acknowledged is not told")
        if self.acks.quiet.ms < limits["just_now"] * 1000:
            clock = "" if self.acks.quiet.exact else " by a clock that is not told (see --at)"
            return Unknown(f"its last ack or message came {self.acks.quiet} ago{clock}: look again")
        if self.acks.acked and self.acks.acknowledged is None:
            return Unknown("acks come, but how many is not told")
        if self.acks.acked and self.acks.batches:
            return Unknown("acks come, but a batch counts as unacknowledged until the last of it")
        if self.seconds is None and self.acks.may_fit:
            return Unknown(f"no ack came for {self.acks.quiet}, which may be as usual: look again")
        return "stalled" if self.seconds is None else self._by_pace(limits)

    def _by_pace(self, limits: Mapping[str, float]) -> Severity | Unknown | None:
        seconds = self.seconds
        if seconds is None:
            return Unknown("acks come, but the length of the window is not told (see --interval)")
        if seconds <= limits["slow_wait"]:
            return None
        return "warning" if seconds <= limits["refill_wait"] else "stalled"


def in_rhythm(quiet_ms: int, pace_seconds: float) -> bool:
    """Whether a silence is no longer than twice the usual; a second is within the clock's steps."""
    return quiet_ms <= 2000 * pace_seconds + 1000


def may_be_rhythm(quiet_ms: int, pace_seconds: float) -> bool:
    """Whether it is not much longer: two sources may differ in what is usual by a factor of 2."""
    return quiet_ms <= 4000 * pace_seconds + 1000


def acks_to_release(unacked: int, limit: int | None) -> int:
    """Acks until half the limit is reached, where the broker goes on; at most, if it is not told.

    The limit was reached, so it is no more than unacked was; it has not been set free, so half the
    limit is below unacked.
    """
    return max(1, unacked - (limit // 2 if limit else unacked // 2))
