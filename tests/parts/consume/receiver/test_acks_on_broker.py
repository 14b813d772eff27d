"""What the real broker makes of what our consumer says of messages, and what it shows of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pulsar
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume.receiver import connected
from tests.conformance.raw_producer import RawProducer
from tests.made.meddler import flip_last_byte
from tests.parts.consume.receiver.received import (
    ENOUGH,
    NO_MORE,
    SLOW,
    attached,
    available,
    meddled,
    plan_of,
    produce,
    rest_of,
    stats,
)
from tests.parts.consume.receiver.received import contents as contents  # noqa: PLC0414
from tests.support import eventually


@pytest.mark.parametrize("kind", ["exclusive", pytest.param("failover", marks=SLOW)])
def test_cumulative_acknowledgements_move_mark_delete(broker, admin, client, topic, kind):
    again, rest = after_a_cumulative_ack(broker, client, topic, kind)
    assert stats(admin, topic)["msgBacklog"] == 5
    assert again == rest


def test_without_index_acks_a_cumulative_one_ends_before_its_batch(
    default_broker, default_client, topic
):
    again, rest = after_a_cumulative_ack(default_broker, default_client, topic, "exclusive")
    assert again[-len(rest) :] == rest
    assert again[:5] == [(rest[0][0], index) for index in range(5)]
    assert len(again) == len(rest) + 5


def after_a_cumulative_ack(broker, client, topic, kind) -> tuple[list[Any], list[Any]]:
    """Of ten batches of ten, into the sixth: what comes again, and what is behind."""
    plan = plan_of(topic, 100, type=kind, batch_index_acks=True)
    with attached(broker.service_url, plan) as consumer:
        produce(client, topic, range(100), 10)
        got = [consumer.receive(ENOUGH) for _ in range(100)]
        consumer.acknowledge_cumulative(got[54])
        assert list(consumer.active.values()) == [True if kind == "failover" else None]
    with attached(broker.service_url, plan) as consumer:
        again = rest_of(consumer, acknowledge=False)
    both = ([(one.entry_id, one.batch_index) for one in messages] for messages in (again, got[55:]))
    return next(both), next(both)


def test_single_acknowledgements_within_batches_are_kept_by_the_broker(
    broker, admin, client, topic
):
    again, got = after_single_acks(broker, client, topic, lambda: available(admin, topic)[0] <= 7)
    assert again == sorted(one for at, one in enumerate(got) if at % 3)
    assert stats(admin, topic)["msgBacklog"] == 0


def test_single_acknowledgements_within_batches_are_dropped_by_default(
    default_broker, default_client, topic
):
    again, got = after_single_acks(default_broker, default_client, topic, lambda: True)
    assert again == sorted(got)


def after_single_acks(broker, client, topic, holds) -> tuple[list[Any], list[Any]]:
    """Every third message of three batches of 20: what comes again, and all in order."""
    plan = plan_of(topic, 7, batch_index_acks=True)
    with attached(broker.service_url, plan) as consumer:
        produce(client, topic, range(60), 20)
        got = [consumer.receive(ENOUGH) for _ in range(60)]
        for one in got[::3]:
            consumer.acknowledge(one)
    with attached(broker.service_url, plan) as consumer:
        again = rest_of(consumer)
        assert holds()
    both = ([(one.entry_id, one.batch_index) for one in messages] for messages in (again, got))
    return sorted(next(both)), next(both)


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_a_negative_acknowledgement_brings_it_again(broker, client, topic, kind):
    with attached(broker.service_url, plan_of(topic, 4, type=kind)) as consumer:
        produce(client, topic, range(6), 1)
        seen: Counter[int] = Counter()
        while (message := consumer.receive(NO_MORE if seen.total() > 6 else ENOUGH)) is not None:
            seen[message.entry_id] += 1
            if message.entry_id == 2 and seen[2] == 1:
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)
    assert seen[2] == 2 if kind == "shared" else seen[2] > 1  # the broker may read on meanwhile
    assert set(seen) == set(range(6))


@SLOW
def test_key_shared_consumers_share_and_lose_nothing(broker, client, topic):
    plan = plan_of(topic, 10, type="key_shared")
    with connected(broker.service_url, Settings()) as engine:
        consumers = [engine.subscribe(replace(plan, name=f"c{each}")) for each in range(2)]
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(60):
            producer.send(b"x", partition_key=str(number % 7))
        got = [one.entry_id for consumer in consumers for one in rest_of(consumer)]
    assert sorted(got) == list(range(60))


def test_a_chunked_message_is_one_and_leaves_no_permit_behind(
    broker, admin, client, topic, contents
):
    big = bytes(range(256)) * 40_000  # two chunks
    with attached(broker.service_url, plan_of(topic, 3)) as consumer:
        producer = client.create_producer(
            topic, chunking_enabled=True, batching_enabled=False,
            compression_type=pulsar.CompressionType.NONE,
        )  # fmt: skip
        producer.send(big)
        producer.send(b"small")
        got = rest_of(consumer)
        assert [one.corrupt for one in got] == [None, None]
        assert contents[got[0].ledger_id, got[0].entry_id, None] == big
        eventually(lambda: available(admin, topic) == [3])
        assert stats(admin, topic)["msgBacklog"] == 0


@pytest.mark.parametrize("queue", [0, 2])
def test_what_is_corrupt_is_shown_and_gives_its_permits_back(broker, admin, topic, queue):
    plan = plan_of(topic, queue)
    with attached(broker.service_url, plan) as consumer:
        raw = RawProducer(broker.service_url, topic)
        raw.entry(compressed=(1, 500))
        raw.entry(compressed=(2, 500))
        raw.entry(compressed=(4, 500))
        raw.entry(batch=30)
        raw.entry(encrypted=True)
        raw.entry()
        raw.close()
        got = rest_of(consumer)
        assert [one.corrupt for one in got] == [
            "DecompressionError", "DecompressionError", "UncompressedSizeCorruption",
            "BatchDeSerializeError", "DecryptionError", None,
        ]  # fmt: skip
        assert available(admin, topic) == [max(queue, 1)]
        eventually(lambda: stats(admin, topic)["msgBacklog"] == 5)


def test_a_wrong_checksum_is_shown(broker, admin, client, topic, tmp_path):
    plan = plan_of(topic, 10)
    with meddled(broker, tmp_path / "t.ptrace", plan) as (consumer, meddler):
        meddler.meddle = flip_last_byte
        produce(client, topic, range(3), 1)
        got = rest_of(consumer)
        assert [one.corrupt for one in got] == ["ChecksumMismatch"] * 3
        assert stats(admin, topic)["msgBacklog"] == 3


def test_an_exclusive_subscription_that_is_taken_is_refused_and_unsubscribing_removes_it(
    broker, admin, topic
):
    plan = plan_of(topic, 10, type="exclusive")
    with connected(broker.service_url, Settings()) as engine:
        consumer = engine.subscribe(plan)
        with pytest.raises(DoctorError, match="has an exclusive consumer already"):
            engine.subscribe(plan)
        assert stats(admin, topic)["type"] == "Exclusive"
        consumer.unsubscribe()
        with pytest.raises(KeyError):
            stats(admin, topic)


def test_a_namespace_that_does_not_exist_is_a_sentence(broker):
    with (
        connected(broker.service_url, Settings()) as engine,
        pytest.raises(DoctorError, match=r"persistent://nobody/nowhere/t"),
    ):
        engine.subscribe(plan_of("persistent://nobody/nowhere/t", 1))
