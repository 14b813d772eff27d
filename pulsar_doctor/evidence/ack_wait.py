"""How long something that waits for acknowledgements goes on waiting.

A limit of unacknowledged messages, or a key that is handed over, is released by so many acks. When
that will be follows from the pace of the window, or from the pace of all a consumer's life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.answers import Severity, Unknown
from pulsar_doctor.wording.durations import duration

ROUND = 1000  # messages: limits as large as that are set to whole multiples of it


@dataclass(frozen=True, slots=True)
class Acks:
    """How the acks of one consumer, or of several, come.

    acknowledged: messages within the window (or given back); None: not comparable. acked: whether
    any ack came within it. quiet: since the last ack or delivery, at least. rhythm_seconds: for
    one message, while it acknowledges as it did all its life; None: it does not, or nothing tells.
    may_fit: whether its silence may yet be part of that: somewhat longer, or not told exactly.
    never: whether nothing that is held was acknowledged ever since its consumers connected.
    """

    acknowledged: int | None
    acked: bool | None
    span_ms: int | None
    quiet: Age | None
    batches: bool = False
    rhythm_seconds: float | None = None
    may_fit: bool = False
    never: bool = False

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

    @property
    def silence(self) -> str:
        """`none came for 12 s`; of one that is only known to be less than a second old, no age."""
        quiet = self.acks.quiet
        return f"none came for {quiet}" if quiet and not quiet.says_nothing else "none came"

    @property
    def outlook(self) -> str:
        """When what it waits for is over: `in about 5 s (last ack or message 2 s ago)`."""
        if self.seconds is None:
            return self.silence
        ago = f" (last ack or message {self.acks.quiet} ago)" if self.acks.quiet else ""
        return f"in about {duration(self.seconds)}{ago}"

    def _without_clock(self, at_limit: int) -> Severity | None:
        """Where what is held shows by itself that no ack came, whenever that was; else None.

        So it is where nothing has ever been acknowledged, and where all is held that a large round
        limit allows: each ack would have taken one off. at_limit: messages.
        """
        acks = self.acks
        if acks.quiet is not None and acks.quiet.exact:
            return None
        fits = at_limit >= ROUND and at_limit % ROUND == 0
        if fits and not (acks.acked or acks.acknowledged):
            return "stalled"
        return "warning" if acks.never else None

    def verdict(
        self, limits: Mapping[str, float], at_limit: int | None = None
    ) -> Severity | Unknown | None:
        """By `slow_wait`, `refill_wait` and `just_now`; None: they come soon enough.

        at_limit: messages that are held, where that may show by itself that no ack came.
        """
        verdict = self._by_clock(limits)
        if isinstance(verdict, Unknown) and at_limit is not None:
            return self._without_clock(at_limit) or verdict
        return verdict

    def _by_clock(self, limits: Mapping[str, float]) -> Severity | Unknown | None:
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
