"""How `consume` takes messages: by call, and by permits that a user types."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pulsar_doctor.parts.consume import attach
from tests.ledger.test_permits_on_broker import consume
from tests.parts.consume.receiver.scripted_broker import Talk, message, scripted
from tests.support.command_line import MINE, answered, environment


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
    (consumer,) = consume(
        broker, partitioned, *MINE, "--zero-queue", "--engine", "wire", "-n", "6"
    )["consumers"]
    assert consumer["acknowledged"] == 6
    assert set(consumer["flows"]) == {1}


def test_what_cannot_be_read_is_said_and_not_acknowledged():
    with scripted() as broker:
        first = iter([True])

        def answer(talk: Talk, flow: object) -> None:
            if next(first, False):
                talk.say(message(1, spoil=1), message(2))

        broker.answers["FLOW"] = answer
        run = answered(
            "consume", "t", *MINE, "--engine", "wire", "--service-url", broker.url, "-n", "1",
            "-o", "json",
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        said = (
            "cannot read 7:1 of persistent://public/default/t: ChecksumMismatch; not acknowledged"
        )
        assert said in run.stderr
        acks = json.loads(run.stdout)["acknowledgements"]
        assert (acks["corrupt"], acks["acknowledge_calls"]) == (1, 1)
        assert acks["acks_with_validation_error"] == 0
