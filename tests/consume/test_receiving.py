"""How `consume` takes messages: by call, by listener, in batches, by permits that a user types."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pulsar_doctor.consume import attach
from tests.consume.receiver.scripted_broker import Talk, message, scripted
from tests.consume.test_acks import BOTH_ENGINES, consumed
from tests.support.command_line import MINE, answered, environment, pulsar_doctor


@pytest.fixture
def partitioned(client, admin, topic):
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    admin.put(f"{path}/partitions", json=1).raise_for_status()
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 6)
    return topic


@pytest.fixture
def plain(client, topic):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 6)
    return topic


BUSY_LISTENER = ("--receive", "listener", "--receiver-queue-size", "1", "--process-time", "10m")


def test_a_listener_gives_its_permit_back_after_its_work(broker, plain):
    asked = (*MINE, *BUSY_LISTENER, "--timeout", "2s", "--accept-unknown")  # none is acknowledged
    (consumer,) = consumed(broker, plain, *asked)["consumers"]
    assert consumer["flows"] == [1]
    assert consumer["unsent_permits"] == 0


@pytest.mark.slow
def test_a_listener_on_partitions_gives_its_permit_back_before_its_work(broker, partitioned):
    asked = (*MINE, *BUSY_LISTENER, "--timeout", "2s", "--accept-unknown")
    document = consumed(broker, partitioned, *asked)
    assert document["consumers"][0]["flows"] == [1, 1]


@BOTH_ENGINES
def test_a_listener_takes_what_was_asked_for_and_the_ledger_knows_when(broker, plain, engine):
    run = pulsar_doctor(
        "consume", plain, *MINE, "--receive", "listener", "--receiver-queue-size", "4",
        "-n", "4", "-o", "jsonl", "--engine", engine, broker=broker,
    )  # fmt: skip
    *rows, document = [json.loads(line) for line in run.stdout.splitlines()]
    (consumer,) = document["consumers"]
    assert consumer["acknowledged"] == 4
    assert consumer["flows"] == [4, 2, 2]
    takes = sum(row["command"] == "TAKEN" for row in rows)
    assert takes == (4 if engine == "pulsar-client" else 5)  # the wire's: before the callback


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pulsar-client", "wire"])
def test_a_paused_listener_asks_for_nothing_more(broker, plain, engine):
    run = answered(
        "consume", plain, *MINE, "--receive", "listener", "--receiver-queue-size", "2",
        "--pause-after", "3", "--timeout", "1500ms", "-o", "json", "--engine", engine,
        broker=broker,
    )  # fmt: skip
    assert run.returncode == 0
    assert "consumer-1: listener paused after 3" in run.stderr
    (consumer,) = json.loads(run.stdout)["consumers"]
    assert consumer["acknowledged"] == 3
    assert consumer["messages"] <= 5


def test_a_listener_that_is_resumed_takes_the_rest(broker, plain):
    run = answered(
        "consume", plain, *MINE, "--receive", "listener", "--receiver-queue-size", "2",
        "--pause-after", "3", "--pause-for", "300ms", "-n", "6", "-o", "json", broker=broker,
    )  # fmt: skip
    assert run.returncode == 0
    assert "consumer-1: listener resumed" in run.stderr
    assert json.loads(run.stdout)["consumers"][0]["acknowledged"] == 6


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pulsar-client", "wire"])
def test_a_batch_receive_takes_all_at_once(broker, plain, engine):
    (consumer,) = consumed(
        broker, plain, *MINE, "--receive", "batch", "--receiver-queue-size", "10", "-n", "6",
        "--engine", engine,
    )["consumers"]  # fmt: skip
    assert consumer["acknowledged"] == 6
    assert consumer["flows"][0] == 10
    assert sum(consumer["flows"][1:]) >= 5
    assert consumer["unsent_permits"] == 16 - consumer["permits_granted"]


def test_a_pattern_takes_from_all_topics_that_match(broker, client, topic):
    for suffix in "ab":
        attach.produce(client, f"{topic}-{suffix}", 5)
    name = topic.rpartition("/")[2]
    document = consumed(broker, f"{name}-[ab]", "--pattern", "-s", "s", "-n", "10")
    assert {c["topic"]: c["acknowledged"] for c in document["consumers"]} == {
        f"{topic}-a": 5,
        f"{topic}-b": 5,
    }


def test_permits_that_are_typed_are_the_flows_that_go_out(broker, plain):
    run = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", "consume", plain, *MINE, "--engine", "wire",
         "--permits", "manual", "-o", "json"],
        env=environment(broker), input="1\n3 many\n", capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "'many' is not a number of permits" in run.stderr
    (consumer,) = json.loads(run.stdout)["consumers"]
    assert consumer["flows"] == [1, 3]
    assert (consumer["messages"], consumer["acknowledged"]) == (4, 4)
    assert consumer["available_permits"] == 0


def test_more_permits_than_a_broker_counts_are_not_granted(broker, plain):
    run = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", "consume", plain, *MINE, "--engine", "wire",
         "--permits", "manual", "-o", "json"],
        env=environment(broker), input="2147483647 2147483647\n", capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    assert "2147483647 permits more are more than a broker counts" in run.stderr
    assert json.loads(run.stdout)["consumers"][0]["flows"] == [2147483647]


@pytest.mark.slow
def test_a_zero_queue_on_partitions_works_on_the_wire(broker, partitioned):
    (consumer,) = consumed(
        broker, partitioned, *MINE, "--zero-queue", "--engine", "wire", "-n", "6"
    )["consumers"]
    assert consumer["acknowledged"] == 6
    assert set(consumer["flows"]) == {1}


@pytest.mark.parametrize("asked", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_cannot_be_read_is_said_and_acknowledged_only_when_asked(asked):
    with scripted() as broker:
        first = iter([True])

        def answer(talk: Talk, flow: object) -> None:
            if next(first, False):
                talk.say(message(1, spoil=1), message(2))

        broker.answers["FLOW"] = answer
        run = answered(
            "consume", "t", *MINE, "--engine", "wire", "--service-url", broker.url, "-n", "1",
            "-o", "json", *["--ack-corrupt"] * asked,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        done = "acknowledged with that" if asked else "not acknowledged"
        assert f"cannot read 7:1 of persistent://public/default/t: ChecksumMismatch; {done}" in (
            run.stderr
        )
        acks = json.loads(run.stdout)["acknowledgements"]
        assert (acks["corrupt"], acks["acknowledge_calls"]) == (1, 1)
        assert acks["acks_with_validation_error"] == asked
