"""Our consumer on the real broker: what tests set up, send and count; content is looked at here.

Content is seen where our consumer throws it away: a message of ours has none.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.consume.engines import Message, Plan
from pulsar_doctor.parts.consume.receiver import BlockingConsumer, connected, entries, payloads
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.clients.payloads import payload
from tests.made.meddler import Meddler, meddling

CODECS = {
    "LZ4": pulsar.CompressionType.LZ4,
    "ZLIB": pulsar.CompressionType.ZLib,
    "ZSTD": pulsar.CompressionType.ZSTD,
    "SNAPPY": pulsar.CompressionType.SNAPPY,
}
SIZE = 300
ENOUGH = 10.0  # seconds for a message to come
NO_MORE = 0.3  # seconds in which none comes
SLOW = pytest.mark.slow
Contents = dict[tuple[int, int, int | None], bytes]


@contextmanager
def attached(service_url: str, plan: Plan) -> Iterator[BlockingConsumer]:
    with connected(service_url, Settings()) as engine:
        yield engine.subscribe(plan)


@contextmanager
def tapped(broker: Any, trace: Path, plan: Plan) -> Iterator[BlockingConsumer]:
    with (
        relaying(broker.service_url, trace) as relay,
        attached(relay.service_url, plan) as consumer,
    ):
        yield consumer


@contextmanager
def meddled(broker: Any, trace: Path, plan: Plan) -> Iterator[tuple[BlockingConsumer, Meddler]]:
    """With somebody between the consumer and the tap, who passes lookups on."""
    with (
        relaying(broker.service_url, trace) as relay,
        meddling(relay.service_url) as meddler,
        attached(meddler.service_url, plan) as consumer,
    ):
        yield consumer, meddler


def plan_of(topic: str, queue: int, **more: Any) -> Plan:
    return Plan("c", topic, "s", receiver_queue_size=queue, nack_delay_seconds=0, **more)


def partitioned(admin: Any, topic: str, partitions: int) -> None:
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    admin.put(f"{path}/partitions", json=partitions).raise_for_status()


def unload(admin: Any, topic: str) -> None:
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    admin.put(f"{path}/unload").raise_for_status()


def stats(admin: Any, topic: str) -> dict[str, Any]:
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    answer = admin.get(f"{path}/stats", params={"getPreciseBacklog": "true"})
    return dict(answer.raise_for_status().json()["subscriptions"]["s"])


def entries_left(admin: Any, topics: list[str]) -> int | None:
    """What "s" has not acknowledged of these topics; None while a cursor changes its ledger."""
    for topic in topics:
        path = topic.replace("persistent://", "/admin/v2/persistent/")
        answer = admin.get(f"{path}/internalStats").raise_for_status().json()
        if answer["cursors"]["s"]["state"] == "SwitchingLedger":
            return None
    return sum(int(stats(admin, topic)["msgBacklog"]) for topic in topics)


def available(admin: Any, topic: str) -> list[int]:
    return [consumer["availablePermits"] for consumer in stats(admin, topic)["consumers"]]


def rest_of(consumer: BlockingConsumer, *, acknowledge: bool = True) -> list[Message]:
    """All that comes, up to a moment in which nothing does."""
    got: list[Message] = []
    while (message := consumer.receive(NO_MORE if got else ENOUGH)) is not None:
        got.append(message)
        if acknowledge:
            consumer.acknowledge(message)
    return got


def produce(client: pulsar.Client, topic: str, numbers: range, batch: int, codec: str = "") -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=batch > 1,
        batching_max_messages=max(batch, 2),
        batching_max_publish_delay_ms=5000,
        block_if_queue_full=True,
        compression_type=CODECS.get(codec, pulsar.CompressionType.NONE),
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    )
    for number in numbers:
        producer.send_async(payload(number, SIZE), lambda result, message_id: None)
    producer.flush()
    producer.close()


@pytest.fixture
def contents() -> Iterator[Contents]:
    """The payload of each message that comes, by ledger, entry and batch index."""
    with contents_seen() as seen:
        yield seen


@contextmanager
def contents_seen() -> Iterator[Contents]:
    """As the fixture."""
    seen: Contents = {}
    look_into = entries.look_into

    def looking(entry: Any, metadata: Any, data: memoryview) -> None:
        look_into(entry, metadata, data)
        if entry.corrupt is None:
            data = payloads.uncompressed(metadata, data)
            if entry.batch_size is None:
                seen[*entry.positions[-1], None] = bytes(data)
            else:
                for index, one in enumerate(payloads.split(data, entry.batch_size)):
                    seen[*entry.positions[-1], index] = bytes(one or b"")

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(entries, "look_into", looking)
        yield seen


def digest_of(got: list[Message], contents: Contents) -> str:
    """Of the payloads that were handed out, by number."""
    found = [contents[one.ledger_id, one.entry_id, one.batch_index] for one in got]
    return hashlib.sha256(b"".join(sorted(found))).hexdigest()


def digest_of_numbers(numbers: range) -> str:
    return hashlib.sha256(b"".join(payload(number, SIZE) for number in numbers)).hexdigest()


def rows_of(trace: Path) -> list[Row]:
    return [row for row in open_trace(trace).rows() if row.command in ("FLOW", "MESSAGE")]


def outstanding_of(rows: list[Row]) -> dict[int | None, list[int]]:
    """Of each consumer the permits at the broker after each FLOW and MESSAGE, counted here."""
    found: dict[int | None, list[int]] = defaultdict(lambda: [0])
    for row in rows:
        one = found[row.consumer_id]
        permits = row.permits or 0
        one.append(one[-1] + (permits if row.command == "FLOW" else -permits))
    return found
