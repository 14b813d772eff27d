"""What the broker's stats, and its internal stats where there are some, tell of a subscription.

They know the broker's side only: what it sent and may send, who holds how much, when the last ack,
FLOW and delivery came. The receiver queue size is not in them. It follows where there was one FLOW
alone; otherwise it is below twice what is held without permits, so that the next FLOW is a bound.
"""

from __future__ import annotations

from operator import attrgetter

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.evidence import taken
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.facts import Facts
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.own_cursor import OwnCursor
from pulsar_doctor.evidence.standing import Standing, returned_in_life, standings
from pulsar_doctor.evidence.starvation import Starving, held_by, quiet_is_fine
from pulsar_doctor.evidence.stats_acks import acks_of, unacked_limit_of
from pulsar_doctor.evidence.stats_attendance import active_of, alone_of, gone_of
from pulsar_doctor.evidence.stats_circulation import circulation_of
from pulsar_doctor.evidence.stats_hole import hole_of
from pulsar_doctor.evidence.stats_keys import draining_of, key_order_of, waits_from
from pulsar_doctor.evidence.stats_own_cursor import own_cursor_of
from pulsar_doctor.evidence.stats_pace import (
    delivered_again,
    in_rhythm,
    pace_most,
    pace_of_flows,
    until_sending,
)
from pulsar_doctor.evidence.stats_reading import reads_of
from pulsar_doctor.evidence.stats_throttling import throttling_of
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_most, exactly
from pulsar_doctor.ledger.balance import Pace

NOTHING_TOLD = SubscriptionStats()


def subscription_view(observed: Observed) -> SubscriptionView:
    """One subscription of the last sample."""
    own = own_cursor_of(observed)
    if own is not None and observed.now == NOTHING_TOLD:
        return _of_the_broker(observed, own)
    told = observed.now.consumers is not None
    everybody = standings(observed) if told else ()
    left, unacked = observed.left, observed.now.unacked_messages
    return SubscriptionView(
        topic=observed.topic,
        partition=observed.partition,
        subscription=observed.subscription,
        type=observed.type,
        sources=frozenset({STATS}),
        consumers=tuple(map(consumer_view, everybody)) if told else None,
        cannot_be=observed.cannot_be,
        moment_ms=observed.window.last.now_ms,
        durable=observed.durable,
        active=active_of(observed, everybody) if observed.type == "Failover" else None,
        gone=gone_of(observed),
        own=own,
        quiet_is_fine=quiet_is_fine(observed),
        backlog=observed.backlog,
        left=None if left is None else Count(left.least, left.most),
        unacked=None if observed.type in SINGLE_ACTIVE else exactly(unacked),
        unacked_limit=unacked_limit_of(observed),
        persistent=observed.persistent,
        hole=hole_of(observed),
        circulation=circulation_of(observed),
        watched=not observed.one_sample,
        watched_seconds=_watched_seconds(observed),
        backlog_change=_backlog_change(observed),
        delivered=observed.course.growth(attrgetter("msg_out_counter")),
        since_delivery=observed.window.last.age(observed.now.last_consumed_timestamp_ms),
        delayed=exactly(observed.now.msg_delayed),
        replay=exactly(observed.now.msg_in_replay),
        ranges=_ranges(observed),
        reads=reads_of(observed),
        throttling=throttling_of(observed),
        key_order=key_order_of(observed),
        attended=bool(everybody)
        if told
        else (observed.now.active_consumer_name is not None or None),
        alone=alone_of(observed),
        read_armed=observed.read_armed,
        msg_rate_in=observed.window.last.topic.msg_rate_in,
        msg_rate_out=_rate(observed, "msg_rate_out"),
        message_ack_rate=_rate(observed, "message_ack_rate"),
        msg_rate_redeliver=observed.now.msg_rate_redeliver,
        facts=Facts(observed),
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
        quiet_is_fine=True,
        persistent=observed.persistent,
        own=own,
        watched=len(observed.window.samples) > 1,
    )


def consumer_view(standing: Standing) -> ConsumerView:
    """One consumer of the last sample."""
    now = standing.now
    held = held_by(standing)
    starving = Starving(standing, standing.permits or 0, held)
    pace = starving.pace_seconds or pace_of_flows(standing)
    return ConsumerView(
        label=standing.label,
        number=standing.number,
        name=now.consumer_name,
        address=now.address,
        client_version=now.client_version,
        function=now.metadata,
        active=standing.active,
        connected_for=standing.since(now.connected_since_ms),
        connected_since=now.connected_since,
        available_permits=exactly(standing.permits),
        unacked_messages=None if held is None else Count(held.least, held.most),
        unacked_entries=_entries(standing),
        queued=_queued(standing),
        msg_out_counter=exactly(now.msg_out_counter),
        permits_granted=exactly(standing.granted_in_life),
        blocked_consumer_on_unacked_msgs=now.blocked_consumer_on_unacked_msgs,
        receiver_queue_size=_queue_size(standing),
        one_by_one=starving.one_by_one,
        all_in_hand=starving.one_by_one,
        batch_for_one=_batch_for_one(starving),
        next_flow_after=at_most(starving.until_flow) if starving.until_flow else None,
        sending_after=until_sending(starving),
        pace=None if pace is None else Pace(pace, "measured"),
        pace_most=pace_most(starving),
        works=starving.working or in_rhythm(starving),
        done=_done(standing),
        never_acked=_never_acked(standing),
        holds_since=_holds_since(standing),
        drain_seconds=_drain(standing),
        since_last_delivery=standing.since(now.last_consumed_timestamp_ms),
        asked_lately=_asked_lately(starving),
        quiet_for=standing.silence,
        since_last_flow=standing.starved,
        since_last_ack=standing.since(now.last_acked_timestamp_ms),
        since_work=standing.without_work,
        last_sign=standing.since(now.last_sign_ms),
        connection_sign=_connection_sign(standing),
        flow_told=standing.flow_told,
        asked=bool(standing.granted),
        acks=acks_of(standing),
        delivered=standing.delivered,
        delivered_again=delivered_again(standing),
        max_unacked_messages_per_consumer=standing.observed.limits.max_unacked_messages_per_consumer,
        blocked_throughout=_blocked_throughout(standing),
        watched=standing.moved is not None,
        moved=standing.moved,
        acked=standing.acked,
        unseen=_unseen(standing),
        may_receive_throughout=_may_receive_throughout(standing),
        since_request=_since_request(standing),
        bytes_out_counter=exactly(now.bytes_out_counter),
        msg_rate_out=_rate_out(standing),
        draining_hashes=draining_of(standing),
        in_hand=taken.by_stats(standing),
        waits_from=waits_from(standing),
    )


def _watched_seconds(observed: Observed) -> float | None:
    span_ms = None if observed.one_sample else observed.window.span_ms
    return None if span_ms is None else span_ms / 1000


def _rate(observed: Observed, name: str) -> float | None:
    """Of the subscription; where it is not told, those of its consumers together, which it sums.

    Some of them may not be told, so that 0 is not known.
    """
    own: float | None = getattr(observed.now, name)
    each = (getattr(consumer, name) for consumer in observed.now.consumers or ())
    return (sum(rate or 0 for rate in each) or None) if own is None else own


def _backlog_change(observed: Observed) -> int | None:
    """By the broker's counter, unless that is wrong."""
    return None if observed.backlog.wrong else observed.course.change(attrgetter("msg_backlog"))


def _rate_out(standing: Standing) -> float | None:
    """By the window; otherwise the broker's, which is 0 until its first full minute is over."""
    delivered = standing.delivered
    seconds = None if delivered is None else _watched_seconds(standing.observed)
    if delivered is None or not seconds:
        return standing.now.msg_rate_out or None
    return round(delivered / seconds, 3)


def _done(standing: Standing) -> int | None:
    """Messages that it acknowledged in the window; None where not told."""
    return None if standing.acked is False else standing.course.change(returned_in_life)


def _drain(standing: Standing) -> float | None:
    done, span_ms = _done(standing), standing.observed.window.span_ms
    held = max(0, standing.unacked or 0)
    return held * span_ms / (done + 1) / 1000 if done and done > 0 and span_ms else None


def _blocked_throughout(standing: Standing) -> bool:
    values = standing.course.values
    return all(c.blocked_consumer_on_unacked_msgs for c in values if c is not None)


def _never_acked(standing: Standing) -> bool | None:
    """By the moment of its last ack; else where it holds all that it was ever sent."""
    now = standing.now
    if now.last_acked_timestamp_ms is not None:
        return False
    if "last_acked_timestamp_ms" in now.never:
        return True
    singles = (now.avg_messages_per_entry or 1) <= 1  # of a batch a part may be acknowledged
    none_came_back = standing.returned_in_life == 0 or _holds_all(standing)
    return True if singles and none_came_back and now.msg_out_counter else None


def _holds_all(standing: Standing) -> bool:
    """Whether published, sent and not acknowledged are one number, with nothing left to send.

    Exclusive and Failover do not count what a consumer holds. All that was published since the
    topic was loaded was sent, and nothing else was; and as much is not acknowledged.
    """
    observed, out = standing.observed, standing.now.msg_out_counter
    if observed.type not in SINGLE_ACTIVE or len(observed.consumers) > 1:
        return False
    left, topic = observed.left, observed.window.last.topic
    return (
        left is not None
        and left.most == 0
        and out == topic.msg_in_counter == observed.now.msg_out_counter == observed.backlog.entries
    )


def _holds_since(standing: Standing) -> Age | None:
    """What it was sent first is no younger than what it was sent last."""
    since = standing.since(standing.now.last_consumed_timestamp_ms)
    return None if since is None else Age(since.ms, exact=False)


def _entries(standing: Standing) -> Count | None:
    held = standing.observed.held
    return None if held is None or standing.unacked is not None else Count(held.least, held.most)


def _queued(standing: Standing) -> Count:
    """Some are queued without permits: fewer than half of a queue are unsent."""
    full = standing.permits is not None and standing.permits <= 0
    return Count(1 if full and (standing.unacked or 0) > 1 else 0, None)


def _queue_size(standing: Standing) -> Count | None:
    """A single permit ever granted is that of a queue of 1, or of a zero queue's one receive."""
    if standing.granted_in_life == 1 and not standing.now.blocked_consumer_on_unacked_msgs:
        return Count(0, 1)
    size, granted = standing.receiver_queue_size, standing.granted_in_life
    if size is None and granted is not None and granted > 0 and standing.little_returned:
        return at_most(granted)  # all that was ever granted, which says nothing later on
    return exactly(size)


def _asked_lately(starving: Starving) -> Age | None:
    if not starving.asked:
        return None
    return starving.standing.starved or Age(0, False)


def _unseen(standing: Standing) -> str | None:
    quiet = standing.silence
    if quiet is None or quiet.exact:
        return None
    if standing.flow_unseen:
        return "its last FLOW is not told, only that of all consumers together"
    return "the broker's clock is not told (see --at)"


def _batch_for_one(consumer: Starving) -> bool:
    """Whether a batch went to a queue of 0 or 1: all permits ever granted are one for a receive."""
    standing = consumer.standing
    batches = (standing.now.avg_messages_per_entry or 0) > 1
    if consumer.permits > 0 or (consumer.permits == 0 and not batches) or consumer.holds_nothing:
        return False
    if standing.unacked is not None:
        return 0 <= standing.unacked + consumer.permits <= 2
    granted = standing.granted_in_life
    return granted == 1 or (granted == 2 and _asked_after_the_batch(standing))


def _asked_after_the_batch(standing: Standing) -> bool:
    """Whether its last FLOW came after what it was sent; RQS 2 asks for both at once, before."""
    flow, sent = standing.last_flow_ms, standing.now.last_consumed_timestamp_ms
    return flow is not None and sent is not None and flow >= sent


def _connection_sign(standing: Standing) -> Age | None:
    """Since anybody on its connection acknowledged, asked for more or connected; None: nobody."""
    window, address = standing.observed.window, standing.now.address
    return window.last.age(None if address is None else window.signs.get(address))


def _ranges(observed: Observed) -> AckedRanges | None:
    count, now = observed.acknowledged_ranges, observed.now
    if count is None:
        return None
    size_bytes = now.non_contiguous_deleted_messages_ranges_serialized_size
    return AckedRanges(count, observed.limits.max_unacked_ranges_to_persist, size_bytes)


def _may_receive_throughout(standing: Standing) -> bool:
    values = standing.course.values
    if len(values) != len(standing.observed.window.samples):
        return False
    return all(
        each is not None
        and (each.available_permits or 0) > 0
        and not each.blocked_consumer_on_unacked_msgs
        for each in values
    )


def _since_request(standing: Standing) -> Age | None:
    """Not by that of all consumers together: an older broker does not tell whose it was."""
    now = standing.now
    return standing.since(now.connected_since_ms, now.last_consumed_flow_timestamp_ms)
