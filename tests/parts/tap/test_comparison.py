"""When tap and broker have parted, and when nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row
from tests.causes.wire_script import START_NS, SUBSCRIPTION, TOPIC, Script, ns
from tests.parts.tap.comparison import MOVES_KEPT_MOST, Comparison, ConsumerSample, Move, Parted


class Watching(Timeline):
    """Shows each row to a comparison, as the observer does."""

    def __init__(self) -> None:
        super().__init__("test")
        self.comparison = Comparison()

    def apply(self, row: Row) -> Row:
        done = super().apply(row)
        self.comparison.add(done)
        return done


class Played:
    """A transcript that goes on, with looks at the broker in between."""

    def __init__(self) -> None:
        self.timeline = Watching()
        self.script = Script(self.timeline)

    def play(self, *lines: str, until: str) -> Played:
        self.script.play(lines, until)
        return self

    def look(self, at: str, permits: int, name: str = "c", **values: Any) -> list[Parted]:
        sample = ConsumerSample(
            topic=TOPIC, subscription=SUBSCRIPTION, consumer_name=name, available_permits=permits,
            unacked_messages=0, blocked=False, unacked_limit=0, from_ns=START_NS + ns(at),
            until_ns=START_NS + ns(at) + 10**7,
        )  # fmt: skip
        return self.timeline.comparison.compare(self.timeline, [replace(sample, **values)])


def exclusive(*lines: str, until: str = "5s") -> Played:
    return Played().play("0s subscribe c Exclusive", "0s flow c 10", *lines, until=until)


def test_both_sides_agree_for_ever():
    played = exclusive("1s message c 4 singles", "2s flow c 2")
    for at in ("3s", "4s", "5s"):
        assert played.look(at, 8) == []
    assert played.timeline.comparison.compared == {1}


def test_a_flow_that_the_broker_never_got_is_named_after_two_quiet_samples_and_told_once():
    played = exclusive("1s message c 4 singles", until="2s")
    assert played.look("2s", 6) == []
    played.play("3s message c 1 singles", "3s flow c 3", "3s message c 2 singles", until="5s")
    assert played.look("4s", 3) == []
    (parting,) = played.look("5s", 3)
    assert (
        parting.tap_available_permits,
        parting.broker_available_permits,
        parting.difference,
    ) == (6, 3, -3)
    assert parting.consumer_name == "c"
    assert parting.same_size_command == Move(10, "FLOW", 3)
    assert parting.first_command == Move(9, "MESSAGE", 1)
    assert (parting.agreed_seq, parting.parted_seq) == (8, 12)
    assert played.look("6s", 3) == []


def test_between_the_two_samples_the_ledger_may_move_on():
    played = exclusive(until="1s")
    assert played.look("1s", 4) == []
    played.play("2s message c 1 singles", until="3s")
    (parting,) = played.look("3s", 3)
    assert (parting.tap_available_permits, parting.broker_available_permits) == (
        10,
        4,
    )  # as it was seen first


def test_one_sample_that_agrees_in_between_takes_it_all_back():
    played = exclusive(until="1s")
    assert played.look("1s", 4) == []
    assert played.look("2s", 10) == []
    assert played.look("3s", 4) == []
    (parting,) = played.look("4s", 4)
    assert parting.agreed_seq == parting.parted_seq


def counts(played: Played) -> tuple[int, int, int, int]:
    totals = played.timeline.comparison.totals
    return totals.agreed, totals.inside, totals.skipped, totals.parted


@pytest.mark.parametrize(
    ("moved", "possible"),
    [
        ("3s message c 1 singles", (9, 10)),
        ("2.9s message c 1 singles", (9,)),  # it had left the broker by then
        ("3.1s message c 1 singles", (9, 10)),
        ("3s flow c 1", (10, 11)),
        ("2.9s flow c 1", (10, 11)),
    ],
)
def test_while_permits_move_any_number_that_the_broker_can_have_had_contradicts_nothing(
    moved, possible
):
    played = exclusive(moved, until="9s")
    for permits in possible + possible:
        assert played.look("3s", permits) == []
    assert counts(played) == (0, 2 * len(possible), 0, 0)
    assert played.timeline.comparison.compared == {1}
    assert played.look("3.5s", 77) == []
    assert len(played.look("3.5s", 77)) == 1


@pytest.mark.parametrize("moved", ["3s", "3.1s"])
def test_what_it_cannot_have_had_is_a_parting_while_permits_move_too(moved):
    played = exclusive(f"{moved} message c 1 singles", until="9s")
    assert played.look("3s", 77) == []
    (parting,) = played.look("3s", 77)
    sides = parting.tap_available_permits, parting.broker_available_permits, parting.difference
    assert sides == (10, 77, 67)
    assert parting.same_size_command is None


def test_a_number_inside_between_two_outside_takes_the_first_back():
    played = exclusive("3s message c 1 singles", until="9s")
    for permits in (77, 10, 77):
        assert played.look("3s", permits) == []
    assert counts(played) == (0, 1, 0, 2)


def test_fewer_permits_are_no_parting_while_messages_come():
    played = exclusive("3.1s message c 1 singles", until="9s")  # others may be on their way
    for _ in range(3):
        assert played.look("3s", 2) == []
    assert counts(played) == (0, 0, 3, 0)
    assert played.timeline.comparison.compared == set()
    played.look("3.5s", 2)
    assert len(played.look("3.5s", 2)) == 1


def test_what_moves_after_the_answer_changes_nothing_of_what_agreed_before():
    played = exclusive("3s flow c 5", until="4s")
    assert played.look("2s", 10) == []
    assert counts(played) == (1, 0, 0, 0)
    played.look("4s", 10)
    (parting,) = played.look("4s", 10)
    assert parting.same_size_command == parting.first_command == Move(5, "FLOW", 5)


def test_where_flows_may_be_parked_only_more_permits_than_the_ledger_has_are_a_parting():
    played = Played().play("0s subscribe c Shared", "0s flow c 10", until="2s")
    for at in ("1s", "2s", "3s"):
        assert played.look(at, 4, unacked_limit=None) == []
    played.look("4s", 11, unacked_limit=None)
    assert len(played.look("5s", 11, unacked_limit=None)) == 1


@pytest.mark.parametrize(
    ("values", "partings"),
    [
        ({"unacked_limit": 0}, 1),
        ({"unacked_limit": 50_000}, 1),
        ({"unacked_limit": 13}, 1),
        ({"unacked_limit": 12}, 0),  # it came as near as half of it
        ({"unacked_limit": 50_000, "blocked": True}, 0),
        ({"unacked_limit": 50_000, "unacked_messages": 25_000}, 0),
        ({"unacked_limit": None}, 0),
    ],
)
def test_far_below_the_limit_nothing_is_parked(values, partings):
    lines = ("1s message c 6 singles", "2s ack c 6")
    played = Played().play("0s subscribe c Shared", "0s flow c 10", *lines, until="4s")
    played.look("3s", 1, **values)
    assert len(played.look("4s", 1, **values)) == partings


def test_what_an_upper_bound_allows_is_no_agreement():
    played = Played().play("0s subscribe c Shared", "0s flow c 10", until="1s")
    played.look("1s", 10)
    played.play("2s flow c 5", until="3s")
    played.look("3s", 10, unacked_limit=None)
    played.look("4s", 10)
    (parting,) = played.look("5s", 10)
    assert parting.same_size_command == Move(5, "FLOW", 5)


def test_a_command_is_named_only_where_no_other_could_be_it():
    played = exclusive("1s message c 2 singles", "2s flow c 5", "3s flow c 5", until="4s")
    played.look("4s", 13)
    (parting,) = played.look("5s", 13)
    assert parting.same_size_command is None
    assert parting.first_command == Move(4, "FLOW", 10)


def test_consumers_of_one_name_are_not_told_apart():
    played = exclusive(until="1s")
    twice = replace(
        ConsumerSample(TOPIC, SUBSCRIPTION, "c", 3, 0, False, 0, START_NS + 10**9, START_NS + 10**9)
    )
    comparison = played.timeline.comparison
    for _ in range(3):
        assert comparison.compare(played.timeline, [twice, twice]) == []
    assert played.look("2s", 3, name="another") == []
    assert comparison.compared == set()
    assert counts(played) == (0, 0, 3, 0)


def test_commands_that_are_missing_in_the_trace_decide_nothing():
    played = exclusive("2s gap", until="4s")
    for at in ("3s", "4s"):
        assert played.look(at, 3) == []


def test_of_a_consumer_that_is_met_on_its_way_the_first_command_is_not_known():
    played = exclusive("1s message c 2 singles", until="2s")
    fresh = Comparison()
    played.timeline.comparison = fresh
    played.play("3s message c 1 singles", until="4s")
    played.look("5s", 3)
    (parting,) = played.look("6s", 3)
    commands = parting.first_command, parting.same_size_command
    assert (parting.agreed_seq, commands) == (None, (None, None))


def test_a_new_incarnation_is_held_against_the_broker_anew_and_the_old_one_forgotten():
    played = exclusive(until="1s")
    played.look("1s", 3)
    assert len(played.look("2s", 3)) == 1
    played.play("3s close c", "4s subscribe c Exclusive", "4s flow c 10", until="5s")
    assert played.look("5s", 3) == []
    assert len(played.look("6s", 3)) == 1
    assert set(played.timeline.comparison._accounts) == {2}


def test_a_long_way_since_both_agreed_takes_no_more_memory():
    played = exclusive(f"1s message c {MOVES_KEPT_MOST + 5} singles", "2s flow c 7", until="3s")
    account = played.timeline.comparison._accounts[1]
    assert (len(account.moves), account.moves_left_out) == (MOVES_KEPT_MOST, 7)
    played.look("3s", 0)
    (parting,) = played.look("4s", 0)
    assert parting.same_size_command is None
    assert parting.first_command == Move(4, "FLOW", 10)
