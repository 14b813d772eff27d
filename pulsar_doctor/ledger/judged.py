"""Which subscriptions of a trace are judged, with their present or last consumers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pulsar_doctor.ledger.balance import NOWHERE
from pulsar_doctor.ledger.consumers import SHUTDOWN_US, Consumer, LedgerMoment, Subscription
from pulsar_doctor.ledger.left_behind import LeftBehind, Published, Unsent
from pulsar_doctor.ledger.topics import NON_PERSISTENT, split_partition
from pulsar_doctor.wire.columns import CLOSE

CLOSED = ("CLOSE_CONSUMER", CLOSE)
UNSUBSCRIBE = "UNSUBSCRIBE"
AT_ONCE_NS = 500_000_000  # within which a broker sends what is due, also on a busy machine


def judged(
    consumers: Sequence[Consumer], now_us: int, now_ns: int, published: Mapping[str, Published]
) -> list[Subscription]:
    """One value a subscription, in the order of their first consumers.

    consumers: all that are remembered, in the order of their numbers. published: by topic.
    """
    groups: dict[tuple[str, str], list[Consumer]] = {}
    for consumer in consumers:
        groups.setdefault((consumer.topic, consumer.subscription), []).append(consumer)
    return [_judged(those, now_us, now_ns, published[key[0]]) for key, those in groups.items()]


def _judged(
    consumers: list[Consumer], now_us: int, now_ns: int, published: Published
) -> Subscription:
    there = [consumer for consumer in consumers if consumer.closed_us is None]
    left_behind = None if there else _left_behind(consumers, published, now_ns)
    if not there:
        moments = _last_shutdown(consumers)
        there = [replace(consumer, ledger=moment.ledger) for consumer, moment in moments]
        now_us = max(moment.us for _, moment in moments)
        now_ns = max(moment.ns for _, moment in moments)
    due = published.delayed_us <= now_us
    last = consumers[-1]
    topic, partition = split_partition(last.topic)
    acks = (consumer.ledger.last_ack_ns or 0 for consumer in consumers)
    return Subscription(
        topic,
        partition,
        last.subscription,
        last.subscription_type,
        tuple(there),
        now_us,
        now_ns,
        closed=tuple(_closed_holding(consumers)),
        last_ack_ns=max(acks),
        durable=_durable(there),
        left_behind=left_behind,
        behind_seconds=_behind(consumers, published),
        unsent=_unsent(consumers, there, published, now_ns) if due else None,
    )


def _durable(consumers: list[Consumer]) -> bool | None:
    """What their SUBSCRIBEs say: the broker accepts no others beside them."""
    reported = {consumer.durable for consumer in consumers if consumer.ledger.ready}
    return reported.pop() if len(reported) == 1 else None


def _left_behind(consumers: list[Consumer], published: Published, now_ns: int) -> LeftBehind | None:
    """What waits since the last of them left; nothing does where the subscription is gone."""
    gone_ns = max((c.closed_ns or 0 for c in consumers if c.closed_by == UNSUBSCRIBE), default=0)
    known = [c for c in consumers if c.ledger.ready and (c.closed_ns or 0) > gone_ns]
    if not known or _durable(known) is False or known[-1].topic.startswith(NON_PERSISTENT):
        return None
    last = max(known, key=lambda each: each.closed_ns or 0)
    unacked, missed = _held_to_the_end(known), _missed(known, published)
    if not unacked and not missed:
        return None
    seconds = (now_ns - (last.closed_ns or 0)) / 1e9
    return LeftBehind(last.label, last.closed_us or 0, seconds, unacked, missed)


def _held_to_the_end(consumers: list[Consumer]) -> int:
    """Messages that one of them held at its end, if nobody has acknowledged any since.

    Whoever came or stayed may have been sent the same ones, so the numbers are not added up.
    """
    last_ack_ns = max(each.ledger.last_ack_ns or 0 for each in consumers)
    stayed = [each.ledger for each in consumers if (each.closed_ns or 0) >= last_ack_ns]
    return max((each.unacked_min for each in stayed if not each.uncertain), default=0)


def _missed(consumers: list[Consumer], published: Published) -> bool:
    """Whether a message was stored since the first of them came, and no consumer was sent it."""
    since_ns = min(each.ledger.ready_ns or each.closed_ns or 0 for each in consumers)
    stored_ns, stored = published.last
    return stored_ns > since_ns and stored > max(each.ledger.highest for each in consumers)


def _unsent(
    consumers: list[Consumer], there: list[Consumer], published: Published, now_ns: int
) -> Unsent | None:
    """What a broker should have sent to one of those who are there.

    What was stored before the first of them came counts if they were sent what lies before it. A
    key belongs to one consumer of Key_Shared, so that only all of them together are surely owed.
    """
    served = [each for each in there if each.ledger.ready and each.active is not False]
    sent_some = any(each.ledger.highest > NOWHERE for each in there)
    came_ns = None if sent_some else min((each.ledger.ready_ns or 0 for each in served), default=0)
    stored_ns = published.since(max(each.ledger.highest for each in consumers), came_ns)
    if stored_ns is None:
        return None
    ready = [(_permits_since(each), each) for each in served if _may_receive(each, stored_ns)]
    keyed = there and there[0].subscription_type == "Key_Shared"
    if not ready or (keyed and len(ready) < len(served)):
        return None
    has_since_ns, who = max(ready, key=lambda each: each[0]) if keyed else min(ready, key=_first)
    return Unsent(who.label, (now_ns - max(stored_ns, has_since_ns)) / 1e9)


def _behind(consumers: list[Consumer], published: Published) -> float | None:
    """How long ago the newest message had been published when it was sent.

    None where that is not known, or where a receipt shows that it was the last one then.
    """
    newest = max((each.ledger for each in consumers), key=lambda ledger: ledger.highest)
    if newest.highest_age_us is None or newest.highest == published.last[1]:
        return None
    return newest.highest_age_us / 1e6


def _first(ready: tuple[int, Consumer]) -> int:
    return ready[0]


def _may_receive(each: Consumer, stored_ns: int) -> bool:
    """Whether the broker may surely send to it, or might have and did not.

    stored_ns: since when something is to be sent. The limit of unacknowledged messages may not be
    known. A consumer that has reached it is sent none until it holds half as many, and it never
    held more than the limit.
    """
    ledger = each.ledger
    known = not (ledger.uncertain or ledger.likely or ledger.crossed or ledger.blocked)
    free = not ledger.individual or ledger.unacked_limit is not None
    free = free or ledger.unacked <= max(1, ledger.unacked_most // 2) or _waited(each, stored_ns)
    return known and free and ledger.available_permits_min > 0


def _waited(each: Consumer, stored_ns: int) -> bool:
    """Whether it was sent nothing for a while before all that it holds, though it held nothing."""
    ledger = each.ledger
    came_ns = next((delivery.at_ns for delivery in ledger.deliveries.values()), 0)
    if ledger.last_ack_ns is None:
        return False
    return came_ns - max(ledger.last_ack_ns, _permits_since(each), stored_ns) >= AT_ONCE_NS


def _permits_since(each: Consumer) -> int:
    return max(each.ledger.ready_ns or 0, each.ledger.starved_until_ns)


def _closed_holding(consumers: list[Consumer]) -> Iterator[Consumer]:
    """Consumers that their clients closed with messages in hand and none acknowledged.

    Not one that comes back under its name, which continues, nor one that UNSUBSCRIBE ended, which
    gives up what it held.
    """
    latest = {each.consumer_name: each.incarnation for each in consumers}
    for each in consumers:
        ledger = each.ledger
        known = ledger.ready and not (ledger.joined or ledger.uncertain or ledger.likely)
        returned = each.consumer_name is not None and latest[each.consumer_name] > each.incarnation
        ended = each.closed_us is not None and each.closed_by in CLOSED and not returned
        if ended and known and ledger.unacked > 0 and ledger.last_ack_ns is None:
            yield each


def _last_shutdown(consumers: list[Consumer]) -> list[tuple[Consumer, LedgerMoment]]:
    """Consumers that were there to the last, as they were then, where all have ended."""
    served = [consumer for consumer in consumers if consumer.ledger.ready] or consumers
    last = max(consumer.closed_us or 0 for consumer in served)
    since = max(last - SHUTDOWN_US, *(consumer.opened_us for consumer in served))
    stayed = [consumer for consumer in served if (consumer.closed_us or 0) >= since]
    return [
        (consumer, consumer.before_shutdown)
        for consumer in stayed or served[-1:]  # none where the wall clock was set back
        if consumer.before_shutdown is not None
    ]
