"""What is to be judged of a trace: subscriptions, with who is there, or was to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pulsar_doctor.ledger.consumers import (
    SHUTDOWN_US,
    Consumer,
    LedgerMoment,
    Subscription,
    split_partition,
)
from pulsar_doctor.wire.columns import CLOSE

CLOSED = ("CLOSE_CONSUMER", CLOSE)


def judged(
    consumers: Sequence[Consumer], now_us: int, now_ns: int, *, damaged: bool = False
) -> list[Subscription]:
    """One value a subscription, in the order of their first consumers.

    consumers: all that are remembered, in the order of their numbers. damaged: see Subscription.
    """
    groups: dict[tuple[str, str], list[Consumer]] = {}
    for consumer in consumers:
        groups.setdefault((consumer.topic, consumer.subscription), []).append(consumer)
    found = [_judged(those, now_us, now_ns) for those in groups.values()]
    return [replace(each, damaged=True) for each in found] if damaged else found


def _judged(consumers: list[Consumer], now_us: int, now_ns: int) -> Subscription:
    there = [consumer for consumer in consumers if consumer.closed_us is None]
    if not there:
        moments = _last_shutdown(consumers)
        there = [replace(consumer, ledger=moment.ledger) for consumer, moment in moments]
        now_us = max(moment.us for _, moment in moments)
        now_ns = max(moment.ns for _, moment in moments)
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
    )


def _durable(consumers: list[Consumer]) -> bool | None:
    """What their SUBSCRIBEs say: the broker accepts no others beside them."""
    said = {consumer.durable for consumer in consumers if consumer.ledger.ready}
    return said.pop() if len(said) == 1 else None


def _closed_holding(consumers: list[Consumer]) -> Iterator[Consumer]:
    """Consumers that their clients closed with messages in hand and none acknowledged.

    Not one that comes back under its name, which goes on, nor one that UNSUBSCRIBE ended, which
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
    """Of consumers that all have ended: those that were there to the last, as they stood then."""
    served = [consumer for consumer in consumers if consumer.ledger.ready] or consumers
    last = max(consumer.closed_us or 0 for consumer in served)
    since = max(last - SHUTDOWN_US, *(consumer.opened_us for consumer in served))
    stayed = [consumer for consumer in served if (consumer.closed_us or 0) >= since]
    return [
        (consumer, consumer.before_shutdown)
        for consumer in stayed or served[-1:]  # none where the wall clock was set back
        if consumer.before_shutdown is not None
    ]
