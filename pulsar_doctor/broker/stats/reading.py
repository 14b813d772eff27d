"""Reads a topic's stats and internal stats from JSON, and drops zeros that mean nothing.

Two documents write zeros that mean nothing, and these count as not reported here:
- the totals of a partitioned topic, where the broker sums the counters and leaves all else as it
  was made (seen on 4.0.8: moments 0, avgMessagesPerEntry 0, the blocked flag of the subscription
  false), or as the last partition had it (a consumer's blocked flag, ongoingTxnCount);
- a non-persistent topic, which keeps none of the subscription's moments and drops acks (seen).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any
from urllib.parse import unquote_plus

from pulsar_doctor.broker.stats.fields import ROOT, Fields, as_object
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.topic import (
    ConsumerStats,
    PartitionedStats,
    ReplicatorStats,
    SubscriptionStats,
    TopicStats,
)
from pulsar_doctor.broker.stats.typed import NOTHING_IGNORED, IgnoredFields, value_of
from pulsar_doctor.errors import InputError

CONSUMER_MOMENTS = ("lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp")
SUBSCRIPTION_MOMENTS = (*CONSUMER_MOMENTS, "lastMarkDeleteAdvancedTimestamp", "lastExpireTimestamp")

NUMBERS = attrgetter(
    "pending_read_ops",
    "messages_consumed_counter",
    "number_of_entries_since_first_not_acked_message",
    "cursor_ledger",
)

# What the totals of a partitioned topic do not fold.
UNFOLDED: IgnoredFields = {
    ConsumerStats: frozenset(
        {*CONSUMER_MOMENTS, "avgMessagesPerEntry", "blockedConsumerOnUnackedMsgs"}
        | {"lastSentPositionWhenJoining", "connectedSince", "address"}
        | {"drainingHashes", "drainingHashesCount"}
    ),
    SubscriptionStats: frozenset(
        {*SUBSCRIPTION_MOMENTS, "blockedSubscriptionOnUnackedMsgs", "activeConsumerName"}
        | {"consumersAfterMarkDeletePosition"}
    ),
    ReplicatorStats: frozenset({"connected"}),
}
UNFOLDED_TOPIC = frozenset({"ongoingTxnCount", "ownerBroker", "compaction"})
# What a non-persistent topic writes and does not keep.
UNKEPT: IgnoredFields = {
    ConsumerStats: frozenset({"lastAckedTimestamp", "unackedMessages"}),
    SubscriptionStats: frozenset({*SUBSCRIPTION_MOMENTS, "unackedMessages"}),
}


def topic_stats(document: Any) -> TopicStats:
    """The stats of one topic or partition, from decoded JSON.

    Raises InputError where a field has a wrong type, or where no field of topic stats is there.
    """
    return _topic(Fields(as_object(document, ROOT)))


def partitioned_stats(document: Any) -> PartitionedStats:
    """The stats of a partitioned topic, from decoded JSON. Raises InputError like `topic_stats`."""
    fields = Fields(as_object(document, ROOT), ignored=UNFOLDED_TOPIC)
    partitions = fields.by_name("partitions", _topic)
    return PartitionedStats(
        totals=(_reported if partitions else _topic)(fields, UNFOLDED),
        partitions=partitions,
        count=fields.one("metadata", lambda metadata: metadata.whole("partitions")),
    )


def _topic(fields: Fields, ignored: IgnoredFields = NOTHING_IGNORED) -> TopicStats:
    stats = _reported(fields, ignored)
    if stats == TopicStats():
        raise InputError(f"{fields.path or ROOT} holds no field of a topic's stats")
    return stats


def _reported(fields: Fields, ignored: IgnoredFields) -> TopicStats:
    """The same; empty where no such field is there."""
    if _is_non_persistent(fields.document):
        ignored = {kind: ignored.get(kind, frozenset()) | UNKEPT[kind] for kind in UNKEPT}
    return value_of(TopicStats, fields, ignored)


def _is_non_persistent(document: Mapping[str, Any]) -> bool:
    """Whether a topic is, as it or its subscriptions say: only such a topic drops messages."""
    subscriptions = document.get("subscriptions")
    those = subscriptions.values() if isinstance(subscriptions, dict) else ()
    return any("msgDropRate" in each for each in (document, *those) if isinstance(each, dict))


def internal_stats(document: Any) -> InternalStats:
    """The internal stats of one topic or partition, from decoded JSON.

    Raises InputError where a field has a wrong type, or where no field of internal stats is there.
    """
    return _internal(Fields(as_object(document, ROOT)))


def partitioned_internal_stats(document: Any) -> Mapping[str, InternalStats] | None:
    """The internal stats of each partition, by its full name. Raises InputError."""
    return Fields(as_object(document, ROOT)).by_name("partitions", _internal)


def _internal(fields: Fields) -> InternalStats:
    stats = value_of(InternalStats, fields)
    if stats == InternalStats():
        raise InputError(f"{fields.path or ROOT} holds no field of a topic's internal stats")
    if stats.cursors is None:
        return stats
    # By the names of their subscriptions: the broker writes them as in a form of the web.
    cursors = {unquote_plus(name): _real(cursor) for name, cursor in stats.cursors.items()}
    return replace(stats, cursors=cursors)


def _real(cursor: CursorStats) -> CursorStats:
    """The cursor; an empty one where every number is 0, which only a non-persistent topic writes.

    A ledger of a cursor is never 0. Whoever copies a few fields leaves some of these out.
    """
    placed = cursor.mark_delete_position or cursor.read_position or cursor.state
    unreal = not placed and all(number == 0 for number in NUMBERS(cursor))
    return CursorStats() if unreal else cursor
