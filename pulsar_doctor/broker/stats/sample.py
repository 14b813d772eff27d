"""One sample of a topic's stats, with the broker's time.

"Now" is the broker's clock. Its Date header has steps of one second, so moments in the document may
lie ahead of it; the later of the two is taken. Where no Date was told, or the document is further
ahead than clocks of one broker can be, the newest moment is the earliest possible now, and every
age is a lower bound. Where only the distance between samples is known, the earliest possible now
of one is also that distance after the earliest possible now of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats

Moment = Literal[
    "last_acked_timestamp_ms",
    "last_consumed_timestamp_ms",
    "last_consumed_flow_timestamp_ms",
    "last_mark_delete_advanced_timestamp_ms",
    "last_expire_timestamp_ms",
]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
CLOCK_SLACK_MS = 2000  # a Date is cut to the second and may be cached for one more


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading. taken_ms: the broker's clock (Date header), None where it was not told.

    not_before_ms: where it was not told, the earliest it can have been, by the sample before it.
    newest_ms: the newest moment by the broker's clock that the document tells.
    now_ms: when it was taken; the earliest possible moment where now_told is false: that it is the
    broker's clock.
    """

    taken_ms: int | None
    topic: TopicStats
    internal: InternalStats | None = None
    not_before_ms: int | None = None
    newest_ms: int | None = field(init=False)
    now_told: bool = field(init=False)
    now_ms: int | None = field(init=False)

    def __post_init__(self) -> None:
        newest = max(moments(self.topic), default=None)
        taken = self.taken_ms
        told = (taken, newest, self.not_before_ms)
        # Once: the first looks at every consumer, and every consumer asks for the others.
        now_ms = max((each for each in told if each is not None), default=None)
        ahead = taken is None or (newest is not None and newest - taken > CLOCK_SLACK_MS)
        for name, value in (("newest_ms", newest), ("now_told", not ahead), ("now_ms", now_ms)):
            object.__setattr__(self, name, value)

    def age(self, moment_ms: int | None) -> Age | None:
        """How long ago a moment was; None where it or now is not told."""
        now = self.now_ms
        if moment_ms is None or now is None:
            return None
        return Age(max(0, now - moment_ms), self.now_told)


def moments(topic: TopicStats) -> Iterator[int]:
    """All moments by the broker's clock that a topic's stats tell."""
    for publisher in topic.publishers or ():
        if publisher.connected_since_ms is not None:
            yield publisher.connected_since_ms
    for subscription in (topic.subscriptions or {}).values():
        yield from told_moments(subscription)
        for consumer in subscription.consumers or ():
            yield from told_moments(consumer)
            if consumer.connected_since_ms is not None:
                yield consumer.connected_since_ms


def told_moments(stats: SubscriptionStats | ConsumerStats) -> Iterator[int]:
    """The moments of a subscription or consumer that have come and are told."""
    for moment in MOMENTS:
        told: int | None = getattr(stats, moment, None)
        if told is not None:
            yield told
