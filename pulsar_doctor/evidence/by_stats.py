"""Facts about a subscription from the broker's stats and internal stats.

They know the broker's side only: what it sent and may send, who holds how much, when the last ack,
FLOW and delivery came. The receiver queue size is not in them. It follows where there was one FLOW
alone; otherwise it is below twice what is held without permits, so that the next FLOW is a bound.
"""

from __future__ import annotations

from operator import attrgetter

from pulsar_doctor.broker.stats.cursors import COMPACTION, JUDGED
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.positions import entries_by_positions
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import MARK_DELETED, ReplicatorStats, SubscriptionStats
from pulsar_doctor.evidence.broker_counts import Filtering, OwnCursor
from pulsar_doctor.evidence.facts import BrokerFacts
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.policies import policies_of, quota_of
from pulsar_doctor.evidence.segments import among_segments
from pulsar_doctor.evidence.stats_acks import (
    acked_ranges_of,
    hole_of,
    oldest_of,
    oldest_sent,
    unacked_limit_of,
)
from pulsar_doctor.evidence.stats_attendance import active_of, alone_of, gone_of, turnover_of
from pulsar_doctor.evidence.stats_circulation import acknowledged_entries, circulation_of
from pulsar_doctor.evidence.stats_consumer import consumer_view
from pulsar_doctor.evidence.stats_keys import key_order_of
from pulsar_doctor.evidence.stats_moved import consumers_of
from pulsar_doctor.evidence.stats_reading import reads_of, sent_less, throttling_of
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, exactly

NO_STATS = SubscriptionStats()
STORES_NOTHING = (
    "its topic is non-persistent, so nothing is stored, waits or is unacknowledged; only what is "
    "dropped can be seen, in `pulsar-admin topics stats` (--stats)"
)


def subscription_view(observed: Observed) -> SubscriptionView:
    """One subscription of the last sample."""
    now, consumers, own = observed.now, consumers_of(observed), own_cursor_of(observed)
    if own is not None:
        return SubscriptionView(  # a cursor of the broker's own, which no client's consumer uses
            topic=observed.topic,
            partition=observed.partition,
            subscription=observed.subscription,
            type=own.kind,
            sources=frozenset({STATS}),
            consumers=None,
            cannot_be=observed.cannot_be,
            moment_ms=observed.window.last.now_ms,
            persistent=observed.persistent,
            own=own,
            watched=len(observed.window.samples) > 1,
        )
    listed, left = now.consumers is not None, observed.left
    views = tuple(map(consumer_view, consumers))
    return SubscriptionView(
        topic=observed.topic,
        partition=observed.partition,
        subscription=observed.subscription,
        type=observed.type,
        sources=frozenset({STATS}),
        gap=STORES_NOTHING if observed.persistent is False and now == NO_STATS else None,
        cannot_be=observed.cannot_be,
        moment_ms=observed.window.last.now_ms,
        durable=observed.durable,
        persistent=observed.persistent,
        msg_rate_in=observed.window.last.topic.msg_rate_in,
        msg_rate_out=_rate(now, "msg_rate_out"),
        message_ack_rate=_rate(now, "message_ack_rate"),
        msg_rate_redeliver=now.msg_rate_redeliver,
        msg_drop_rate=now.msg_drop_rate,
        msg_rate_expired=now.msg_rate_expired,
        watched=not observed.one_sample,
        watched_seconds=observed.watched_seconds,
        since_empty=None if observed.one_sample else _since_empty(observed),
        backlog=observed.backlog,
        backlog_change=observed.backlog_change,
        left=Count(*left) if left else None,
        unacked=None if observed.type in SINGLE_ACTIVE else exactly(now.unacked_messages),
        unread=exactly(observed.unread),
        unreadable=exactly(observed.unreadable),
        open_transactions=observed.open_transactions,
        pending_acks=observed.transactions.pending_of(observed.subscription),
        slow_transactions=observed.transactions.slow_of(observed.subscription),
        published=observed.published,
        delivered=observed.course.growth(attrgetter("msg_out_counter")),
        finished=acknowledged_entries(observed),
        filtered=bool(now.filter_rejected_msg_count) or None,
        filtering=_filtering(observed),
        turnover=turnover_of(observed),
        since_delivery=observed.since_delivery,
        since_mark_delete=observed.window.last.age(now.last_mark_delete_advanced_timestamp_ms),
        never_moved=MARK_DELETED in now.never,
        oldest=oldest_of(observed),
        delayed=exactly(now.msg_delayed),
        delayed_change=observed.course.change(attrgetter("msg_delayed")),
        replay=exactly(now.msg_in_replay),
        replay_least=_replay_least(observed),
        oldest_sent=oldest_sent(observed) or None,
        oldest_seconds=_oldest_seconds(observed),
        expired=observed.course.growth(attrgetter("total_msg_expired")),
        expired_ever=now.total_msg_expired,
        since_expiry=observed.window.last.age(now.last_expire_timestamp_ms),
        read_armed=observed.read_armed,
        hides_partitions=observed.hides_partitions,
        own=own,
        consumers=views if listed else None,
        attended=bool(consumers) if listed else (now.active_consumer_name is not None or None),
        active=active_of(observed, consumers) if observed.type == "Failover" else None,
        gone=gone_of(observed),
        alone=alone_of(observed),
        unacked_limit=unacked_limit_of(observed, consumers, [each.acks for each in views]),
        hole=hole_of(observed, consumers),
        ranges=acked_ranges_of(observed),
        circulation=circulation_of(observed, consumers),
        reads=reads_of(observed),
        throttling=throttling_of(observed),
        sent_less=sent_less(observed),
        key_order=key_order_of(observed),
        quota=quota_of(observed),
        policies=policies_of(observed) if observed.window.last.topic.msg_rate_in else None,
        place=among_segments(observed),
        facts=BrokerFacts(observed),
    )


def _filtering(observed: Observed) -> Filtering | None:
    now = observed.now
    processed, accepted = now.filter_processed_msg_count, now.filter_accepted_msg_count
    put_back = now.filter_rescheduled_msg_count
    if processed is None or accepted is None or put_back is None:
        return None
    lately = observed.course.growth(attrgetter("filter_rescheduled_msg_count"))
    return Filtering(processed, accepted, put_back, lately)


def _replay_least(observed: Observed) -> int | None:
    """Entries of the replay queue in each sample; None where one does not report them."""
    counts = [each.msg_in_replay if each else None for each in observed.course.values]
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None


def _since_empty(observed: Observed) -> float | None:
    """A counter that is wrong is not believed."""
    window, name = observed.window, observed.subscription
    seen = [each.now_ms for each in window.samples if _backlog_in(each, name) == 0]
    known, now = [each for each in seen if each is not None], window.last.now_ms
    if not known or now is None or observed.backlog.wrong:
        return None
    return (now - known[-1]) / 1000


def _backlog_in(sample: Sample, name: str) -> int | None:
    reported = sample.subscription(name)
    return None if reported is None else reported.msg_backlog


def _oldest_seconds(observed: Observed) -> int | None:
    """By the last sample, or an earlier one, where mark-delete has not moved since.

    None where the oldest message of the topic is that of another subscription.
    """
    last = observed.window.last
    seen = [*zip(observed.window.samples, observed.course.values, strict=True)]
    passed = observed.course.passed("last_mark_delete_advanced_timestamp_ms")
    stood = passed is False and not observed.mark_delete_moved
    for sample, now in reversed(seen if stood else seen[-1:]):
        published, topic = now.earliest_msg_publish_time_in_backlog if now else None, sample.topic
        if published and (age := last.age(published)):
            return int(age.seconds)
        own = topic.oldest_backlog_message_subscription_name == observed.subscription
        if own and topic.oldest_backlog_message_age_seconds is not None:
            return topic.oldest_backlog_message_age_seconds
    return None


def _rate(now: SubscriptionStats, name: str) -> float | None:
    """The rate of the subscription; where it is not reported, the sum over its consumers.

    Some of them may not be reported, so that 0 is not known.
    """
    own: float | None = getattr(now, name)
    each = (getattr(consumer, name) for consumer in now.consumers or ())
    return (sum(rate or 0 for rate in each) or None) if own is None else own


def own_cursor_of(observed: Observed) -> OwnCursor | None:
    """None of a subscription, and of a cursor that nothing is judged of."""
    owner, window, name = observed.owner, observed.window, observed.subscription
    if owner.kind not in JUDGED:
        return None
    replicator, last = observed.replicator.values, window.last
    now, seen = replicator[-1], zip(window.samples, replicator, strict=True)
    waiting = [_waiting(sample, name, value) for sample, value in seen]
    span_ms = window.span_ms if len(window.samples) > 1 else None
    cursor, compaction = observed.cursor_now, last.topic.compaction
    position = None if cursor is None else cursor.mark_delete_position
    ended = None if owner.kind != COMPACTION else compaction
    return OwnCursor(
        kind=owner.kind,
        of=owner.of,
        position=None if position is None else "{}:{}".format(*position),
        waiting=waiting[-1],
        waits_throughout=all((entries or 0) > 0 for entries in waiting),
        moved=_moved(observed),
        watched_seconds=None if span_ms is None else span_ms / 1000,
        connected=None if now is None else now.connected,
        apart_throughout=all(each is not None and each.connected is False for each in replicator),
        msg_rate_out=None if now is None else now.msg_rate_out,
        succeeded=last.age(ended.last_compaction_succeed_timestamp or None) if ended else None,
        failed=last.age(ended.last_compaction_failed_timestamp or None) if ended else None,
    )


def _waiting(sample: Sample, name: str, replicator: ReplicatorStats | None) -> int | None:
    """Entries behind it: by the broker's counter, otherwise by positions."""
    stats, internal, cursor = sample.subscription(name), sample.internal, sample.cursor(name)
    found = replicator.replication_backlog if replicator else stats.msg_backlog if stats else None
    if found is None and internal and cursor:
        found = entries_by_positions(internal, cursor)
    return None if found is None else max(0, found)


def _moved(observed: Observed) -> bool | None:
    by_cursor = observed.cursor.moved(attrgetter("mark_delete_position"))
    if by_cursor is not None:
        return by_cursor
    sent = observed.replicator.growth(attrgetter("msg_out_count"))
    if sent is not None:
        return sent > 0
    less = observed.replicator.change(attrgetter("replication_backlog"))
    if less is None:
        return None
    return True if less < 0 else False if observed.published == 0 else None
