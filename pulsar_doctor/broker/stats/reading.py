"""Reads the stats of a topic from a broker's JSON, and leaves out zeros that mean nothing.

Two documents write zeros that mean nothing, and these are not told here:
- the totals of a partitioned topic, where the broker sums the counters and leaves all else as it
  was made (seen on 4.0.8: moments 0, avgMessagesPerEntry 0, the blocked flag of the subscription
  false), or as the last partition had it (a consumer's blocked flag, ongoingTxnCount);
- a non-persistent topic, which keeps none of the subscription's moments and drops acks (seen).
"""

from __future__ import annotations

from typing import Any

from pulsar_doctor.broker.stats.fields import ROOT, Fields, as_object
from pulsar_doctor.broker.stats.topic import (
    ConsumerStats,
    DrainingHash,
    PartitionedStats,
    PublisherStats,
    ReplicatorStats,
    SubscriptionStats,
    TopicStats,
)
from pulsar_doctor.errors import InputError

CONSUMER_MOMENTS = ("lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp")
SUBSCRIPTION_MOMENTS = (*CONSUMER_MOMENTS, "lastMarkDeleteAdvancedTimestamp", "lastExpireTimestamp")

# What the totals of a partitioned topic do not fold.
UNFOLDED_CONSUMER = frozenset(
    {*CONSUMER_MOMENTS, "avgMessagesPerEntry", "blockedConsumerOnUnackedMsgs"}
    | {"lastSentPositionWhenJoining", "connectedSince", "address"}
    | {"drainingHashes", "drainingHashesCount"}
)
UNFOLDED_SUBSCRIPTION = frozenset(
    {*SUBSCRIPTION_MOMENTS, "blockedSubscriptionOnUnackedMsgs", "activeConsumerName"}
    | {"consumersAfterMarkDeletePosition"}
)
UNFOLDED_TOPIC = frozenset({"ongoingTxnCount", "ownerBroker"})
# What a non-persistent topic writes and does not keep.
UNKEPT_CONSUMER = frozenset({"lastAckedTimestamp", "unackedMessages"})
UNKEPT_SUBSCRIPTION = frozenset({*SUBSCRIPTION_MOMENTS, "unackedMessages"})


def topic_stats(document: Any) -> TopicStats:
    """The stats of one topic or partition, from decoded JSON.

    Raises InputError where a field has a wrong type, or where no field of topic stats is there.
    """
    return _topic(Fields(as_object(document, ROOT)))


def partitioned_stats(document: Any) -> PartitionedStats:
    """The stats of a partitioned topic, from decoded JSON. Raises InputError like `topic_stats`."""
    fields = Fields(as_object(document, ROOT), ignored=UNFOLDED_TOPIC)
    return PartitionedStats(
        totals=_topic(fields, UNFOLDED_SUBSCRIPTION, UNFOLDED_CONSUMER),
        partitions=fields.by_name("partitions", _topic),
    )


def _topic(
    fields: Fields,
    subscription_ignores: frozenset[str] = frozenset(),
    consumer_ignores: frozenset[str] = frozenset(),
) -> TopicStats:
    if "msgDropRate" in fields.document:  # only a non-persistent topic drops messages
        subscription_ignores |= UNKEPT_SUBSCRIPTION
        consumer_ignores |= UNKEPT_CONSUMER

    def subscription(inner: Fields) -> SubscriptionStats:
        return _subscription(inner, consumer_ignores)

    stats = TopicStats(
        msg_in_counter=fields.whole("msgInCounter"),
        bytes_in_counter=fields.whole("bytesInCounter"),
        storage_size=fields.whole("storageSize"),
        backlog_size=fields.at_least_0("backlogSize"),
        ongoing_txn_count=fields.whole("ongoingTxnCount"),
        owner_broker=fields.text("ownerBroker"),
        publishers=fields.each("publishers", _publisher),
        subscriptions=fields.by_name("subscriptions", subscription, subscription_ignores),
        replication=fields.by_name("replication", _replicator),
    )
    if stats == TopicStats():
        raise InputError(f"{fields.path or ROOT} holds no field of a topic's stats")
    return stats


def _replicator(fields: Fields) -> ReplicatorStats:
    return ReplicatorStats(
        replication_backlog=fields.whole("replicationBacklog"),
        connected=fields.flag("connected"),
    )


def _publisher(fields: Fields) -> PublisherStats:
    return PublisherStats(
        producer_name=fields.text("producerName"),
        address=fields.text("address"),
        connected_since=fields.text("connectedSince"),
    )


def _subscription(fields: Fields, consumer_ignores: frozenset[str]) -> SubscriptionStats:
    return SubscriptionStats(
        type=fields.text("type"),
        is_durable=fields.flag("isDurable"),
        is_replicated=fields.flag("isReplicated"),
        active_consumer_name=fields.text("activeConsumerName"),
        consumers=fields.each("consumers", _consumer, consumer_ignores),
        msg_backlog=fields.whole("msgBacklog"),
        msg_delayed=fields.whole("msgDelayed"),
        msg_in_replay=fields.whole("msgInReplay"),
        backlog_size=fields.at_least_0("backlogSize"),
        unacked_messages=fields.whole("unackedMessages"),
        blocked_subscription_on_unacked_msgs=fields.flag("blockedSubscriptionOnUnackedMsgs"),
        msg_out_counter=fields.whole("msgOutCounter"),
        last_acked_timestamp_ms=fields.time_ms("lastAckedTimestamp"),
        last_consumed_timestamp_ms=fields.time_ms("lastConsumedTimestamp"),
        last_consumed_flow_timestamp_ms=fields.time_ms("lastConsumedFlowTimestamp"),
        last_mark_delete_advanced_timestamp_ms=fields.time_ms("lastMarkDeleteAdvancedTimestamp"),
        last_expire_timestamp_ms=fields.time_ms("lastExpireTimestamp"),
        never=fields.never(*SUBSCRIPTION_MOMENTS),
        allow_out_of_order_delivery=fields.flag("allowOutOfOrderDelivery"),
        consumers_after_mark_delete_position=fields.texts("consumersAfterMarkDeletePosition"),
        draining_hashes_count=fields.whole("drainingHashesCount"),
        non_contiguous_deleted_messages_ranges=_ranges(fields),
        non_contiguous_deleted_messages_ranges_serialized_size=fields.whole(
            "nonContiguousDeletedMessagesRangesSerializedSize"
        ),
        dispatch_throttled_msg_events_by_subscription_limit=fields.whole(
            "dispatchThrottledMsgEventsBySubscriptionLimit"
        ),
        dispatch_throttled_bytes_events_by_subscription_limit=fields.whole(
            "dispatchThrottledBytesEventsBySubscriptionLimit"
        ),
        dispatch_throttled_msg_events_by_topic_limit=fields.whole(
            "dispatchThrottledMsgEventsByTopicLimit"
        ),
        dispatch_throttled_bytes_events_by_topic_limit=fields.whole(
            "dispatchThrottledBytesEventsByTopicLimit"
        ),
        dispatch_throttled_msg_events_by_broker_limit=fields.whole(
            "dispatchThrottledMsgEventsByBrokerLimit"
        ),
        dispatch_throttled_bytes_events_by_broker_limit=fields.whole(
            "dispatchThrottledBytesEventsByBrokerLimit"
        ),
        msg_rate_out=fields.number("msgRateOut"),
        msg_rate_redeliver=fields.number("msgRateRedeliver"),
    )


def _ranges(fields: Fields) -> int | None:
    """broker-stats has another word for it."""
    told = fields.whole("nonContiguousDeletedMessagesRanges")
    return fields.whole("totalNonContiguousDeletedMessagesRange") if told is None else told


def _consumer(fields: Fields) -> ConsumerStats:
    return ConsumerStats(
        consumer_name=fields.text("consumerName"),
        address=fields.text("address"),
        connected_since=fields.text("connectedSince"),
        client_version=fields.text("clientVersion"),
        available_permits=fields.whole("availablePermits"),
        unacked_messages=fields.whole("unackedMessages"),
        blocked_consumer_on_unacked_msgs=fields.flag("blockedConsumerOnUnackedMsgs"),
        msg_out_counter=fields.whole("msgOutCounter"),
        bytes_out_counter=fields.whole("bytesOutCounter"),
        avg_messages_per_entry=fields.whole("avgMessagesPerEntry"),
        message_ack_rate=fields.number("messageAckRate"),
        last_acked_timestamp_ms=fields.time_ms("lastAckedTimestamp"),
        last_consumed_timestamp_ms=fields.time_ms("lastConsumedTimestamp"),
        last_consumed_flow_timestamp_ms=fields.time_ms("lastConsumedFlowTimestamp"),
        never=fields.never(*CONSUMER_MOMENTS),
        last_sent_position_when_joining=fields.text("lastSentPositionWhenJoining"),
        draining_hashes=fields.each("drainingHashes", _draining_hash),
        draining_hashes_count=fields.whole("drainingHashesCount"),
    )


def _draining_hash(fields: Fields) -> DrainingHash:
    return DrainingHash(
        unack_msgs=fields.whole("unackMsgs"),
        blocked_attempts=fields.whole("blockedAttempts"),
    )
