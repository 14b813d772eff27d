"""Reads the broker's statistics of the captured consumers while a capture runs.

Which topics: those that are named;
otherwise those that the broker has loaded and that have a consumer at an address of the capture
(broker-stats; it needs a superuser). Of that list the broker makes a new one once a minute only: it
is read again sooner while a client is captured that it does not name, and the last time. A
named topic is loaded where it is not yet; no other is. The clocks of broker, capture and this
machine must agree within a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from queue import SimpleQueue

from pulsar_doctor.broker.admin import Admin, AdminError, NotFound, topic_name
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.topics import full_name
from pulsar_doctor.parts.capture.reported import ConsumerSample, StatsConsumer, plain_address
from pulsar_doctor.parts.tap.broker_side import BrokerThread

LISTED_EVERY_SECONDS = 60.0
LISTED_AGAIN_SECONDS = 5.0  # where a client is not in it; then twice as long each time
LEDGERS_EVERY_SECONDS = 60.0
TOPICS_MOST = 50
SECOND_NS = 1_000_000_000


class BrokerPoll(BrokerThread):
    """The thread that reads, and once more at the end.

    samples: gets answers, and whether those are of all topics meant.
    """

    every_seconds = 2.0
    at_end = True
    refused = "the broker's list of consumers is not read"
    failed = "the broker's list of consumers cannot be read"

    def __init__(
        self,
        settings: Settings,
        topics: Collection[str],
        addresses: Callable[[], Collection[str]],
        samples: SimpleQueue[ConsumerSample],
        say: Callable[[str], object],
    ) -> None:
        self._samples, self._named, self._addresses = samples, sorted(set(topics)), addresses
        self._parts: list[str] = []
        self._listed: list[tuple[str, frozenset[str]]] = []
        self._listed_at = float("-inf")
        self._unlisted: set[str] = set()
        self._ledgers_due: dict[str, float] = {}
        self._pause = LISTED_AGAIN_SECONDS
        super().__init__(settings, say)

    def close(self, seconds: float = 5.0) -> None:
        """Reads once more, and no longer than this."""
        super().close(seconds)

    async def read(self, admin: Admin) -> None:
        """The consumers of the topics that are meant, as of now."""
        if self._named and not self._parts:
            self._parts = [part for topic in self._named for part in await _parts(admin, topic)]
        topics = self._parts or await self._of_addresses(admin)
        from_ns = time.time_ns()
        answers = await asyncio.gather(*(_stats(admin, topic) for topic in topics[:TOPICS_MOST]))
        until_ns = time.time_ns()
        consumers = [
            consumer
            for topic, stats in zip(topics, answers, strict=False)
            if stats is not None
            for consumer in consumers_of(topic, stats, from_ns, until_ns)
        ]
        complete = not self._named and len(topics) <= TOPICS_MOST
        ledgers = await self._ledgers_of(admin, {consumer.topic for consumer in consumers})
        self._samples.put(ConsumerSample(consumers, complete, ledgers))

    async def _ledgers_of(self, admin: Admin, topics: Collection[str]) -> dict[int, str]:
        """The ledgers of topics with a consumer, each read again after a minute."""
        now_seconds = time.monotonic()
        due = [each for each in sorted(topics) if now_seconds >= self._ledgers_due.get(each, 0.0)]
        self._ledgers_due |= dict.fromkeys(due, now_seconds + LEDGERS_EVERY_SECONDS)
        answers = await asyncio.gather(*(_internal(admin, topic) for topic in due[:TOPICS_MOST]))
        return {
            ledger: topic
            for topic, stats in zip(due, answers, strict=False)
            if stats is not None
            for ledger in ledgers_in(stats)
        }

    async def _of_addresses(self, admin: Admin) -> list[str]:
        wanted = set(self._addresses())
        if self._is_list_due(wanted):
            self._listed_at = time.monotonic()
            listed = []
            async with aclosing(admin.loaded_topics()) as loaded:
                async for topic in loaded:
                    listed.append((topic.topic, _addresses_in(topic.stats)))
            self._listed = listed
        return [topic for topic, addresses in self._listed if addresses & wanted]

    def _is_list_due(self, wanted: set[str]) -> bool:
        """Whether the list is old, for whom it is about: producers are never in it."""
        age_seconds = time.monotonic() - self._listed_at
        unlisted = wanted.difference(*(addresses for _, addresses in self._listed))
        if not unlisted <= self._unlisted:
            self._pause = LISTED_AGAIN_SECONDS
        self._unlisted = unlisted
        if not unlisted or not (age_seconds > self._pause or self._over.is_set()):
            return age_seconds > LISTED_EVERY_SECONDS
        self._pause = min(2 * self._pause, LISTED_EVERY_SECONDS)
        return True


async def _parts(admin: Admin, topic: str) -> list[str]:
    """The full name of a topic, or those of its partitions."""
    name, count = str(topic_name(topic)), await admin.partitions(topic)
    return [name] if count is None else [full_name(name, number) for number in range(count)]


async def _stats(admin: Admin, topic: str) -> TopicStats | None:
    try:
        return topic_stats((await admin.topic_stats(topic)).document)
    except NotFound:  # it was deleted meanwhile
        return None


async def _internal(admin: Admin, topic: str) -> InternalStats | None:
    """None where it is not reported: names are found without it, only fewer."""
    try:
        return internal_stats((await admin.internal_stats(topic)).document)
    except (AdminError, InputError):
        return None


def ledgers_in(stats: InternalStats) -> Iterator[int]:
    """The ledgers of a topic."""
    return (each.ledger_id for each in stats.ledgers or () if each.ledger_id is not None)


def _addresses_in(stats: object) -> frozenset[str]:
    """The addresses of all consumers of one topic, as broker-stats writes it."""
    subscriptions = stats.get("subscriptions") if isinstance(stats, dict) else None
    found = set()
    for each in subscriptions.values() if isinstance(subscriptions, dict) else ():
        consumers = each.get("consumers") if isinstance(each, dict) else None
        for consumer in consumers if isinstance(consumers, list) else ():
            address = consumer.get("address") if isinstance(consumer, dict) else None
            if isinstance(address, str):
                found.add(plain_address(address))
    return frozenset(found)


def samples_in(windows: Iterable[TopicWindow]) -> Iterator[ConsumerSample]:
    """The consumers of samples that were kept: those with a known time, to the second; and of
    each topic the last one for the names, which may be of a time before the packets."""
    for each in windows:
        topic = each.full_topic
        for sample in each.window.samples:
            now_ns = (sample.now_ms or 0) * 1_000_000
            consumers = consumers_of(topic, sample.topic, now_ns - SECOND_NS, now_ns + SECOND_NS)
            if sample.now_known:
                yield ConsumerSample(consumers, complete=False)
        names = [each._replace(of=replace(each.of, available_permits=None)) for each in consumers]
        internal = each.window.last.internal
        ledgers = () if internal is None else ledgers_in(internal)
        yield ConsumerSample(
            names, complete=False, ledgers=dict.fromkeys(ledgers, topic), standing=True
        )


def consumers_of(topic: str, stats: TopicStats, from_ns: int, until_ns: int) -> list[StatsConsumer]:
    """The consumers of one topic in one sample."""
    return [
        StatsConsumer(topic, name, subscription.type, consumer, from_ns, until_ns)
        for name, subscription in (stats.subscriptions or {}).items()
        for consumer in subscription.consumers or ()
    ]
