"""Reads that a dispatch rate limit delayed, by the broker's stats."""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats
from pulsar_doctor.evidence.throttling import HeldBack, Throttling

COUNTERS = tuple(
    (whose, f"dispatch_throttled_{what}_events_by_{whose}_limit")
    for whose in ("subscription", "topic", "broker")
    for what in ("msg", "bytes")
)
STEPS_LEAST = 4  # samples
READ = attrgetter(*(counter for _, counter in COUNTERS))


def throttling_of(observed: Observed) -> Throttling | None:
    """Its counters of throttled reads; None where the broker has none (before 4.0)."""
    told = [count for count in READ(observed.now) if count is not None]
    if not told:
        return None
    lately = _lately(observed) if any(told) else ()
    return Throttling(sum(told), lately, _ready(observed) if lately else 0.0)


def _lately(observed: Observed) -> tuple[HeldBack, ...]:
    grown = (
        (whose, counter, observed.course.growth(attrgetter(counter))) for whose, counter in COUNTERS
    )
    return tuple(HeldBack(whose, counter, reads) for whose, counter, reads in grown if reads)


def _ready(observed: Observed) -> float:
    """In which share of the samples a consumer could receive."""
    listed = [each.consumers for each in observed.course.values if each]
    ready = [any(map(_may_receive, consumers)) for consumers in listed if consumers]
    return sum(ready) / len(ready) if ready else 0.0


def sent_less(observed: Observed) -> bool:
    """Whether the broker sent less, in every step of the window, than waited and than the permits.

    On Key_Shared what waits may be for others. A single active consumer holds what it was ever
    sent, at most.
    """
    told = observed.course.values
    if observed.type not in ("Shared", *SINGLE_ACTIVE) or len(told) < STEPS_LEAST or None in told:
        return False
    steps = list(pairwise(filter(None, told)))
    sends = any(a.msg_out_counter != b.msg_out_counter for a, b in steps)
    return sends and all(_less(observed.type, a, b) for a, b in steps)


def _less(kind: str | None, before: SubscriptionStats, after: SubscriptionStats) -> bool:
    """In one step: fewer messages than permits, though there were as many entries."""
    out = [sum(c.msg_out_counter or 0 for c in each.consumers or ()) for each in (before, after)]
    permits = sum(c.available_permits or 0 for c in before.consumers or () if _may_receive(c))
    held = before.unacked_messages if kind == "Shared" else out[0]
    if before.msg_backlog is None or held is None or before.blocked_subscription_on_unacked_msgs:
        return False
    waits = before.msg_backlog - (before.msg_delayed or 0) - max(0, held)
    return 0 < permits <= waits and 0 <= out[1] - out[0] < permits


def _may_receive(consumer: ConsumerStats) -> bool:
    return (consumer.available_permits or 0) > 0 and not consumer.blocked_consumer_on_unacked_msgs
