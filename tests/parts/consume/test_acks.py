"""How `consume` acknowledges, and what the broker has of it afterwards."""

from __future__ import annotations

import pytest

from pulsar_doctor.parts.consume import attach
from pulsar_doctor.trace.folder import read_meta
from tests.ledger.test_permits_on_broker import consume, send_batches, stats
from tests.support.command_line import MINE, answered

SLOW_WIRE = pytest.param("wire", marks=pytest.mark.slow)
BOTH_ENGINES = pytest.mark.parametrize("engine", ["pulsar-client", SLOW_WIRE])


@pytest.fixture
def twenty(client, topic):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 20)
    return topic


def subscription(admin, topic: str, name: str = "s") -> dict:
    return stats(admin, topic)["subscriptions"][name]


def test_every_fifth_message_acknowledged_leaves_four_ranges_with_holes(broker, admin, twenty):
    document = consume(broker, twenty, *MINE, "--ack-every", "5", "-n", "20")
    acks = document["acknowledgements"]
    assert (acks["acknowledge_calls"], acks["individual_ack_ids"]) == (4, 4)
    after = subscription(admin, twenty)
    assert after["msgBacklog"] == 16
    assert after["nonContiguousDeletedMessagesRanges"] == 4


@BOTH_ENGINES
def test_every_fifth_acknowledged_cumulatively_covers_the_others(
    broker, admin, client, topic, engine
):
    attach.produce(client, topic, 23)
    document = consume(
        broker, topic, "-s", "s", "--type", "failover", "--ack", "cumulative", "--ack-every", "5",
        "-n", "23", "--engine", engine,
    )  # fmt: skip
    acks = document["acknowledgements"]
    assert acks["acknowledge_calls"] == 4
    assert 1 <= acks["cumulative_ack_commands"] <= 4
    assert acks["cumulative_acks_backwards"] == 0
    assert subscription(admin, topic)["msgBacklog"] == 3


@pytest.mark.slow
def test_cumulative_acks_of_the_application_are_grouped_on_the_wire(broker, client, topic):
    attach.produce(client, topic, 200)
    run = answered(
        "consume", topic, "-s", "s", "--type", "exclusive", "--ack", "cumulative", "-n", "200",
        broker=broker,
    )  # fmt: skip
    last = run.stdout.splitlines()[-1]
    assert last.startswith("acknowledgements: 200 by the application, ")
    assert "none before the last one" in last
    assert int(last.split(", ")[1].split()[0]) < 200


@BOTH_ENGINES
def test_a_quarter_is_refused_and_asked_for_again(broker, admin, twenty, engine):
    document = consume(
        broker, twenty, *MINE, "--nack-rate", "25%", "--nack-delay", "200ms", "-n", "20",
        "--engine", engine,
    )  # fmt: skip
    acks = document["acknowledgements"]
    assert (acks["acknowledge_calls"], acks["negative_acknowledge_calls"]) == (15, 5)
    assert acks["redelivery_ids"] == 5
    assert subscription(admin, twenty)["msgBacklog"] == 5


@pytest.mark.parametrize("type_", ["exclusive", "failover"])
def test_refusals_on_exclusive_and_failover_bring_everything_again_and_lose_nothing(
    broker, admin, twenty, type_
):
    """Every fourth is refused: 20 of 26 are not, each of them once."""
    document = consume(
        broker, twenty, *MINE, "--type", type_, "--nack-rate", "25%", "--nack-delay", "200ms",
        "-n", "26", "--engine", "wire",
    )  # fmt: skip
    acks = document["acknowledgements"]
    assert (acks["acknowledge_calls"], acks["negative_acknowledge_calls"]) == (20, 6)
    assert acks["redelivery_ids"] == 0
    assert subscription(admin, twenty)["msgBacklog"] == 0


def test_single_messages_of_a_batch_are_acknowledged_where_asked(
    either_broker, either_client, topic, tmp_path
):
    either_client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    send_batches(either_client, topic, batches=1, size=10)
    traced = ("--trace", str(tmp_path / "t.ptrace"))
    consume(either_broker, topic, *MINE, "--batch-index-acks", "-n", "4", *traced)
    left = 6 if read_meta(tmp_path / "t.ptrace").storing.batch_index_acks else 10
    asked = ("--batch-index-acks", "-n", str(left))
    (rest,) = consume(either_broker, topic, *MINE, *asked)["consumers"]
    assert (rest["messages"], rest["acknowledged"]) == (left, left)


@pytest.mark.slow
def test_without_batch_index_acks_all_of_a_batch_comes_again(either_broker, either_client, topic):
    either_client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    send_batches(either_client, topic, batches=1, size=10)
    consume(either_broker, topic, *MINE, "-n", "4")
    (again,) = consume(either_broker, topic, *MINE, "-n", "10")["consumers"]
    assert (again["messages"], again["acknowledged"]) == (10, 10)


@pytest.mark.slow
def test_one_of_two_failover_consumers_gets_all_and_the_other_stands_by(broker, client, topic):
    attach.produce(client, topic, 12)
    document = consume(
        broker, topic, "-s", "s", "--type", "failover", "--consumers", "2", "--timeout", "3s"
    )
    shares = {(c["active"], c["acknowledged"]) for c in document["consumers"]}
    assert shares == {(True, 12), (False, 0)}


@pytest.mark.slow
def test_key_shared_consumers_share_the_keys(broker):
    document = consume(
        broker, "--type", "key_shared", "--consumers", "3", "--receiver-queue-size", "2",
        "--process-time", "10ms",
    )  # fmt: skip
    shares = [consumer["acknowledged"] for consumer in document["consumers"]]
    assert sum(shares) == 20
    assert sum(share > 0 for share in shares) >= 2
