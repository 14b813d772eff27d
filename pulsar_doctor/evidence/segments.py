"""The same subscription on the other segments of a scalable topic.

A stream consumer keeps the order of keys over a split: the broker assigns an active segment only
once all its sealed parents are drained (SubscriptionCoordinator.isAssignable). It looks whether
they are 2 s after a change, then after ever longer waits, at most 15 min. A consumer whose
connection breaks keeps its segments for 60 s, in which nobody else gets them. Queue consumers
attach to all segments at once, active and sealed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.evidence.subscription import SubscriptionView


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The subscription on another segment. attended: whether somebody is attached there.

    quiet_seconds: since anything was acknowledged there, or since the segment was sealed; None
    where nothing tells. Further names of the consumer that is attached there, if it is one.
    """

    segment: int
    stats: SubscriptionStats
    attended: bool | None
    quiet_seconds: float | None
    consumer: str | None
    address: str | None

    @property
    def drained(self) -> bool:
        """Whether nothing is left to acknowledge there."""
        return self.stats.msg_backlog == 0

    @property
    def ordered(self) -> bool:
        """Whether a stream consumer is attached there."""
        return bool(self.attended) and self.stats.type in SINGLE_ACTIVE


def elsewhere(view: SubscriptionView) -> dict[int, Elsewhere]:
    """By the number of the segment; without those of which nothing is reported."""
    place = view.place
    if place is None:
        return {}
    return {
        number: _elsewhere(view, number, own)
        for number, stats in place.stats.items()
        if number != place.segment.id
        and (own := (stats.subscriptions or {}).get(view.subscription)) is not None
    }


def awaited(view: SubscriptionView) -> tuple[Elsewhere, ...]:
    """The sealed parents that must be drained first; none where nothing waits for them."""
    others, place = elsewhere(view), view.place
    if place is None or view.attended is not False or not place.segment.active:
        return ()
    if not any(each.ordered for each in others.values()):
        return ()
    return tuple(others[number] for number in place.segment.parents if number in others)


def _elsewhere(view: SubscriptionView, number: int, own: SubscriptionStats) -> Elsewhere:
    assert view.place is not None
    sealed_ms, told = view.place.segments[number].sealed_ms, own.consumers
    moments = (own.last_acked_timestamp_ms, own.last_mark_delete_advanced_timestamp_ms, sealed_ms)
    last = max((ms for ms in moments if ms is not None), default=None)
    quiet = None if last is None or view.moment_ms is None else (view.moment_ms - last) / 1000
    only = told[0] if told is not None and len(told) == 1 else None
    return Elsewhere(
        number,
        own,
        None if told is None else bool(told),
        None if quiet is None else max(0.0, quiet),
        None if only is None else only.consumer_name,
        None if only is None else only.address,
    )
