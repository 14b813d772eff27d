"""Facts about a subscription from the broker's stats and internal stats.

They know the broker's side only: what it sent and may send, who holds how much, when the last ack,
FLOW and delivery came. The receiver queue size is not in them. It follows where there was one FLOW
alone; otherwise it is below twice what is held without permits, so that the next FLOW is a bound.
"""

from __future__ import annotations

from operator import attrgetter

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.evidence import taken
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.facts import BrokerFacts
from pulsar_doctor.evidence.filtering import Filtering
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.numbers import NUMBERS
from pulsar_doctor.evidence.own_cursor import OwnCursor
from pulsar_doctor.evidence.policies import policies_of, quota_of
from pulsar_doctor.evidence.segments import among_segments
from pulsar_doctor.evidence.stats_acks import acked_ranges_of, hole_of, unacked_limit_of
from pulsar_doctor.evidence.stats_attendance import active_of, alone_of, gone_of, turnover_of
from pulsar_doctor.evidence.stats_circulation import acknowledged_entries, circulation_of
from pulsar_doctor.evidence.stats_consumer import ConsumerFacts, facts_of
from pulsar_doctor.evidence.stats_keys import draining_of, key_order_of, waits_from
from pulsar_doctor.evidence.stats_own_cursor import own_cursor_of
from pulsar_doctor.evidence.stats_reading import reads_of, sent_less, throttling_of
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_most, exactly
from pulsar_doctor.ledger.balance import Pace

NOTHING_TOLD = SubscriptionStats()
STORES_NOTHING = (
    "its topic is non-persistent, so nothing is stored, waits or is unacknowledged; only what is "
    "dropped can be seen, in `pulsar-admin topics stats` (--stats)"
)
SAME_NAME = tuple(name for name in NUMBERS if hasattr(ConsumerFacts, name))


def subscription_view(observed: Observed) -> SubscriptionView:
    """One subscription of the last sample."""
    now, consumers, own = observed.now, facts_of(observed), own_cursor_of(observed)
    if own is not None and now == NOTHING_TOLD:
        return _of_the_broker(observed, own)
    told, left = now.consumers is not None, observed.left
    return SubscriptionView(
        topic=observed.topic,
        partition=observed.partition,
        subscription=observed.subscription,
        type=observed.type,
        sources=frozenset({STATS}),
        gap=STORES_NOTHING if observed.persistent is False and now == NOTHING_TOLD else None,
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
        delayed=exactly(now.msg_delayed),
        delayed_change=observed.course.change(attrgetter("msg_delayed")),
        replay=exactly(now.msg_in_replay),
        replay_least=_replay_least(observed),
        oldest_seconds=_oldest_seconds(observed),
        expired=observed.course.growth(attrgetter("total_msg_expired")),
        expired_ever=now.total_msg_expired,
        read_armed=observed.read_armed,
        hides_partitions=observed.hides_partitions,
        own=own,
        consumers=tuple(map(consumer_view, consumers)) if told else None,
        attended=bool(consumers) if told else (now.active_consumer_name is not None or None),
        active=active_of(observed, consumers) if observed.type == "Failover" else None,
        gone=gone_of(observed),
        alone=alone_of(observed),
        unacked_limit=unacked_limit_of(observed, consumers),
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


def _of_the_broker(observed: Observed, own: OwnCursor) -> SubscriptionView:
    """A cursor of the broker's own, which no consumer uses: only what it does is told."""
    return SubscriptionView(
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


def consumer_view(of: ConsumerFacts) -> ConsumerView:
    """One consumer of the last sample: the facts that have the same name, and the others."""
    now = of.now
    pace = of.pace_seconds or of.pace_of_flows
    return ConsumerView(
        **{name: getattr(of, name) for name in SAME_NAME},
        number=of.number,
        name=now.consumer_name,
        address=now.address,
        client_version=now.client_version,
        function=now.metadata,
        connected_for=of.since(now.connected_since_ms),
        connected_since=now.connected_since,
        available_permits=exactly(of.permits),
        unacked_messages=Count(*of.held) if of.held else None,
        msg_out_counter=exactly(now.msg_out_counter),
        permits_granted=exactly(of.granted_in_life),
        blocked_consumer_on_unacked_msgs=_blocked(of),
        all_in_hand=of.one_by_one,
        next_flow_after=at_most(of.until_flow) if of.until_flow else None,
        pace=None if pace is None else Pace(pace, "measured"),
        works=of.working or of.in_rhythm,
        since_last_delivery=of.since(now.last_consumed_timestamp_ms),
        quiet_for=of.silence,
        since_last_flow=of.starved,
        since_last_ack=of.since(now.last_acked_timestamp_ms),
        message_ack_rate=now.message_ack_rate,
        entry_messages_most=now.entry_messages_most,
        since_work=of.without_work,
        last_sign=of.since(now.last_sign_ms),
        asked=bool(of.granted),
        max_unacked_messages_per_consumer=of.observed.limits.max_unacked_messages_per_consumer,
        watched=of.moved is not None,
        bytes_out_counter=exactly(now.bytes_out_counter),
        draining_hashes=draining_of(of),
        in_hand=taken.by_stats(of),
        waits_from=waits_from(of),
    )


def _blocked(of: ConsumerFacts) -> bool | None:
    """The broker's flag, which it clears at half of the limit (Consumer), where not reported."""
    limit, held = of.observed.limits.max_unacked_messages_per_consumer, of.held
    flag = of.now.blocked_consumer_on_unacked_msgs
    if flag is None and limit is not None and held is not None:
        return False if not limit or 2 * held.most <= limit else None
    return flag


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


def _oldest_seconds(observed: Observed) -> int | None:
    """None where the oldest message of the topic is that of another subscription."""
    topic = observed.window.last.topic
    own = topic.oldest_backlog_message_subscription_name == observed.subscription
    return topic.oldest_backlog_message_age_seconds if own else None


def _rate(now: SubscriptionStats, name: str) -> float | None:
    """Of the subscription; where it is not told, those of its consumers together, which it sums.

    Some of them may not be told, so that 0 is not known.
    """
    own: float | None = getattr(now, name)
    each = (getattr(consumer, name) for consumer in now.consumers or ())
    return (sum(rate or 0 for rate in each) or None) if own is None else own
