"""A tap that is watched, between real clients and the real broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest

from pulsar_doctor.parts.consume import attach
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.made.meddler import meddling
from tests.parts.tap.broker_samples import BrokerSamples, lasting
from tests.parts.tap.tap_process import Tap, running
from tests.support import eventually

QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
SHARED = pulsar.ConsumerType.Shared


def statuses(tap: Tap) -> list[tuple[str | None, str]]:
    return [(event["before"], event["status"]) for event in tap.of("verdict")]


def test_a_stall_is_told_once_and_its_end_once(broker, client, topic, tmp_path):
    client.subscribe(topic, "s", SHARED).close()
    attach.produce(client, topic, 100)
    soon = [f"--set=permits-exhausted.{limit}" for limit in ("refill_wait=2s", "quiet_after=1s")]
    arguments = ("-o", "jsonl", "--trace", str(tmp_path / "t"), "--ring", "60s", *soon)
    with running(*arguments, broker=broker) as tap:
        through = pulsar.Client(tap.service_url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", SHARED, receiver_queue_size=10, consumer_name="busy"
        )
        for _ in range(4):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        kept = tap.wait_for("kept")
        shown = tap.of("snapshot")[-1]["consumers"][0]
        assert (shown["status"], shown["code"]) == ("stalled", "permits-exhausted")
        assert (shown["flows"], shown["msg_out_counter"], shown["acknowledged"]) == (1, 10, 4)
        for _ in range(96):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        eventually(lambda: statuses(tap)[-1] == ("stalled", "healthy"), 30)
        through.close()
        assert tap.end() == 0
    changes = statuses(tap)
    # On a slow machine the first verdict comes when it has been quiet for a second already.
    begins_well = changes[0] == (None, "healthy")
    assert begins_well or changes[0] == (None, "warning")
    assert [now for _, now in changes].count("stalled") == 1
    assert [now for _, now in changes].count("healthy") == 1 + begins_well
    stalled = next(event for event in tap.of("verdict") if event["status"] == "stalled")
    assert "1 more" in stalled["findings"][0]["summary"]
    flows = [row for row in open_trace(Path(kept["path"])).rows() if row.command == "FLOW"]
    assert [row.permits for row in flows] == [10]


@contextmanager
def thief(broker_url: str, permits: int) -> Iterator[tuple[str, list[bytes]]]:
    """Between tap and broker, it keeps a FLOW of that size for itself: its URL, and what it has."""
    stolen: list[bytes] = []
    with meddling(broker_url) as meddler:
        # A lookup's answer must lead back to here; both ports have five digits.
        there, here = broker_url.encode(), meddler.service_url.encode()

        def steal(frame: bytes, command: wire.BaseCommand) -> bytes:
            if command.HasField("flow") and command.flow.message_permits == permits and not stolen:
                stolen.append(frame)
                return b""
            return frame.replace(there, here)

        meddler.meddle = steal
        yield meddler.service_url, stolen


def found(tap: Tap) -> list[str]:
    """The codes of the newest verdict."""
    return [
        finding["code"] for verdict in tap.of("verdict")[-1:] for finding in verdict["findings"]
    ]


def last(tap: Tap) -> tuple[int, str, list[str]]:
    """The exit code of a tap that has ended, and its last verdict on its one subscription."""
    (end,) = tap.of("end")
    (only,) = end["subscriptions"]
    return end["exit_code"], only["status"], [finding["code"] for finding in only["findings"]]


KINDS = [pytest.param(pulsar.ConsumerType.Exclusive, marks=pytest.mark.slow), SHARED]


@pytest.mark.parametrize("kind", KINDS, ids=["Exclusive", "Shared"])
def test_a_flow_that_never_reaches_the_broker_is_named(broker, client, topic, tmp_path, kind):
    client.subscribe(topic, "s", kind).close()
    attach.produce(client, topic, 40)
    arguments = ("-o", "jsonl", "--trace", str(tmp_path / "t"), "--compare-broker")
    with (
        thief(broker.service_url, permits=5) as (url, stolen),
        running(*arguments, admin_url=broker.admin_url, service_url=url) as tap,
        BrokerSamples(broker.admin_url, topic, unacked_limit=50_000) as samples,
    ):
        through = pulsar.Client(tap.service_url, logger=QUIET)
        consumer = through.subscribe(topic, "s", kind, receiver_queue_size=10, consumer_name="c")
        time.sleep(2.5)
        assert found(tap) == []  # as long as nothing is stolen both agree
        for _ in range(6):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        eventually(lambda: "permits-differ" in found(tap), 45)
        tap.end()  # it shuts its clients down
        through.close()
    assert len(stolen) == 1
    assert "permits-differ" in last(tap)[2]
    said = samples.held_against(tmp_path / "t")
    assert "agreed" in {outcome for outcome, *_ in said}
    assert set(lasting(said)) == {("parted", "c", 0)}
    flows = [row.permits for row in open_trace(tmp_path / "t").rows() if row.command == "FLOW"]
    assert flows == [10, 5]


@pytest.mark.slow
def test_a_busy_consumer_is_compared_all_the_time(broker, client, topic, tmp_path):
    client.subscribe(topic, "s", SHARED).close()
    attach.produce(client, topic, 20_000)
    arguments = ("-o", "jsonl", "--trace", str(tmp_path / "t"), "--compare-broker")
    with (
        running(*arguments, broker=broker) as tap,
        BrokerSamples(broker.admin_url, topic, unacked_limit=50_000) as samples,
    ):
        through = pulsar.Client(tap.service_url, logger=QUIET)
        consumer = through.subscribe(topic, "s", SHARED, receiver_queue_size=50, consumer_name="c")
        until = time.monotonic() + 20
        while time.monotonic() < until:
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
            time.sleep(0.002)
        time.sleep(3)
        through.close()
        tap.end()
    totals = Counter(outcome for outcome, *_ in samples.held_against(tmp_path / "t"))
    print(totals)
    assert totals["inside"] >= 10
    assert totals["parted"] == 0
    assert totals["skipped"] <= totals["inside"]


def test_flows_that_the_unacked_limit_parks_are_no_parting(broker, client, admin, topic, tmp_path):
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    client.subscribe(topic, "s", SHARED).close()
    limit = admin.post(f"{path}/maxUnackedMessagesOnConsumer", json=20)
    if limit.status_code >= 300:
        pytest.skip(f"this broker has no policies of topics: {limit.text}")
    eventually(
        lambda: (
            admin.get(f"{path}/maxUnackedMessagesOnConsumer", params={"applied": "true"}).text
            == "20"
        )
    )
    attach.produce(client, topic, 100)
    soon = "--set=blocked-on-unacked-consumer.refill_wait=2s"
    arguments = ("-o", "jsonl", "--trace", str(tmp_path / "t"), "--compare-broker", soon)
    with (
        running(*arguments, broker=broker) as tap,
        BrokerSamples(broker.admin_url, topic, unacked_limit=20) as samples,
    ):
        through = pulsar.Client(tap.service_url, logger=QUIET)
        consumer = through.subscribe(topic, "s", SHARED, receiver_queue_size=10, consumer_name="c")
        for _ in range(20):
            consumer.receive(timeout_millis=5000)  # none is acknowledged

        def parked() -> bool:
            stats = admin.get(f"{path}/stats").json()["subscriptions"]["s"]["consumers"][0]
            shown = [c for event in tap.of("snapshot")[-1:] for c in event["consumers"]]
            return (
                stats["blockedConsumerOnUnackedMsgs"]
                and shown
                and shown[0]["msg_out_counter"] == 20
                and stats["availablePermits"] < shown[0]["available_permits"]
            )

        eventually(parked, 45)
        # The limit is not visible on the wire, and what came over the wire is no part of the stats.
        eventually(lambda: "blocked-on-unacked-consumer" in found(tap), 45)
        time.sleep(4)
        through.close()
        code = tap.end()
    said = samples.held_against(tmp_path / "t")
    assert [outcome for outcome, *_ in said].count("skipped") >= 2  # neither right nor wrong
    assert lasting(said) == []
    assert last(tap) == (code, "stalled", ["blocked-on-unacked-consumer"])
    assert code == 1


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "own_name"), [(0, False), (2, False), (0, True)])
def test_a_dead_letter_policy_at_work_is_no_storm(
    broker, client, admin, topic, tmp_path, partitions, own_name
):
    """own_name: of its topic, which is to begin with a subscription: only that shows what it is."""
    if partitions:
        path = topic.replace("persistent://", "/admin/v2/persistent/")
        assert admin.put(f"{path}/partitions", json=partitions).status_code < 300
    client.subscribe(topic, "s", SHARED).close()
    attach.produce(client, topic, 40)
    with running("-o", "jsonl", "--trace", str(tmp_path / "t"), broker=broker) as tap:
        through = pulsar.Client(tap.service_url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", SHARED, receiver_queue_size=100, negative_ack_redelivery_delay_ms=1000,
            dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(
                2, *([f"{topic}-failed", "kept"] if own_name else [])
            ),
        )  # fmt: skip
        received, last = 0, time.monotonic()
        while time.monotonic() - last < 8:
            try:
                message = consumer.receive(timeout_millis=500)
            except pulsar.Timeout:
                continue
            received, last = received + 1, time.monotonic()
            consumer.negative_acknowledge(message)
        through.close()
        code = tap.end()
    trace = open_trace(tmp_path / "t")
    sent = {row.topic for row in trace.rows() if row.command == "SEND"}
    assert own_name == (f"{topic}-failed" in sent)
    print(sent, statuses(tap))  # a warning while the third deliveries are there and none has ended
    assert received == 3 * 40
    put_away = [
        sum(count for _, count in consumer.ledger.dead_letters)
        for consumer in trace.timeline().consumers
    ]
    assert sum(put_away) >= 40
    assert "redelivery-storm" not in found(tap)
    assert code == 0
