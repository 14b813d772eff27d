"""All connections of a trace: whose command it is, where an incarnation begins and ends, laws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.ledger.consumers import Consumer, Subscription
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.trace.folder import Meta
from pulsar_doctor.trace.index import Expired
from pulsar_doctor.trace.later import LaterTimeline
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import CLOSE, NAMES, Row, values_of
from pulsar_doctor.wire.commands import CODES, COMMANDS, rows_of
from pulsar_doctor.wire.framing import Cutter
from pulsar_doctor.wire.journal import pack_block, pack_event, read_blocks
from pulsar_doctor.wire.masking import Mask
from tests.ledger.rows import (
    EPOCH_US,
    TOPIC,
    ack,
    ack_batch,
    attached,
    close_consumer,
    closed,
    closed_by_broker,
    connect,
    error,
    flow,
    gap,
    message,
    opened,
    redeliver,
    row,
    subscribe,
    success,
    taken,
    to_broker,
    to_client,
    unsubscribe,
)


def play(*rows: Row | Sequence[Row], timeline: Timeline | None = None) -> Timeline:
    timeline = timeline or Timeline("t")
    for each in rows:
        for one in [each] if isinstance(each, Row) else each:
            timeline.apply(one)
    return timeline


def only(timeline: Timeline) -> Consumer:
    (consumer,) = timeline.consumers
    return consumer


def states(timeline: Timeline) -> dict[int, tuple[bool, int, int]]:
    """incarnation -> whether it lives, available permits, messages."""
    return {
        c.incarnation: (c.closed_us is None, c.ledger.available_permits, c.ledger.messages)
        for c in timeline.consumers
    }


# Commands after a consumer (Exclusive, consumer 0, FLOW 10) is ready, and what its incarnations
# are then: whether each lives, its available permits, its messages.
READY = [*attached("Exclusive"), flow(10)]
INCARNATIONS = {
    "subscribed": ([], {1: (True, 10, 0)}),
    "the client closes it: messages in between count": (
        [close_consumer(0, 2), message(0), success(2), message(1)],
        {1: (False, 9, 1)},
    ),
    "an answer to another request ends nothing": (
        [close_consumer(0, 2), success(3), message(0)],
        {1: (True, 9, 1)},
    ),
    "unsubscribe": ([unsubscribe(0, 2), message(0), success(2)], {1: (False, 9, 1)}),
    "unsubscribe was refused": (
        [unsubscribe(0, 2), error(2), message(0), success(2)],
        {1: (True, 9, 1)},
    ),
    "the broker closes it: at once": ([closed_by_broker(0), message(0)], {1: (False, 10, 0)}),
    "the broker closes it while the client does": (
        [close_consumer(0, 2), closed_by_broker(0), success(2)],
        {1: (False, 10, 0)},
    ),
    "the connection is lost": ([closed(), opened(), message(0)], {1: (False, 10, 0)}),
    "another connection is lost": ([closed(conn=2), message(0)], {1: (True, 9, 1)}),
    "unload: the same id subscribes again": (
        [closed_by_broker(0), subscribe(0, 5), success(5), flow(4)],
        {1: (False, 10, 0), 2: (True, 4, 0)},
    ),
    "the same id subscribes again without a close": (
        [message(0), subscribe(0, 5), flow(3), success(5), flow(4)],
        {1: (False, 9, 1), 2: (True, 4, 0)},
    ),
    "SUBSCRIBE fails": (
        [subscribe(1, 5), error(5), flow(3, 1)],
        {1: (True, 10, 0), 2: (False, 0, 0)},
    ),
    "answers come in another order": (
        [
            subscribe(1, 5), subscribe(2, 6), success(6), flow(2, 2), flow(1, 1), success(5),
            flow(1, 1),
        ],
        {1: (True, 10, 0), 2: (True, 1, 0), 3: (True, 2, 0)},
    ),
    "the broker has no SUCCESS of its own to give": (
        [subscribe(1, 5), to_broker("SUCCESS", request_id=5), flow(1, 1)],
        {1: (True, 10, 0), 2: (True, 0, 0)},
    ),
    "the same consumer_id on two connections": (
        [attached(conn=2), flow(3, conn=2), message(0), message(1, conn=2), message(2, conn=2)],
        {1: (True, 9, 1), 2: (True, 1, 2)},
    ),
    "several consumers on a connection": (
        [subscribe(1, 5), success(5), flow(3, 1), message(0, consumer=1), message(0)],
        {1: (True, 9, 1), 2: (True, 2, 1)},
    ),
    "a seek": (
        [to_broker("SEEK", consumer_id=0, request_id=9), closed_by_broker(0), success(9)],
        {1: (False, 10, 0)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("after", "expected"), INCARNATIONS.values(), ids=INCARNATIONS)
def test_an_incarnation_lasts_from_subscribe_to_its_close(
    after: list[Any], expected: dict[int, tuple[bool, int, int]]
) -> None:
    assert states(play(deepcopy(READY), *deepcopy(after))) == expected


def test_a_row_tells_its_consumer_its_connection_and_its_number() -> None:
    rows = [*attached(topic=f"{TOPIC}-partition-3"), flow(10), message(0), ack(0)]
    play(rows)
    assert [each.seq for each in rows] == list(range(len(rows)))
    for each in rows[2:]:
        assert each.trace_id == "t"
        assert (each.topic, each.partition) == (f"{TOPIC}-partition-3", 3)
        assert (each.subscription, each.subscription_type) == ("sub", "Shared")
        assert (each.consumer_id, each.consumer_name, each.incarnation) == (0, "c", 1)
        assert each.client_addr == "10.0.0.1:50000"
        assert each.client_version == "Pulsar-CPP-v3.8.0"


@pytest.mark.parametrize(
    ("version", "unsent"),
    [("Pulsar-CPP-v4.2.0", 4), ("Pulsar-Go-v0.19.0", 4), ("Pulsar-Java-v4.0.8", 0), (None, 0)],
)
def test_indexes_that_a_client_skips_are_credited_by_some_clients_only(version, unsent) -> None:
    rows = [*attached(), flow(10), message(0, 5, open=[4])]
    (connect,) = (each for each in rows if each.command == "CONNECT")
    connect.client_version = version
    play(rows)
    assert rows[-1].unsent_permits_min == unsent


def test_a_command_of_nobody_known_gets_no_ledger() -> None:
    rows = [opened(), connect(), flow(10, 7), message(0, consumer=7), to_client("PING")]
    play(rows)
    assert all(each.incarnation is each.available_permits is None for each in rows)


def test_a_producer_s_commands_get_its_topic() -> None:
    send = to_broker("SEND", producer_id=3)
    play(opened(), to_broker("PRODUCER", producer_id=3, topic=TOPIC), send)
    assert (send.topic, send.incarnation) == (TOPIC, None)


def test_active_and_standby() -> None:
    timeline = play(attached("Failover"))
    for active in (1, 0):
        change = to_client("ACTIVE_CONSUMER_CHANGE", consumer_id=0, messages=active)
        play(change, timeline=timeline)
        assert only(timeline).active is bool(active)


def test_what_was_told_is_known_by_name() -> None:
    told = {"c": {"receiver_queue_size": 0, "process_seconds": 2.0, "unacked_limit": 7}}
    timeline = play(attached(), timeline=Timeline("t", told))
    ledger = only(timeline).ledger
    assert (ledger.given_receiver_queue_size, ledger.given_process_seconds) == (0, 2.0)
    assert ledger.unacked_limit == 7


# --- starvation ---


# How an incarnation ends, and the incarnation and starved_from of the row that ends it.
SINCE = EPOCH_US + 2_000_000
ENDS = {
    "the broker closes it": ([closed_by_broker(at=9)], (1, SINCE)),
    "the client closes it": ([close_consumer(request=2, at=8), success(2, at=9)], (1, SINCE)),
    "unsubscribe": ([unsubscribe(request=2, at=8), success(2, at=9)], (1, SINCE)),
    "the broker closes it while the client does": (
        [close_consumer(request=2, at=8), closed_by_broker(at=9)], (1, SINCE),
    ),
    "the connection is lost": ([closed(at=9)], (None, None)),
    "the connection is lost while the client closes it": (
        [close_consumer(request=2, at=8), closed(at=9)], (None, None),
    ),
    "the same id subscribes again": ([subscribe(request=5, at=9)], (2, None)),
}  # fmt: skip


@pytest.mark.parametrize(("end", "expected"), ENDS.values(), ids=ENDS)
def test_a_starvation_ends_with_the_incarnation(
    end: list[Row], expected: tuple[int | None, int | None]
) -> None:
    rows = deepcopy(end)
    timeline = play(attached(), flow(1, at=1), message(0, at=2), rows)
    last = rows[-1]
    assert (last.incarnation, last.starved_from) == expected
    assert (last.starved_us, last.starved_since) == (7_000_000, None)
    assert [each.starved_since for each in rows[:-1]] == [SINCE] * (len(rows) - 1)
    assert timeline.consumers[0].ledger.longest_starved_ns == 7_000_000_000


def test_a_subscribe_that_fails_ends_no_starvation() -> None:
    refused = error(5, at=9)
    play(attached(), flow(1), subscribe(1, 5, at=3), flow(2, 1, at=4), refused)
    assert refused.incarnation == 2
    assert refused.starved_us is refused.starved_from is refused.starved_since is None


def test_a_starvation_that_another_s_ack_ends_is_told_on_the_owner_s_next_command() -> None:
    released, after = ack(0, consumer=1, at=5), message(2, at=9)
    play(
        attached(name="a"), attached(name="b", consumer=1)[2:], flow(2), flow(1, 1), message(0),
        message(1, at=2), flow(2, at=3), released, after,
        timeline=Timeline("t", {"a": {"unacked_limit": 2}}),
    )  # fmt: skip
    assert (released.incarnation, released.starved_us, released.starved_from) == (2, None, None)
    assert (after.incarnation, after.starved_us, after.starved_from) == (1, 7_000_000, SINCE)


def test_a_lost_connection_tells_the_longest_of_its_starvations_or_none() -> None:
    two = [*attached(), *attached(consumer=1)[2:], flow(1), flow(5, 1)]
    last = closed(at=9)
    play(two, message(0, at=2), message(1, 5, consumer=1, at=5), last)
    assert (last.starved_us, last.starved_from) == (7_000_000, None)
    last = closed(at=9)
    play(attached(), flow(1), last)
    assert last.starved_us is None


# --- who holds it, who took it ---


def test_an_ack_of_another_consumer_is_settled_with_the_one_that_holds_the_message() -> None:
    settled = ack(0, 5, 1, consumer=1, at=3)
    timeline = play(
        attached(name="a"), attached(name="b", consumer=1)[2:], flow(5), flow(5, 1),
        message(0, at=1), message(1, consumer=1, at=2), settled,
    )  # fmt: skip
    a, b = timeline.consumers
    assert (a.ledger.unacked, a.ledger.acknowledged, a.ledger.unsent_permits_min) == (0, 1, 0)
    assert (b.ledger.unacked, b.ledger.acknowledged, b.ledger.unsent_permits_min) == (0, 1, 1)
    assert (settled.incarnation, settled.ack_delay_us) == (2, 2_000_000)
    assert settled.acknowledged_messages == 2


def test_an_ack_of_another_consumer_settles_what_should_come_again() -> None:
    timeline = play(
        attached(name="a", type="Failover", consumer_epoch=0),
        attached(name="b", consumer=1, type="Failover", consumer_epoch=0)[2:],
        flow(5), message(0, consumer_epoch=0), message(1, consumer_epoch=0),
        redeliver(consumer_epoch=1), ack(0, consumer=1),
    )  # fmt: skip
    assert timeline.consumers[0].ledger.awaited == {(1, 1): 1}


@pytest.mark.parametrize("column", ["topic", "subscription"])
def test_an_ack_of_another_subscription_settles_nothing(column: str) -> None:
    other = attached(consumer=1, **{column: "another"})[2:]
    strange = ack(0, consumer=1)
    timeline = play(attached(), other, flow(5), message(0), strange)
    assert [c.ledger.unacked for c in timeline.consumers] == [1, 0]
    assert strange.acknowledged_messages == 0


# Shared or Exclusive, commands after FLOW 99, what the last of them acknowledged.
COUNTED = {
    "one": ("Shared", [message(0), ack(0)], 1),
    "once more": ("Shared", [message(0), ack(0), ack(0)], 0),
    "the same twice in one": ("Shared", [message(0), message(1), ack(0, 1, 0)], 2),
    "what did not come": ("Shared", [ack(0)], 0),
    "a batch": ("Shared", [message(0, 10), message(1), ack(0)], 10),
    "some of a batch": ("Shared", [message(0, 10), ack_batch(0, [7, 8, 9], 10)], 7),
    "the rest of it": ("Shared", [message(0, 10), ack_batch(0, [7, 8, 9], 10), ack(0)], 3),
    "what was open of a batch": ("Shared", [message(0, 10, open=[2, 3]), ack(0)], 2),
    "what was given back": ("Shared", [message(0), redeliver(0), ack(0)], 0),
    "all up to it": ("Exclusive", [*map(message, range(4)), ack(2, type="cumulative")], 3),
    "dropped by the broker": ("Shared", [message(0), ack(0, type="cumulative")], 0),
    "no ACK": ("Shared", [message(0), ack(0), flow(1)], None),
    "commands are missing": ("Shared", [message(0), message(1), gap(), ack(0)], None),
}


@pytest.mark.parametrize(("type", "rows", "expected"), COUNTED.values(), ids=COUNTED)
def test_what_an_ack_acknowledges_is_counted(
    type: str, rows: list[Row], expected: int | None
) -> None:
    said = deepcopy(rows)
    play(attached(type), flow(99), said)
    assert said[-1].acknowledged_messages == expected


def test_an_ack_of_a_consumer_that_nobody_knows_is_not_counted() -> None:
    strange = ack(0, consumer=7)
    play(attached(), flow(5), message(0), strange)
    assert strange.acknowledged_messages is None


def test_what_may_be_held_by_one_of_whom_not_all_is_known_is_not_counted() -> None:
    own, seen, unseen = ack(3, consumer=1), ack(2, consumer=1), ack(0, 3, 1, consumer=1)
    timeline = play(attached(), flow(5), message(0), gap(), message(2))
    play(attached(consumer=1)[2:], flow(5, 1), message(3, consumer=1), own, seen,
         timeline=timeline)  # fmt: skip
    assert [own.acknowledged_messages, seen.acknowledged_messages] == [1, 1]
    play(ack(0), message(4, consumer=1), unseen, timeline=timeline)
    assert unseen.acknowledged_messages is None


def test_in_a_trace_that_starts_later_others_may_hold_any_message() -> None:
    own, strange, all_up_to = ack(0), ack(9), ack(2, type="cumulative", consumer=1)
    later = LaterTimeline(Meta("t"), Expired(1, 50))
    play(attached(), flow(5), message(0), own, strange, timeline=later)
    other = attached("Exclusive", consumer=1, subscription="other")[2:]
    play(other, flow(5, 1), message(1, consumer=1), message(2, consumer=1), all_up_to,
         timeline=later)  # fmt: skip
    rows = (own, strange, all_up_to)
    assert [each.acknowledged_messages for each in rows] == [1, None, 2]


def test_a_trace_that_starts_later_goes_on_so_from_its_saved_state() -> None:
    later = play(attached(), flow(5), timeline=LaterTimeline(Meta("t"), Expired(1, 50)))
    rows = [ack(9), *attached(consumer=1)[2:], flow(4, 1), message(0, consumer=1),
            ack(0, consumer=1)]  # fmt: skip
    for each in (later, Timeline.restore(written(later), "t")):
        again = deepcopy(rows)
        play(again, timeline=each)
        assert again[0].acknowledged_messages is None
        assert (again[-1].acknowledged_messages, again[-1].unsent_permits_min) == (1, 0)


def test_an_ack_of_another_consumer_releases_what_the_owner_s_limit_holds_back() -> None:
    told = {"a": {"unacked_limit": 2}}
    owner = flow(2)
    timeline = play(
        attached(name="a"), attached(name="b", consumer=1)[2:], flow(2), message(0), message(1),
        owner, timeline=Timeline("t", told),
    )  # fmt: skip
    assert (owner.available_permits, owner.parked_permits) == (0, 2)
    play(ack(0, consumer=1), timeline=timeline)
    assert timeline.consumers[0].ledger.available_permits == 2


def test_taken_finds_the_consumer_that_holds_the_message() -> None:
    partitions = [f"{TOPIC}-partition-{n}" for n in range(2)]
    timeline = play(
        attached(topic=partitions[0]), attached(consumer=1, topic=partitions[1])[2:],
        attached(consumer=2, topic=partitions[1])[2:],
        flow(5), flow(5, 1), flow(5, 2),
        message(0), message(0, consumer=1), message(1, consumer=2),
    )  # fmt: skip
    rows = [
        taken(0, topic=partitions[0]), taken(0, topic=partitions[1]),
        taken(1, topic=partitions[1]), taken(1, name="stranger"),
    ]  # fmt: skip
    play(rows, timeline=timeline)
    assert [each.incarnation for each in rows] == [1, 2, 3, None]
    assert [each.unsent_permits_min for each in rows] == [1, 1, 1, None]
    assert rows[1].consumer_id == 1
    assert rows[1].conn_id is None


def test_taken_after_its_ack_goes_to_the_newest_of_that_name() -> None:
    late = taken(0)
    timeline = play(attached(conn=1), attached(conn=2))
    play(closed_by_broker(conn=1), subscribe(0, 9, conn=1), success(9), flow(4), late,
         timeline=timeline)  # fmt: skip
    assert late.incarnation == 3


def test_a_gap_makes_the_living_uncertain_and_nobody_after_it() -> None:
    uncertain, certain = message(1), flow(3, 1)
    timeline = play(attached(), flow(10), message(0), gap(), uncertain)
    play(attached(consumer=1)[2:], certain, timeline=timeline)
    assert [c.ledger.uncertain for c in timeline.consumers] == [True, False]
    assert uncertain.incarnation == 1
    numbers = ("available_permits", "parked_permits", "unsent_permits_min", "unacked_messages",
               "starved_since", "starved_us", "starved_from")  # fmt: skip
    assert all(getattr(uncertain, name) is None for name in numbers)
    assert certain.available_permits == 3


def test_a_connection_that_is_no_longer_observed_makes_its_consumers_uncertain() -> None:
    timeline = play(attached(conn=1), attached(conn=2), to_client("UNPARSED", conn=1))
    assert [c.ledger.uncertain for c in timeline.consumers] == [True, False]


def test_the_ack_of_a_message_taken_before_an_unload_proves_nothing_after_it() -> None:
    timeline = play(attached(), flow(4), message(0), message(1), closed_by_broker())
    play(subscribe(0, 5), success(5), flow(4), timeline=timeline)
    last, new = ack(1), ack(2)
    play(message(0), message(1), message(2), last, new, timeline=timeline)
    assert (last.unsent_permits_min, new.unsent_permits_min) == (0, 3)


def test_what_another_subscription_had_before_is_new_to_this_one() -> None:
    timeline = play(attached(), flow(4), message(0), message(1), closed_by_broker())
    proof = ack(1, consumer=1)
    other = attached(consumer=1, subscription="another")[2:]
    play(other, flow(4, 1), message(1, consumer=1), proof, timeline=timeline)
    assert proof.unsent_permits_min == 1


def test_a_lost_connection_is_forgotten() -> None:
    assert play(attached(), flow(4), closed()).connections == {}


def test_an_ended_incarnation_keeps_its_numbers_and_forgets_its_deliveries() -> None:
    timeline = play(attached(), flow(4), message(0), closed_by_broker())
    ledger = only(timeline).ledger
    assert (ledger.unacked, ledger.available_permits, ledger.deliveries) == (1, 3, {})


# --- what is judged ---


def judged(timeline: Timeline) -> list[tuple[list[int], float]]:
    """For each subscription the incarnations that are judged, and at which second."""
    return [
        ([c.incarnation for c in each.consumers], (each.now_us - EPOCH_US) / 1e6)
        for each in timeline.subscriptions()
    ]


def a_and_b(*rows: Row) -> Timeline:
    return play(attached(name="a"), attached(name="b", consumer=1)[2:], rows)


JUDGED = {
    "the living, at the end": ([row("PING", at=9)], [([1, 2], 9)]),
    "one has gone": ([closed_by_broker(0, at=3), row("PING", at=9)], [([2], 9)]),
    "all were shut down: just before the first close": (
        [closed_by_broker(0, at=3), closed_by_broker(1, at=5), row("PING", at=99)], [([1, 2], 3)],
    ),
    "from the request to close, not from its answer": (
        [close_consumer(0, 2, at=3), closed_by_broker(1, at=5), success(2, at=7)], [([1, 2], 3)],
    ),
    "one went long before": (
        [closed_by_broker(0, at=3), closed_by_broker(1, at=50)], [([2], 50)],
    ),
    "the connection was lost": ([closed(at=4)], [([1, 2], 4)]),
    "one came back and lives": (
        [closed_by_broker(0, at=3), subscribe(0, 5, at=4), row("PING", at=6)], [([2, 3], 6)],
    ),
    "one came back and went": (
        [
            closed_by_broker(0, at=3), subscribe(0, 5, at=4), success(5, at=4),
            closed_by_broker(0, at=5), closed_by_broker(1, at=6),
        ],
        [([2, 3], 5)],
    ),
    "one came back, and the other went first": (
        [
            closed_by_broker(0, at=3), subscribe(0, 5, at=4), success(5, at=4),
            closed_by_broker(1, at=5), closed_by_broker(0, at=6),
        ],
        [([2, 3], 5)],
    ),
    "one after the other, eight seconds apart": (
        [
            subscribe(2, 5), success(5), closed_by_broker(0, at=20), closed_by_broker(1, at=28),
            closed_by_broker(2, at=36),
        ],
        [([2, 3], 36)],
    ),
    "a SUBSCRIBE that failed is nobody": (
        [closed(at=3), subscribe(0, 5, at=4), error(5, at=5), closed(at=6)], [([1, 2], 3)],
    ),
    "the wall clock was set back": ([closed_by_broker(0, at=-5), closed(at=-3)], [([2], -3)]),
    "two subscriptions": (
        [
            subscribe(2, 5, subscription="other"), closed_by_broker(0, at=3),
            closed_by_broker(1, at=4), row("PING", at=9),
        ],
        [([1, 2], 3), ([3], 9)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), JUDGED.values(), ids=JUDGED)
def test_what_is_judged_and_when(rows: list[Row], expected: list[tuple[list[int], float]]) -> None:
    assert judged(a_and_b(*deepcopy(rows))) == expected


def test_a_shutdown_is_judged_by_the_ledgers_before_it() -> None:
    """The hog goes first and its messages move to its idle neighbour."""
    timeline = a_and_b(
        flow(2, 0, at=1), flow(9, 1, at=1), message(0, at=1), message(1, at=1),
        close_consumer(0, 2, at=60), success(2, at=60),
        message(0, consumer=1, at=61), message(1, consumer=1, at=61), ack(1, consumer=1, at=62),
        close_consumer(1, 3, at=63), success(3, at=63),
    )  # fmt: skip
    for each in (timeline, Timeline.restore(json.loads(json.dumps(timeline.state())))):
        (subscription,) = each.subscriptions()
        hog, idle = subscription.consumers
        assert (hog.ledger.unacked, hog.ledger.available_permits) == (2, 0)
        assert (subscription.now_ns - (hog.ledger.starved_since_ns or 0)) / 1e9 == 59
        assert (idle.ledger.unacked, idle.ledger.available_permits) == (0, 9)
        assert (idle.ledger.last_message_ns, idle.ledger.last_work_ns) == (None, None)
        assert [c.ledger.messages for c in each.consumers] == [2, 2]


def test_silence_counts_up_to_the_moment_that_was_told() -> None:
    timeline = play(attached())
    timeline.pass_time(EPOCH_US + 7_000_000, 7_000_000_000)
    (subscription,) = timeline.subscriptions()
    assert (subscription.now_us, subscription.now_ns) == (EPOCH_US + 7_000_000, 7_000_000_000)


def test_the_partition_of_a_topic() -> None:
    (subscription,) = play(attached(topic=f"{TOPIC}-partition-12")).subscriptions()
    assert isinstance(subscription, Subscription)
    assert (subscription.topic, subscription.partition) == (TOPIC, 12)
    assert split_partition("a-partition-x") == ("a-partition-x", None)


# --- laws on random traffic ---

CONNECTIONS, CONSUMERS = (1, 2), (0, 1)
TYPES = ("Shared", "Exclusive")
TOLD = {"c0": {"unacked_limit": 5}, "c1": {"receiver_queue_size": 4}}


def command(kind: str, conn: int, consumer: int, number: int) -> Row:
    request = number % 4
    made: dict[str, Any] = {
        "open": lambda: opened(conn=conn),
        "close": lambda: closed(conn=conn),
        "subscribe": lambda: subscribe(
            consumer, request, conn=conn, type=TYPES[number % 2], name=f"c{consumer}",
            topic=f"{TOPIC}-partition-{number % 3}" if number % 2 else TOPIC,
            consumer_epoch=number % 2,
        ),
        "success": lambda: success(request, conn=conn),
        "error": lambda: error(request, conn=conn),
        "flow": lambda: flow(number, consumer, conn=conn),
        "message": lambda: message(
            number, 1 + number % 3, consumer, conn=conn, redelivery_count=number // 6,
            consumer_epoch=number % 3,
        ),
        "open batch": lambda: message(number, 3, consumer, conn=conn, open=[number % 3]),
        "ack": lambda: ack(number, number + 1, consumer=consumer, conn=conn),
        "ack one": lambda: ack(number, consumer=consumer, conn=conn),
        "cumulative": lambda: ack(number, consumer=consumer, conn=conn, type="cumulative"),
        "redeliver": lambda: redeliver(number, consumer=consumer, conn=conn),
        "redeliver all": lambda: redeliver(consumer=consumer, conn=conn, consumer_epoch=number % 4),
        "close consumer": lambda: close_consumer(consumer, request, conn=conn),
        "unsubscribe": lambda: unsubscribe(consumer, request, conn=conn),
        "closed by broker": lambda: closed_by_broker(consumer, conn=conn),
        "gap": lambda: gap(number),
        "taken": lambda: taken(number, name=f"c{consumer}"),
    }  # fmt: skip
    row = made[kind]()
    assert isinstance(row, Row)
    return row


OFTEN = ["subscribe", "success", "flow", "flow", *["message"] * 4, "ack", "ack one", "taken"]
RARE = ["open", "close", "error", "open batch", "cumulative", "redeliver", "redeliver all"]
RARE += ["close consumer", "unsubscribe", "closed by broker", "gap"]


@st.composite
def traffic(draw: st.DrawFn) -> list[Row]:
    rows = [*attached(conn=1, name="c0"), *attached(conn=2, consumer=1, name="c1"), flow(5)]
    for kind in draw(st.lists(st.sampled_from(OFTEN * 4 + RARE), min_size=20, max_size=60)):
        conn, consumer = draw(st.sampled_from(CONNECTIONS)), draw(st.sampled_from(CONSUMERS))
        rows.append(command(kind, conn, consumer, draw(st.integers(0, 11))))
    for number, each in enumerate(rows):
        each.ts, each.mono_ns = EPOCH_US + number * 1_700_001, number * 1_700_001_000
    return rows


def written(timeline: Timeline) -> Any:
    return json.loads(json.dumps(timeline.state()))


@settings(max_examples=15, deadline=None)
@given(rows=traffic())
def test_a_timeline_goes_on_from_its_saved_state_at_any_point(rows: list[Row]) -> None:
    whole = Timeline("t", TOLD)
    expected = [values_of(whole.apply(deepcopy(each))) for each in rows]
    for cut in range(0, len(rows), 7):
        before = play(deepcopy(rows[:cut]), timeline=Timeline("t", TOLD))
        saved = before.state()
        text = json.dumps(saved)
        after = Timeline.restore(saved, "t", TOLD)
        assert [values_of(after.apply(deepcopy(each))) for each in rows[cut:]] == expected[cut:]
        assert written(after) == written(whole)
        assert after.subscriptions() == whole.subscriptions()
        assert json.dumps(saved) == text
        play(deepcopy(rows[cut:]), timeline=before)
        assert json.dumps(saved) == text


@settings(max_examples=60, deadline=None)
@given(rows=traffic())
def test_the_rows_of_a_sealed_trace_give_the_same_rows_and_the_same_state(rows: list[Row]) -> None:
    first = play(rows, timeline=Timeline("t", TOLD))
    sealed = [values_of(each) for each in rows]
    again = Timeline("t", TOLD)
    for values in sealed:
        read = Row()
        for name, value in zip(NAMES, values, strict=True):
            setattr(read, name, value)
        assert values_of(again.apply(read)) == values
    assert written(again) == written(first)


@settings(max_examples=60, deadline=None)
@given(rows=traffic())
def test_what_holds_on_every_row(rows: list[Row]) -> None:
    timeline = Timeline("t", TOLD)
    starved_since: dict[int | None, int | None] = {}
    for each in rows:
        acknowledged = sum(consumer.ledger.acknowledged for consumer in timeline.consumers)
        timeline.apply(each)
        if each.acknowledged_messages is not None:
            acknowledged += each.acknowledged_messages
            assert each.command == "ACK"
            assert acknowledged == sum(c.ledger.acknowledged for c in timeline.consumers)
        elif each.command == "ACK" and each.available_permits is not None:
            assert any(consumer.ledger.uncertain for consumer in timeline.living)
        if each.starved_us is not None and each.command not in (CLOSE, "SUBSCRIBE"):
            assert each.starved_from == each.ts - each.starved_us
            assert each.starved_from in (starved_since[each.incarnation], each.ts)
        else:
            assert each.starved_from is None
        starved_since[each.incarnation] = each.starved_since
        for consumer in timeline.consumers:
            ledger = consumer.ledger
            held = sum(delivery.messages for delivery in ledger.deliveries.values())
            assert consumer.closed_us is not None or ledger.unacked == held
            assert ledger.unacked >= 0
            assert ledger.unsent_permits_min >= 0 <= ledger.queued_min
            assert ledger.available_permits == ledger.granted - ledger.spent - ledger.parked
        if each.starved_since is not None:
            assert each.starved_us is None
            assert (each.available_permits or 0) <= 0
        for subscription in timeline.subscriptions():
            assert subscription.consumers
            assert subscription.now_ns <= timeline.now_ns


# --- any cut of the bytes ---


def frame(name: str, metadata: dict[str, int] | None = None, **fields: Any) -> bytes:
    known = COMMANDS[CODES[name]]
    command = wire.BaseCommand(type=CODES[name])
    part = getattr(command, known.field)
    part.SetInParent()
    for field_name, value in fields.items():
        if isinstance(value, list):
            getattr(part, field_name).extend(value)
        elif isinstance(value, dict):
            getattr(part, field_name).MergeFrom(wire.MessageId(**value))
        else:
            setattr(part, field_name, value)
    encoded = command.SerializeToString()
    tail = b""
    if metadata is not None:
        head = wire.MessageMetadata(publish_time=1, **metadata).SerializeToString()
        tail = b"\x0e\x01" + bytes(4) + len(head).to_bytes(4, "big") + head + b"payload" * 9
    body = len(encoded).to_bytes(4, "big") + encoded + tail
    return len(body).to_bytes(4, "big") + body


def pushed(entry: int, batch: int = 1, **fields: Any) -> bytes:
    at = {"ledger_id": 1, "entry_id": entry}
    metadata = {"num_messages_in_batch": batch} if batch > 1 else {}
    return frame("MESSAGE", metadata, consumer_id=0, message_id=at, **fields)


def acknowledged(*entries: int) -> bytes:
    ids = [wire.MessageId(ledger_id=1, entry_id=entry) for entry in entries]
    return frame("ACK", consumer_id=0, ack_type=0, message_id=ids)


# What each side says in turn: 0 is the client, 1 the broker.
DIALOGUE = [
    (0, frame("CONNECT", client_version="Pulsar-CPP-v3.8.0", protocol_version=20)),
    (1, frame("CONNECTED", server_version="4.0.8", max_message_size=5242880)),
    (0, frame("SUBSCRIBE", topic=TOPIC, subscription="s", sub_type=1, consumer_id=0, request_id=1,
              consumer_name="c")),
    (1, frame("SUCCESS", request_id=1)),
    (0, frame("FLOW", consumer_id=0, message_permits=10)),
    (1, b"".join([pushed(0), pushed(1, 5), pushed(2, 300, ack_set=[-1, 7]), pushed(3)])),
    (0, acknowledged(0, 3) + frame("FLOW", consumer_id=0, message_permits=5)),
    (0, frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=0,
              message_ids=[wire.MessageId(ledger_id=1, entry_id=1)])),
    (1, pushed(1, 5, redelivery_count=1) + pushed(4, message_permits=2)),
    (0, acknowledged(1)),
    (0, frame("CLOSE_CONSUMER", consumer_id=0, request_id=2)),
    (1, pushed(5) + frame("SUCCESS", request_id=2)),
]  # fmt: skip


def rows_of_reads(reads: Sequence[tuple[int, bytes]]) -> list[tuple[Any, ...]]:
    """What a timeline makes of these reads of the sockets, each side's stream cut as it came."""
    cutters, mask = (Cutter(), Cutter()), Mask(b"salt")
    event = pack_event("OPEN", client_addr="10.0.0.1:5", broker_addr="10.0.0.9:6650")
    blocks = [pack_block([event], ts=EPOCH_US, mono_ns=0, conn_id=1)]
    for side, read in reads:
        records = [mask.pack(each) for each in cutters[side].feed(read)]
        blocks.append(pack_block(records, ts=EPOCH_US, mono_ns=0, conn_id=1, direction=side))
    timeline = Timeline("t")
    rows = [
        timeline.apply(each)
        for block, _ in read_blocks(b"".join(blocks))
        for each in rows_of(block)
    ]
    assert sum(map(len, (read for _, read in reads))) == sum(c.position for c in cutters)
    return [values_of(each) for each in rows]


def test_the_dialogue_uncut() -> None:
    shown = [dict(zip(NAMES, values, strict=True)) for values in rows_of_reads(DIALOGUE)]
    numbers = ("command", "permits", "available_permits", "unsent_permits_min", "unacked_messages")
    assert [tuple(each[name] for name in numbers) for each in shown[4:]] == [
        ("SUCCESS", None, 0, 0, 0),
        ("FLOW", 10, 10, 0, 0),
        ("MESSAGE", 1, 9, 0, 1),
        ("MESSAGE", 5, 4, 0, 6),
        ("MESSAGE", 67, -63, 233, 73),
        ("MESSAGE", 1, -64, 233, 74),
        ("ACK", None, -64, 307, 72),
        ("FLOW", 5, -59, 302, 72),
        ("REDELIVER_UNACKNOWLEDGED_MESSAGES", None, -59, 302, 67),
        ("MESSAGE", 5, -64, 302, 72),
        ("MESSAGE", 2, -66, 302, 73),
        ("ACK", None, -66, 302, 68),
        ("CLOSE_CONSUMER", None, -66, 302, 68),
        ("MESSAGE", 1, -67, 302, 69),
        ("SUCCESS", None, -67, 302, 69),
    ]


@settings(deadline=None)
@given(data=st.data())
def test_any_cut_of_the_bytes_gives_the_same_rows(data: st.DataObject) -> None:
    reads = []
    for side, spoken in DIALOGUE:
        cuts = data.draw(st.sets(st.integers(1, len(spoken) - 1), max_size=6))
        ends = [0, *sorted(cuts), len(spoken)]
        reads += [(side, spoken[a:b]) for a, b in pairwise(ends)]
    assert rows_of_reads(reads) == rows_of_reads(DIALOGUE)


def test_byte_by_byte_gives_the_same_rows() -> None:
    reads = [(side, spoken[n : n + 1]) for side, spoken in DIALOGUE for n in range(len(spoken))]
    assert rows_of_reads(reads) == rows_of_reads(DIALOGUE)
