"""The account of one consumer: permits granted, used, and not given back yet.

Theory of operation
-------------------
Two numbers rule a consumer, one on each side, and nobody prints both.

The broker counts *available permits*: FLOW adds, every MESSAGE takes its debit away, at 0 or less
nothing is sent. FLOWs that arrive while the consumer is blocked by the limit of unacknowledged
messages are *parked*: they count from the moment that unacked has fallen to half the limit, or a
redelivery was requested (Consumer.flowPermits and flowConsumerBlockedPermits in the broker). The
limit is no part of the wire: unless it is known, parked is None and available an upper bound. Even
then a FLOW may cross on the wire with the message that reaches the limit: if that message did not
need its permits, only the broker knows which came first, and parked is None until the release.

    available = sum of FLOW - sum of debits - parked

The client counts *unsent permits*: messages that the application took and that no FLOW has given
back yet. When they reach the refill threshold (half the receiver queue, at least 1; some clients
have another, which their FLOWs show) the client sends them as one FLOW. The wire never shows
"taken", but what a consumer acknowledged, or gave back for redelivery by its id, it had taken
before, and all that had arrived earlier too, since a receiver queue is first in, first out. So the
newest such message proves that so many were taken:

    unsent >= max(0, proven + skipped - sum of refill FLOW)

Only the first delivery of a message proves: the ack of a later one may be for what was taken the
first time. Nor does any prove where messages are held back and leave in the order of due times.
Skipped are indexes of a batch that were acknowledged before it came: the C++ and Go clients credit
them at once, although the broker did not debit them; Java does not. Where the application tells
(TAKEN), unsent is exact (but for chunks, which clients credit as they arrive). The first FLOW is
the receiver queue size; 1 may also be a zero queue, which asks for each message when the
application does, and has nothing unsent.

For a client that loses nothing, available + queued + unsent = receiver queue size, always. So
a deeply negative number heals by itself while messages are queued: each of them gives one back.

An acknowledgement in a transaction is none before the commit, and that does not show on the wire
of a consumer: it is counted apart, until the message comes again.

This module changes its ledger in place: it is the hot path. It knows no clock: time comes with
the rows (mono_ns for lengths, ts for moments).
"""

# ruff: noqa: PLR1730 - an `if` where nearly every row comes by takes a fifth of what max() takes

from __future__ import annotations

from collections.abc import Callable, Iterator

from pulsar_doctor.ledger import awaited
from pulsar_doctor.ledger.balance import (
    BUCKET_NS,
    REFILLS_KEPT,
    TRIPS_KEPT,
    Delivery,
    Ledger,
    Position,
)
from pulsar_doctor.wire.columns import MessageId, Row, ids_of

BUCKETS_MOST = 60
UNDECIDED_MOST = 10_000  # entries that transactions have acknowledged
GIVEN_BACK_MOST = 1000  # entries that are to be sent again
FLOWS_SHOWN_MOST = 1000  # sizes of FLOW that are kept one by one


def apply(ledger: Ledger, row: Row) -> None:
    """Moves the ledger by one command and writes its numbers into the row."""
    transition = TRANSITIONS.get(row.command)
    if transition is not None:
        transition(ledger, row)
    if ledger.uncertain:
        row.acknowledged_messages = None
        return
    available = ledger.granted - ledger.spent - ledger.parked
    if ledger.starved_since_ns is not None:
        if available > 0:
            end_starvation(ledger, row)
        else:
            ledger.starved_until_ns = row.mono_ns
    elif available <= 0 and ledger.ready:
        ledger.starved_since_ns = ledger.starved_until_ns = row.mono_ns
        ledger.starved_since_us = row.ts
    row.available_permits = available
    row.parked_permits = ledger.parked_permits
    row.unsent_permits_min = ledger.unsent_permits_min
    row.unacked_messages = ledger.unacked
    if ledger.open_permits:
        row.available_permits_min = ledger.available_permits_min
    if ledger.open_unacked:
        row.unacked_messages_min = ledger.unacked_min
    row.starved_since = ledger.starved_since_us


def end_starvation(ledger: Ledger, row: Row) -> None:
    """Closes a time without permits, by a FLOW or by the end of the incarnation."""
    if ledger.starved_since_ns is None:
        return
    row.starved_from = ledger.starved_since_us
    row.starved_us = _count_starvation(ledger, row.mono_ns) // 1000
    row.starved_since = None


def _count_starvation(ledger: Ledger, until_ns: int) -> int:
    """Adds the time without permits, which is over; returns how long it was."""
    starved_ns = until_ns - (ledger.starved_since_ns or 0)
    ledger.starved_ns += starved_ns
    ledger.longest_starved_ns = max(ledger.longest_starved_ns, starved_ns)
    ledger.starved_until_ns = until_ns
    ledger.starved_since_ns = ledger.starved_since_us = None
    return starved_ns


def lose_track(ledger: Ledger) -> None:
    """Commands are missing: from here on the numbers of this incarnation are not known.

    A time without permits counts as far as its commands show it.
    """
    if ledger.starved_since_ns is not None:
        _count_starvation(ledger, ledger.starved_until_ns)
    ledger.uncertain = True
    ledger.last_flow_ns = ledger.probe_ns = None


def joined(ledger: Ledger, row: Row) -> None:
    """The broker reports, in the middle of a consumer's life, its numbers.

    row: `permits` that are available, `messages` that are unacknowledged (None: not counted); while
    commands are on their way their bounds, of which the upper one is taken.
    """
    if ledger.starved_since_ns is not None:
        _count_starvation(ledger, ledger.starved_until_ns)
    keeps_asking = row.permits_max is not None and ledger.joined and not ledger.uncertain
    ledger.uncertain, ledger.likely = False, row.grade is not None
    ledger.joined = ledger.ready = True
    most = row.permits if row.permits_max is None else row.permits_max
    least = row.permits if row.permits_min is None else row.permits_min
    ledger.granted, ledger.spent, ledger.parked = most or 0, 0, 0
    ledger.open_permits = (most or 0) - (least or 0)
    held = row.messages if row.messages_max is None else row.messages_max
    ledger.reported_permits, ledger.reported_held = most or 0, held
    if keeps_asking:
        _narrow_unacked(ledger, row)
    else:
        ledger.deliveries.clear()
        ledger.held_before = held or 0
        _unacked(ledger, ledger.held_before - ledger.unacked, row.mono_ns)
        ledger.open_unacked = ledger.unacked - min(ledger.unacked, row.messages_min or 0)
    if row.messages_min is None:
        ledger.open_unacked = 0
    sign_ns = row.mono_ns if row.last_sign is None else min(row.last_sign * 1000, row.mono_ns)
    ledger.last_work_ns = max(ledger.last_work_ns or 0, sign_ns)
    ledger.ready_ns = ledger.ready_ns or ledger.last_work_ns
    if row.last_sent is not None:
        sent_ns = min(row.last_sent * 1000, row.mono_ns)
        ledger.last_message_ns = max(ledger.last_message_ns or 0, sent_ns)


def _narrow_unacked(ledger: Ledger, row: Row) -> None:
    """What was delivered since is known; of what was held before, only how much it is at most."""
    if row.messages_min is None or row.messages_max is None:
        return
    delivered = ledger.unacked - ledger.held_before
    least = max(row.messages_min, delivered)
    most = max(min(ledger.unacked, row.messages_max), least)
    _unacked(ledger, most - ledger.unacked, row.mono_ns)
    ledger.held_before = most - delivered
    ledger.open_unacked = most - least


def subscribed(ledger: Ledger, row: Row) -> None:
    """SUBSCRIBE has succeeded: from here on FLOWs count."""
    ledger.ready = True
    ledger.ready_ns = row.mono_ns


def _flow(ledger: Ledger, row: Row) -> None:
    permits = row.permits or 0
    if ledger.last_flow_ns is not None:
        row.flow_gap_us = (row.mono_ns - ledger.last_flow_ns) // 1000
    ledger.last_flow_ns = row.mono_ns
    if not ledger.ready:
        return
    ledger.flow_count += 1
    if len(ledger.flows) < FLOWS_SHOWN_MOST:
        ledger.flows.append(permits)
    if _limit(ledger):
        unspent = ledger.unspent_flows
        while unspent and sum(unspent[0]) <= ledger.spent:
            del unspent[0]
        unspent.append([ledger.granted, permits])
    if ledger.probe_ns is None:
        ledger.probe_ns, ledger.probe_after = row.mono_ns, ledger.granted
    ledger.granted += permits
    if ledger.first_flow is None and not ledger.joined:
        ledger.first_flow = permits
    else:
        ledger.refills.append(permits)
        if len(ledger.refills) > REFILLS_KEPT:
            del ledger.refills[0]
        _worked(ledger, row.mono_ns)
        ledger.busy_at_flow_ns = _busy_until(ledger, row.mono_ns)
    limit = _limit(ledger)
    if limit and ledger.unacked >= limit:
        ledger.blocked = True
    if ledger.blocked:
        ledger.parked += permits


def _limit(ledger: Ledger) -> int:
    """The limit of unacknowledged messages of this consumer, 0 for none or not known."""
    return (ledger.unacked_limit or 0) if ledger.individual else 0


def _release(ledger: Ledger) -> None:
    ledger.blocked = False
    ledger.parked = ledger.crossed = 0


def _block(ledger: Ledger, debit: int) -> None:
    """The message just sent, of so many permits, has reached the limit of unacknowledged ones."""
    ledger.blocked = True
    spent_before = ledger.spent - debit
    ledger.crossed = sum(size for before, size in ledger.unspent_flows if before > spent_before)


def _message(ledger: Ledger, row: Row) -> None:
    now_ns = row.mono_ns
    batch = row.messages or 1
    debit = row.permits or 0
    _time_trip(ledger, now_ns)
    ledger.spent += debit
    ledger.entries += 1
    if batch > ledger.largest_batch:
        ledger.largest_batch = batch
    position = (row.ledger_id or 0, row.entry_id or 0)
    beyond = position > ledger.highest  # of all that came: so it cannot be among the deliveries
    again = bool(row.redelivery_count) or not (beyond or ledger.individual)
    bits = messages = 1
    if batch != 1 or row.ack_set is not None:
        bits = (1 << batch) - 1
        if row.ack_set is not None:
            bits &= int.from_bytes(row.ack_set, "little")
        messages = bits.bit_count()
        if ledger.credits_skipped:
            ledger.skipped += batch - messages
    ledger.messages += messages
    if again:
        ledger.redelivered += messages
        ledger.redelivery_count_most = max(ledger.redelivery_count_most, row.redelivery_count or 1)
    if beyond:
        _highest(ledger, row, position)
    else:
        _close_delivery(ledger, position)
        if ledger.undecided:  # its transaction was aborted, or the broker was started anew
            ledger.in_transactions -= ledger.undecided.pop(position, 0)
    if not ledger.deliveries:
        ledger.in_order = True
    elif not beyond and position <= ledger.newest:
        ledger.in_order = False
    ledger.newest = position
    if bits:
        first = not again and position > ledger.had_before
        ledger.deliveries[position] = Delivery(bits, now_ns, ledger.messages if first else 0)
    _unacked(ledger, messages, now_ns)
    if ledger.unacked > ledger.unacked_most:
        ledger.unacked_most = ledger.unacked
    ledger.last_message_ns = now_ns
    if ledger.given_delay_us:
        _due(ledger, row)
    if ledger.epoch and row.consumer_epoch is not None:
        awaited.came(ledger, row, position, bits)
    _count(ledger, now_ns, messages, messages if again else 0, 0)
    if ledger.unacked_limit and not ledger.blocked and ledger.unacked >= _limit(ledger) > 0:
        _block(ledger, debit)


def _highest(ledger: Ledger, row: Row, position: Position) -> None:
    """The newest message so far; how long after it was published or due it came."""
    ledger.highest = position
    due = row.deliver_at or row.publish_time
    ledger.highest_age_us = age_us = None if due is None else row.ts - due
    if age_us is not None:
        bucket = _bucket(ledger, row.mono_ns)
        bucket[4] = max(0, age_us if bucket[4] < 0 else min(bucket[4], age_us))


def _time_trip(ledger: Ledger, now_ns: int) -> None:
    """The trip of the first message for a FLOW: what was granted before it has been spent."""
    if ledger.probe_ns is None or ledger.spent < ledger.probe_after:
        return
    ledger.trips_ns.append(now_ns - ledger.probe_ns)
    ledger.probe_ns = None
    if len(ledger.trips_ns) > TRIPS_KEPT:
        del ledger.trips_ns[0]


def _due(ledger: Ledger, row: Row) -> None:
    """Until this message is due its application may rest, and it is the last that came."""
    start = row.publish_time if row.publish_time and not ledger.delay_from_receipt else row.ts
    left_us = start + ledger.given_delay_us - row.ts
    ledger.due_ns = max(ledger.due_ns, row.mono_ns + left_us * 1000)


def _unacked(ledger: Ledger, more: int, now_ns: int) -> None:
    """Changes unacked and keeps the time during which there was something to work on."""
    ledger.unacked += more
    if ledger.unacked > 0 and ledger.busy_since_ns is None:
        ledger.busy_since_ns = now_ns
    elif ledger.unacked == 0 and ledger.busy_since_ns is not None:
        ledger.busy_ns += now_ns - ledger.busy_since_ns
        ledger.busy_since_ns = None


def _busy_until(ledger: Ledger, now_ns: int) -> int:
    """Nanoseconds during which it had messages, up to now."""
    since = ledger.busy_since_ns
    return ledger.busy_ns + (now_ns - since if since is not None else 0)


def _worked(ledger: Ledger, now_ns: int) -> None:
    """Something shows that the application works; waits without messages are no pause."""
    busy_since = now_ns if ledger.busy_since_ns is None else ledger.busy_since_ns
    last_work = ledger.last_work_ns or 0
    gap = now_ns - (busy_since if busy_since > last_work else last_work)
    if gap > ledger.longest_work_gap_ns:
        ledger.longest_work_gap_ns = gap
    ledger.last_work_ns = now_ns


def _close_delivery(ledger: Ledger, position: Position) -> Delivery | None:
    delivery = ledger.deliveries.pop(position, None)
    if delivery is not None:
        ledger.unacked -= delivery.messages
    return delivery


def _ack(ledger: Ledger, row: Row) -> None:
    ids = ids_of(row)
    _count_ack(ledger, ids)
    if row.ack_type == "cumulative":
        _count_cumulative(ledger, ids)
        if ledger.individual:
            return  # the broker drops it in silence on Shared and Key_Shared
        if ledger.awaited and ids:
            awaited.covered(ledger, row, ids[-1])
        ids = list(_cumulative(ledger, ids))
    acknowledge(ledger, row, ids)


def _count_ack(ledger: Ledger, ids: list[MessageId]) -> None:
    ledger.ack_commands += 1
    ledger.ack_ids += len(ids)
    if len(ids) > ledger.ack_ids_most:
        ledger.ack_ids_most = len(ids)


def _count_cumulative(ledger: Ledger, ids: list[MessageId]) -> None:
    ledger.cumulative_acks += 1
    if ids:
        position = (ids[-1].ledger_id, ids[-1].entry_id)
        if position < ledger.cumulative_highest:
            ledger.cumulative_back += 1
        else:
            ledger.cumulative_highest = position


def acknowledge(
    ledger: Ledger, row: Row, ids: list[MessageId], *, by_another: bool = False
) -> None:
    """Acknowledges those of these ids that this incarnation holds.

    The broker takes an individual ack from any consumer of the subscription and settles it with
    the one that holds the message (Consumer.getAckOwnerConsumer). by_another: it came from another
    consumer, and so shows nothing of what this one's application does. Counts them in the row,
    unless its number is null: not known.
    """
    now = row.mono_ns
    messages = proven = delay_ns = 0
    deliveries = ledger.deliveries
    if ledger.awaited:
        awaited.settled(ledger, row, ids)
    for ledger_id, entry_id, ack_set in ids:
        position = (ledger_id, entry_id)
        delivery = deliveries.get(position)
        if ledger.given_back and ack_set is None:
            ledger.given_back.pop(position, None)
        if delivery is None:
            if ledger.held_before and not by_another:  # an entry of several counts as one
                ledger.held_before -= 1
                messages += 1
            continue
        left = 0 if ack_set is None else delivery.open_bits & int.from_bytes(ack_set, "little")
        still_open = left.bit_count()
        closed = delivery.open_bits.bit_count() - still_open
        messages += closed
        if row.transaction is not None:
            _undecided(ledger, position, closed)
        if still_open:
            delivery.open_bits = left
        else:
            del deliveries[position]
        if delivery.number - still_open > proven:
            proven = delivery.number - still_open
        if now - delivery.at_ns > delay_ns:
            delay_ns = now - delivery.at_ns
    if messages:
        if not by_another:
            _worked(ledger, now)
            if row.error_code is None:  # a corrupt message is acknowledged as it arrives
                _proves(ledger, proven)
        _acknowledged(ledger, messages, now, 0 if row.transaction is not None else messages)
        if row.acknowledged_messages is not None and row.transaction is None:
            row.acknowledged_messages += messages
        ledger.ack_delay_most_ns = max(ledger.ack_delay_most_ns, delay_ns)
        row.ack_delay_us = max(row.ack_delay_us or 0, delay_ns // 1000)


def _proves(ledger: Ledger, messages: int) -> None:
    """At least so many were taken; not where they leave in the order in which they are due."""
    if messages > ledger.proven and not ledger.given_delay_us:
        ledger.proven = messages


def _undecided(ledger: Ledger, position: Position, messages: int) -> None:
    """Acknowledged in a transaction: the broker counts them as unacked no more, and sends them
    again where it is aborted (Consumer.individualAckWithTransaction, PendingAckHandleImpl).
    """
    ledger.in_transactions += messages
    ledger.undecided[position] = ledger.undecided.get(position, 0) + messages
    if len(ledger.undecided) > UNDECIDED_MOST:
        del ledger.undecided[next(iter(ledger.undecided))]


def _acknowledged(ledger: Ledger, messages: int, now_ns: int, for_good: int) -> None:
    """for_good: how many of them whatever becomes of a transaction."""
    ledger.acknowledged += for_good
    _unacked(ledger, -messages, now_ns)
    ledger.last_ack_ns = now_ns
    ledger.busy_at_ack_ns = _busy_until(ledger, now_ns)
    _count(ledger, now_ns, 0, 0, for_good)
    limit = _limit(ledger)
    if ledger.blocked and ledger.unacked <= limit // 2:
        _release(ledger)


def _cumulative(ledger: Ledger, ids: list[MessageId]) -> Iterator[MessageId]:
    """A cumulative ack as the single acks that it is worth."""
    if not ids:
        return
    last = ids[-1]
    until = (last.ledger_id, last.entry_id)
    for position in ledger.deliveries:
        if position < until:
            yield MessageId(*position, None)
        elif ledger.in_order:
            break
    if until in ledger.deliveries:
        yield last


def _redeliver(ledger: Ledger, row: Row) -> None:
    """Messages go back to the broker: by id they had been taken, all of them the queue included."""
    _worked(ledger, row.mono_ns)
    if row.messages:
        for message_id in ids_of(row):
            position = (message_id.ledger_id, message_id.entry_id)
            delivery = _close_delivery(ledger, position)
            if delivery is not None:
                _proves(ledger, delivery.proves + 1)
                number = delivery.number or ledger.messages - ledger.redelivered
                ledger.given_back.setdefault(position, (delivery.at_ns, number))
                if len(ledger.given_back) > GIVEN_BACK_MOST:
                    del ledger.given_back[next(iter(ledger.given_back))]
            elif ledger.held_before:
                ledger.held_before -= 1
                ledger.unacked -= 1
    else:
        if row.consumer_epoch is not None and ledger.epoch is not None:
            awaited.redelivery_requested(ledger, row)
        ledger.deliveries.clear()
        ledger.unacked = ledger.held_before = 0
    _unacked(ledger, 0, row.mono_ns)
    _release(ledger)


def _taken(ledger: Ledger, row: Row) -> None:
    """The application took a message. The wait for its delivery is not work."""
    ledger.taken = (ledger.taken or 0) + (row.messages or 1)
    if ledger.last_take_ns is not None:
        delivery = ledger.deliveries.get((row.ledger_id or 0, row.entry_id or 0))
        since = ledger.last_take_ns
        if delivery is not None:
            since = max(since, delivery.at_ns)
        ledger.take_busy_ns += max(0, row.mono_ns - since)
        ledger.take_steps += 1
    ledger.last_take_ns = row.mono_ns
    _worked(ledger, row.mono_ns)


def put_away(ledger: Ledger, row: Row) -> None:
    """SEND to the topic of its dead letters: so many messages will not come again."""
    bucket, counted = row.mono_ns // BUCKET_NS, ledger.dead_letters
    if not counted or counted[-1][0] != bucket:
        counted.append([bucket, 0])
        if len(counted) > BUCKETS_MOST:
            del counted[0]
    counted[-1][1] += row.messages or 1


def _count(ledger: Ledger, now_ns: int, messages: int, redelivered: int, acked: int) -> None:
    last = _bucket(ledger, now_ns)
    last[1] += messages
    last[2] += redelivered
    last[3] += acked


def _bucket(ledger: Ledger, now_ns: int) -> list[int]:
    """The one of `recent` that counts now."""
    bucket, recent = now_ns // BUCKET_NS, ledger.recent
    if not recent or recent[-1][0] != bucket:
        recent.append([bucket, 0, 0, 0, -1])
        if len(recent) > BUCKETS_MOST:
            del recent[0]
    return recent[-1]


TRANSITIONS: dict[str, Callable[[Ledger, Row], None]] = {
    "FLOW": _flow,
    "MESSAGE": _message,
    "ACK": _ack,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver,
    "TAKEN": _taken,
}
