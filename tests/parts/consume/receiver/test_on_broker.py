"""What our consumer asks the real broker for, and that all comes that real producers sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.consume.engines import Message
from pulsar_doctor.wire.columns import Row
from tests.clients import starting
from tests.parts.consume.receiver.received import (
    CODECS,
    ENOUGH,
    NO_MORE,
    SIZE,
    SLOW,
    Contents,
    attached,
    available,
    digest_of,
    digest_of_numbers,
    outstanding_of,
    partitioned,
    plan_of,
    produce,
    rest_of,
    rows_of,
    stats,
    tapped,
)
from tests.parts.consume.receiver.received import contents as contents  # noqa: PLC0414


def zero_queue_on_partitions(
    broker: Any, admin: Any, topic: str, trace: Path, send: Callable[[str, range], None]
) -> tuple[list[Message], list[Row]]:
    """4 partitions, a zero queue, and 400 messages of each compression, sent by `send`."""
    partitioned(admin, topic, 4)
    for at, codec in enumerate(CODECS):
        send(codec, range(at * 400, at * 400 + 400))
    with tapped(broker, trace, plan_of(topic, 0)) as consumer:
        got = rest_of(consumer)
    waiting = [stats(admin, f"{topic}-partition-{each}")["msgBacklog"] for each in range(4)]
    assert waiting == [0] * 4
    return got, rows_of(trace)


def assert_all_once_and_one_permit_at_most(
    got: list[Message], rows: list[Row], contents: Contents
) -> None:
    assert len(got) == 1600
    assert {one.corrupt for one in got} == {None}
    assert digest_of(got, contents) == digest_of_numbers(range(1600))
    assert {one.partition for one in got} == {0, 1, 2, 3}
    outstanding = outstanding_of(rows)
    assert len(outstanding) == 4
    for one in outstanding.values():
        assert max(one) == 1
    assert max(row.available_permits for row in rows if row.available_permits is not None) == 1
    for consumer_id in outstanding:
        cost = [r.permits for r in rows if r.consumer_id == consumer_id and r.command == "MESSAGE"]
        flows = [r.permits for r in rows if r.consumer_id == consumer_id and r.command == "FLOW"]
        assert flows == [1, *cost][: len(flows)]
        assert len(flows) == len(cost) + 1  # the last one waits


def test_a_zero_queue_takes_batches_of_100_from_4_partitions_with_one_permit_each(
    broker, admin, client, topic, tmp_path, contents
):
    def send(codec: str, numbers: range) -> None:
        produce(client, topic, numbers, 100, codec)

    got, rows = zero_queue_on_partitions(broker, admin, topic, tmp_path / "t.ptrace", send)
    assert_all_once_and_one_permit_at_most(got, rows, contents)
    assert max(row.permits for row in rows if row.command == "FLOW") == 100


@SLOW
def test_a_zero_queue_takes_what_java_compresses(broker, admin, topic, tmp_path, contents):
    with starting("java", tmp_path, broker.service_url) as java:

        def send(codec: str, numbers: range) -> None:
            for at in range(4):
                java.produce(
                    f"{topic}-partition-{at}", 100, first=numbers[at * 100], size=SIZE,
                    batched=True, batch=100, compression=codec,
                )  # fmt: skip

        got, rows = zero_queue_on_partitions(broker, admin, topic, tmp_path / "t.ptrace", send)
    assert_all_once_and_one_permit_at_most(got, rows, contents)
    assert max(row.permits for row in rows if row.command == "FLOW") > 1


@pytest.mark.parametrize("codec", ["", *CODECS])
def test_single_messages_of_every_compression_come_as_they_were_sent(
    broker, client, topic, contents, codec
):
    with attached(broker.service_url, plan_of(topic, 5)) as consumer:
        produce(client, topic, range(30), 1, codec)
        got = rest_of(consumer)
    assert digest_of(got, contents) == digest_of_numbers(range(30))
    assert [one.entry_id for one in got] == list(range(30))


@pytest.mark.parametrize(
    ("queue", "flows"),
    [(1, [1] + [1] * 24), (2, [2] + [1] * 24), (3, [3] + [1] * 24), (10, [10, 5, 5, 5, 5])],
)
def test_flows_of_small_queues(broker, client, topic, tmp_path, queue, flows):
    trace = tmp_path / "t.ptrace"
    with tapped(broker, trace, plan_of(topic, queue)) as consumer:
        produce(client, topic, range(24), 1)
        for _ in range(24):
            consumer.acknowledge(consumer.receive(ENOUGH))
    rows = rows_of(trace)
    assert [row.permits for row in rows if row.command == "FLOW"] == flows
    assert max(max(one) for one in outstanding_of(rows).values()) == queue


@SLOW
def test_the_flows_of_a_queue_of_1000_and_how_far_batches_take_it_below_zero(
    broker, client, topic, tmp_path
):
    trace = tmp_path / "t.ptrace"
    produce(client, topic, range(1), 1)
    with tapped(broker, trace, plan_of(topic, 1000)) as consumer:
        produce(client, topic, range(1600), 100)
        assert len(rest_of(consumer)) == 1601
    assert [row.permits for row in rows_of(trace) if row.command == "FLOW"] == [1000, 500, 500, 500]


def test_a_receive_that_ends_without_a_message_leaves_one_permit_and_asks_no_second(
    broker, admin, client, topic
):
    partitioned(admin, topic, 2)
    with attached(broker.service_url, plan_of(topic, 0)) as consumer:
        for _ in range(4):
            assert consumer.receive(0.1) is None
        for each in range(2):
            assert available(admin, f"{topic}-partition-{each}") == [1]
        produce(client, topic, range(6), 1)
        assert len(rest_of(consumer)) == 6
        for each in range(2):
            assert available(admin, f"{topic}-partition-{each}") == [1]


def test_by_hand_the_broker_sends_what_was_granted(broker, admin, client, topic):
    with attached(broker.service_url, plan_of(topic, 1000, permits="manual")) as consumer:
        produce(client, topic, range(20), 1)
        assert consumer.receive(NO_MORE) is None
        assert available(admin, topic) == [0]
        consumer.grant(1)
        assert len(rest_of(consumer)) == 1
        consumer.grant(10)
        assert len(rest_of(consumer)) == 10
        assert available(admin, topic) == [0]
        consumer.grant(100)
        assert len(rest_of(consumer)) == 9
        assert available(admin, topic) == [91]
