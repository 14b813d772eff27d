"""Real clients through the tap, on the real broker: what they do, and what is judged of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest

from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.trace.sealing import open_trace
from tests.support import eventually
from tests.support.command_line import answered, environment, pulsar_doctor
from tests.support.tools import tool_environment

QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")


@contextmanager
def tap(broker, trace: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`pulsar-doctor tap` as a process of its own, on a free port; ends with it."""
    command = [sys.executable, "-m", "pulsar_doctor", "tap", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--trace", str(trace), *more],
        env=environment(broker),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("pulsar://127.0.0.1:"), process.stderr.read()
        yield url, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def verdict(trace: Path, *more: str) -> tuple[int, dict]:
    run = answered("stall-check", "--trace", str(trace), "-o", "json", *more)
    assert run.returncode in (0, 1), run.stderr
    return run.returncode, json.loads(run.stdout)


def test_four_of_ten_and_then_busy_is_a_stall_and_working_on_is_none(
    broker, client, topic, tmp_path
):
    trace = tmp_path / "busy.ptrace"
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    attach.produce(client, topic, 100)
    with tap(broker, trace) as (url, _):
        through = pulsar.Client(url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="busy"
        )
        for _ in range(4):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        time.sleep(6)
        code, document = verdict(trace, "--set", "permits-exhausted.refill_wait=5s")
        assert code == 1
        (subscription,) = document["subscriptions"]
        assert subscription["status"] == "stalled"
        first = subscription["findings"][0]
        evidence = {measure["name"]: measure["value"] for measure in first["evidence"]}
        assert first["code"] == "permits-exhausted"
        assert first["consumer"] == "busy"
        assert (evidence["flows"], evidence["available_permits"]) == (1, 0)
        assert "1 more" in first["summary"]
        for _ in range(40):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        time.sleep(0.5)
        code, document = verdict(trace, "--set", "permits-exhausted.refill_wait=5s")
        assert (code, document["subscriptions"][0]["status"]) == (0, "healthy")
        through.close()


@pytest.mark.parametrize("kind", ["batches", "steady", "idle"])
def test_healthy_consumers_are_called_healthy(broker, client, topic, tmp_path, kind):
    trace = tmp_path / f"{kind}.ptrace"
    with tap(broker, trace, "--accept-unknown", "all") as (url, process):  # some end in their work
        through = pulsar.Client(url, logger=QUIET)
        HEALTHY[kind](client, through, topic)
        time.sleep(0.5)
        still = ("--set", "healthy.problem_at_most=20%")  # for a second, at 50 ms a message
        code, document = verdict(trace, *still)
        assert (code, [s["status"] for s in document["subscriptions"]]) == (0, ["healthy"])
        through.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert verdict(trace, "--accept-unknown", "all")[0] == 0


def _batches(client: pulsar.Client, through: pulsar.Client, topic: str) -> None:
    """Exclusive, queue of 1000, batches of 100: the broker overshoots far below zero."""
    consumer = through.subscribe(topic, "s", receiver_queue_size=1000, consumer_name="batches")
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=100, block_if_queue_full=True,
        batching_max_publish_delay_ms=1000,
    )  # fmt: skip
    for _ in range(8000):
        producer.send_async(b"in a batch", lambda result, message_id: None)
    producer.flush()
    for _ in range(4000):
        consumer.acknowledge_cumulative(consumer.receive(timeout_millis=5000))


def _steady(client: pulsar.Client, through: pulsar.Client, topic: str) -> None:
    """Each message takes a while, the queue is full and permits are often 0."""
    consumer = through.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=4, consumer_name="steady"
    )
    attach.produce(client, topic, 200)
    for _ in range(40):
        message = consumer.receive(timeout_millis=5000)
        time.sleep(0.05)
        consumer.acknowledge(message)


def _idle(client: pulsar.Client, through: pulsar.Client, topic: str) -> None:
    """Nothing to do."""
    through.subscribe(topic, "s", receiver_queue_size=1000, consumer_name="idle")
    time.sleep(2)


HEALTHY = {"batches": _batches, "steady": _steady, "idle": _idle}


def test_batches_really_went_far_below_zero(broker, client, topic, tmp_path):
    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        through = pulsar.Client(relay.service_url, logger=QUIET)
        _batches(client, through, topic)
        through.close()
    lowest = min(row.available_permits or 0 for row in open_trace(tmp_path / "t.ptrace").rows())
    assert lowest <= -100


@pytest.mark.parametrize("tool", ["pulsar-perf", "pulsar-client"])
def test_javas_own_tools_work_through_the_tap(broker, client, topic, tmp_path, tool):
    client.subscribe(topic, "s", pulsar.ConsumerType.Exclusive).close()
    attach.produce(client, topic, 60)
    arguments = {
        "pulsar-perf": ["consume", "-m", "40", "-ss", "s", "-q", "20", topic, "-u"],
        "pulsar-client": ["consume", "-n", "40", "-s", "s", "-q", "20", topic],
    }[tool]
    trace = tmp_path / "java.ptrace"
    with relaying(broker.service_url, trace) as relay:
        command = [str(broker.home / "bin" / tool)]
        command += [*arguments, relay.service_url] if tool == "pulsar-perf" else [
            "--url", relay.service_url, *arguments
        ]  # fmt: skip
        run = subprocess.run(
            command, env=tool_environment(broker), capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    rows = [row for row in open_trace(trace).rows() if row.incarnation is not None]
    flows = [row.permits for row in rows if row.command == "FLOW"]
    assert flows[:3] == [20, 10, 10]
    assert {row.client_version for row in rows} == {"Pulsar-Java-v4.0.8"}
    assert sum(row.messages or 0 for row in rows if row.command == "MESSAGE") >= 40


@pytest.mark.slow
def test_100_000_messages_arrive_in_order_and_equal(broker, client, topic, tmp_path):
    count = 100_000
    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        through = pulsar.Client(relay.service_url, logger=QUIET)
        consumer = through.subscribe(topic, "s", receiver_queue_size=1000)
        producer = through.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        for number in range(count):
            producer.send_async(b"%d" % number, lambda result, message_id: None)
        producer.flush()
        for number in range(count):
            message = consumer.receive(timeout_millis=10000)
            assert message.data() == b"%d" % number
        consumer.acknowledge_cumulative(message)
        through.close()
    commands = [row.command for row in open_trace(tmp_path / "t.ptrace").rows()]
    assert commands.count("SEND") == commands.count("MESSAGE") == count


def test_a_topic_that_is_unloaded_is_a_new_incarnation_with_a_full_queue(
    broker, admin, client, topic, tmp_path
):
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    trace = tmp_path / "t.ptrace"
    client.subscribe(topic, "keeps-all-messages").close()
    with relaying(broker.service_url, trace) as relay:
        through = pulsar.Client(relay.service_url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="moved"
        )
        attach.produce(client, topic, 6)
        for _ in range(6):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        time.sleep(0.3)
        admin.put(f"{path}/unload").raise_for_status()
        eventually(consumer.is_connected, 10)
        attach.produce(client, topic, 6)
        for _ in range(6):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        consumer.seek(pulsar.MessageId.earliest)
        for _ in range(12):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        through.close()
    moved = [c for c in consumers_of(trace) if c.consumer_name == "moved"]
    assert len(moved) == 3
    assert [c.ledger.flows[0] for c in moved] == [10, 10, 10]
    assert [c.ledger.messages for c in moved] == [6, 6, 12]


def consumers_of(trace: Path) -> list[Consumer]:
    return open_trace(trace).timeline().consumers


def test_several_consumers_on_one_connection_are_kept_apart(broker, client, topic, tmp_path):
    trace = tmp_path / "t.ptrace"
    with relaying(broker.service_url, trace) as relay:
        through = pulsar.Client(relay.service_url, logger=QUIET)
        for size in (2, 20):
            through.subscribe(
                topic, f"s{size}", receiver_queue_size=size, consumer_name=f"queue-of-{size}"
            )
        attach.produce(client, topic, 30)
        time.sleep(1)
        through.close()
    seen = {c.consumer_name: (c.ledger.messages, c.conn_id) for c in consumers_of(trace)}
    assert {name: messages for name, (messages, _) in seen.items()} == {
        "queue-of-2": 2,
        "queue-of-20": 20,
    }
    assert len({conn_id for _, conn_id in seen.values()}) == 1


def test_the_tap_runs_a_command_with_its_address_and_ends_with_it(broker, topic, tmp_path):
    script = (
        "import os, pulsar\n"
        "client = pulsar.Client(os.environ['PULSAR_SERVICE_URL'])\n"
        f"client.subscribe('{topic}', 's', receiver_queue_size=3)\n"
        "client.close()\n"
        "raise SystemExit(7)\n"
    )
    trace = tmp_path / "t.ptrace"
    run = pulsar_doctor(
        "tap", "--listen", "127.0.0.1:0", "--trace", str(trace), "--",
        sys.executable, "-c", script, broker=broker,
    )  # fmt: skip
    assert run.returncode == 7, run.stderr
    assert [c.ledger.flows for c in consumers_of(trace)] == [[3]]


TAKES = """
import os, sys, time, pulsar
client = pulsar.Client(os.environ["PULSAR_SERVICE_URL"])
consumer = client.subscribe(sys.argv[1], "s", pulsar.ConsumerType.Shared)
messages = [consumer.receive(timeout_millis=20_000) for _ in range(int(sys.argv[2]))]
for message in messages[: int(sys.argv[3])]:
    consumer.acknowledge(message)
time.sleep(2.5)
consumer.close()
client.close()
"""


@pytest.mark.parametrize(
    ("acknowledged", "code", "status"),
    [(0, 1, "warning"), pytest.param(200, 0, "healthy", marks=pytest.mark.slow)],
)
def test_a_command_that_acknowledges_nothing_fails_its_check(
    broker, client, topic, tmp_path, acknowledged, code, status
):
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    attach.produce(client, topic, 200)
    trace, command = tmp_path / "trace", (sys.executable, "-c", TAKES, topic, "200")
    done = pulsar_doctor(
        *("tap", "--listen", "127.0.0.1:0", "--trace", str(trace), "--fail-on", "warning"),
        *("--", *command, str(acknowledged)),
        broker=broker,
    )
    assert done.returncode == code, done.stderr
    run, document = verdict(trace)
    assert (run, document["subscriptions"][0]["status"]) == (0, status)
    codes = [each["code"] for each in document["subscriptions"][0]["findings"]]
    assert codes == (["closed-unacknowledged"] if code else [])
