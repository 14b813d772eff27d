"""A topic, its subscriptions and consumers, as `topics stats` reports them.

Names are the broker's in snake case. None is "not reported" everywhere, and never 0: versions from
2.8 to 4.2 differ, and a file may be cut. Moments end in `_ms` and are epoch milliseconds by the
broker's clock. Where the broker writes 0 for a moment that has not come since it loaded the topic,
the field is None and its name is in `never`; neither field nor `never` means not reported. So does
a 0 that cannot be: the totals of a partitioned topic write 0 beside counters that have grown, and a
subscription forgets what the consumers that left had done. A number that cannot be is not reported
either, and `cannot_be` says so, a sentence for each.

Units: msg_backlog, msg_delayed and msg_in_replay count entries; unacked_messages, permits and
msg_..._counter count messages; sizes are bytes. Rates are of the last full minute, refreshed once a
minute: they say nothing about a window.

Source: TopicStats, SubscriptionStats and ConsumerStats of pulsar-client-admin-api.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.functions import FunctionInstance
from pulsar_doctor.broker.stats.values import HashRange, epoch_ms, latest

ACKED, CONSUMED = "last_acked_timestamp_ms", "last_consumed_timestamp_ms"
FLOW = "last_consumed_flow_timestamp_ms"
MARK_DELETED = "last_mark_delete_advanced_timestamp_ms"


@dataclass(frozen=True, slots=True)
class DrainingHash:
    """One hash of Key_Shared that waits for its earlier owner's acks (since 4.0)."""

    hash: int | None = None
    unack_msgs: int | None = None
    blocked_attempts: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """One connected consumer. metadata: where it is what Pulsar's own framework attaches."""

    consumer_name: str | None = None
    consumer_id: str | None = None  # of its connection; in metrics, which have no connectedSince
    address: str | None = None
    connected_since: str | None = None
    client_version: str | None = None
    available_permits: int | None = None
    unacked_messages: int | None = None
    blocked_consumer_on_unacked_msgs: bool | None = None
    msg_out_counter: int | None = None
    bytes_out_counter: int | None = None
    avg_messages_per_entry: int | None = None
    message_ack_rate: float | None = None
    msg_rate_out: float | None = None
    last_acked_timestamp_ms: int | None = None
    last_consumed_timestamp_ms: int | None = None
    last_consumed_flow_timestamp_ms: int | None = None
    first_consumed_flow_timestamp_ms: int | None = None
    never: frozenset[str] = frozenset()
    last_sent_position_when_joining: str | None = None
    draining_hashes: tuple[DrainingHash, ...] | None = None
    draining_hashes_count: int | None = None
    draining_hashes_unacked_messages: int | None = None
    metadata: FunctionInstance | None = None
    cannot_be: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if CONSUMED in self.never and _any(self.msg_out_counter, self.msg_rate_out):
            object.__setattr__(self, "never", frozenset())
        elif ACKED in self.never and _any(self.message_ack_rate):
            object.__setattr__(self, "never", self.never - {ACKED})

    @property
    def entry_messages_most(self) -> int | None:
        """Messages in an entry, about the most: the broker rounds its average."""
        average = self.avg_messages_per_entry
        return None if average is None else 1 if average <= 1 else 2 * average

    @property
    def connected_since_ms(self) -> int | None:
        """When it connected; None where that is not reported or no moment can be read from it."""
        return epoch_ms(self.connected_since)

    @property
    def last_sign_ms(self) -> int | None:
        """When it last acknowledged, requested more or connected, as far as reported."""
        flow = self.last_consumed_flow_timestamp_ms
        return latest(self.last_acked_timestamp_ms, flow, self.connected_since_ms)


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """One subscription. type: as written, "None" where nobody ever attached."""

    type: str | None = None
    is_durable: bool | None = None
    is_replicated: bool | None = None
    active_consumer_name: str | None = None
    consumers: tuple[ConsumerStats, ...] | None = None
    msg_backlog: int | None = None
    msg_backlog_no_delayed: int | None = None  # less those that are delayed
    msg_delayed: int | None = None
    msg_in_replay: int | None = None
    backlog_size: int | None = None
    # When its oldest message was published, ms since the epoch by the producer's clock, unless the
    # broker writes its own; 0: not requested, or there is none.
    earliest_msg_publish_time_in_backlog: int | None = None
    unacked_messages: int | None = None
    blocked_subscription_on_unacked_msgs: bool | None = None
    msg_out_counter: int | None = None
    bytes_out_counter: int | None = None
    last_acked_timestamp_ms: int | None = None
    last_consumed_timestamp_ms: int | None = None
    last_consumed_flow_timestamp_ms: int | None = None
    last_mark_delete_advanced_timestamp_ms: int | None = None
    last_expire_timestamp_ms: int | None = None
    never: frozenset[str] = frozenset()
    total_msg_expired: int | None = None
    filter_processed_msg_count: int | None = None
    filter_accepted_msg_count: int | None = None
    filter_rescheduled_msg_count: int | None = None
    filter_rejected_msg_count: int | None = None
    allow_out_of_order_delivery: bool | None = None
    key_shared_mode: str | None = None
    # Of STICKY: hashes that no consumer has chosen, by `keyHashRangeArrays` (since 4.0).
    unowned_hashes: tuple[HashRange, ...] | None = None
    consumers_after_mark_delete_position: Mapping[str, str] | None = None
    draining_hashes_count: int | None = None
    non_contiguous_deleted_messages_ranges: int | None = None
    non_contiguous_deleted_messages_ranges_serialized_size: int | None = None
    dispatch_throttled_msg_events_by_subscription_limit: int | None = None
    dispatch_throttled_bytes_events_by_subscription_limit: int | None = None
    dispatch_throttled_msg_events_by_topic_limit: int | None = None
    dispatch_throttled_bytes_events_by_topic_limit: int | None = None
    dispatch_throttled_msg_events_by_broker_limit: int | None = None
    dispatch_throttled_bytes_events_by_broker_limit: int | None = None
    msg_rate_out: float | None = None
    msg_rate_redeliver: float | None = None
    message_ack_rate: float | None = None
    msg_drop_rate: float | None = None
    msg_rate_expired: float | None = None
    cannot_be: tuple[str, ...] = ()

    @property
    def last_ack_ms(self) -> int | None:
        """When anybody last acknowledged a message of it, as far as reported."""
        of_consumers = (each.last_acked_timestamp_ms for each in self.consumers or ())
        return latest(self.last_acked_timestamp_ms, *of_consumers)

    def __post_init__(self) -> None:
        sent = _any(self.msg_out_counter, self.msg_rate_out)
        if sent and FLOW in self.never:  # nothing is sent before somebody has sent a FLOW
            object.__setattr__(self, "never", frozenset())
        elif sent and CONSUMED in self.never:
            object.__setattr__(self, "never", self.never - {CONSUMED, ACKED})
        elif ACKED in self.never and _any(self.message_ack_rate):
            object.__setattr__(self, "never", self.never - {ACKED})


def _any(*counted: float | None) -> bool:
    return any((count or 0) > 0 for count in counted)


@dataclass(frozen=True, slots=True)
class PublisherStats:
    """One connected producer. Whether it batches is not reported."""

    producer_name: str | None = None
    address: str | None = None
    connected_since: str | None = None

    @property
    def connected_since_ms(self) -> int | None:
        """When it connected; None where that is not reported or no moment can be read from it."""
        return epoch_ms(self.connected_since)


@dataclass(frozen=True, slots=True)
class ReplicatorStats:
    """Replication of the topic to one remote cluster."""

    replication_backlog: int | None = None  # entries
    connected: bool | None = None
    msg_rate_out: float | None = None
    msg_out_count: int | None = None  # messages since the topic was loaded (since 4.0)


@dataclass(frozen=True, slots=True)
class CompactionStats:
    """Compactions since the broker loaded the topic; a moment that never came is 0."""

    last_compaction_succeed_timestamp: int | None = None
    last_compaction_failed_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class TopicStats:
    """One topic, one partition, or the totals of a partitioned topic."""

    msg_in_counter: int | None = None
    bytes_in_counter: int | None = None
    storage_size: int | None = None
    backlog_size: int | None = None
    ongoing_txn_count: int | None = None
    # Of the oldest message of the subscription that is furthest behind, as of the last check.
    oldest_backlog_message_age_seconds: int | None = None
    oldest_backlog_message_subscription_name: str | None = None
    msg_chunk_published: bool | None = None
    msg_rate_in: float | None = None
    backlog_quota_limit_size: int | None = None
    backlog_quota_limit_time: int | None = None  # seconds
    msg_throughput_in: float | None = None  # bytes a second
    owner_broker: str | None = None
    publishers: tuple[PublisherStats, ...] | None = None
    subscriptions: Mapping[str, SubscriptionStats] | None = None
    replication: Mapping[str, ReplicatorStats] | None = None
    compaction: CompactionStats | None = None
    cannot_be: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionedStats:
    """A partitioned topic. partitions: by full name; empty without perPartition=true."""

    totals: TopicStats
    partitions: Mapping[str, TopicStats] | None
    count: int | None = None  # partitions by its metadata
