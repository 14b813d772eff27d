"""What the cluster does with messages that wait too long, or that are too many."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.observed import Observed


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


def policies_of(observed: Observed) -> Policies:
    """By the statistics, from 3.3 on, or by the policies that were read."""
    topic, limits = observed.window.last.topic, observed.limits
    quota_seconds = _limit(topic.backlog_quota_limit_time, limits.backlog_quota_seconds)
    sizes = [topic.backlog_size, observed.now.backlog_size]
    known = [size for size in sizes if size is not None and size >= 0]
    bytes_in, messages_in = topic.msg_throughput_in, topic.msg_rate_in
    oldest = topic.oldest_backlog_message_age_seconds
    return Policies(
        quota_bytes=_limit(topic.backlog_quota_limit_size, limits.backlog_quota_bytes),
        quota_seconds=quota_seconds,
        quota_effect=limits.backlog_quota_policy,
        ttl_seconds=_limit(None, limits.message_ttl_seconds),
        used_bytes=max(known, default=None),
        oldest_seconds=None if oldest is None or oldest < 0 else oldest,
        message_bytes=bytes_in / messages_in if bytes_in and messages_in else None,
    )


def _limit(stats: int | None, policy: int | None) -> int | None:
    """0 and below are no limit."""
    first = policy if stats is None else stats
    return first if first is not None and first > 0 else None
