"""Messages that `consume` hands out when they are so old, and what the ledger makes of it."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest

from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.consume.deferring import (
    Lateness,
    age_at_delivery,
    bound,
    due_ms,
    limit_of_lateness,
)
from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.trace.sealing import open_trace
from tests.ledger.test_permits_on_broker import consume
from tests.parts.consume.test_acks import BOTH_ENGINES, subscription
from tests.support.command_line import MINE, answered

ENGINES = pytest.mark.parametrize("engine", ["pulsar-client", "wire"])
SLOW = pytest.mark.slow


def plan(*delays: float, **more) -> Plan:
    return Plan("c", "t", "s", receiver_delay_seconds=delays, **more)


# ---- what follows without a broker


def test_delays_take_turns_by_entry_and_count_from_publish_or_receipt():
    assert [due_ms(plan(5.0, 1.0), 10_000, entry, 90_000) for entry in (0, 1, 2)] == [
        15_000, 11_000, 15_000,
    ]  # fmt: skip
    assert due_ms(plan(5.0, delay_from="receipt"), 10_000, 0, 90_000) == 95_000


def test_lateness_counts_from_publish_plus_delay():
    late = Lateness(5.0)
    for number in range(100):
        late.add(1000 * number, 1000 * number + 5000 + number)
    assert (late.messages, late.on_time, late.max_ms, late.quantile_ms(0.99)) == (100, 51, 99, 98)
    assert late.early == 0
    late.add(0, 4000)
    assert late.early == 1


@pytest.mark.parametrize(
    ("asked", "consumers", "own_queue", "rate"),
    [
        (plan(5.0), 1, True, None),
        (plan(5.0, process_seconds=0.02), 2, True, 100),
        (plan(5.0, delay_from="receipt", receiver_queue_size=100), 1, True, 20),
        (plan(5.0, delay_from="receipt", receiver_queue_size=100), 1, False, 0.2),
        (plan(5.0, delay_from="receipt", receiver_queue_size=0), 3, True, 0.6),
        (plan(5.0, delay_from="receipt", receiver_queue_size=100, process_seconds=0.02), 1, True,
         100 / (5 + 49 * 0.02)),
        (plan(5.0, delay_from="receipt", receiver_queue_size=1000, process_seconds=0.02), 1, True,
         50),
    ],
)  # fmt: skip
def test_what_a_delay_lets_through(asked, consumers, own_queue, rate):
    limit = bound(asked, consumers, own_queue=own_queue)
    assert (limit and limit.rate) == pytest.approx(rate)


def test_lateness_grows_by_what_does_not_go_through():
    limit = bound(plan(5.0, delay_from="receipt", receiver_queue_size=100), 1, own_queue=True)
    assert limit.growth(100) == pytest.approx(0.8)
    assert limit.growth(10) == 0


def test_of_several_delays_the_short_ones_are_late_by_a_limit():
    assert age_at_delivery([5, 1], 100, 100) == pytest.approx(3)
    assert age_at_delivery([5, 1], 100, 250) == 0.5  # the shorter ones wait in the queue, too
    assert age_at_delivery([5, 1], 100, 1000) == 0
    own = limit_of_lateness(plan(5.0, 1.0, receiver_queue_size=100), 100, 1, own_queue=True)
    assert own == {1.0: pytest.approx(5 - 51 / 50 - 1), 5.0: 0}
    head = limit_of_lateness(plan(5.0, 1.0, receiver_queue_size=100), 100, 1, own_queue=False)
    assert head == {1.0: pytest.approx(3.99), 5.0: 0}


# ---- on the broker


@ENGINES
@pytest.mark.parametrize(
    "more",
    [
        (),
        pytest.param(("--zero-queue",), marks=SLOW),
    ],
)
def test_nothing_is_handed_out_before_it_is_due(broker, engine, more):
    document = consume(
        broker, "-n", "6", "--receiver-delay", "600ms", "--engine", engine, *more
    )  # fmt: skip
    (late,) = document["receiver_delay"]["delays"]
    assert (late["messages"], late["early"]) == (6, 0)
    assert document["consumers"][0]["acknowledged"] == 6


@pytest.mark.parametrize("engine", [pytest.param("pulsar-client", marks=SLOW), "wire"])
def test_a_cumulative_ack_never_acknowledges_what_is_not_due(broker, tmp_path, engine):
    trace = tmp_path / "t.ptrace"
    document = consume(
        broker, "-n", "12", "--type", "exclusive", "--ack", "cumulative", "--engine", engine,
        "--receiver-delay", "900ms", "--receiver-delay", "100ms", "--trace", str(trace),
    )  # fmt: skip
    came, taken, covered = set(), {}, []
    for row in open_trace(trace).rows():
        at = (row.ledger_id, row.entry_id)
        if row.command == "MESSAGE":
            came.add(at)
        elif row.command == "TAKEN":
            taken[at] = row.mono_ns
        elif row.command == "ACK":
            covered += [(each, row.mono_ns) for each in came if each <= at]
    assert covered
    # TAKEN and ACK reach the relay on two ways. What is due 0.8 s later is taken later, too.
    assert [each for each, acked in covered if taken[each] > acked + 400_000_000] == []
    assert document["consumers"][0]["acknowledged"] == 12
    assert sum(each["messages"] for each in document["receiver_delay"]["delays"]) == 12


@pytest.mark.parametrize("engine", ["pulsar-client", pytest.param("wire", marks=SLOW)])
def test_a_young_message_of_one_part_of_a_topic_holds_up_none_of_another(
    broker, admin, client, topic, tmp_path, engine
):
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    admin.put(f"{path}/partitions", json=2).raise_for_status()
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    trace = tmp_path / "t.ptrace"
    attach.produce(client, f"{topic}-partition-0", 3)
    time.sleep(2)  # three round trips on a busy machine
    attach.produce(client, f"{topic}-partition-1", 1)
    attach.produce(client, f"{topic}-partition-0", 1)
    document = consume(
        broker, topic, *MINE, "--receiver-delay", "5s", "--receiver-queue-size", "1", "-n", "5",
        "--engine", engine, "--trace", str(trace),
    )  # fmt: skip
    (late,) = document["receiver_delay"]["delays"]
    assert (late["messages"], late["early"]) == (5, 0)
    acks = [row for row in open_trace(trace).rows() if row.command == "ACK"]
    (other,) = {row.mono_ns for row in acks if row.partition == 1 or row.topic.endswith("-1")}
    before = [row for row in acks if row.mono_ns < other]
    assert sum(row.acknowledged_messages for row in before) >= 3


@SLOW
def test_in_due_order_the_shorter_delay_comes_first(broker, tmp_path):
    trace = tmp_path / "t.ptrace"
    consume(
        broker, "-n", "6", "--engine", "wire", "--receiver-delay", "1500ms",
        "--receiver-delay", "300ms", "--trace", str(trace),
    )  # fmt: skip
    entries = [row.entry_id for row in open_trace(trace).rows() if row.command == "TAKEN"]
    assert entries == [1, 3, 5, 0, 2, 4]


@SLOW
@ENGINES
def test_what_comes_again_is_due_at_once_and_counted_apart(broker, client, topic, engine):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 4)
    document = consume(
        broker, topic, *MINE, "--receiver-delay", "300ms", "--nack-rate", "50%",
        "--nack-delay", "100ms", "-n", "6", "--engine", engine,
    )  # fmt: skip
    (late,) = document["receiver_delay"]["delays"]
    assert (late["messages"], late["redelivered"], late["early"]) == (4, 2, 0)


def test_what_the_broker_delays_is_told_apart(broker, client, topic):
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 2)
    producer = client.create_producer(topic, batching_enabled=False)
    for _ in range(3):
        producer.send(b"later", deliver_after=timedelta(milliseconds=900))
    document = consume(broker, topic, *MINE, "--receiver-delay", "100ms", "-n", "5")
    (late,) = document["receiver_delay"]["delays"]
    assert (late["messages"], late["delayed_by_broker"]) == (2, 3)


@BOTH_ENGINES
def test_a_consumer_that_holds_back_for_an_hour_is_not_stalled(broker, admin, topic, client,
                                                               tmp_path, engine):  # fmt: skip
    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 30)
    trace, quiet = tmp_path / "t.ptrace", ("--set", "permits-exhausted.quiet_after=500ms")
    document = consume(
        broker, topic, *MINE, "--receiver-queue-size", "10", "--receiver-delay", "1h",
        "--timeout", "2s", "--trace", str(trace), "--engine", engine, *quiet,
        "--accept-unknown",
        "all",
    )  # fmt: skip
    (consumer,) = document["consumers"]
    assert (consumer["messages"], consumer["verdict"]) == (10, "unknown")  # it has acked none
    assert consumer["flows"] == [10]  # nothing was taken, so nothing was given back
    assert consumer["unsent_permits"] == (1 if engine == "pulsar-client" else 0)  # its head
    again = answered("stall-check", "--trace", str(trace), "-o", "json", *quiet)
    assert [each["status"] for each in json.loads(again.stdout)["subscriptions"]] == ["warning"]
    assert subscription(admin, topic)["msgBacklog"] == 30


# ---- the long ones


@pytest.fixture
def fed(client, topic):
    """Sends single messages at a constant rate, while somebody else consumes them."""
    import threading

    client.subscribe(topic, "s", attach.TYPES["shared"]).close()
    producer = client.create_producer(topic, batching_enabled=False)
    threads = []

    def feed(messages: int, per_second: float) -> None:
        def sending() -> None:
            began = time.monotonic()
            for number in range(messages):
                time.sleep(max(0.0, began + number / per_second - time.monotonic()))
                producer.send_async(b"fed", lambda result, message_id: None)
            producer.flush()

        threads.append(threading.Thread(target=sending))
        threads[-1].start()

    yield topic, feed
    for thread in threads:
        thread.join()


@SLOW
@ENGINES
@pytest.mark.parametrize("size", [100, 1000])
def test_five_seconds_at_100_a_second_are_on_time_and_no_alarm(broker, fed, tmp_path, engine, size):
    topic, feed = fed
    feed(3500, 100)
    trace = tmp_path / "t.ptrace"
    document = consume(
        broker, topic, *MINE, "--receiver-queue-size", str(size), "--receiver-delay", "5s",
        "-n", "3500", "--timeout", "55s", "--trace", str(trace), "--engine", engine,
    )  # fmt: skip
    (late,) = document["receiver_delay"]["delays"]
    assert (late["messages"], late["on_time"], late["early"]) == (3500, 3500, 0), late
    assert document["consumers"][0]["verdict"] == "healthy"
    again = answered("stall-check", "--trace", str(trace), "--fail-on", "warning")
    assert again.returncode == 0, again.stdout


@SLOW
def test_counted_from_receipt_it_is_late_by_what_was_foretold(broker, fed):
    topic, feed = fed
    feed(2500, 100)
    document = consume(
        broker, topic, *MINE, "--receiver-queue-size", "100", "--receiver-delay", "5s",
        "--delay-from", "receipt", "--engine", "wire", "--timeout", "32s",
    )  # fmt: skip
    told = document["receiver_delay"]
    assert (told["lets_through"], told["lateness_grows"]) == (20, pytest.approx(0.8, abs=0.01))
    (late,) = told["delays"]
    groups = late["messages"] // 50  # each waits 5 s, two at a time; each half a second of arrivals
    foretold_ms = 2000 * groups - (1500 if groups % 2 else 3500)
    assert late["late_max_ms"] == pytest.approx(foretold_ms, abs=700)


@SLOW
@pytest.mark.parametrize(("engine", "foretold"), [("wire", 2.98), ("pulsar-client", 3.99)])
def test_of_mixed_delays_the_short_ones_are_late_by_what_was_foretold(
    broker, fed, engine, foretold
):
    topic, feed = fed
    feed(2200, 100)
    document = consume(
        broker, topic, *MINE, "--receiver-queue-size", "100", "--receiver-delay", "5s",
        "--receiver-delay", "1s", "--engine", engine, "-n", "2200", "--timeout", "40s",
    )  # fmt: skip
    short, long = document["receiver_delay"]["delays"]
    assert short["late_at_most_seconds"] == pytest.approx(foretold, abs=0.01)
    assert short["late_max_ms"] / 1000 == pytest.approx(foretold, abs=0.15)
    assert long["on_time"] == long["messages"] == 1100
    assert document["consumers"][0]["verdict"] == "healthy"
