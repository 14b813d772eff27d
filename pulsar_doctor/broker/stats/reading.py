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
    | {"readPositionWhenJoining", "lastSentPositionWhenJoining", "connectedSince", "address"}
    | {"drainingHashes", "drainingHashesCount", "drainingHashesUnackedMessages"}
    | {"keyHashRanges", "keyHashRangeArrays", "chunkedMessageRate", "chuckedMessageRate"}
)
UNFOLDED_SUBSCRIPTION = frozenset(
    {*SUBSCRIPTION_MOMENTS, "blockedSubscriptionOnUnackedMsgs", "activeConsumerName"}
    | {"keySharedMode", "consumersAfterMarkDeletePosition"}
)
UNFOLDED_TOPIC = frozenset({"ongoingTxnCount", "ownerBroker", "deduplicationStatus", "topicEpoch"})
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
    metadata = fields.inner("metadata")
    return PartitionedStats(
        totals=_topic(fields, UNFOLDED_SUBSCRIPTION, UNFOLDED_CONSUMER),
        partition_count=metadata.whole("partitions") if metadata else None,
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
        msg_out_counter=fields.whole("msgOutCounter"),
        bytes_out_counter=fields.whole("bytesOutCounter"),
        storage_size=fields.whole("storageSize"),
        backlog_size=fields.at_least_0("backlogSize"),
        msg_chunk_published=fields.flag("msgChunkPublished"),
        msg_rate_in=fields.number("msgRateIn"),
        msg_rate_out=fields.number("msgRateOut"),
        ongoing_txn_count=fields.whole("ongoingTxnCount"),
        last_offload_success_time_stamp_ms=fields.time_ms("lastOffloadSuccessTimeStamp"),
        last_offload_failure_time_stamp_ms=fields.time_ms("lastOffloadFailureTimeStamp"),
        deduplication_status=fields.text("deduplicationStatus"),
        topic_epoch=fields.whole("topicEpoch"),
        owner_broker=fields.text("ownerBroker"),
        waiting_publishers=fields.whole("waitingPublishers"),
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
        access_mode=fields.text("accessMode"),
        address=fields.text("address"),
        connected_since=fields.text("connectedSince"),
        client_version=fields.text("clientVersion"),
    )


def _subscription(fields: Fields, consumer_ignores: frozenset[str]) -> SubscriptionStats:
    return SubscriptionStats(
        type=fields.text("type"),
        is_durable=fields.flag("isDurable"),
        is_replicated=fields.flag("isReplicated"),
        active_consumer_name=fields.text("activeConsumerName"),
        consumers=fields.each("consumers", _consumer, consumer_ignores),
        msg_backlog=fields.whole("msgBacklog"),
        msg_backlog_no_delayed=fields.whole("msgBacklogNoDelayed"),
        msg_delayed=fields.whole("msgDelayed"),
        msg_in_replay=fields.whole("msgInReplay"),
        backlog_size=fields.at_least_0("backlogSize"),
        earliest_msg_publish_time_in_backlog_ms=fields.time_ms("earliestMsgPublishTimeInBacklog"),
        unacked_messages=fields.whole("unackedMessages"),
        blocked_subscription_on_unacked_msgs=fields.flag("blockedSubscriptionOnUnackedMsgs"),
        msg_out_counter=fields.whole("msgOutCounter"),
        bytes_out_counter=fields.whole("bytesOutCounter"),
        total_msg_expired=fields.whole("totalMsgExpired"),
        last_acked_timestamp_ms=fields.time_ms("lastAckedTimestamp"),
        last_consumed_timestamp_ms=fields.time_ms("lastConsumedTimestamp"),
        last_consumed_flow_timestamp_ms=fields.time_ms("lastConsumedFlowTimestamp"),
        last_mark_delete_advanced_timestamp_ms=fields.time_ms("lastMarkDeleteAdvancedTimestamp"),
        last_expire_timestamp_ms=fields.time_ms("lastExpireTimestamp"),
        never=fields.never(*SUBSCRIPTION_MOMENTS),
        key_shared_mode=fields.text("keySharedMode"),
        allow_out_of_order_delivery=fields.flag("allowOutOfOrderDelivery"),
        consumers_after_mark_delete_position=fields.texts("consumersAfterMarkDeletePosition"),
        draining_hashes_count=fields.whole("drainingHashesCount"),
        draining_hashes_unacked_messages=fields.whole("drainingHashesUnackedMessages"),
        draining_hashes_cleared_total=fields.whole("drainingHashesClearedTotal"),
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
        message_ack_rate=fields.number("messageAckRate"),
        msg_rate_expired=fields.number("msgRateExpired"),
        chunked_message_rate=fields.number("chunkedMessageRate", "chuckedMessageRate"),
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
        last_acked_timestamp_ms=fields.time_ms("lastAckedTimestamp"),
        last_consumed_timestamp_ms=fields.time_ms("lastConsumedTimestamp"),
        last_consumed_flow_timestamp_ms=fields.time_ms("lastConsumedFlowTimestamp"),
        never=fields.never(*CONSUMER_MOMENTS),
        read_position_when_joining=fields.text("readPositionWhenJoining"),
        last_sent_position_when_joining=fields.text("lastSentPositionWhenJoining"),
        key_hash_ranges=fields.length("keyHashRangeArrays", "keyHashRanges"),
        draining_hashes=fields.each("drainingHashes", _draining_hash),
        draining_hashes_count=fields.whole("drainingHashesCount"),
        draining_hashes_unacked_messages=fields.whole("drainingHashesUnackedMessages"),
        draining_hashes_cleared_total=fields.whole("drainingHashesClearedTotal"),
        msg_rate_out=fields.number("msgRateOut"),
        msg_rate_redeliver=fields.number("msgRateRedeliver"),
        message_ack_rate=fields.number("messageAckRate"),
        chunked_message_rate=fields.number("chunkedMessageRate", "chuckedMessageRate"),
    )


def _draining_hash(fields: Fields) -> DrainingHash:
    return DrainingHash(
        hash=fields.whole("hash"),
        unack_msgs=fields.whole("unackMsgs"),
        blocked_attempts=fields.whole("blockedAttempts"),
    )
