"""One sample of a topic's stats, with the broker's time.

"Now" is the broker's clock. Its Date header has steps of one second, so moments in the document may
lie ahead of it; the later of the two is taken. Where no Date was reported, or the document is
further ahead than clocks of one broker can be, the newest moment is the earliest possible now, and
every age is a lower bound. Where only the distance between samples is known, the earliest possible
now of one is also that distance after the earliest possible now of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.values import latest

Moment = Literal[
    "last_acked_timestamp_ms",
    "last_consumed_timestamp_ms",
    "last_consumed_flow_timestamp_ms",
    "last_mark_delete_advanced_timestamp_ms",
    "last_expire_timestamp_ms",
]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
CLOCK_SLACK_MS = 2000  # a Date is cut to the second and may be cached for one more


@dataclass(frozen=True)  # no slots: derived values are cached
class Sample:
    """One reading."""

    taken_ms: int | None  # by the broker's clock (the Date header), None where not reported
    topic: TopicStats
    internal: InternalStats | None = None
    not_before_ms: int | None = None  # where not reported, the earliest, by the sample before

    @cached_property
    def newest_ms(self) -> int | None:
        """The newest moment by the broker's clock that the document reports."""
        return max(moments(self.topic), default=None)

    @cached_property
    def now_known(self) -> bool:
        """Whether `taken_ms` is by the broker's clock."""
        taken, newest = self.taken_ms, self.newest_ms
        return taken is not None and (newest is None or newest - taken <= CLOCK_SLACK_MS)

    @cached_property
    def now_ms(self) -> int | None:
        """When it was taken; the earliest possible moment where the clock is not known."""
        return latest(self.taken_ms, self.newest_ms, self.not_before_ms)

    def subscription(self, name: str) -> SubscriptionStats | None:
        """One subscription; None where the stats do not list it."""
        return (self.topic.subscriptions or {}).get(name)

    def cursor(self, name: str) -> CursorStats | None:
        """One cursor; None where no internal stats list it."""
        return ((self.internal and self.internal.cursors) or {}).get(name)

    def age(self, *moments_ms: int | None) -> Age | None:
        """How long ago the last of these moments was; None where it or now is not known."""
        now, known = self.now_ms, [moment for moment in moments_ms if moment is not None]
        if not known or now is None:
            return None
        return Age(max(0, now - max(known)), self.now_known)


def moments(topic: TopicStats) -> Iterator[int]:
    """Every moment by the broker's clock in a topic's stats."""
    for publisher in topic.publishers or ():
        if publisher.connected_since_ms is not None:
            yield publisher.connected_since_ms
    for subscription in (topic.subscriptions or {}).values():
        yield from reported_moments(subscription)
        for consumer in subscription.consumers or ():
            yield from reported_moments(consumer)
            if consumer.connected_since_ms is not None:
                yield consumer.connected_since_ms


def reported_moments(stats: SubscriptionStats | ConsumerStats) -> Iterator[int]:
    """The moments of a subscription or consumer that have come and are reported."""
    for moment in MOMENTS:
        reported: int | None = getattr(stats, moment, None)
        if reported is not None:
            yield reported
