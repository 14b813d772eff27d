"""The stall of a running client is found by packets and the broker's stats, without a restart."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

pulsar = pytest.importorskip("pulsar")

from pulsar_doctor.parts.consume import attach  # noqa: E402
from pulsar_doctor.trace.sealing import open_trace  # noqa: E402
from tests.parts.capture.beside import two_consumers  # noqa: E402
from tests.parts.capture.packing import may_capture  # noqa: E402
from tests.parts.tap.test_on_broker import QUIET, tap  # noqa: E402
from tests.support.command_line import answered, environment  # noqa: E402
from tests.support.wanting import wanting  # noqa: E402

pytestmark = pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))


@contextmanager
def capturing(
    broker, trace: Path, seconds: float, *more: str, interface: str = "lo"
) -> Iterator[subprocess.Popen[str]]:
    """`pulsar-doctor capture -i lo` in a process of its own, while something is done."""
    port = broker.service_url.rpartition(":")[2]
    command = [sys.executable, "-m", "pulsar_doctor", "capture", "-i", interface, "--port", port]
    process = subprocess.Popen(
        [*command, "--for", f"{seconds}s", "--trace", str(trace), *more],
        env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while not (trace / "_meta.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield process
        said = process.communicate(timeout=seconds + 30)
        assert process.returncode == 0, said
    finally:
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize(
    ("queue", "acks"),
    [
        pytest.param(1000, 0, id="demo", marks=pytest.mark.slow),
        pytest.param(10, 0, id="silent"),
        pytest.param(10, 3, id="acknowledging", marks=pytest.mark.slow),
    ],
)
def test_the_stall_of_a_consumer_that_was_there_before(
    broker, client, topic, tmp_path, queue, acks
):
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=queue, consumer_name="worker"
    )
    attach.produce(client, topic, queue + 100)
    taken = [consumer.receive(timeout_millis=5000) for _ in range(4)]
    time.sleep(0.5)
    trace = tmp_path / "t"
    with capturing(broker, trace, 6 + 3 * acks, "--topic", topic):
        for message in taken[:acks]:
            time.sleep(3)
            consumer.acknowledge(message)
    rows = list(open_trace(trace).rows())
    stats = [row for row in rows if row.command == "STATS"]
    assert {row.consumer_name for row in stats} == {"worker"}
    assert stats[-1].available_permits == 0
    assert stats[-1].unacked_messages == queue - acks
    if acks:
        (ack,) = [row for row in rows if row.command == "ACK"]
        assert stats[-1].consumer_id == ack.consumer_id
    run = answered(
        "stall-check", "--trace", str(trace), "-o", "json",
        "--set", "permits-exhausted.refill_wait=2s",
    )  # fmt: skip
    assert run.returncode == 1, run.stdout + run.stderr
    (subscription,) = json.loads(run.stdout)["subscriptions"]
    assert subscription["status"] == "stalled"
    (finding, *_) = subscription["findings"]
    assert finding["code"] == "permits-exhausted"
    assert finding["consumer"] == "worker"
    more = (queue - acks) // 2
    assert f"next FLOW after at most {more} more messages" in finding["summary"]


def test_with_the_admin_url_alone_topics_are_found_also_those_that_are_listed_later(
    default_broker, default_client, topic, tmp_path
):
    attach.produce(default_client, topic, 1)  # its connection is there before
    more = "--admin-url", default_broker.admin_url
    with capturing(default_broker, tmp_path / "t", 20, *more, interface="any"):
        time.sleep(3)
        consumer = default_client.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="worker"
        )
        attach.produce(default_client, topic, 100)
        taken = [consumer.receive(timeout_millis=5000) for _ in range(4)]
        for message in taken[:3]:
            time.sleep(3)
            attach.produce(default_client, topic, 1)  # so that the broker says something, too
            consumer.acknowledge(message)
    rows = list(open_trace(tmp_path / "t").rows())
    stats = [row for row in rows if row.command == "STATS" and row.topic == topic]
    assert {(row.consumer_name, row.subscription) for row in stats} == {("worker", "s")}
    assert (stats[-1].available_permits, stats[-1].unacked_messages) == (0, 7)
    *_, ack = [row for row in rows if row.command == "ACK"]
    assert stats[-1].consumer_id == ack.consumer_id
    run = answered(
        "stall-check", "--trace", str(tmp_path / "t"), "-o", "json",
        "--set", "permits-exhausted.refill_wait=2s",
    )  # fmt: skip
    judged = {each["topic"]: each["status"] for each in json.loads(run.stdout)["subscriptions"]}
    assert judged[topic] == "stalled"


OF_CONSUMER = ("FLOW", "MESSAGE", "ACK")
TOLD = ("command", "consumer_id", "topic", "subscription", "subscription_type", "consumer_name",
        "permits", "messages", "ledger_id", "entry_id", "payload_bytes",
        "available_permits", "unacked_messages")  # fmt: skip


def test_begun_in_the_middle_the_balance_is_that_of_a_tap_from_the_first_sample_on(
    broker, client, topic, tmp_path
):
    with tap(broker, tmp_path / "tap") as (url, _):
        through = pulsar.Client(url, logger=QUIET)
        consumers = two_consumers(through, topic)

        def work(count: int, *, all_of_them: bool = True) -> None:
            for number in range(count):
                attach.produce(client, topic, 1)
                for consumer in consumers[: None if all_of_them else 1]:
                    consumer.acknowledge(consumer.receive(timeout_millis=5000))
                time.sleep(0.3 if number < count - 1 else 1.6)

        work(3)
        with capturing(broker, tmp_path / "captured", 28, "--topic", topic):
            work(2)
            work(2)
            time.sleep(4)
            work(3, all_of_them=False)  # the FLOW of one tells them apart
            time.sleep(5)
            work(6)
        through.close()
    tapped = [row for row in open_trace(tmp_path / "tap").rows() if row.command in OF_CONSUMER]
    rows = list(open_trace(tmp_path / "captured").rows())
    exact = [row for row in rows if row.command == "STATS" and row.available_permits is not None]
    assert {row.consumer_name for row in exact} == {"number 0", "number 1"}
    exact = [row for row in exact if row.consumer_id is not None]
    assert {row.known_by for row in exact} <= {"movement", "ledger"}  # and none is only likely
    for name in ("number 0", "number 1"):
        begun = next(row.seq for row in exact if row.consumer_name == name)
        behind = [
            tuple(getattr(row, column) for column in TOLD)
            for row in rows
            if row.command in OF_CONSUMER and row.consumer_name == name and row.seq > begun
        ]
        before = [
            tuple(getattr(row, column) for column in TOLD)
            for row in tapped
            if row.consumer_name == name
        ]
        assert len(behind) >= 4
        assert behind == before[-len(behind) :]


def test_stats_in_a_file_name_the_consumers_of_a_capture(broker, client, topic, tmp_path):
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="worker"
    )
    with capturing(broker, tmp_path / "live", 9):
        for _ in range(4):
            attach.produce(client, topic, 1)
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
            time.sleep(1.5)
        name = topic.partition("://")[2]
        answer = httpx2.get(f"{broker.admin_url}/admin/v2/persistent/{name}/stats")
    rows = list(open_trace(tmp_path / "live").rows())
    assert any(row.command == "ACK" and row.consumer_name is None for row in rows)
    (tmp_path / "stats.json").write_text(answer.text)
    with capturing(
        broker, tmp_path / "named", 9, "--stats", str(tmp_path / "stats.json"), "--topic", topic
    ):
        for _ in range(4):
            attach.produce(client, topic, 1)
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
            time.sleep(1.5)
    rows = list(open_trace(tmp_path / "named").rows())
    (stats,) = {row.consumer_name: row for row in rows if row.command == "STATS"}.values()
    assert (stats.consumer_name, stats.subscription, stats.topic) == ("worker", "s", topic)
    assert stats.available_permits is None


def test_ledgers_tell_whose_topic_it_is_where_only_one_was_asked(broker, client, topic, tmp_path):
    topics = {"wanted": f"{topic}-a", "not asked": f"{topic}-b"}
    consumers = {
        name: client.subscribe(
            each, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name=name
        )
        for name, each in topics.items()
    }
    kept = {}
    for kind in ("stats", "internalStats"):
        path = topics["wanted"].replace("://", "/")
        kept[kind] = tmp_path / f"{kind}.json"
        kept[kind].write_text(httpx2.get(f"{broker.admin_url}/admin/v2/{path}/{kind}").text)
    files = "--stats", str(kept["stats"]), "--internal-stats", str(kept["internalStats"])
    more = (*files, "--topic", topics["wanted"])
    with capturing(broker, tmp_path / "t", 10, *more):
        for _ in range(4):
            for name, each in topics.items():
                attach.produce(client, each, 1)
                consumers[name].acknowledge(consumers[name].receive(timeout_millis=5000))
            time.sleep(1.6)
    rows = list(open_trace(tmp_path / "t").rows())
    (stats,) = [row for row in rows if row.command == "STATS" and row.known_by == "ledger"]
    ledger = {row.consumer_id: row.ledger_id for row in rows if row.command == "MESSAGE"}
    internal = json.loads(kept["internalStats"].read_text())
    assert stats.consumer_name == "wanted"
    assert ledger[stats.consumer_id] in [each["ledgerId"] for each in internal["ledgers"]]
    assert len(ledger) == 2
