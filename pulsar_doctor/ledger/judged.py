"""What is to be judged of a trace: subscriptions, with who is there, or was to the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.ledger.consumers import (
    SHUTDOWN_US,
    Consumer,
    LedgerMoment,
    Subscription,
    split_partition,
)


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
    return Subscription(
        topic,
        partition,
        last.subscription,
        last.subscription_type,
        tuple(there),
        now_us,
        now_ns,
    )


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
