"""The backlog quota of a topic, where it is reached, and by which subscription.

A broker holds or refuses producers then, or drops the oldest messages, whichever its policy says:
statistics do not report which. A limit of -1 is none, and brokers before 3.3 report no limit.
`waitingPublishers` counts producers that wait for exclusive access, and none that a quota holds.

Source: PersistentTopic.isSizeBacklogExceeded and isTimeBacklogExceeded; getWaitingProducersCount of
AbstractTopic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats


@dataclass(frozen=True, slots=True)
class QuotaReached:
    """What waits is as much as may wait, or as old."""

    waits: int  # bytes, or seconds where `by_age`
    limit: int
    by_age: bool
    filled_by: tuple[str, ...]  # subscriptions
    producers: int | None  # connected ones; None: not reported


def quota_of(observed: Observed) -> QuotaReached | None:
    """Where the last sample shows that it is reached; sums over partitions show nothing."""
    topic = observed.window.last.topic
    if observed.summed:
        return None
    producers = None if topic.publishers is None else len(topic.publishers)
    size, age = topic.backlog_size, topic.oldest_backlog_message_age_seconds
    if reached(size, limit := topic.backlog_quota_limit_size):
        return QuotaReached(size or 0, limit or 0, False, _by_size(topic, limit or 0), producers)
    if reached(age, limit := topic.backlog_quota_limit_time):
        return QuotaReached(age or 0, limit or 0, True, _by_age(topic), producers)
    return None


def reached(waits: int | None, limit: int | None) -> bool:
    """Whether both are reported, and there is a limit."""
    return waits is not None and limit is not None and waits >= limit > 0


def _by_size(topic: TopicStats, limit: int) -> tuple[str, ...]:
    """The one with most, and all with about as much that would reach it alone."""
    sizes = {name: each.backlog_size or 0 for name, each in _waiting(topic).items()}
    most = max(sizes.values(), default=0)
    about = min(most, max(limit, most / 2))
    return tuple(name for name, size in sizes.items() if size >= about)


def _by_age(topic: TopicStats) -> tuple[str, ...]:
    """Whom the broker names, else all that have a backlog."""
    named, waiting = topic.oldest_backlog_message_subscription_name, _waiting(topic)
    return (named,) if named in waiting and named is not None else tuple(waiting)


def _waiting(topic: TopicStats) -> Mapping[str, SubscriptionStats]:
    each = topic.subscriptions or {}
    return {name: one for name, one in each.items() if one.msg_backlog != 0}
