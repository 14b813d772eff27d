"""What the cluster does with messages that wait too long, or that are too many.

Where its backlog quota is reached a broker holds or refuses producers, or drops the oldest
messages, whichever its policy says: statistics do not report which. A limit of -1 is none, and
brokers before 3.3 report no limit. `waitingPublishers` counts producers that wait for exclusive
access, and none that a quota holds.

Source: PersistentTopic.isSizeBacklogExceeded and isTimeBacklogExceeded; getWaitingProducersCount of
AbstractTopic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats


@dataclass(frozen=True, slots=True)
class Policies:
    """Limits of what may wait, and what waits now. None: there is no such limit, or not known."""

    quota_bytes: int | None = None
    quota_seconds: int | None = None
    quota_effect: str | None = None  # a BacklogQuota.RetentionPolicy
    ttl_seconds: int | None = None
    used_bytes: int | None = None  # of the topic's backlog
    oldest_seconds: int | None = None  # age of the oldest message that is not acknowledged
    message_bytes: float | None = None  # of a message that comes in, on average


@dataclass(frozen=True, slots=True)
class QuotaReached:
    """What waits is as much as may wait, or as old."""

    waits: int  # bytes, or seconds where `by_age`
    limit: int
    by_age: bool
    filled_by: tuple[str, ...]  # subscriptions
    producers: int | None  # connected ones; None: not reported


def policies_of(observed: Observed) -> Policies:
    """By the statistics, from 3.3 on, or by the policies that were read."""
    topic, limits = observed.window.last.topic, observed.limits
    sizes = [topic.backlog_size, observed.now.backlog_size]
    known = [size for size in sizes if size is not None and size >= 0]
    bytes_in, messages_in = topic.msg_throughput_in, topic.msg_rate_in
    oldest = topic.oldest_backlog_message_age_seconds
    return Policies(
        quota_bytes=_limit(topic.backlog_quota_limit_size, limits.backlog_quota_bytes),
        quota_seconds=_limit(topic.backlog_quota_limit_time, limits.backlog_quota_seconds),
        quota_effect=limits.backlog_quota_policy,
        ttl_seconds=_limit(None, limits.message_ttl_seconds),
        used_bytes=max(known, default=None),
        oldest_seconds=None if oldest is None or oldest < 0 else oldest,
        message_bytes=bytes_in / messages_in if bytes_in and messages_in else None,
    )


def quota_of(observed: Observed) -> QuotaReached | None:
    """Where the last sample shows that it is reached; sums over partitions show nothing."""
    topic = observed.window.last.topic
    if observed.summed:
        return None
    producers = None if topic.publishers is None else len(topic.publishers)
    size, most_bytes = topic.backlog_size, _limit(topic.backlog_quota_limit_size, None)
    if size is not None and most_bytes is not None and size >= most_bytes:
        return QuotaReached(size, most_bytes, False, _by_size(topic, most_bytes), producers)
    age = topic.oldest_backlog_message_age_seconds
    most_seconds = _limit(topic.backlog_quota_limit_time, None)
    if age is not None and most_seconds is not None and age >= most_seconds:
        return QuotaReached(age, most_seconds, True, _by_age(topic), producers)
    return None


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


def _limit(stats: int | None, policy: int | None) -> int | None:
    """0 and below are no limit."""
    first = policy if stats is None else stats
    return first if first is not None and first > 0 else None
