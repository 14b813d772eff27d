"""How acks come by the broker's stats: those of a consumer, and of a subscription at its limit."""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.evidence.ack_wait import Acks, in_rhythm, may_be_rhythm
from pulsar_doctor.evidence.standing import Standing, standings
from pulsar_doctor.evidence.subscription import UnackedLimit


def acks_of(standing: Standing) -> Acks:
    """How its acks come."""
    return Acks(
        standing.returned,
        standing.acked,
        standing.observed.window.span_ms,
        without_ack(standing),
        batches=standing.messages_an_ack > 1,
        rhythm_seconds=rhythm(standing),
        may_fit=may_fit(standing),
        never="last_acked_timestamp_ms" in standing.now.never,
    )


def rhythm(standing: Standing) -> float | None:
    """Seconds for a message over its life, where its last ack is no older than twice that."""
    now, returned = standing.now, standing.returned_in_life
    life = standing.since(now.connected_since_ms)
    acked = standing.since(now.last_acked_timestamp_ms)
    if returned is None or returned < 2 or life is None or acked is None:
        return None
    seconds = life.ms / returned / 1000
    exact = life.exact and acked.exact and seconds > 0
    return seconds if exact and in_rhythm(acked.ms, seconds * standing.messages_an_ack) else None


def may_fit(standing: Standing) -> bool:
    """Whether its last ack may be as old as usual, by its pace until then; no clock is needed."""
    now, returned = standing.now, standing.returned_in_life
    began_ms, acked_ms = now.connected_since_ms, now.last_acked_timestamp_ms
    acked = standing.since(acked_ms)
    if not returned or acked is None or acked_ms is None or began_ms is None:
        return False
    seconds = (acked_ms - began_ms) / returned / 1000
    return returned >= 2 and may_be_rhythm(acked.ms, seconds * standing.messages_an_ack)


def without_ack(standing: Standing) -> Age | None:
    """Since its last ack or, if later, delivery or connection; None where nothing tells.

    At least the window, where it held messages all the time and none was acknowledged.
    """
    now, first = standing.now, standing.course.values[0]
    signs = (now.last_acked_timestamp_ms, now.last_consumed_timestamp_ms, now.connected_since_ms)
    told = standing.tells("last_acked_timestamp_ms", "last_consumed_timestamp_ms")
    age = standing.since(*signs) if told else None
    span_ms = standing.observed.window.span_least_ms
    held = first is not None and (first.unacked_messages or 0) > 0
    none = standing.returned == 0 or standing.acked is False  # an ack may count for nothing
    if held and none and span_ms and (age is None or age.ms < span_ms):
        return Age(span_ms, False)
    return age


def unacked_limit_of(observed: Observed) -> UnackedLimit | None:
    """None on Exclusive and Failover, which have no such limit, and where nothing is told of it."""
    blocked = observed.now.blocked_subscription_on_unacked_msgs
    if observed.type in SINGLE_ACTIVE or (observed.type is None and blocked is None):
        return None
    those = standings(observed)
    acked = _acked(observed, those)
    delivered = sum(standing.delivered or 0 for standing in those)
    return UnackedLimit(
        blocked=blocked,
        most=observed.limits.max_unacked_messages_per_subscription,
        acks=_acks_of_all(observed, those, acked),
        delivered=delivered,
        flows=delivered > 0 and _flows(observed, acked),
        watched=not observed.one_sample,
    )


def _flows(observed: Observed, acked: bool | None) -> bool:
    """Whether the broker goes on reading although every sample says that it is blocked."""
    flags = (s.blocked_subscription_on_unacked_msgs for s in observed.course.values if s)
    read = observed.cursor.moved(lambda cursor: cursor.read_position)
    return bool(acked if read is None else read) and all(flags)


def _acks_of_all(observed: Observed, those: Sequence[Standing], acked: bool | None) -> Acks:
    told = [s.returned for s in those if s.returned is not None]
    # What is given back is counted as returned too, and comes again at once: only acks release.
    acknowledged = 0 if acked is False else (sum(told) if told else None)
    paces = [1 / pace for s in those if (pace := rhythm(s)) is not None]
    return Acks(
        acknowledged,
        acked,
        observed.window.span_ms,
        _quiet(those),
        batches=any(standing.messages_an_ack > 1 for standing in those),
        rhythm_seconds=1 / sum(paces) if paces else None,
        may_fit=any(map(may_fit, those)),
        never=all("last_acked_timestamp_ms" in s.now.never for s in those),
    )


def _acked(observed: Observed, those: Sequence[Standing]) -> bool | None:
    told = [observed.course.passed("last_acked_timestamp_ms")]
    told += [standing.acked for standing in those]
    known = [acked for acked in told if acked is not None]
    return any(known) if known else None


def _quiet(those: Sequence[Standing]) -> Age | None:
    """Since the last ack of anybody, also of those that hold nothing any more."""
    holding = [without_ack(s) for s in those if s.unacked != 0]
    done = [s.since(s.now.last_acked_timestamp_ms) for s in those if s.unacked == 0]
    known = [age for age in (*holding, *done) if age is not None]
    return min(known, key=lambda age: age.ms) if holding and None not in holding else None
