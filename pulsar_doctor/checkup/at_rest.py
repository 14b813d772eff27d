"""Whether one sample of a topic is enough, because it is at rest or was moving just now.

A fleet cannot be watched for a whole window, topic by topic. The time stamps of one live reading
show what moved in the seconds before it, so a topic on which everything moved is as good as
watched. The broker's list of loaded topics has no time stamps: it can show only that a topic is at
rest. Rates of the broker decide here who is watched, never a verdict.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.backlog import is_empty
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats

WORKED_OFF_SECONDS = 60.0  # the broker's rates are of about the last minute


def is_settled(observed: Observed, within_seconds: float) -> bool:
    """Whether it is at rest, or all of it has moved within so many seconds before the reading."""
    return is_at_rest(observed.now) or _moves(observed, 1000 * within_seconds)


def replicates(topic: TopicStats) -> bool:
    """Whether a replicator of the topic has entries to send, or is not connected."""
    each = (topic.replication or {}).values()
    return any((one.replication_backlog or 0) > 0 or one.connected is False for one in each)


def is_at_rest(stats: SubscriptionStats) -> bool:
    """Whether nothing waits, and nobody holds a message that is not acknowledged."""
    held = (stats.unacked_messages, *(each.unacked_messages for each in stats.consumers or ()))
    waits = not is_empty(stats) or stats.msg_in_replay or any((each or 0) > 0 for each in held)
    return not waits and not _may_drop(stats)


def _may_drop(stats: SubscriptionStats) -> bool:
    """Whether a non-persistent topic has a consumer without permits: what comes may be dropped."""
    permits = (each.available_permits for each in stats.consumers or ())
    return stats.msg_drop_rate is not None and any((each or 0) <= 0 for each in permits)


def _moves(observed: Observed, within_ms: float) -> bool:
    """Whether messages went out, everybody who holds any acknowledged, and the oldest one too."""
    now, sample = observed.now, observed.window.last
    if not sample.now_told or now.msg_rate_redeliver or now.msg_delayed:
        return False

    def lately(moment_ms: int | None) -> bool:
        age = sample.age(moment_ms)
        return age is not None and age.exact and age.ms <= within_ms

    holders = _holders(observed)
    return (
        bool(holders)
        and lately(now.last_consumed_timestamp_ms)
        and lately(now.last_mark_delete_advanced_timestamp_ms)
        and all(lately(each.last_acked_timestamp_ms) and _keeps_up(each) for each in holders)
    )


def _holders(observed: Observed) -> list[ConsumerStats]:
    """Who holds messages; Exclusive and Failover count none: everybody who was sent any."""
    told = observed.now.consumers or ()
    if observed.type in SINGLE_ACTIVE:
        return [each for each in told if (each.msg_out_counter or 0) > 0]
    return [each for each in told if (each.unacked_messages or 0) > 0]


def _keeps_up(consumer: ConsumerStats) -> bool:
    """Whether it acknowledges what it holds within a minute, at its pace of the last one."""
    rate, permits = consumer.message_ack_rate, consumer.available_permits
    if not rate or permits is None or permits < 0 or consumer.blocked_consumer_on_unacked_msgs:
        return False
    return (consumer.unacked_messages or 0) <= rate * WORKED_OFF_SECONDS
