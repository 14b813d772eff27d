"""A tap that is watched, between real clients and the real broker."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest

from pulsar_doctor.parts.consume import attach
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.tap.broker_samples import BrokerSamples
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


class Thief:
    """Stands between tap and broker, and keeps a FLOW of one size for itself."""

    def __init__(self, broker_url: str, permits: int) -> None:
        host, port = broker_url.removeprefix("pulsar://").split(":")
        self.broker = host, int(port)
        self.stolen = 0
        self._permits = permits
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.create_connection(self.broker)
            self._sockets += [client, broker]
            for ends in ((client, broker, True), (broker, client, False)):
                threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, to_broker: bool) -> None:
        # A lookup's answer must lead back to here; both ports have five digits.
        here, there = f":{self.port}".encode(), f":{self.broker[1]}".encode()
        try:
            with source.makefile("rb") as frames:
                while head := frames.read(4):
                    frame = head + frames.read(struct.unpack(">I", head)[0])
                    if to_broker and self._takes(frame):
                        self.stolen += 1
                    else:
                        target.sendall(frame.replace(there, here) if not to_broker else frame)
        except (OSError, ValueError):
            pass
        finally:
            target.close()

    def _takes(self, frame: bytes) -> bool:
        from pulsar_doctor.wire import pulsar_wire_pb2 as wire

        size = struct.unpack(">I", frame[4:8])[0]
        command = wire.BaseCommand.FromString(frame[8 : 8 + size])
        return (
            not self.stolen and command.type == 11 and command.flow.message_permits == self._permits
        )


@contextmanager
def thief(broker_url: str, permits: int) -> Iterator[Thief]:
    thief = Thief(broker_url, permits)
    try:
        yield thief
    finally:
        thief.close()


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
        thief(broker.service_url, permits=5) as stealing,
        running(
            *arguments,
            admin_url=broker.admin_url,
            service_url=f"pulsar://127.0.0.1:{stealing.port}",
        ) as tap,
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
    assert stealing.stolen == 1
    assert "permits-differ" in last(tap)[2]
    comparison, partings = samples.held_against(tmp_path / "t")
    (parted,) = partings
    assert comparison.totals.agreed >= 1
    assert comparison.totals.parted >= 2
    assert (parted.tap_available_permits, parted.broker_available_permits) == (5, 0)
    assert parted.consumer_name == "c"
    assert parted.same_size_command is not None
    (row,) = [
        row for row in open_trace(tmp_path / "t").rows() if row.seq == parted.same_size_command.seq
    ]
    assert (row.command, row.permits) == ("FLOW", 5)


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
    comparison, partings = samples.held_against(tmp_path / "t")
    print(comparison.totals)
    assert comparison.totals.inside >= 10
    assert comparison.totals.parted == 0
    assert comparison.totals.skipped <= comparison.totals.inside
    assert partings == []


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
    comparison, partings = samples.held_against(tmp_path / "t")
    assert comparison.totals.skipped >= 2  # neither right nor wrong
    assert partings == []
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
