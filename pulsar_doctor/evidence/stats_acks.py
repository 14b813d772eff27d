"""How the acks of a consumer come, by the broker's stats."""

from __future__ import annotations

from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.standing import Standing


def acks_of(standing: Standing) -> Acks:
    """How its acks come."""
    return Acks(
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
    now, returned = standing.now, standing.returned_in_life
    life = standing.since(now.connected_since_ms)
    acked = standing.since(now.last_acked_timestamp_ms)
    if returned is None or returned < 2 or life is None:
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
    age = standing.since(*signs)
    span_ms = standing.observed.window.span_ms
    held = first is not None and (first.unacked_messages or 0) > 0
    none = standing.returned == 0 or standing.acked is False  # an ack may count for nothing
    if held and none and span_ms and (age is None or age.ms < span_ms):
        return Age(span_ms, False)
    return age
