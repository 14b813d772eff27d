"""Reads at the end of a window how far open transactions of a topic and its subscriptions reach.

Only where that can matter, once each. A broker that refuses, knows nothing of transactions or takes
too long has reported nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.admin.topics import DOMAINS
from pulsar_doctor.broker.sampling.plan import Sampled
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.transactions import NO_TRANSACTIONS, PendingAcks, Transactions
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.consumers import full_name

PATIENCE_SECONDS = 2.0  # for each answer; all are read at the same time


async def with_transactions(admin: Admin, sampled: Sampled) -> Sampled:
    """The same windows, with what their broker reports of open transactions."""
    found = await asyncio.gather(*(_of(admin, each) for each in sampled.windows))
    windows = (
        each if known == NO_TRANSACTIONS else replace(each, transactions=known)
        for each, known in zip(sampled.windows, found, strict=True)
    )
    return replace(sampled, windows=tuple(windows))


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
