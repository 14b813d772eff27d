"""How long something that waits for acknowledgements will have to wait.

A limit of unacknowledged messages, or a key that is handed over, is released by so many acks. When
that will be follows from the pace of the window, or from the pace of all a consumer's life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

UNUSUAL = 10.0  # times the longest gap that was seen between two acknowledgements
GAPS_NEEDED, SPREAD_SECONDS = 3, 30.0  # that tell a rhythm: so many gaps, over so long


@dataclass(frozen=True, slots=True)
class Acks:
    """How the acks of one consumer, or of several, come."""

    acknowledged: int | None  # messages within the window (or given back); None: not comparable
    acked: bool | None  # whether any ack came within it
    span_ms: int | None
    quiet: Age | None  # since the last ack or delivery, at least
    an_ack: int = 1  # messages that one of them counts for: those of a batch
    apart_ms: int | None = None  # two that follow in the window, at most; None: too few are known
    # For one message, while it acknowledges as it did all its life; None: not known.
    rhythm_seconds: float | None = None
    # Whether its silence may yet be part of that: somewhat longer, or not exactly known.
    may_fit: bool = False
    # Whether nothing that is held was acknowledged since its consumers connected.
    never: bool = False

    def until(self, needed: int) -> AckWait:
        """What waits for so many more of them, at most.

        By the window's pace, until they have ended. Few tell no rhythm: as many as are needed may
        have come at once before.
        """
        if not self.ended:
            return AckWait(needed, self)
        may_fit = self.may_fit or (self.apart_ms is None and self._fits(needed))
        return AckWait(needed, replace(self, acknowledged=0, acked=False, may_fit=may_fit))

    @property
    def ended(self) -> bool:
        """Whether some came in the window, and none for much longer than they were apart."""
        return not self._fits(self.an_ack)

    def _fits(self, at_once: int) -> bool:
        """Whether the last is no older than usual by the window, if so many came at once."""
        each, quiet = self.seconds_each, self.quiet
        if each is None or quiet is None:
            return True
        return in_rhythm(quiet.ms, max(each * at_once, (self.apart_ms or 0) / 1000))

    @property
    def out_of_rhythm(self) -> bool:
        """Whether none came for half a minute and ten times the longest gap that was seen."""
        quiet, apart = self.quiet, self.apart_ms
        if quiet is None or apart is None:
            return False
        return quiet.ms >= max(UNUSUAL * apart, 1000 * SPREAD_SECONDS)

    @property
    def seconds_each(self) -> float | None:
        """For a message, by the window; None where none was acknowledged in it."""
        if not self.acknowledged or not self.span_ms:
            return None
        return self.span_ms / self.acknowledged / 1000


UNKNOWN_ACKS = Acks(None, None, None, None)


@dataclass(frozen=True, slots=True)
class AckWait:
    """What waits for acks: how many more at most, and how they come."""

    needed: int
    acks: Acks

    @property
    def seconds(self) -> float | None:
        """Until so many are acknowledged, by the window's pace or its rhythm; None: by neither."""
        acks = self.acks
        each = acks.seconds_each if acks.acknowledged else acks.rhythm_seconds
        return None if each is None else max(self.needed, acks.an_ack) * each

    @property
    def silence(self) -> str:
        """`none came for 12 s`; of one that is only known to be less than a second old, no age."""
        quiet = self.acks.quiet
        return say("none came for {}", quiet) if quiet and not quiet.says_nothing else "none came"

    @property
    def outlook(self) -> str:
        """When what it waits for is over: `in about 5 s (last ack or message 2 s ago)`."""
        if self.seconds is None:
            return self.silence
        ago = say(" (last ack or message {} ago)", self.acks.quiet) if self.acks.quiet else ""
        return say("in about {}{}", duration(self.seconds), ago)


def longest_gap(moments: Sequence[float]) -> float | None:
    """Seconds between two of these acks, the most; None where they are too few to tell a rhythm.

    Those of one burst are, however many: a sink that acknowledges at checkpoints sends them.
    """
    if len(moments) <= GAPS_NEEDED or moments[-1] - moments[0] < SPREAD_SECONDS:
        return None
    return max(after - before for before, after in pairwise(moments))


def in_rhythm(quiet_ms: int, pace_seconds: float) -> bool:
    """Whether a silence is no longer than twice the usual; a second is within the clock's steps."""
    return quiet_ms <= 2000 * pace_seconds + 1000


def may_be_rhythm(quiet_ms: int, pace_seconds: float) -> bool:
    """Whether it is not much longer: two sources may differ in what is usual by a factor of 2."""
    return quiet_ms <= 4000 * pace_seconds + 1000


def acks_to_release(unacked: int, limit: int | None) -> int:
    """Acks until half the limit is reached, where the broker continues; at most, if it is not
    known.

    The limit was reached, so it is no more than unacked was; it has not been set free, so half the
    limit is below unacked.
    """
    return max(1, unacked - (limit // 2 if limit else unacked // 2))
