"""Subscriptions with holes, made on purpose on a real broker: one for each origin."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pulsar

from tests.support import eventually

if TYPE_CHECKING:
    import httpx2
SUBSCRIPTION = "s"
MESSAGES = 300
EVERY = 10  # of the messages that are left open, one in so many
FAR_MS = 3_600_000

Ids = set[tuple[int, int]]
Holed = Callable[[pulsar.Client, str], Any]


def published(
    client: pulsar.Client, topic: str, messages: int, is_delayed: Callable[[int], bool]
) -> None:
    """Single messages, in order; the delayed ones are due in an hour."""
    far = int(time.time() * 1000) + FAR_MS
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(messages):
        producer.send_async(
            b"x",
            lambda *_: None,
            partition_key=str(number % 20),
            deliver_at=far if is_delayed(number) else None,
        )
    producer.flush()
    producer.close()


def position(message: Any) -> tuple[int, int]:
    return message.message_id().ledger_id(), message.message_id().entry_id()


def received(consumer: pulsar.Consumer, quiet_ms: int) -> Iterator[Any]:
    """Messages until none comes for so long."""
    while True:
        try:
            yield consumer.receive(quiet_ms)
        except pulsar.Timeout:
            return


@contextmanager
def unacked(client: pulsar.Client, topic: str) -> Iterator[None]:
    """Shared: one message in ten is received and never acknowledged."""
    with _one_in_ten_open(client, topic, "Shared"):
        yield


@contextmanager
def individual(client: pulsar.Client, topic: str) -> Iterator[None]:
    """Exclusive: acknowledged one by one, one in ten left out."""
    with _one_in_ten_open(client, topic, "Exclusive"):
        yield


@contextmanager
def _one_in_ten_open(client: pulsar.Client, topic: str, type_: str) -> Iterator[None]:
    consumer = client.subscribe(topic, SUBSCRIPTION, getattr(pulsar.ConsumerType, type_))
    published(client, topic, MESSAGES, lambda _: False)
    for number in range(MESSAGES):
        message = consumer.receive(10_000)
        if number % EVERY:
            consumer.acknowledge(message)
    yield
    consumer.close()


@contextmanager
def delayed(client: pulsar.Client, topic: str) -> Iterator[None]:
    """Shared: every second message is due in an hour, the others are acknowledged."""
    consumer = client.subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared)
    published(client, topic, MESSAGES, lambda number: number % 2 == 0)
    for _ in range(MESSAGES // 2):
        consumer.acknowledge(consumer.receive(10_000))
    yield
    consumer.close()


@contextmanager
def key_shared(client: pulsar.Client, topic: str) -> Iterator[None]:
    """Key_Shared: one of two consumers takes ten messages and stays with them."""
    slow, quick = (
        client.subscribe(
            topic,
            SUBSCRIPTION,
            pulsar.ConsumerType.KeyShared,
            receiver_queue_size=10,
            consumer_name=name,
        )
        for name in ("slow", "quick")
    )
    published(client, topic, MESSAGES, lambda _: False)
    for message in received(quick, 1000):
        quick.acknowledge(message)
    yield
    slow.close()
    quick.close()


ORIGINS: dict[str, tuple[Any, int]] = {  # and the fewest ranges that show that it has settled
    "unacked": (unacked, MESSAGES // EVERY),
    "delayed": (delayed, MESSAGES // 2 - 1),
    "key-shared": (key_shared, 2),
    "individual-acks": (individual, MESSAGES // EVERY),
}


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def cursor_of(admin: httpx2.Client, topic: str) -> dict[str, Any]:
    """The subscription's cursor, as the broker tells it."""
    told = admin.get(f"/admin/v2/{path_of(topic)}/internalStats").raise_for_status().json()
    cursor: dict[str, Any] = told["cursors"][SUBSCRIPTION]
    return cursor


def settled(admin: httpx2.Client, topic: str, ranges: int) -> None:
    """Waits until so many ranges are there, at least, and the number stays."""

    def count() -> int:
        return int(cursor_of(admin, topic)["totalNonContiguousDeletedMessagesRange"])

    def is_settled() -> bool:
        before = count()
        time.sleep(0.3)
        return before >= ranges and count() == before

    eventually(is_settled, timeout=60)


def unloaded(admin: httpx2.Client, topic: str) -> None:
    """An orderly unload."""
    admin.put(f"/admin/v2/{path_of(topic)}/unload").raise_for_status()


def in_odd_order(
    client: pulsar.Client, admin: httpx2.Client, topic: str, runs: int, ledgers: int, seed: int
) -> Ids:
    """Runs of one to three messages that are acknowledged, with a delayed one before each.

    Over so many ledgers: an unload ends one. Returns what was acknowledged.
    """
    rng = random.Random(seed)
    shape = [late for _ in range(runs) for late in (True, *[False] * rng.randint(1, 3))]
    client.subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared).close()
    parts = [len(shape) * at // ledgers for at in range(ledgers + 1)]
    for begin, end in pairwise(parts):
        if begin:
            unloaded(admin, topic)
        published(client, topic, end - begin, shape[begin:end].__getitem__)
    return acknowledged_all(client, topic, shape.count(False))


def acknowledged_all(client: pulsar.Client, topic: str, messages: int) -> Ids:
    ids: Ids = set()
    consumer = client.subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared)
    while len(ids) < messages:
        message = consumer.receive(20_000)
        consumer.acknowledge(message)
        ids.add(position(message))
    time.sleep(0.5)  # acks are grouped
    consumer.close()
    return ids


def delivered(client: pulsar.Client, topic: str) -> list[tuple[int, int]]:
    """What a new consumer is sent, until nothing comes for a while; nothing is acknowledged."""
    consumer = client.subscribe(
        topic, SUBSCRIPTION, pulsar.ConsumerType.Shared, receiver_queue_size=5000
    )
    ids = [position(message) for message in received(consumer, 4000)]
    consumer.close()
    return ids
