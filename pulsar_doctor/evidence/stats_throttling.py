"""Reads that a dispatch rate limit delayed, by the broker's stats."""

from __future__ import annotations

from operator import attrgetter

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.broker.stats.window import consumers_of
from pulsar_doctor.evidence.throttling import HeldBack, Throttling

COUNTERS = tuple(
    (whose, f"dispatch_throttled_{what}_events_by_{whose}_limit")
    for whose in ("subscription", "topic", "broker")
    for what in ("msg", "bytes")
)
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
    listed = [consumers_of(sample, observed.subscription) for sample in observed.window.samples]
    ready = [any(map(_may_receive, consumers)) for consumers in listed if consumers]
    return sum(ready) / len(ready) if ready else 0.0


def _may_receive(consumer: ConsumerStats) -> bool:
    return (consumer.available_permits or 0) > 0 and not consumer.blocked_consumer_on_unacked_msgs
