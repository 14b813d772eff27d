"""The ledger of one consumer: transcripts, and laws against a model of a client and of a broker."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.ledger import permits
from pulsar_doctor.ledger.awaited import AWAITED_MOST
from pulsar_doctor.ledger.balance import Ledger, Pace
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import MessageId, Row, ids_of
from pulsar_doctor.wording.typed_json import of_json, to_json
from tests.ledger.rows import (
    ack,
    ack_batch,
    ack_set,
    attached,
    flow,
    message,
    paced,
    redeliver,
    row,
    subscribe,
    taken,
)


def ready(**told: Any) -> Ledger:
    ledger, answer = Ledger(**told), row("SUCCESS")
    permits.subscribed(ledger, answer)
    return play(ledger, answer)


def play(ledger: Ledger, *rows: Row) -> Ledger:
    for each in rows:
        permits.apply(ledger, each)
    return ledger


# What one command does: available, unsent_min, unacked after each.
TRANSCRIPTS = {
    "RQS 4: every second acknowledged message is a FLOW": [
        (flow(4), 4, 0, 0),
        (message(0), 3, 0, 1),
        (message(1), 2, 0, 2),
        (ack(0), 2, 1, 1),
        (ack(1), 2, 2, 0),
        (flow(2), 4, 0, 0),
    ],
    "a FLOW may come before the acks that are grouped": [
        (flow(2), 2, 0, 0),
        (message(0), 1, 0, 1),
        (flow(1), 2, 0, 1),
        (message(1), 1, 0, 2),
        (flow(1), 2, 0, 2),
        (ack(0, 1), 2, 0, 0),
    ],
    "a batch takes permits below zero": [
        (flow(2), 2, 0, 0),
        (message(0, 10), -8, 0, 10),
        (flow(1), -7, 0, 10),
        (ack(0), -7, 9, 0),
    ],
    "acknowledged indexes of a batch cost nothing and count nothing": [
        (flow(10), 10, 0, 0),
        (message(0, 10, open=[2, 3, 9]), 7, 7, 3),
        (flow(7), 14, 0, 3),
        (ack_batch(0, [9], 10), 14, 2, 1),
        (ack(0), 14, 3, 0),
    ],
    "message_permits of the command outrank the batch": [
        (flow(10), 10, 0, 0),
        (message(0, 10, permits=4), 6, 0, 10),
    ],
    "each chunk is an entry and costs 1": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (message(1), 8, 0, 2),
        (message(2), 7, 0, 3),
        (ack(0, 1, 2), 7, 3, 0),
    ],
    "the newest acknowledged message proves that the earlier ones were taken": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (message(1), 8, 0, 2),
        (message(2), 7, 0, 3),
        (ack(2), 7, 3, 2),
        (ack(0), 7, 3, 1),
    ],
    "a message that is returned by its id had been taken": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (message(1), 8, 0, 2),
        (redeliver(1), 8, 2, 1),
    ],
    "one message of a returned batch had been taken, at least": [
        (flow(100), 100, 0, 0),
        (message(0, 10), 90, 0, 10),
        (ack_batch(0, range(3, 10), 10), 90, 3, 7),
        (redeliver(0), 90, 4, 0),
    ],
    "the late ack of a message that was delivered again proves nothing more": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (redeliver(0), 9, 1, 0),
        (message(0, redelivery_count=1), 8, 1, 1),
        (ack(0), 8, 1, 0),
    ],
    "redelivery of all gives back the queue too, which proves nothing": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (message(1, 5), 4, 0, 6),
        (redeliver(), 4, 0, 0),
    ],
    "an ack of what is not held changes nothing": [
        (flow(10), 10, 0, 0),
        (ack(7), 10, 0, 0),
        (message(0), 9, 0, 1),
        (ack(0), 9, 1, 0),
        (ack(0), 9, 1, 0),
        (redeliver(0), 9, 1, 0),
    ],
    "a cumulative ack is dropped by the broker on Shared": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (ack(0, type="cumulative"), 9, 0, 1),
    ],
    "a corrupt message is acknowledged as it comes, before those in the queue": [
        (flow(10), 10, 0, 0),
        (message(0), 9, 0, 1),
        (message(1), 8, 0, 2),
        (ack(1, error_code="ChecksumMismatch"), 8, 0, 1),
    ],
    "a batch of which nothing is open": [
        (flow(10), 10, 0, 0),
        (message(0, 3, open=[]), 10, 3, 0),
        (redeliver(0), 10, 3, 0),
    ],
    "TAKEN is exact, and acks say no more": [
        (flow(4), 4, 0, 0),
        (message(0), 3, 0, 1),
        (message(1), 2, 0, 2),
        (taken(0), 2, 1, 2),
        (ack(0), 2, 1, 1),
        (taken(1), 2, 2, 1),
        (flow(2), 4, 0, 1),
    ],
    "RQS 1, or a zero queue: nothing is ever unsent": [
        (flow(1), 1, 0, 0),
        (message(0), 0, 0, 1),
        (ack(0), 0, 0, 0),
        (flow(1), 1, 0, 0),
    ],
}


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_transcript_on_a_shared_subscription(transcript: list[tuple[Row, int, int, int]]) -> None:
    ledger = ready(credits_skipped=True)
    for number, (command, *expected) in enumerate(transcript):
        permits.apply(ledger, command)
        seen = [command.available_permits, command.unsent_permits_min, command.unacked_messages]
        assert seen == expected, f"line {number}: {command.command}"


CUMULATIVE = {
    "everything before it": ([message(0), message(1), message(2), ack(1, type="cumulative")], 1, 2),
    "into a batch": (
        [message(0), message(1, 4), ack_batch(1, [2, 3], 4, type="cumulative")], 2, 3,
    ),
    "of an entry that is not held": ([message(0), message(1), ack(7, type="cumulative")], 0, 2),
    "over two ledgers": (
        [message((1, 9)), message((2, 0)), message((2, 1)), ack((2, 0), type="cumulative")], 1, 2,
    ),
    "after a redelivery of all": (
        [message(0), message(1), redeliver(), message(0), message(1), ack(0, type="cumulative")],
        1, 0,
    ),
    "twice": (
        [message(0), message(1), ack(0, type="cumulative"), ack(0, type="cumulative")], 1, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "unacked", "unsent"), CUMULATIVE.values(), ids=CUMULATIVE)
def test_a_cumulative_ack_on_an_exclusive_subscription(
    rows: list[Row], unacked: int, unsent: int
) -> None:
    ledger = play(ready(individual=False), flow(10), *rows)
    assert (ledger.unacked, ledger.unsent_permits_min) == (unacked, unsent)


def test_a_flow_before_subscribe_has_succeeded_is_dropped() -> None:
    ledger = Ledger()
    play(ledger, subscribe(), flow(10))
    assert (ledger.available_permits, ledger.first_flow, ledger.starved_since_ns) == (0, None, None)
    permits.subscribed(ledger, row("SUCCESS"))
    play(ledger, flow(7))
    assert (ledger.available_permits, ledger.receiver_queue_size) == (7, 7)


def test_parked_as_seen_on_the_broker_with_a_limit_of_20_and_rqs_10() -> None:
    ledger = ready(unacked_limit=20)
    play(ledger, flow(10), *(message(n) for n in range(5)), flow(5))
    play(ledger, *(message(n) for n in range(5, 10)), flow(5), *(message(n) for n in range(10, 15)))
    play(ledger, flow(5), *(message(n) for n in range(15, 20)))
    last = flow(5)
    play(ledger, last)
    assert (ledger.granted, ledger.spent) == (30, 20)
    # The FLOW before the last five messages was not needed for them. The broker said 5 where it
    # came before they had been sent, 0 where it crossed with them.
    assert (last.available_permits, last.parked_permits) == (5, None)
    assert ledger.available_permits - ledger.crossed == 0
    play(ledger, *(ack(n) for n in range(9)))
    assert (ledger.available_permits, ledger.parked_permits) == (5, None)
    play(ledger, ack(9))
    assert (ledger.available_permits, ledger.parked_permits) == (10, 0)


def test_parked_is_known_where_each_flow_came_when_its_permits_were_needed() -> None:
    """As a worker that takes its time sends them: all that was granted is spent before the next."""
    ledger = play(ready(unacked_limit=20), flow(10), *(message(n) for n in range(10)))
    play(ledger, flow(5), *(message(n) for n in range(10, 15)))
    play(ledger, flow(5), *(message(n) for n in range(15, 20)), flow(5), flow(5))
    assert (ledger.available_permits, ledger.parked_permits) == (0, 10)


def test_what_should_come_again_in_the_next_epoch_is_remembered_up_to_a_bound() -> None:
    many = [message(number, consumer_epoch=0) for number in range(AWAITED_MOST + 5)]
    ledger = play(ready(individual=False, epoch=0), flow(2000), *many, redeliver(consumer_epoch=1))
    assert (ledger.epoch, len(ledger.awaited), min(ledger.awaited)) == (1, AWAITED_MOST, (1, 5))
    last = AWAITED_MOST + 5
    play(ledger, message(last, consumer_epoch=0), message(last + 1, 3, consumer_epoch=0))
    assert (len(ledger.awaited), min(ledger.awaited), ledger.late) == (AWAITED_MOST, (1, 7), 2)
    play(ledger, message(7, consumer_epoch=1), ack(8), ack_batch(last + 1, [1], 3))
    assert (min(ledger.awaited), ledger.awaited[1, last + 1]) == ((1, 9), 2)
    play(ledger, ack(last, type="cumulative"))
    assert ledger.awaited == {(1, last + 1): 2}
    assert of_json(Ledger, json.loads(json.dumps(to_json(ledger)))) == ledger


@pytest.mark.parametrize("back", [redeliver(0), redeliver()], ids=["by id", "all"])
def test_a_redelivery_releases_what_is_parked(back: Row) -> None:
    ledger = play(ready(unacked_limit=4), flow(4), message(0, 2), message(1, 2), flow(2), flow(2))
    assert (ledger.available_permits, ledger.parked_permits) == (0, 4)
    play(ledger, back)
    assert (ledger.available_permits, ledger.parked_permits) == (4, 0)


def test_without_the_limit_parked_is_not_known_and_available_an_upper_bound() -> None:
    rows = [flow(4), message(0, 4), flow(4)]
    told = play(ready(unacked_limit=4), *deepcopy(rows))
    untold = play(ready(), *rows)
    assert (told.available_permits, told.parked_permits) == (0, 4)
    assert (untold.available_permits, untold.parked_permits) == (4, None)


def test_an_exclusive_subscription_has_no_limit_and_parks_nothing() -> None:
    ledger = play(ready(individual=False, unacked_limit=4), flow(4), message(0, 4), flow(4))
    assert (ledger.available_permits, ledger.parked_permits) == (4, 0)


def test_the_longest_ack_delay_of_several_ids() -> None:
    late, early, partial = message(0, at=1), message(1, at=3), ack_batch(2, [0], 2, at=9)
    both = ack(0, 1, at=4)
    ledger = play(ready(), flow(10), late, early, message(2, 2, at=5), both, partial)
    assert both.ack_delay_us == 3_000_000
    assert partial.ack_delay_us == 4_000_000
    assert ledger.ack_delay_most_ns == 4_000_000_000


def test_starvation_stands_on_each_command_and_its_length_on_the_one_that_ends_it() -> None:
    rows = paced([flow(1), message(0), row("SEEK"), ack(0), flow(1), flow(1), message(1)])
    ledger = play(ready(), *rows)
    began = rows[1].ts
    assert [each.starved_since for each in rows] == [None, began, began, began, None, None, None]
    assert [each.starved_us for each in rows] == [0, None, None, None, 3_000_000, None, None]
    assert [each.flow_gap_us for each in rows if each.command == "FLOW"] == [
        None, 4_000_000, 1_000_000,
    ]  # fmt: skip
    assert ledger.longest_starved_ns == 3_000_000_000


def test_a_round_trip_is_from_a_flow_to_the_first_message_for_it() -> None:
    ledger = play(
        ready(), flow(2, at=1), message(0, at=1.1), flow(1, at=1.2), message(1, at=1.25),
        flow(1, at=1.3), message(2, at=1.5), message(3, at=1.55),
    )  # fmt: skip
    assert [round(ns / 1e9, 6) for ns in ledger.trips_ns] == [0.1, 0.3]
    assert of_json(Ledger, json.loads(json.dumps(to_json(ledger)))).trips_ns == ledger.trips_ns


def test_the_close_ends_a_starvation() -> None:
    ledger, last = ready(), row("CLOSE_CONSUMER", at=5)
    play(ledger, flow(1, at=1), message(0, at=2), last)
    permits.end_starvation(ledger, last)
    assert (last.starved_us, last.starved_since) == (3_000_000, None)
    assert (ledger.starved_since_ns, ledger.starved_since_us) == (None, None)


def starved(ledger: Ledger, until: float) -> tuple[float, float, float | None]:
    """In seconds: in all, the longest; and the share."""
    counted = ledger.starvation(round(until * 1e9))
    return counted.total_ns / 1e9, counted.longest_ns / 1e9, counted.share


def test_times_without_permits_are_summed_and_the_longest_is_kept_apart() -> None:
    ledger = play(ready(), flow(1, at=2))
    assert starved(ledger, 2) == (2, 2, 1.0), "from its SUBSCRIBE on it had none"
    play(ledger, message(0, at=3), flow(1, at=4), message(1, at=5), flow(1, at=8), message(2, at=9))
    assert starved(ledger, 9) == (6, 3, 6 / 9)
    assert starved(ledger, 10) == (7, 3, 0.7), "the one that goes on counts up to then"
    assert starved(ledger, 19) == (16, 10, 16 / 19)
    play(ledger, flow(5, at=20))
    assert starved(ledger, 40) == (17, 11, 17 / 40)
    assert of_json(Ledger, json.loads(json.dumps(to_json(ledger)))) == ledger


def test_of_a_time_without_permits_whose_end_is_missing_counts_what_its_commands_show() -> None:
    ledger = play(ready(), flow(2), message(0, at=1), message(1, at=2), ack(0, at=5))
    permits.lose_track(ledger)
    assert starved(ledger, 60) == (3, 3, None)
    play(ledger, ack(1, at=8), flow(2, at=9))
    permits.lose_track(ledger)
    assert starved(ledger, 60) == (3, 3, None)
    assert starved(Ledger(), 60) == (0, 0, None), "it has not subscribed"


def test_missing_commands_leave_no_number_of_the_ledger() -> None:
    ledger = play(ready(), flow(1), message(0))
    permits.lose_track(ledger)
    rows = paced([ack(0), flow(1), flow(1)])
    play(ledger, *rows)
    for each in rows:
        assert each.available_permits is each.unsent_permits_min is each.unacked_messages is None
        assert each.starved_us is each.starved_since is each.parked_permits is None
    assert [each.flow_gap_us for each in rows] == [None, None, 1_000_000]
    permits.end_starvation(ledger, rows[-1])
    assert rows[-1].starved_us is None


QUEUES = [  # told, FLOWs, receiver queue size, threshold
    (None, [], None, None),
    (None, [10, 5, 5], 10, 5),
    (None, [1000], 1000, 500),
    (None, [1000, 700, 700], 1000, 700),
    (None, [10, 6, 6, 6], 10, 6),  # pulsar-rs 6.9.1
    (None, [10, 7, 5, 6], 10, 5),
    (None, [10, 40], 10, 10),  # no client can wait for more than its queue
    (None, [10, 1, *[5] * 8], 10, 5),  # the queue has grown since
    (None, [1000, 100], 1000, 100),
    (None, [3], 3, 1),
    (None, [1, 1], None, 1),
    (0, [1, 1], 0, 1),
    (1, [1, 1], 1, 1),
    (10, [], 10, 5),
    (None, [0, 0], 0, 1),
]


@pytest.mark.parametrize(("told", "flows", "size", "threshold"), QUEUES)
def test_the_receiver_queue_is_the_first_flow(
    told: int | None, flows: list[int], size: int | None, threshold: int | None
) -> None:
    ledger = play(ready(given_receiver_queue_size=told), *map(flow, flows))
    assert (ledger.receiver_queue_size, ledger.refill_threshold) == (size, threshold)


def test_what_asks_one_by_one_may_have_it_in_hand_and_not_in_a_queue() -> None:
    untold = play(ready(), flow(1), message(0))
    told = play(ready(given_receiver_queue_size=1), flow(1), message(0))
    assert (untold.queued_min, told.queued_min) == (0, 1)


def test_an_exclusive_subscription_counts_by_position_what_came_again() -> None:
    once, again = [message(0), message(1, 3)], [message(0), message(1, 3), message(2)]
    ledger = play(ready(individual=False), flow(9), *once, redeliver(), *again)
    assert (ledger.messages, ledger.redelivered, ledger.redelivery_count_most) == (9, 4, 1)


def test_at_1000_and_ten_minutes_a_message_the_next_flow_is_83_hours_away() -> None:
    ledger = play(ready(given_process_seconds=600), flow(1000), *(message(n) for n in range(1000)))
    forecast = ledger.forecast()
    assert forecast is not None
    assert (forecast.messages, forecast.at_most) == (500, True)
    assert forecast.pace == Pace(600, "as told")
    assert round((forecast.seconds or 0) / 3600) == 83


def test_a_flow_is_due_when_half_of_the_queue_is_taken() -> None:
    came = [message(n) for n in range(10)]
    ledger = play(ready(given_receiver_queue_size=10), flow(10), *came, taken(0))
    play(ledger, *(taken(n) for n in (1, 2, 3)))
    assert str(ledger.forecast()).startswith("next FLOW after 1 more message")
    assert str(play(ledger, taken(4)).forecast()) == "FLOW is due"
    assert str(play(ledger, flow(5)).forecast()).startswith("next FLOW after 5 more messages")


def test_a_zero_queue_that_met_a_batch_of_100_needs_100_receives() -> None:
    ledger = play(ready(given_receiver_queue_size=0), flow(1), message(0, 100))
    forecast = ledger.forecast()
    assert forecast is not None
    assert ledger.available_permits == -99
    assert (forecast.messages, forecast.until_positive, forecast.at_most) == (1, 100, False)


def test_the_measured_pace_counts_only_the_time_with_messages() -> None:
    rows = [flow(10, at=0), message(0, at=10), ack(0, at=12), message(1, at=100), ack(1, at=104)]
    assert play(ready(), *rows).pace() == Pace(3.0, "measured")


def test_the_wait_for_a_delivery_is_not_work() -> None:
    rows = [
        flow(10), message(0, at=1), taken(0, at=1), message(1, at=50), taken(1, at=52),
        message(2, at=60), taken(2, at=64),
    ]  # fmt: skip
    assert play(ready(), *rows).pace() == Pace(3.0, "measured")


@pytest.mark.parametrize(
    ("on_arrival", "seconds"), [(True, 20.0), (False, 1.0)], ids=["pulsar-rs", "others"]
)
def test_flows_upon_arrival_are_no_work(on_arrival: bool, seconds: float) -> None:
    """Forty messages come, a second apart; the application has finished two of them."""
    rows = [flow(10, at=0)]
    for number in range(40):
        rows.append(message(number, at=number))
        if number % 6 == 5:
            rows.append(flow(6, at=number))
    rows = [*rows, ack(0, at=39), ack(1, at=40)]
    ledger = play(ready(asks_on_arrival=on_arrival), *rows)
    pace = ledger.pace()
    assert pace is not None
    assert pace.seconds == pytest.approx(seconds, abs=0.3)


@pytest.mark.parametrize(
    ("version", "on_arrival"),
    [("2.0.1-incubating", True), ("Pulsar-Java-v4.0.8", False), (None, False)],
)
def test_which_clients_ask_upon_arrival(version: str | None, on_arrival: bool) -> None:
    timeline = Timeline("t")
    for each in attached():
        each.client_version = version if each.command == "CONNECT" else None
        timeline.apply(each)
    (consumer,) = timeline.consumers
    assert consumer.ledger.asks_on_arrival is on_arrival


def test_an_ack_of_another_consumer_settles_and_shows_no_work_of_the_owner() -> None:
    ledger = play(ready(), flow(10), message(0, at=1), message(1, at=2))
    other = ack(1, at=7)
    permits.acknowledge(ledger, other, ids_of(other), by_another=True)
    assert (ledger.unacked, ledger.acknowledged, ledger.unsent_permits_min) == (1, 1, 0)
    assert (ledger.last_work_ns, other.ack_delay_us) == (None, 5_000_000)


# --- the laws ---


@dataclass
class Dispatcher:
    """The broker's side, as Consumer.java of 4.0.8 has it, in the dull way: counters and sets."""

    limit: int
    permits: int = 0
    granted: int = 0
    debited: int = 0
    parked: int = 0
    blocked: bool = False
    pending: dict[int, int] = field(default_factory=dict)

    @property
    def unacked(self) -> int:
        return sum(self.pending.values())

    def flow(self, number: int) -> Row:
        self.granted += number
        self.blocked |= bool(self.limit) and self.unacked >= self.limit
        if self.blocked:
            self.parked += number
        else:
            self.permits += number
        return flow(number)

    def push(self, entry: int, batch: int) -> Row:
        self.permits -= batch
        self.debited += batch
        self.pending[entry] = batch
        self.blocked |= bool(self.limit) and self.unacked >= self.limit
        return message(entry, batch)

    def settle(self, entry: int, batch: int) -> Row:
        self.pending.pop(entry, None)
        if self.blocked and self.unacked <= self.limit // 2:
            self.release()
        return ack(entry)

    def again(self, entry: int, batch: int) -> Row:
        self.pending.pop(entry, None)
        self.release()
        return redeliver(entry)

    def release(self) -> None:
        self.permits += self.parked
        self.parked, self.blocked = 0, False


DISPATCHES = st.lists(
    st.tuples(st.sampled_from(["flow", "push", "push", "settle", "again"]), st.integers(0, 9)),
    min_size=20,
    max_size=60,
)


@given(steps=DISPATCHES, limit=st.integers(0, 12), batch=st.integers(1, 5))
def test_available_is_granted_less_spent_less_parked_at_every_step(
    steps: list[tuple[str, int]], limit: int, batch: int
) -> None:
    broker, ledger, untold = Dispatcher(limit), ready(unacked_limit=limit), ready()
    for step, number in steps:
        made = broker.flow(number) if step == "flow" else getattr(broker, step)(number, batch)
        permits.apply(untold, deepcopy(made))
        permits.apply(ledger, made)
        assert made.available_permits == broker.permits
        assert made.available_permits == broker.granted - broker.debited - broker.parked
        assert made.parked_permits in (broker.parked, None)
        assert (made.parked_permits is None) == (ledger.crossed > 0)
        assert ledger.blocked or not ledger.crossed
        assert made.unacked_messages == broker.unacked >= 0
        assert untold.available_permits >= broker.permits
        assert (made.starved_since is None) == (broker.permits > 0)


@dataclass
class Client:
    """A client as the table in PERMITS has it, and the broker that serves it. One entry a batch.

    rows: what the wire showed. Messages are (entry, index); a chunked message is taken as its last
    chunk, and its other chunks are credited as they come.
    """

    size: int
    threshold: int
    tells: bool = False
    credits: bool = True  # indexes of a batch that it skips; C++ and Go do, Java does not
    rows: list[Row] = field(default_factory=list)
    available: int = 0
    unsent: int = 0
    queue: deque[tuple[int, int]] = field(default_factory=deque)
    hand: list[tuple[int, int]] = field(default_factory=list)
    batches: dict[int, int] = field(default_factory=dict)
    chunks: dict[int, list[int]] = field(default_factory=dict)
    acked: dict[int, set[int]] = field(default_factory=dict)
    held: dict[int, set[int]] = field(default_factory=dict)
    returned: Counter[int] = field(default_factory=Counter)
    replay: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._flow(self.size)

    @property
    def unacked(self) -> int:
        return sum(map(len, self.held.values()))

    def _flow(self, number: int) -> None:
        self.available += number
        self.rows.append(flow(number))

    def _credit(self, number: int) -> None:
        self.unsent += number
        if self.unsent >= self.threshold:
            number, self.unsent = self.unsent, 0
            self._flow(number)

    def _deliver(self, entry: int) -> list[int]:
        batch = self.batches[entry]
        open = [index for index in range(batch) if index not in self.acked[entry]]
        self.available -= len(open)
        self.held[entry] = set(open)
        sent = None if len(open) == batch else open
        self.rows.append(message(entry, batch, open=sent, redelivery_count=self.returned[entry]))
        return open

    def push(self, number: int) -> None:
        """A new batch."""
        if self.available > 0:
            entry = len(self.batches)
            self.batches[entry], self.acked[entry] = 1 + number % 4, set()
            self.queue.extend((entry, index) for index in self._deliver(entry))

    def push_chunks(self, number: int) -> None:
        """A new message in several entries."""
        first, count = len(self.batches), 2 + number % 3
        if self.tells or self.available < count:
            return
        entries = list(range(first, first + count))
        for entry in entries:
            self.batches[entry], self.acked[entry] = 1, set()
            self._deliver(entry)
            if entry != entries[-1]:
                self._credit(1)
        self.chunks[entries[-1]] = entries
        self.queue.append((entries[-1], 0))

    def push_again(self, number: int) -> None:
        """What was given back, less what is acknowledged by now."""
        if self.available > 0 and self.replay:
            entry = self.replay.pop(number % len(self.replay))
            if len(self.acked[entry]) < self.batches[entry]:
                open = self._deliver(entry)
                self.queue.extend((entry, index) for index in open)
                if self.credits and self.batches[entry] > len(open):
                    self._credit(self.batches[entry] - len(open))

    def take(self, number: int = 0) -> None:
        if self.queue:
            taken_now = self.queue.popleft()
            self.hand.append(taken_now)
            if self.tells:
                self.rows.append(taken(taken_now[0]))
            self._credit(1)

    def settle(self, number: int) -> None:
        """Some of what is in hand, in one ACK."""
        count = min(len(self.hand), 1 + number % 5)
        chosen = [self.hand.pop(number % len(self.hand)) for _ in range(count)]
        closed: dict[int, bytes | None] = {}
        for entry, index in chosen:
            for each in self.chunks.get(entry, [entry]):
                self.acked[each].add(index)
                batch = self.batches[each]
                open = [n for n in range(batch) if n not in self.acked[each]]
                closed[each] = ack_set(open, batch) if open else None
                if each in self.held:
                    self.held[each].discard(index)
                    if not self.held[each]:
                        del self.held[each]
        if closed:
            listed = [MessageId(1, entry, open) for entry, open in closed.items()]
            several = {"ledger_id": None, "entry_id": None, "message_ids": listed}
            self.rows.append(ack(*closed, **several))

    def give_back(self, number: int) -> None:
        """One of what is in hand, by its id; the rest of its batch comes again too."""
        if self.hand:
            entry, _ = self.hand.pop(number % len(self.hand))
            entries = [each for each in self.chunks.get(entry, [entry]) if each in self.held]
            if len(entries) == 1 and entry not in self.chunks:
                self.rows.append(redeliver(entry))
                del self.held[entry]
                self.returned[entry] += 1
                self.replay.append(entry)


def takes_until(client: Client, goal: str) -> int:
    """How many more messages it takes until its next FLOW, or until permits are positive."""
    ahead = copy(client)
    ahead.rows, ahead.hand, ahead.tells = [], [], False
    ahead.queue = deque([(0, 0)] * 1000)
    while not ahead.rows or (goal == "positive" and ahead.available <= 0):
        ahead.take()
    return len(ahead.hand)


Cause = Callable[[int], int]


def half(size: int) -> int:
    return max(1, size // 2)


def six_of_ten(size: int) -> int:
    """As pulsar-rs 6.9.1 does."""
    return size // 2 + 1


STEPS = [Client.push, Client.push_again, Client.push_chunks, Client.take, Client.take]
STEPS += [Client.settle, Client.give_back]


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(1, 20),
    tells=st.booleans(),
    credits=st.booleans(),
    known=st.booleans(),
    rule=st.sampled_from([half, six_of_ten]),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11)), min_size=30, max_size=90),
)
def test_the_ledger_holds_against_any_client_that_loses_nothing(
    size: int, tells: bool, credits: bool, known: bool, rule: Cause, steps: list[tuple[Any, int]]
) -> None:
    client, ledger = (
        Client(size, rule(size), tells, credits),
        ready(credits_skipped=credits and known),
    )
    exact = known or not credits
    seen = 0
    for step, number in [(Client.take, 0), *steps]:
        step(client, number)
        play(ledger, *client.rows[seen:])
        seen = len(client.rows)
        assert ledger.available_permits == client.available
        assert ledger.unacked == client.unacked
        assert ledger.unsent_permits_min <= client.unsent
        assert ledger.receiver_queue_size == (None if size == 1 else size)
        threshold, refills = ledger.refill_threshold or 0, ledger.flows[1:][-8:]
        assert threshold == max(1, min([size, *refills] if refills else [size // 2]))
        if rule is not half and not refills:
            continue  # nothing shows it yet
        assert ledger.queued_min <= len(client.queue)
        if ledger.taken is not None and exact:
            assert ledger.unsent_permits_min == client.unsent
            assert ledger.queued_min == len(client.queue)
        assert threshold >= client.threshold
        if ledger.threshold_exact:
            assert threshold == client.threshold
        forecast = ledger.forecast()
        assert forecast is not None
        if forecast.at_most or not exact:
            assert takes_until(client, "flow") <= forecast.messages
        else:
            assert takes_until(client, "flow") == forecast.messages
        if client.available <= 0:
            needed = takes_until(client, "positive")
            assert needed <= forecast.until_positive
            assert forecast.at_most or not exact or needed == forecast.until_positive


def test_a_ledger_comes_back_from_json_as_it_was() -> None:
    ledger = play(ready(unacked_limit=3), flow(9), message(0, 3), message(1, 70, open=[0, 69]))
    again = of_json(Ledger, json.loads(json.dumps(to_json(ledger))))
    assert again == ledger
    play(again, flow(1), message(2), ack(0))
    assert again != ledger
    assert ledger.flows == [9]


def test_a_batch_of_20000_can_be_written_down() -> None:
    ledger = play(ready(), flow(1), message(0, 20_000))
    assert of_json(Ledger, json.loads(json.dumps(to_json(ledger)))) == ledger


class Walked(dict[Any, Any]):
    """Counts how many of its keys somebody has walked over."""

    steps = 0

    def __iter__(self) -> Any:
        for key in super().__iter__():
            Walked.steps += 1
            yield key

    def items(self) -> Any:
        raise AssertionError("walks over all")

    values = keys = items


@pytest.mark.parametrize("again", [False, True], ids=["first", "after a redelivery of all"])
def test_a_cumulative_ack_walks_over_what_it_acknowledges_and_no_more(again: bool) -> None:
    ledger = ready(individual=False)
    ledger.deliveries = Walked()
    Walked.steps = 0
    play(ledger, flow(1000), *(message(n) for n in range(1000)))
    if again:
        play(ledger, redeliver(), *(message(n) for n in range(1000)))
    play(ledger, *(ack(n, type="cumulative") for n in range(1000)))
    assert (ledger.acknowledged, ledger.unacked) == (1000, 0)
    assert Walked.steps <= 3000


def test_individual_acks_of_50000_open_deliveries_walk_over_nothing() -> None:
    ledger = ready()
    ledger.deliveries = Walked()
    Walked.steps = 0
    play(ledger, flow(50_000), *(message(n) for n in range(50_000)))
    play(ledger, *(ack(n) for n in range(0, 50_000, 2)))
    assert (ledger.unacked, Walked.steps) == (25_000, 0)
