"""Facts about a subscription from a trace of the wire.

Exact are permits (an upper bound while the broker may have set FLOWs aside), what is held, what
came and left and when. A bound is what the application has taken: its acks prove that it took so
much at least. Not reported is what the broker has in store: the backlog, and whether it reads.

Everything is as of the moment of judgement, also of a consumer that was closed since then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence import taken
from pulsar_doctor.evidence.ack_wait import Acks, in_rhythm, longest_gap, may_be_rhythm
from pulsar_doctor.evidence.circulation import Circulation, Recent
from pulsar_doctor.evidence.closed import closed_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.hole import AckHole
from pulsar_doctor.evidence.measures import WIRE
from pulsar_doctor.evidence.passed_over import PassedOver
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, at_least, at_most, exactly
from pulsar_doctor.evidence.wire_pace import Outlook
from pulsar_doctor.ledger.balance import BUCKET_NS, Forecast, Ledger, Position
from pulsar_doctor.ledger.clients import client_of
from pulsar_doctor.ledger.consumers import Consumer, Subscription
from pulsar_doctor.wording.addresses import at
from pulsar_doctor.wording.durations import moment_of

REFUSED = "the broker has accepted no consumer: see the ERROR after its SUBSCRIBE"
GAP = "commands are missing from the trace, so its ledger is not known"
INCOMPLETE = "the trace is incomplete, and what is missing may have been of this subscription"
LIKELY = (
    "some of its commands are likely and not proven: the capture began in the middle of the "
    "connection, or lost packets, and the broker has not confirmed the numbers since"
)
BETWEEN_BOUNDS = (
    "its permits and unacknowledged messages are known between bounds only, and it does not go on "
    "as it did: the broker's statistics were asked for while commands were on their way"
)
CLOSES_WITHIN_NS = 1_000_000_000  # seen: 20 ms after the batch (4.0.8)


def subscription_view(wire: Subscription) -> SubscriptionView:
    """One subscription at its moment of judgement."""
    there = [consumer for consumer in wire.consumers if consumer.ledger.ready]
    ledgers = [consumer.ledger for consumer in wire.consumers]
    gap = GAP if any(ledger.uncertain for ledger in ledgers) else None
    likely = LIKELY if any(ledger.likely for ledger in ledgers) else None
    names = Counter(each.consumer_name for each in there)
    alone = (consumer_view(each, wire.now_ns, number) for number, each in enumerate(there))
    views = tuple(
        replace(each, label=at(each.label, each.address))
        if each.name and names[each.name] > 1
        else each
        for each in alone
    )
    is_open = any(_is_open(each.ledger, view) for each, view in zip(there, views, strict=True))
    bounds = BETWEEN_BOUNDS if is_open else None
    # What a consumer holds that is active no more, the broker sends to its successor.
    holders = [consumer for consumer in there if consumer.active is not False]
    return SubscriptionView(
        topic=wire.topic,
        partition=wire.partition,
        subscription=wire.subscription,
        type=wire.type,
        sources=frozenset({WIRE}),
        consumers=views,
        moment_ms=wire.now_us // 1000,
        durable=wire.durable,
        left_behind=wire.left_behind,
        unsent=wire.unsent,
        behind_seconds=wire.behind_seconds,
        refused=None if there else REFUSED,
        gap=gap or likely or bounds,
        cannot_be=(INCOMPLETE,) if wire.incomplete else (),
        active=_active(views) if wire.type == "Failover" else None,
        closed=closed_of(wire, tuple(consumer_view(each, wire.now_ns) for each in wire.closed)),
        incarnations=frozenset(consumer.incarnation for consumer in wire.consumers),
        attended=any(consumer.closed_ns is None for consumer in there) or None,
        unacked=_held([consumer.ledger for consumer in holders]),
        hole=_hole(holders, wire.now_ns),
        circulation=_circulation(there, wire.now_ns),
    )


def _is_open(ledger: Ledger, view: ConsumerView) -> bool:
    """Whether bounds leave open what it is: while it works on they may."""
    return bool(ledger.open_permits or ledger.open_unacked) and not view.works


def _hole(consumers: Sequence[Consumer], now_ns: int) -> AckHole | None:
    """The oldest entry that is out, where later ones are acknowledged; None: not known any more."""
    ledgers = [consumer.ledger for consumer in consumers]
    if any(ledger.unacked and not ledger.deliveries for ledger in ledgers):
        return None
    first = [(ledger.oldest, ledger) for ledger in ledgers if ledger.deliveries]
    if not first:
        return AckHole(0, None)
    position, holder = min(first, key=lambda each: each[0])
    open_entry = holder.deliveries[position]
    before = [each.given_back[position][0] for each in ledgers if position in each.given_back]
    passed, since_ns = _passed(holder, position), min((open_entry.at_ns, *before))
    by_others = any(
        other.highest > position and not other.unacked for other in ledgers if other is not holder
    )
    stood = Age(max(0, now_ns - since_ns) // 1_000_000, exact=False)
    return AckHole(
        ranges=int(passed > 0 or by_others),
        stood=stood,
        proven=passed > 0 or by_others,
        passed=passed,
        held=holder.unacked,
        left_out=sum(map(_left_out, ledgers)),
        delayed=now_ns < holder.due_ns,
    )


def _passed(holder: Ledger, position: Position) -> int:
    """Messages that came after it, and that its holder has acknowledged, at least."""
    entry, back = holder.deliveries[position], holder.given_back
    _, number = back.get(position, (0, entry.number))
    later = _came_once(holder) - number - (holder.unacked - entry.messages)
    return max(0, later) if number > 0 else 0


def _came_once(holder: Ledger) -> int:
    """Messages that it was sent, at least, each of them counted once, and that do not wait."""
    back = holder.given_back
    again = holder.redelivered if back else 0  # at most so many of the later ones came before
    waiting = sum(each not in holder.deliveries for each in back) * max(1, holder.largest_batch)
    return holder.messages - again - waiting


def _left_out(holder: Ledger) -> int:
    """Entries that it holds though it has acknowledged later ones, at least."""
    sent, after = _came_once(holder), 0
    for newer, entry in enumerate(reversed(holder.deliveries.values())):
        if 0 < entry.number < sent - after:
            return len(holder.deliveries) - newer
        after += entry.messages
    return 0


def _circulation(consumers: Sequence[Consumer], now_ns: int) -> Circulation:
    """The recent past in buckets; a single redelivery of all is no circle."""
    individual = any(consumer.ledger.individual for consumer in consumers)
    return Circulation(
        recent=tuple(
            Recent(
                (now_ns - bucket * BUCKET_NS) / 1e9,
                *(messages, redelivered, acked),
                age=age_us / 1e6 if age_us >= 0 else None,
            )
            for consumer in consumers
            for bucket, messages, redelivered, acked, age_us in consumer.ledger.recent
        )
        + tuple(
            Recent((now_ns - bucket * BUCKET_NS) / 1e9, 0, 0, 0, put_away)
            for consumer in consumers
            for bucket, put_away in consumer.ledger.dead_letters
        ),
        count_most=max((c.ledger.redelivery_count_most for c in consumers), default=0)
        if individual
        else None,
        out=sum(consumer.ledger.unacked for consumer in consumers),
        at_most_twice=True,
    )


def _active(consumers: Sequence[ConsumerView]) -> int | None:
    active = [each.number for each in consumers if each.active]
    return active[0] if len(active) == 1 else None


def consumer_view(consumer: Consumer, now_ns: int, number: int = 0) -> ConsumerView:
    """One consumer after its SUBSCRIBE has succeeded."""
    ledger = consumer.ledger
    work = Outlook.of(ledger, now_ns)
    ahead = work.next_flow
    singly = ledger.one_by_one and ledger.granted == ledger.flow_count
    quiet = _quiet(ledger, now_ns)
    queued, whole = _queued(ledger), ledger.is_whole
    signs = (ledger.ready_ns, ledger.last_work_ns, ledger.last_flow_ns)
    since_work = _age(max((s for s in signs if s is not None), default=None), now_ns)
    return ConsumerView(
        label=consumer.label,
        number=number,
        closed=consumer.closed_ns is not None,
        name=consumer.consumer_name,
        address=consumer.client_addr,
        client_version=consumer.client_version,
        active=consumer.active,
        connected_for=_age(ledger.ready_ns, now_ns),
        connected_since=moment_of(consumer.opened_us // 1000),
        available_permits=None if ledger.uncertain else _permits(ledger),
        unacked_messages=None if ledger.uncertain else _held([ledger]),
        unacked_entries=None if ledger.uncertain else _entries(ledger),
        partly_acked=_partly_acked(ledger),
        queued=queued,
        msg_out_counter=exactly(ledger.messages) if whole else None,
        permits_granted=exactly(ledger.granted) if whole else None,
        permits_refilled=exactly(ledger.refilled) if whole else None,
        permits_owed=at_least(max(0, ledger.unsent_permits_min - ledger.skipped))
        if whole
        else None,
        blocked_consumer_on_unacked_msgs=_blocked(ledger),
        parked_permits=exactly(ledger.parked_permits),
        receiver_queue_size=Count(0, 1)
        if ledger.one_by_one
        else exactly(ledger.receiver_queue_size),
        refill_threshold=ledger.refill_threshold,
        one_by_one=singly,
        # One message, or several before it ever finished two.
        all_in_hand=singly and (ledger.unacked == 1 or work.life is None),
        largest_batch=ledger.largest_batch,
        batch_for_one=_batch_for_one(consumer),
        closed_on_batch=_closed_on_batch(consumer),
        flows=ledger.flow_count if whole else None,
        next_flow_after=_until(ahead, ahead.messages) if ahead else None,
        sending_after=_until_sending(ledger, ahead) if ahead else None,
        pace=work.pace,
        works=work.in_rhythm,
        never_acked=ledger.last_ack_ns is None if whole else None,
        holds_since=_age(_first_held_ns(ledger), now_ns),
        since_last_delivery=_age(ledger.last_message_ns, now_ns),
        acks=_acks(ledger, work, now_ns),
        ack_gap=_ack_gap(ledger),
        max_unacked_messages_per_consumer=ledger.unacked_limit,
        resting=now_ns < ledger.due_ns,
        quiet_for=quiet,
        since_last_flow=_age(ledger.last_flow_ns, now_ns),
        since_last_ack=_age(ledger.last_ack_ns, now_ns),
        since_work=since_work,
        last_sign=since_work,
        passed_over=_passed_over(ledger, now_ns),
        in_hand=taken.by_wire(ledger, now_ns),
        round_trip_seconds=median(ledger.trips_ns) / 1e9 if ledger.trips_ns else None,
    )


def _acks(ledger: Ledger, work: Outlook, now_ns: int) -> Acks:
    """The pace is that of now, as long as it keeps its rhythm, and acks as it did."""
    quiet_ms = max(0, now_ns - max(ledger.last_message_ns or 0, ledger.last_ack_ns or 0)) // 10**6
    usual = None if ledger.last_ack_ns is None else work.life
    seconds = work.pace.seconds if usual and work.pace and work.in_rhythm else None
    # A client may acknowledge whole batches only.
    each = round(ledger.messages / max(1, ledger.entries)) or 1
    if seconds is not None and not in_rhythm(quiet_ms, seconds * each):
        seconds = None
    pace_ms = None if seconds is None else round(seconds * 1000)
    return Acks(
        0 if pace_ms is None else 1,
        None,
        pace_ms,
        Age(quiet_ms, True),
        an_ack=each,
        may_fit=usual is not None and may_be_rhythm(quiet_ms, usual.seconds * each),
    )


def _ack_gap(ledger: Ledger) -> float | None:
    """At most: buckets count the acks."""
    moments = [bucket * BUCKET_NS / 1e9 for bucket, _, _, acked, _ in ledger.recent if acked]
    gap = longest_gap(moments)
    return None if gap is None else gap + BUCKET_NS / 1e9


def _first_held_ns(ledger: Ledger) -> int | None:
    return next((delivery.at_ns for delivery in ledger.deliveries.values()), None)


def _passed_over(ledger: Ledger, now_ns: int) -> PassedOver | None:
    passed = {p: bits for p, bits in ledger.awaited.items() if p < ledger.epoch_highest}
    if not passed or not ledger.late:
        return None
    return PassedOver(
        entries=len(passed),
        messages=sum(bits.bit_count() for bits in passed.values()),
        first="{}:{}".format(*min(passed)),
        behind="{}:{}".format(*ledger.epoch_highest),
        epoch=ledger.epoch,
        late_entries=ledger.late,
        settled_seconds=(now_ns - ledger.awaited_ns) / 1e9,
    )


def _blocked(ledger: Ledger) -> bool | None:
    """The limit is no part of the wire; without one nobody is blocked."""
    if not ledger.individual:
        return False
    return None if ledger.unacked_limit is None else ledger.blocked


def _permits(ledger: Ledger) -> Count:
    least = None if ledger.crossed else ledger.available_permits_min
    return Count(least, ledger.available_permits)


def _held(ledgers: Sequence[Ledger]) -> Count:
    return Count(sum(each.unacked_min for each in ledgers), sum(each.unacked for each in ledgers))


def _entries(ledger: Ledger) -> Count | None:
    """Not known of a consumer that has been closed since, and held more than its oldest one."""
    known = ledger.held_before + sum(each.messages for each in ledger.deliveries.values())
    return exactly(len(ledger.deliveries)) if known >= ledger.unacked else None


def _partly_acked(ledger: Ledger) -> int | None:
    """Entries of which a message is acknowledged before one that is not."""
    if (ledger.largest_batch or 0) < 2:
        return 0
    opened = (each.open_bits for each in ledger.deliveries.values())
    return sum(bits & (bits + 1) != 0 for bits in opened)


def _queued(ledger: Ledger) -> Count:
    """What was given back is not in its queue any more."""
    queued = min(ledger.queued_min, ledger.unacked)
    return Count(queued, queued if ledger.taken is not None else None)


def _until(ahead: Forecast, messages: int) -> Count:
    return at_most(messages) if ahead.at_most else Count(messages, messages)


def _until_sending(ledger: Ledger, ahead: Forecast) -> Count:
    """At least: as if all but one of what the next FLOW brings were taken already."""
    most, unsent_most = ahead.until_positive, (ledger.refill_threshold or 1) - 1
    if not ahead.at_most:
        return exactly(most)
    return Count(max(1, most + ledger.unsent_permits_min - unsent_most), most)


def _quiet(ledger: Ledger, now_ns: int) -> Age:
    signs = (ledger.ready_ns, ledger.last_message_ns, ledger.last_work_ns, ledger.last_flow_ns)
    last = max(*(sign or 0 for sign in signs), ledger.due_ns)
    return Age(max(0, now_ns - last) // 1_000_000, True)


def _age(moment_ns: int | None, now_ns: int) -> Age | None:
    return None if moment_ns is None else Age(max(0, now_ns - moment_ns) // 1_000_000, True)


def _batch_for_one(consumer: Consumer) -> bool:
    """Our own client hands out all of a batch before it asks again, and is not meant."""
    ledger = consumer.ledger
    whole = client_of(consumer.client_version).zero_batches == "whole"
    return ledger.largest_batch >= 2 and (ledger.zero_queue or ledger.one_by_one) and not whole


def _closed_on_batch(consumer: Consumer) -> bool:
    """Whether a Java client closed its consumer as soon as the batch came, with nothing taken."""
    ledger = consumer.ledger
    came_ns = ledger.last_message_ns
    if not (ledger.one_by_one and consumer.closing and consumer.closed_ns and came_ns):
        return False
    return (
        client_of(consumer.client_version).zero_batches == "closes"
        and max(ledger.last_flow_ns or 0, ledger.last_work_ns or 0) <= came_ns
        and consumer.closed_ns - came_ns <= CLOSES_WITHIN_NS
    )
