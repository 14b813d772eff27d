"""`consume` and `demo` as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_doctor.parts.consume import attach
from pulsar_doctor.trace.sealing import open_trace
from tests.support.command_line import MINE, answered, environment, pulsar_doctor
from tests.support.documented import NUMBER, WHOLE, Like

OURS = Like("persistent://public/default/pulsar-doctor-[0-9a-f]{8}")
EIGHT = {  # of a queue of 4, all of them taken and acknowledged
    "schema": "pulsar-doctor/consume/2",
    "topic": OURS,
    "subscription": "pulsar-doctor",
    "consumers": [
        {
            "name": "consumer-1", "topic": OURS, "active": None, "receiver_queue_size": 4,
            "refill_threshold": 2, "flows": [4, 2, 2, 2, 2], "permits_granted": 12,
            "permits_spent": 8, "available_permits": 4, "unsent_permits": 0, "messages": 8,
            "acknowledged": 8, "without_permits_seconds": NUMBER,
            "longest_without_permits_seconds": NUMBER, "without_permits_share": NUMBER,
            "verdict": "healthy", "findings": [],
        }
    ],
    "acknowledgements": {
        "acknowledge_calls": 8, "negative_acknowledge_calls": 0, "corrupt": 0,
        "individual_ack_commands": WHOLE, "individual_ack_ids": 8, "cumulative_ack_commands": 0,
        "cumulative_acks_backwards": 0, "acks_with_validation_error": 0, "redelivery_ids": 0,
        "redeliveries_of_all": 0,
    },
    "receiver_delay": None,
    "left_behind": [
        {
            "topic": OURS, "subscription": None,
            "why": "brokers that delete inactive topics do so by themselves",
            "remove": Like(rf"pulsar-admin topics delete {OURS.what}"),
        }
    ],
}  # fmt: skip


def test_json_is_one_document(broker):
    run = answered("consume", "--receiver-queue-size", "4", "-n", "8", "-o", "json", broker=broker)
    assert (run.returncode, json.loads(run.stdout)) == (0, EIGHT)


def test_jsonl_is_a_line_for_each_command_and_the_document_last(broker, tmp_path):
    trace = str(tmp_path / "t.ptrace")
    run = pulsar_doctor(
        "consume", "--receiver-queue-size", "4", "-n", "8", "-o", "jsonl", "--trace", trace,
        broker=broker,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    *rows, document = [json.loads(line) for line in run.stdout.splitlines()]
    assert document == EIGHT
    shown = answered("trace", "show", trace, "-o", "jsonl").stdout.splitlines()
    assert rows == [json.loads(line) for line in shown]
    assert [row["permits"] for row in rows if row["command"] == "FLOW"] == [4, 2, 2, 2, 2]
    assert sum(row["command"] == "TAKEN" for row in rows) == 8


def test_a_topic_of_our_own_keeps_no_subscription(broker, admin):
    run = answered("consume", "--consumers", "2", "-n", "4", "-o", "json", broker=broker)
    document = json.loads(run.stdout)
    assert document["subscription"] == "pulsar-doctor"
    path = document["topic"].replace("persistent://", "/admin/v2/persistent/")
    assert admin.get(f"{path}/subscriptions").json() == []


def test_the_forecast_counts_down_with_each_message_taken(broker):
    run = pulsar_doctor(
        "consume", "--receiver-queue-size", "10", "-n", "4", "--process-time", "20ms",
        broker=broker,
    )  # fmt: skip
    takes = [line for line in run.stdout.splitlines() if " takes " in line]
    counts = [line.partition("next FLOW after ")[2].split()[0] for line in takes]
    assert counts == ["4", "3", "2", "1"]
    assert "as given" in takes[0]
    assert "as given" not in takes[-1]


@pytest.mark.parametrize(
    ("kind", "ack", "acknowledged"),
    [("exclusive", "cumulative", 6), ("shared", "none", 0), ("key_shared", "individual", 6)],
)
def test_types_and_ways_to_acknowledge(broker, kind, ack, acknowledged):
    run = answered("consume", "--type", kind, "--ack", ack, "-n", "6", "-o", "json", broker=broker)
    (consumer,) = json.loads(run.stdout)["consumers"]
    assert (consumer["messages"], consumer["acknowledged"]) == (6, acknowledged)


def test_several_consumers_share_the_messages(broker, client, topic):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 12)
    run = answered(
        "consume", topic, *MINE, "--zero-queue", "--consumers", "3", "-n", "12",
        "--process-time", "10ms", "-o", "json", broker=broker,
    )  # fmt: skip
    consumers = json.loads(run.stdout)["consumers"]
    assert [c["name"] for c in consumers] == ["consumer-1", "consumer-2", "consumer-3"]
    assert sum(c["acknowledged"] for c in consumers) == 12
    assert all(c["messages"] > 0 for c in consumers)


def test_fewer_messages_than_asked_for_is_exit_code_3(broker, topic):
    run = answered(
        "consume", topic, "--create", "-n", "5", "--timeout", "1s", "-o", "json", broker=broker
    )
    assert run.returncode == 3
    assert "5 of the requested messages did not arrive" in run.stderr
    assert json.loads(run.stdout)["consumers"][0]["messages"] == 0


def test_a_zero_queue_waiting_for_a_message_ends_at_the_timeout(broker, topic):
    run = answered(
        "consume", topic, "--create", "--zero-queue", "--timeout", "1s", "-o", "json",
        broker=broker,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["consumers"][0]["flows"] == [1]


def test_ctrl_c_ends_at_once_and_leaves_a_readable_trace(broker, tmp_path: Path):
    trace = tmp_path / "t.ptrace"
    process = subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor", "consume", "--process-time", "10m",
         "--trace", str(trace)],
        env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if " takes " in line:
            break
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)  # the work on its message would take ten minutes
    assert process.returncode == 130
    assert "Traceback" not in talk
    rows = list(open_trace(trace).rows())
    assert [row.seq for row in rows] == list(range(len(rows)))
    assert rows[-1].command == "CLOSE"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["t", "--take-messages"], "-s SUB"),
        (["--take-messages", "-s", "s"], "TOPIC -s SUB"),
        (["--create"], "needs a TOPIC"),
        (["--receiver-queue-size", "5000000000"], "0<=x<=10000000"),
        (["--process-time", "999999999999d"], "more than 36500d"),
        (["t", "-s", "s", "--zero-queue", "--receiver-queue-size", "5"], "exclude each other"),
        (["--type", "exclusive", "--consumers", "2"], "one consumer"),
        (["--ack", "cumulative"], "ignores cumulative"),
        (["--process-time", "5"], "is not a duration"),
        (["--set", "permits-exhausted.nothing=5s"], "refill_wait"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(arguments, says):
    run = answered("consume", *arguments)
    assert run.returncode == 2
    assert says in run.stderr
    assert "Traceback" not in run.stderr


def test_the_demo_tells_its_story_and_it_holds(broker):
    run = pulsar_doctor("demo", "--pulsar-home", str(broker.home), timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "prefetch-hogging" in run.stdout
    assert "next FLOW after 499 more messages" in run.stdout
    assert "in about 83 h at 10 min each" in run.stdout
    assert "pulsar-doctor stall-check TOPIC" in run.stdout
    assert "consume TOPIC" not in run.stdout
