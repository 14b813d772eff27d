"""How long something that waits for acknowledgements goes on waiting, by the broker's stats.

A limit of unacknowledged messages, or a key that is handed over, is released by so many acks. When
that will be follows from the pace of the window, or from the pace of all a consumer's life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.diagnosis import Severity, Unknown
from pulsar_doctor.standing import Standing, returned_in_life
from pulsar_doctor.stats.sample import Age


@dataclass(frozen=True, slots=True)
class AckWait:
    """What waits for acks: how many more at most, and how they come.

    acknowledged: messages within the window (or given back); None: not comparable. acked: whether
    any ack came within it. quiet: since the last ack or delivery, at least. rhythm_seconds: for
    one message, while it acknowledges as it did all its life; None: it does not, or nothing tells.
    """

    needed: int
    acknowledged: int | None
    acked: bool | None
    span_ms: int | None
    quiet: Age | None
    batches: bool = False
    rhythm_seconds: float | None = None

    @property
    def seconds(self) -> float | None:
        """Until so many are acknowledged, by the window's pace or its rhythm; None: by neither."""
        if self.acknowledged:
            span_ms = self.span_ms
            return self.needed * span_ms / self.acknowledged / 1000 if span_ms else None
        return None if self.rhythm_seconds is None else self.needed * self.rhythm_seconds

    def verdict(self, limits: Mapping[str, float]) -> Severity | Unknown | None:
        """By `slow_wait`, `refill_wait` and `just_now`; None: they come soon enough."""
        if self.quiet is not None and self.quiet.ms >= limits["refill_wait"] * 1000:
            return "stalled"
        if self.acknowledged:
            return self._by_pace(limits)
        if self.quiet is None:
            return Unknown("since when nothing is acknowledged is not told")
        if self.quiet.ms < limits["just_now"] * 1000:
            clock = "" if self.quiet.exact else " by a clock that is not told (see --at)"
            return Unknown(f"its last ack or message came {self.quiet} ago{clock}: look again")
        if self.acked and self.acknowledged is None:
            return Unknown("acks come, but how many is not told")
        if self.acked and self.batches:
            return Unknown("acks come, but a batch counts as unacknowledged until the last of it")
        return "stalled" if self.seconds is None else self._by_pace(limits)

    def _by_pace(self, limits: Mapping[str, float]) -> Severity | Unknown | None:
        seconds = self.seconds
        if seconds is None:
            return Unknown("acks come, but the length of the window is not told (see --interval)")
        if seconds <= limits["slow_wait"]:
            return None
        return "warning" if seconds <= limits["refill_wait"] else "stalled"


def ack_wait(standing: Standing, needed: int) -> AckWait:
    """What waits for so many acks of one consumer."""
    return AckWait(
        needed,
        standing.returned,
        standing.acked,
        standing.observed.window.span_ms,
        without_ack(standing),
        batches=(standing.now.avg_messages_per_entry or 1) > 1,
        rhythm_seconds=rhythm(standing),
    )


def rhythm(standing: Standing) -> float | None:
    """Seconds for a message over its life, where its last ack is no older than twice that.

    Times of a second are within the clock's steps.
    """
    now, window = standing.now, standing.observed.window
    returned = returned_in_life(now)
    life = window.last.age(now.connected_since_ms)
    acked = window.last.age(now.last_acked_timestamp_ms)
    if standing.unacked is None or returned is None or returned < 2 or life is None:
        return None
    seconds = life.ms / returned / 1000
    recent = acked is not None and acked.exact and acked.ms <= 2000 * seconds + 1000
    return seconds if recent and life.exact and seconds > 0 else None


def without_ack(standing: Standing) -> Age | None:
    """Since its last ack or, if later, delivery or connection; None where nothing tells.

    At least the window, where it held messages all the time and none was acknowledged.
    """
    now, first = standing.now, standing.course.values[0]
    signs = (now.last_acked_timestamp_ms, now.last_consumed_timestamp_ms, now.connected_since_ms)
    told = (moment for moment in signs if moment is not None)
    age = standing.observed.window.last.age(max(told, default=None))
    span_ms = standing.observed.window.span_ms
    held = first is not None and (first.unacked_messages or 0) > 0
    none = standing.returned == 0 or standing.acked is False  # an ack may count for nothing
    if held and none and span_ms and (age is None or age.ms < span_ms):
        return Age(span_ms, False)
    return age


def acks_to_release(unacked: int, limit: int | None) -> int:
    """Acks until half the limit is reached, where the broker goes on; at most, if it is not told.

    The limit was reached, so it is no more than unacked was; it has not been set free, so half the
    limit is below unacked.
    """
    return max(1, unacked - (limit // 2 if limit else unacked // 2))
