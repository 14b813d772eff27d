"""Fills in fields that were left out of pasted stats, where other fields determine them.

A broker writes all of these fields; only a document that was copied by hand, cut or shortened lacks
some. The totals of a partitioned topic are left alone: they do not hold what these follow from.
That nobody is attached never follows: whoever removes names removes all that shows a consumer.

- Shared and Key_Shared count unacknowledged messages, and the number of the subscription is the sum
  of those of its consumers. Where the listed ones hold less, the list is not whole. One consumer
  that does not report its number holds the rest; otherwise one consumer of which nothing is known
represents those that are not listed. The broker reads the sum after its parts: what is sent
  within a second does not count.
- The size of the backlog of a topic is measured from the slowest durable cursor on, and no less
  than what is there. Where it is 0, no durable subscription has a backlog.
- The broker computes msgBacklogNoDelayed from msgBacklog, less what is delayed. Where the whole is
  0 and the part is not, one of them was changed, and the backlog is not known.

Source: PersistentSubscription.getStats, ManagedLedgerImpl.getEstimatedBacklogSize;
apache/pulsar #2234.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.broker.stats.fields import shown
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats

UNLISTED = ConsumerStats()  # represents those that are not in the list
SHARING = ("Shared", "Key_Shared", None)  # None: the type is not reported


def completed(stats: TopicStats) -> TopicStats:
    """The same, with what follows. stats: of a topic or of one partition, not totals."""
    subscriptions = stats.subscriptions
    if subscriptions is None:
        return stats
    found = {name: _completed(stats, name, each) for name, each in subscriptions.items()}
    return stats if found == subscriptions else replace(stats, subscriptions=found)


def _completed(topic: TopicStats, name: str, stats: SubscriptionStats) -> SubscriptionStats:
    if stats.msg_backlog is None and topic.backlog_size == 0 and stats.is_durable:
        stats = replace(stats, msg_backlog=0)
    whole, part = stats.msg_backlog, stats.msg_backlog_no_delayed
    if whole == 0 and part is not None and part > 0:
        reason = (
            f"msgBacklog of {shown(name)} is 0, and msgBacklogNoDelayed, a part of it, is "
            f"{part}, which is impossible: nothing is judged by them"
        )
        stats = replace(stats, msg_backlog=None, cannot_be=(*stats.cannot_be, reason))
    if stats.type not in SHARING or not stats.consumers:
        return stats
    return replace(stats, consumers=_whole(stats, stats.consumers))


def _whole(stats: SubscriptionStats, listed: Sequence[ConsumerStats]) -> tuple[ConsumerStats, ...]:
    """The listed consumers, where the listed one holds what the others do not."""
    counts = [each.unacked_messages for each in listed]
    rest = (stats.unacked_messages or 0) - sum(max(0, count or 0) for count in counts)
    if rest <= (stats.msg_rate_out or 0) or UNLISTED in listed:
        return tuple(listed)
    if None not in counts:
        return (*listed, UNLISTED)
    if counts.count(None) > 1:
        return tuple(listed)
    return tuple(
        replace(each, unacked_messages=rest) if each.unacked_messages is None else each
        for each in listed
    )
