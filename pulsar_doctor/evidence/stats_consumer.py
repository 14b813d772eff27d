"""The view of one consumer by the broker's stats."""

from __future__ import annotations

from itertools import pairwise

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence import stats_pace as paces
from pulsar_doctor.evidence import stats_queue as queue
from pulsar_doctor.evidence import stats_rhythm as rhythm
from pulsar_doctor.evidence import taken
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.stats_keys import draining_of, waits_from
from pulsar_doctor.evidence.stats_moved import ConsumerWindow
from pulsar_doctor.evidence.values import Count, at_most, exactly
from pulsar_doctor.ledger.balance import Pace

EXPECTED_LEAST = 5.0  # messages, of which chance leaves hardly ever none: what a window may count


def consumer_view(of: ConsumerWindow) -> ConsumerView:
    """One consumer of the last sample."""
    now = of.now
    seconds, one_by_one = paces.pace_seconds(of), queue.one_by_one(of)
    pace, until_flow = seconds or paces.pace_of_flows(of), queue.until_flow(of, seconds)
    return ConsumerView(
        label=of.label,
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
        unacked_entries=_unacked_entries(of),
        receiver_queue_size=queue.receiver_queue_size(of),
        queued=queue.queued(of),
        refilled=queue.refilled(of),
        one_by_one=one_by_one,
        all_in_hand=one_by_one,
        batch_for_one=queue.batch_for_one(of),
        next_flow_after=at_most(until_flow) if until_flow else None,
        sending_after=queue.sending_after(of, until_flow),
        sent_flow=bool(of.granted),
        last_request=queue.last_request(of),
        pace=None if pace is None else Pace(pace, "measured"),
        pace_most=paces.pace_most(of),
        drain_seconds=rhythm.drain_seconds(of),
        works=rhythm.is_working(of) or rhythm.in_rhythm(of),
        acks=rhythm.acks_of(of),
        ack_gap=rhythm.ack_gap(of),
        acked=of.acked,
        done=rhythm.acked_messages(of),
        never_acked=rhythm.never_acked(of),
        holds_since=rhythm.holds_since(of),
        active=of.active,
        moved=of.moved,
        watched=of.moved is not None,
        delivered=of.delivered,
        delivered_again=_delivered_again(of),
        msg_rate_out=msg_rate_out(of),
        blocked_share=_blocked_share(of),
        full_share=_full_share(of),
        idle_share=_idle_share(of),
        may_receive_throughout=_may_receive_throughout(of),
        flow_reported=of.flow_reported,
        unseen=of.unseen,
        connection_sign=_connection_sign(of),
        since_request=of.since(now.connected_since_ms, now.last_consumed_flow_timestamp_ms),
        since_last_delivery=of.since(now.last_consumed_timestamp_ms),
        quiet_for=of.silence,
        since_last_flow=of.starved,
        since_last_ack=of.since(now.last_acked_timestamp_ms),
        message_ack_rate=now.message_ack_rate,
        entry_messages_most=now.entry_messages_most,
        since_work=of.without_work,
        last_sign=of.since(now.last_sign_ms),
        max_unacked_messages_per_consumer=of.observed.limits.max_unacked_messages_per_consumer,
        bytes_out_counter=exactly(now.bytes_out_counter),
        draining_hashes=draining_of(of),
        in_hand=taken.by_stats(of),
        waits_from=waits_from(of),
    )


def _blocked(of: ConsumerWindow) -> bool | None:
    """The broker's flag, which it clears at half of the limit (Consumer), where not reported."""
    limit, held = of.observed.limits.max_unacked_messages_per_consumer, of.held
    flag = of.now.blocked_consumer_on_unacked_msgs
    if flag is None and limit is not None and held is not None:
        return False if not limit or 2 * held.most <= limit else None
    return flag


def _unacked_entries(of: ConsumerWindow) -> Count | None:
    held = of.observed.held
    return Count(*held) if held and of.unacked is None else None


def _blocked_share(of: ConsumerWindow) -> float:
    reported = [bool(c.blocked_consumer_on_unacked_msgs) for c in of.course.values if c]
    return sum(reported) / len(reported)


def _full_share(of: ConsumerWindow) -> float | None:
    known = [c for c in of.course.values if c and c.available_permits is not None]
    full = [c for c in known if (c.available_permits or 0) <= 0]
    full = [c for c in full if not c.blocked_consumer_on_unacked_msgs]
    return len(full) / len(known) if known else None


def _idle_share(of: ConsumerWindow) -> float | None:
    known = [c for c in of.course.values if c] if of.unacked is not None and of.span_ms else []
    idle = [c for c in known if c.unacked_messages == 0 and (c.available_permits or 0) > 0]
    return len(idle) / len(known) if known else None


def _connection_sign(of: ConsumerWindow) -> Age | None:
    """Since anybody on its connection acknowledged, requested more or connected."""
    window, address = of.observed.window, of.now.address
    return window.last.age(None if address is None else window.signs.get(address))


def _may_receive_throughout(of: ConsumerWindow) -> bool:
    values = of.course.values
    if len(values) != len(of.observed.window.samples):
        return False
    return all(
        each is not None
        and (each.available_permits or 0) > 0
        and not each.blocked_consumer_on_unacked_msgs
        for each in values
    )


def msg_rate_out(of: ConsumerWindow) -> float | None:
    """By the window; where it is short for so few messages, the broker's of the last full minute.

    The broker's is 0 until its first full minute is over.
    """
    delivered, lately = of.delivered, of.now.msg_rate_out or None
    seconds = None if delivered is None else of.observed.watched_seconds
    if delivered is None or not seconds or (lately and lately * seconds < EXPECTED_LEAST):
        return lately
    return round(delivered / seconds, 3)


def _delivered_again(of: ConsumerWindow) -> bool:
    """Whether messages came in more than one step of the window."""
    counters = [consumer.msg_out_counter for consumer in of.course.values if consumer is not None]
    steps = [later > earlier for earlier, later in pairwise(n for n in counters if n is not None)]
    return sum(steps) > 1
