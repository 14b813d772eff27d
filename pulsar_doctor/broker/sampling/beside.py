"""Reads what is known beside the samples of a window; late answers count as not reported.

While it runs, the limits of the cluster. At its end, where each segment that was read is in its
scalable topic, and how the others are; and how far open transactions of a topic and its
subscriptions reach, only where that can matter, once each, and how old they are only where one is
open. A broker that refuses, knows nothing of transactions or takes too long has reported nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.admin.topics import DOMAINS, SEGMENT
from pulsar_doctor.broker.patience import within
from pulsar_doctor.broker.sampling.plan import Sampled
from pulsar_doctor.broker.stats.fields import Fields
from pulsar_doctor.broker.stats.observed import NO_LIMITS, ClusterLimits, TopicWindow
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.segments import SegmentPlace, TopicSegment, unlisted_in
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.broker.stats.transactions import (
    LISTED_SECONDS,
    NO_TRANSACTIONS,
    PendingAcks,
    Transactions,
    slow_of,
)
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.errors import DoctorError

PATIENCE_SECONDS = 5.0  # for each answer; all are read at the same time
Segments = Mapping[int, TopicSegment]
KnownSegments = tuple[Segments, Mapping[int, TopicStats]]
LIMITS_SECONDS = 0.5  # after the window has ended

ReportedLimits = dict[str, Any]  # field of ClusterLimits -> its value


class LimitQuestions:
    """Questions for limits, each topic's sent once. wanted: False sends none."""

    def __init__(self, admin: Admin, *, wanted: bool) -> None:
        self._admin = admin
        self._wanted = wanted
        # By topic; None: of the whole cluster.
        self._questions: dict[str | None, asyncio.Task[ReportedLimits]] = {}

    def ask_cluster(self) -> None:
        """Asks for what holds for every topic, unless that was done."""
        if self._wanted and None not in self._questions:
            self._questions[None] = asyncio.create_task(self._of_cluster())

    def ask(self, topic: str) -> None:
        """Asks for the limits of unacknowledged messages of a topic, unless that was done."""
        if self._wanted and topic not in self._questions:
            self._questions[topic] = asyncio.create_task(self._of_topic(topic))

    async def settle(self) -> None:
        """Waits a little for the answers, and gives up the rest."""
        tasks = self._questions.values()
        if tasks:
            await asyncio.wait(tasks, timeout=LIMITS_SECONDS)
        self.give_up()

    def give_up(self) -> None:
        """Ends all questions that are still open."""
        for task in self._questions.values():
            task.cancel()

    def are_open(self, topic: str) -> bool:
        """Whether an answer that counts for a topic may still come."""
        both = (self._questions.get(None), self._questions.get(topic))
        return any(task is not None and not task.done() for task in both)

    def reported(self, topic: str) -> ClusterLimits:
        """What is known for a topic so far; call `settle` before the end."""
        limits = self._of(None) | self._of(topic)
        return ClusterLimits(**limits) if limits else NO_LIMITS

    def _of(self, topic: str | None) -> ReportedLimits:
        task = self._questions.get(topic)
        return task.result() if task and task.done() and not task.cancelled() else {}

    async def _of_cluster(self) -> ReportedLimits:
        limit = await within(None, self._admin.unacked_ranges_limit())
        return {"max_unacked_ranges_to_persist": limit}

    async def _of_topic(self, topic: str) -> ReportedLimits:
        consumer, subscription = await asyncio.gather(
            within(None, self._admin.unacked_limit(topic, "consumer")),
            within(None, self._admin.unacked_limit(topic, "subscription")),
        )
        return {
            "max_unacked_messages_per_consumer": consumer,
            "max_unacked_messages_per_subscription": subscription,
        }


async def with_transactions(admin: Admin, sampled: Sampled) -> Sampled:
    """The same windows, with what their broker reports of open transactions."""
    found = await asyncio.gather(*(_of(admin, each) for each in sampled.windows))
    slow = None
    if any(map(_any_open, sampled.windows, found)):
        slow = await within(PATIENCE_SECONDS, admin.slow_transactions(LISTED_SECONDS))
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
    topic = window.full_topic
    with suppress(DoctorError):
        found = (each for key in slow.document for each in slow_of(topic, slow.inner(key)))
        return replace(known, slow=tuple(sorted(found, key=lambda each: each.opened_ms)))
    return known


async def _of(admin: Admin, window: TopicWindow) -> Transactions:
    topic, last = window.full_topic, window.window.last
    if last.internal is None or topic_name(topic).domain != DOMAINS[0]:
        return NO_TRANSACTIONS
    if not admin.has_transactions:
        return Transactions(none=True)
    names = [each.subscription for each in window.subscriptions() if each.may_be_pending]
    questions = (within(PATIENCE_SECONDS, _pending(admin, topic, name)) for name in names)
    pending, position = asyncio.gather(*questions), None
    if last.topic.ongoing_txn_count:
        position = await within(PATIENCE_SECONDS, _readable(admin, topic))
    return Transactions(position, tuple(each for each in await pending if each is not None))


async def _readable(admin: Admin, topic: str) -> Position | None:
    """The last entry before the first open transaction of a producer."""
    reported = await admin.transactions("transactionBufferStats", topic)
    return reported.position("maxReadPosition")


async def _pending(admin: Admin, topic: str, subscription: str) -> PendingAcks | None:
    known = await admin.transactions("pendingAckStats", topic, subscription)
    count = known.at_least_0("ongoingTxnSize")
    return None if count is None else PendingAcks(subscription, count)


async def placed(admin: Admin, sampled: Sampled) -> Sampled:
    """The same windows, those of segments with their place; without it where it is not reported."""
    names = [topic_name(each.topic) for each in sampled.windows]
    topics = {str(each.of_all_segments) for each in names if each.domain == SEGMENT}
    if not topics:
        return sampled
    known = dict(
        zip(topics, await asyncio.gather(*(_known(admin, t) for t in topics)), strict=True)
    )
    windows = tuple(
        replace(window, place=_place(admin, window, str(name.of_all_segments), known))
        for window, name in zip(sampled.windows, names, strict=True)
    )
    return replace(sampled, windows=windows)


async def _known(admin: Admin, topic: str) -> KnownSegments:
    """Every segment, and the statistics of those that are loaded, as they were just read."""
    try:
        segments = await admin.scalable_topic(topic)
    except DoctorError:
        return {}, {}
    named = {each.id: each.name for each in segments.values() if each.name is not None}
    stats = await asyncio.gather(*(within(None, _stats(admin, name)) for name in named.values()))
    given = dict(zip(named, stats, strict=True))
    return segments, {number: each for number, each in given.items() if each is not None}


async def _stats(admin: Admin, segment: str) -> TopicStats:
    return topic_stats((await admin.topic_stats(segment)).document)


def _place(
    admin: Admin, window: TopicWindow, topic: str, known: Mapping[str, KnownSegments]
) -> SegmentPlace | None:
    segments, stats = known.get(topic, ({}, {}))
    own = next((each for each in segments.values() if each.name == window.topic), None)
    unlisted = unlisted_in(admin.loaded_segments(topic), segments)
    return None if own is None else SegmentPlace(topic, own, segments, stats, unlisted)
