"""How fast acknowledgements arrive, by the broker's stats."""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.stats_consumer import ConsumerFacts
from pulsar_doctor.evidence.subscription import UnackedLimit


def unacked_limit_of(observed: Observed, consumers: Sequence[ConsumerFacts]) -> UnackedLimit | None:
    """None on Exclusive and Failover, which have no such limit, and where nothing is told of it."""
    blocked = observed.now.blocked_subscription_on_unacked_msgs
    if observed.type in SINGLE_ACTIVE or (observed.type is None and blocked is None):
        return None
    acked = _acked(observed, consumers)
    delivered = sum(standing.delivered or 0 for standing in consumers)
    return UnackedLimit(
        blocked=blocked,
        most=observed.limits.max_unacked_messages_per_subscription,
        acks=_acks_of_all(observed, consumers, acked),
        delivered=delivered,
        flows=delivered > 0 and _flows(observed, acked),
        watched=not observed.one_sample,
    )


def _flows(observed: Observed, acked: bool | None) -> bool:
    """Whether the broker goes on reading although every sample says that it is blocked."""
    flags = (s.blocked_subscription_on_unacked_msgs for s in observed.course.values if s)
    read = observed.cursor.moved(lambda cursor: cursor.read_position)
    return bool(acked if read is None else read) and all(flags)


def _acks_of_all(
    observed: Observed, consumers: Sequence[ConsumerFacts], acked: bool | None
) -> Acks:
    told = [s.returned for s in consumers if s.returned is not None]
    # What is given back is counted as returned too, and comes again at once: only acks release.
    acknowledged = 0 if acked is False else (sum(told) if told else None)
    paces = [1 / pace for s in consumers if (pace := s.rhythm) is not None]
    return Acks(
        acknowledged,
        acked,
        observed.window.span_ms,
        _quiet(consumers),
        an_ack=max((standing.messages_an_ack for standing in consumers), default=1),
        apart_ms=max((s.acks_apart_ms for s in consumers if s.acks_apart_ms), default=None),
        rhythm_seconds=1 / sum(paces) if paces else None,
        may_fit=any(s.may_fit for s in consumers),
        never=all("last_acked_timestamp_ms" in s.now.never for s in consumers),
    )


def _acked(observed: Observed, consumers: Sequence[ConsumerFacts]) -> bool | None:
    told = [observed.course.passed("last_acked_timestamp_ms")]
    told += [standing.acked for standing in consumers]
    known = [acked for acked in told if acked is not None]
    return any(known) if known else None


def _quiet(consumers: Sequence[ConsumerFacts]) -> Age | None:
    """Since the last ack of anybody, also of those that hold nothing any more."""
    holding = [s.without_ack for s in consumers if s.unacked != 0]
    done = [s.since(s.now.last_acked_timestamp_ms) for s in consumers if s.unacked == 0]
    known = [age for age in (*holding, *done) if age is not None]
    return min(known, key=lambda age: age.ms) if holding and None not in holding else None
