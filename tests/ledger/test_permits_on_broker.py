"""Every FLOW and permit of a real client on the real broker, and the broker's own number beside."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import pulsar
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.session import RunOptions, Session, session
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.trace.sealing import Sealer, open_trace
from tests.support import eventually
from tests.support.command_line import MINE, answered, pulsar_doctor


def consume(broker: Sandbox, *arguments: str) -> dict:
    """Runs `pulsar-doctor consume … -o json` as a user would; returns its document."""
    run = answered("consume", *arguments, "-o", "json", broker=broker)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def stats(admin: httpx2.Client, topic: str) -> dict:
    path = topic.replace("persistent://", "")
    tenant, namespace, name = path.split("/")
    answer = admin.get(f"/admin/v2/persistent/{tenant}/{namespace}/{quote(name)}/stats")
    answer.raise_for_status()
    return answer.json()


def broker_consumers(admin: httpx2.Client, topic: str) -> dict[str, dict]:
    (subscription,) = stats(admin, topic)["subscriptions"].values()
    return {consumer["consumerName"]: consumer for consumer in subscription["consumers"]}


def test_a_queue_of_10_and_30_messages_taken_show_one_flow_of_10_and_six_of_5(
    broker, client, topic
):
    client.subscribe(topic, "s").close()
    attach.produce(client, topic, 30)
    document = consume(broker, topic, *MINE, "--receiver-queue-size", "10", "-n", "30")
    (consumer,) = document["consumers"]
    assert consumer["flows"] == [10, 5, 5, 5, 5, 5, 5]
    assert (consumer["messages"], consumer["acknowledged"]) == (30, 30)
    assert (consumer["permits_granted"], consumer["permits_spent"]) == (40, 30)
    assert (consumer["available_permits"], consumer["unsent_permits"]) == (10, 0)
    assert consumer["refill_threshold"] == 5
    assert consumer["verdict"] == "healthy"


def test_a_queue_of_1_shows_one_flow_and_one_for_each_message(broker, client, topic):
    client.subscribe(topic, "s").close()
    attach.produce(client, topic, 7)
    document = consume(broker, topic, *MINE, "--receiver-queue-size", "1", "-n", "7")
    assert document["consumers"][0]["flows"] == [1] * 8


def test_a_zero_queue_shows_one_flow_of_1_for_each_receive(broker, tmp_path):
    trace = tmp_path / "zero.ptrace"
    document = consume(broker, "--zero-queue", "-n", "12", "--trace", str(trace))
    (consumer,) = document["consumers"]
    assert consumer["flows"] == [1] * 12
    assert consumer["messages"] == 12
    rows = [row for row in open_trace(trace).rows() if row.incarnation is not None]
    assert {row.available_permits for row in rows} == {0, 1}
    in_flight = most = 0  # asked for or delivered, and not yet taken
    for row in rows:
        in_flight += {"MESSAGE": 1, "TAKEN": -1}.get(row.command, 0)
        most = max(most, in_flight)
    assert most == 1


class Tapped:
    """A session on the test's topic, with the ledger held against the broker's number."""

    def __init__(self, running: Session, admin: httpx2.Client, topic: str) -> None:
        self.running, self.admin, self.topic = running, admin, topic

    def agree(self, name: str) -> int:
        """Waits for a quiet moment and compares; returns available permits."""

        def same() -> bool:
            self.running.settle()
            consumer = self.running.consumer(name)
            assert consumer is not None
            theirs = broker_consumers(self.admin, self.topic)[name]["availablePermits"]
            self.ours = consumer.ledger.available_permits
            return self.ours == theirs

        eventually(same, timeout=5)
        return self.ours


@pytest.fixture
def tapped(broker, admin, client, topic, tmp_path):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    plans = [Plan(f"c{size}", topic, "s", size) for size in (0, 1, 10, 1000)]
    settings = Settings(service_url=broker.service_url)
    with session(settings, plans, RunOptions(trace_dir=tmp_path / "t.ptrace")) as running:
        yield Tapped(running, admin, topic), {plan.name: plan for plan in plans}


@pytest.mark.parametrize(
    ("name", "available"), [("c10", 10 - 437 % 5), ("c1000", 1000 - 437), ("c1", 1)]
)
def test_the_ledger_equals_the_broker_for_single_messages(tapped, client, topic, name, available):
    watch, plans = tapped
    watch.running.attach(plans[name])
    assert watch.agree(name) == plans[name].receiver_queue_size
    attach.produce(client, topic, 437)
    watch.running.wait(lambda: watch.running.consumer(name).ledger.acknowledged == 437, 15)
    assert watch.agree(name) == available


def test_the_ledger_equals_the_broker_for_batches_far_below_zero(tapped, client, topic):
    watch, _ = tapped
    send_batches(client, topic, batches=30, size=100)
    busy = Plan("c1000", topic, "s", 1000, process_seconds=3600.0)
    watch.running.attach(busy)
    watch.running.wait(lambda: watch.running.consumer("c1000").ledger.messages >= 1000, 10)
    assert watch.agree("c1000") <= 0
    ledger = watch.running.consumer("c1000").ledger
    assert ledger.largest_batch == 100
    assert ledger.available_permits == 1000 - ledger.messages


def send_batches(client, topic: str, batches: int, size: int) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=size, batching_max_publish_delay_ms=5000
    )
    for _ in range(batches):
        for _ in range(size):
            producer.send_async(b"in a batch", lambda result, message_id: None)
    producer.flush()
    producer.close()


@contextmanager
def at_its_limit(broker, admin, client, topic, **how) -> Iterator[tuple[Ledger, int]]:
    """A consumer that took 20 and may have no more: its ledger, and the permits by the broker."""
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    limit_unacked(admin, topic, 20)
    attach.produce(client, topic, 60)
    plan = Plan("c10", topic, "s", 10, ack="none", **how)
    with session(Settings(service_url=broker.service_url), [plan]) as running:
        running.attach(plan)
        running.wait(lambda: running.consumer("c10").ledger.taken == 20, 10)
        eventually(lambda: broker_consumers(admin, topic)["c10"]["blockedConsumerOnUnackedMsgs"], 5)
        running.settle()
        theirs = broker_consumers(admin, topic)["c10"]["availablePermits"]
        yield running.consumer("c10").ledger, theirs


@pytest.mark.parametrize("told_limit", [20, None])
def test_permits_are_parked_while_blocked_on_unacked_messages(
    broker, admin, client, topic, told_limit
):
    # It takes its time over each message, so that no FLOW crosses with the messages before it.
    slow = {"unacked_limit": told_limit, "process_seconds": 0.05}
    with at_its_limit(broker, admin, client, topic, **slow) as (ledger, theirs):
        assert ledger.spent == 20
        if told_limit:
            assert (ledger.available_permits, ledger.parked_permits) == (theirs, 10)
        else:
            assert ledger.parked_permits is None
            assert ledger.available_permits >= theirs


def test_a_flow_that_crosses_with_the_message_that_reaches_the_limit_is_not_guessed_at(
    broker, admin, client, topic
):
    with at_its_limit(broker, admin, client, topic, unacked_limit=20) as (ledger, theirs):
        assert ledger.available_permits - ledger.crossed <= theirs <= ledger.available_permits
        if ledger.parked_permits is not None:
            assert ledger.available_permits == theirs


def test_parked_permits_come_back_when_half_of_the_limit_is_acknowledged(
    broker, admin, client, topic, tmp_path
):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    limit_unacked(admin, topic, 20)
    told = {"c10": {"unacked_limit": 20}}
    trace = tmp_path / "t.ptrace"
    with (
        relaying(broker.service_url, trace, RelayOptions(given=told)) as relay,
        observing(trace) as observer,
    ):
        through = pulsar.Client(relay.service_url)
        consumer = through.subscribe(
            topic, "s", attach.TYPES["shared"], receiver_queue_size=10, consumer_name="c10"
        )
        attach.produce(client, topic, 25)
        taken = []
        for _ in range(20):
            taken.append(consumer.receive(timeout_millis=5000))
            time.sleep(0.05)  # so that no FLOW crosses with the messages before it

        def ledger() -> Ledger:
            relay.flush()
            observer.follow()
            return next(observer.timeline.living).ledger

        def theirs() -> dict:
            return broker_consumers(admin, topic)["c10"]

        eventually(lambda: ledger().blocked and theirs()["blockedConsumerOnUnackedMsgs"], 5)
        assert ledger().parked > 0
        for message in taken[:9]:
            consumer.acknowledge(message)
        eventually(lambda: theirs()["unackedMessages"] == 11 == ledger().unacked, 5)
        assert ledger().blocked
        assert ledger().available_permits == theirs()["availablePermits"]
        consumer.acknowledge(taken[9])
        eventually(lambda: ledger().messages == 25, 5)
        assert not ledger().blocked
        assert ledger().parked_permits == 0
        assert ledger().available_permits == theirs()["availablePermits"] == 5
        through.close()


@contextmanager
def observing(trace: Path) -> Iterator[Sealer]:
    observer = Sealer(trace)
    try:
        yield observer
    finally:
        observer.close()


def limit_unacked(admin: httpx2.Client, topic: str, limit: int) -> None:
    path = topic.replace("persistent://", "/admin/v2/persistent/")

    def set_and_seen() -> bool:
        admin.post(f"{path}/maxUnackedMessagesOnConsumer", json=limit).raise_for_status()
        return admin.get(f"{path}/maxUnackedMessagesOnConsumer").json() == limit

    eventually(set_and_seen, 20)


def test_consume_on_its_own_topic_needs_no_subscription_and_ends_by_itself(broker):
    run = pulsar_doctor("consume", "--receiver-queue-size", "10", broker=broker)
    assert run.returncode == 0, run.stderr
    assert "FLOW +10" in run.stdout
    assert "FLOW +5" in run.stdout
    assert "next FLOW after" in run.stdout


def test_a_zero_queue_on_a_partitioned_topic_is_refused_with_what_to_do(broker, admin, topic):
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    admin.put(f"{path}/partitions", json=2).raise_for_status()
    run = answered("consume", topic, "-s", "s", "--zero-queue", broker=broker)
    assert run.returncode == 2
    assert "--receiver-queue-size 1" in run.stderr
    assert "--engine wire" in run.stderr
    assert run.stdout == ""


def test_a_zero_queue_that_meets_a_batch_stops_before_a_message_is_lost(
    broker, admin, client, topic
):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    send_batches(client, topic, batches=1, size=20)
    run = answered("consume", topic, *MINE, "--zero-queue", "-n", "5", "-o", "json", broker=broker)
    assert run.returncode == 1, run.stderr
    assert "batch" in run.stderr
    (consumer,) = json.loads(run.stdout)["consumers"]
    assert [finding["code"] for finding in consumer["findings"]] == ["zero-queue-unsupported"]
    assert consumer["acknowledged"] == 0
    again = consume(broker, topic, *MINE, "--receiver-queue-size", "1", "-n", "20")
    assert again["consumers"][0]["acknowledged"] == 20


def test_partitions_are_consumers_of_their_own(broker, admin, topic):
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    admin.put(f"{path}/partitions", json=3).raise_for_status()
    run = answered(
        "consume", topic, "-s", "s", "--receiver-queue-size", "6", "--timeout", "2s",
        "-o", "json", broker=broker,
    )  # fmt: skip
    consumers = json.loads(run.stdout)["consumers"]
    assert sorted(c["topic"] for c in consumers) == [f"{topic}-partition-{n}" for n in range(3)]
    assert [c["flows"] for c in consumers] == [[6]] * 3


def test_no_broker_is_one_sentence_that_names_the_sandbox(tmp_path: Path):
    run = answered("consume", "t", "-s", "s", "--service-url", "pulsar://127.0.0.1:1", broker=None)
    assert run.returncode == 3
    assert "--sandbox" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
