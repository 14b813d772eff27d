"""Reads at the end of a window how far open transactions of a topic and its subscriptions reach.

Only where that can matter, once each; how old they are only where one is open. A broker that
refuses, knows nothing of transactions or takes too long has reported nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.admin.topics import DOMAINS
from pulsar_doctor.broker.sampling.plan import Sampled
from pulsar_doctor.broker.stats.fields import Fields
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.transactions import (
    LISTED_SECONDS,
    NO_TRANSACTIONS,
    PendingAcks,
    Transactions,
    slow_of,
)
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.consumers import full_name

PATIENCE_SECONDS = 2.0  # for each answer; all are read at the same time


async def with_transactions(admin: Admin, sampled: Sampled) -> Sampled:
    """The same windows, with what their broker reports of open transactions."""
    found = await asyncio.gather(*(_of(admin, each) for each in sampled.windows))
    slow = await _slow(admin) if any(map(_any_open, sampled.windows, found)) else None
    windows = (
        each if known == NO_TRANSACTIONS else replace(each, transactions=_aged(each, known, slow))
        for each, known in zip(sampled.windows, found, strict=True)
    )
    return replace(sampled, windows=tuple(windows))


def _any_open(window: TopicWindow, known: Transactions) -> bool:
    """Whether a transaction is open on a topic of which that is known."""
    open_ones = window.window.last.topic.ongoing_txn_count or any(
        each.open for each in known.pending_acks
    )
    return known != NO_TRANSACTIONS and bool(open_ones)


def _aged(window: TopicWindow, known: Transactions, slow: Fields | None) -> Transactions:
    """With those of the topic that may stay open for long."""
    if slow is None or not _any_open(window, known):
        return known
    topic = full_name(window.topic, window.partition)
    with suppress(DoctorError):
        found = (each for key in slow.document for each in slow_of(topic, slow.inner(key)))
        return replace(known, slow=tuple(sorted(found, key=lambda each: each.opened_ms)))
    return known


async def _of(admin: Admin, window: TopicWindow) -> Transactions:
    topic, last = full_name(window.topic, window.partition), window.window.last
    if last.internal is None or topic_name(topic).domain != DOMAINS[0]:
        return NO_TRANSACTIONS
    if not admin.has_transactions:
        return Transactions(none=True)
    names = [each.subscription for each in window.subscriptions() if each.may_be_pending]
    pending = asyncio.gather(*(_pending(admin, topic, name) for name in names))
    position = await _readable(admin, topic) if last.topic.ongoing_txn_count else None
    return Transactions(position, tuple(each for each in await pending if each is not None))


async def _slow(admin: Admin) -> Fields | None:
    """The cluster's transactions that may stay open for longer than most."""
    with suppress(DoctorError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await admin.slow_transactions(LISTED_SECONDS)
    return None


async def _readable(admin: Admin, topic: str) -> Position | None:
    """The last entry before the first open transaction of a producer."""
    with suppress(DoctorError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await admin.transactions("transactionBufferStats", topic)).position(
                "maxReadPosition"
            )
    return None


async def _pending(admin: Admin, topic: str, subscription: str) -> PendingAcks | None:
    with suppress(DoctorError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            known = await admin.transactions("pendingAckStats", topic, subscription)
            count = known.at_least_0("ongoingTxnSize")
            return None if count is None else PendingAcks(subscription, count)
    return None
