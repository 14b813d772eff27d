"""The same subscription on the other segments of a scalable topic.

A stream consumer keeps the order of keys over a split: the broker assigns an active segment only
once all its sealed parents are drained (SubscriptionCoordinator.isAssignable). It looks whether
they are 2 s after a change, then after ever longer waits, at most 15 min. A consumer whose
connection breaks keeps its segments for 60 s, in which nobody else gets them. Queue consumers
attach to all segments at once, active and sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.segments import Place, Segment
from pulsar_doctor.broker.stats.topic import SubscriptionStats


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The subscription on another segment. attended: whether somebody is attached there.

    backlog: entries. quiet_seconds: since anything was acknowledged there, or since the segment was
    sealed; None where nothing tells. Further names of the consumer that is attached there, if it is
    one.
    """

    segment: int
    type: str | None
    backlog: int | None
    attended: bool | None
    quiet_seconds: float | None
    consumer: str | None
    address: str | None

    @property
    def drained(self) -> bool:
        """Whether nothing is left to acknowledge there."""
        return self.backlog == 0

    @property
    def ordered(self) -> bool:
        """Whether a stream consumer is attached there."""
        return bool(self.attended) and self.type in SINGLE_ACTIVE


@dataclass(frozen=True, slots=True)
class AmongSegments:
    """A segment among all of its topic. others: those of which the broker reports something."""

    segment: Segment
    segments: tuple[Segment, ...]
    others: tuple[Elsewhere, ...]

    @property
    def awaited(self) -> tuple[Elsewhere, ...]:
        """The sealed parents that must be drained before a stream consumer gets this segment."""
        if not self.segment.active or not any(each.ordered for each in self.others):
            return ()
        return tuple(each for each in self.others if each.segment in self.segment.parents)


def among_segments(observed: Observed) -> AmongSegments | None:
    """Of a subscription on a segment; None where it is none, or where that is not reported."""
    place = observed.place
    if place is None:
        return None
    return AmongSegments(
        place.segment, tuple(place.segments.values()), tuple(_others(observed, place))
    )


def _others(observed: Observed, place: Place) -> Iterator[Elsewhere]:
    for number, stats in place.stats.items():
        own = (stats.subscriptions or {}).get(observed.subscription)
        if own is not None and number != place.segment.id:
            sealed_ms = place.segments[number].sealed_ms
            yield _elsewhere(number, own, sealed_ms, observed.window.last.now_ms)


def _elsewhere(
    number: int, own: SubscriptionStats, sealed_ms: int | None, now_ms: int | None
) -> Elsewhere:
    told = own.consumers
    moments = (own.last_acked_timestamp_ms, own.last_mark_delete_advanced_timestamp_ms, sealed_ms)
    last = max((ms for ms in moments if ms is not None), default=None)
    only = told[0] if told is not None and len(told) == 1 else None
    return Elsewhere(
        number,
        own.type,
        own.msg_backlog,
        None if told is None else bool(told),
        None if last is None or now_ms is None else max(0.0, (now_ms - last) / 1000),
        None if only is None else only.consumer_name,
        None if only is None else only.address,
    )
