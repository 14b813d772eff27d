"""The limit of unacknowledged messages of a whole subscription, by the broker's stats."""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.sample import Age
from pulsar_doctor.evidence.ack_wait import Acks
from pulsar_doctor.evidence.standing import standings
from pulsar_doctor.evidence.stats_acks import rhythm, without_ack
from pulsar_doctor.evidence.subscription import UnackedLimit


def unacked_limit_of(observed: Observed) -> UnackedLimit | None:
    """None on Exclusive and Failover, which have no such limit, and where nothing is told of it."""
    blocked = observed.now.blocked_subscription_on_unacked_msgs
    if observed.type in SINGLE_ACTIVE or (observed.type is None and blocked is None):
        return None
    return UnackedLimit(
        blocked=blocked,
        most=observed.limits.max_unacked_messages_per_subscription,
        acks=_acks(observed),
        delivered=_delivered(observed),
        flows=_flows(observed),
        watched=not observed.one_sample,
    )


def _delivered(observed: Observed) -> int:
    return sum(standing.delivered or 0 for standing in standings(observed))


def _flows(observed: Observed) -> bool:
    """Whether new messages are sent although every sample says that it is blocked."""
    flags = (s.blocked_subscription_on_unacked_msgs for s in observed.course.values if s)
    read = observed.cursor.moved(lambda cursor: cursor.read_position)
    acked = _acked(observed) if read is None else read
    return bool(_delivered(observed) and acked) and all(flags)


def _acks(observed: Observed) -> Acks:
    told = [s.returned for s in standings(observed) if s.returned is not None]
    acked = _acked(observed)
    # What is given back is counted as returned too, and comes again at once: only acks release.
    acknowledged = 0 if acked is False else (sum(told) if told else None)
    paces = [1 / pace for s in standings(observed) if (pace := rhythm(s)) is not None]
    return Acks(
        acknowledged,
        acked,
        observed.window.span_ms,
        _quiet(observed),
        batches=any((s.now.avg_messages_per_entry or 1) > 1 for s in standings(observed)),
        rhythm_seconds=1 / sum(paces) if paces else None,
    )


def _acked(observed: Observed) -> bool | None:
    told = [observed.course.passed("last_acked_timestamp_ms")]
    told += [standing.acked for standing in standings(observed)]
    known = [acked for acked in told if acked is not None]
    return any(known) if known else None


def _quiet(observed: Observed) -> Age | None:
    """Since the last ack of anybody."""
    ages = [without_ack(s) for s in standings(observed) if s.unacked != 0]
    known = [age for age in ages if age is not None]
    return min(known, key=lambda age: age.ms) if known and len(known) == len(ages) else None
