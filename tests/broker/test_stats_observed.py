from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats, LedgerStats
from pulsar_doctor.broker.stats.observed import Between
from pulsar_doctor.broker.stats.positions import entries_from, entry_after, unread_of
from tests.causes.stats_script import observed

HOLDS = {"availablePermits": 0, "unackedMessages": 10, "msgOutCounter": 10}


def left(case: dict[str, Any]) -> Between | None:
    return observed(case).left


def test_after_the_last_entry_of_a_closed_ledger_comes_the_first_of_the_next() -> None:
    internal = InternalStats(ledgers=(LedgerStats(3, 100), LedgerStats(4, 0)))
    assert entry_after((3, 98), internal) == (3, 99)
    assert entry_after((3, 99), internal) == (4, 0)
    assert entry_after((4, 7), internal) == (4, 8)
    assert entry_after((4, -1), InternalStats()) == (4, 0)


@pytest.mark.parametrize(
    ("position", "entries"),
    [
        ((5, 0), 40),
        ((5, 39), 1),
        ((5, 40), 0),
        ((4, 100), 40),  # beyond the end of a closed ledger
        ((4, 90), 50),
        ((3, 0), 240),
        ((2, 7), 240),  # a ledger that is not there any more
        ((6, 0), 0),
        ((5, -1), 40),  # before the first entry: -1 is none
        ((4, -1), 140),
    ],
)
def test_entries_from_a_position_on_are_counted_over_ledgers(
    position: tuple[int, int], entries: int
) -> None:
    ledgers = (LedgerStats(3, 100), LedgerStats(4, 100), LedgerStats(5, 0))
    internal = InternalStats(last_confirmed_entry=(5, 39), ledgers=ledgers)
    assert entries_from(position, internal) == entries


def test_a_cursor_before_the_first_entry_has_as_much_to_read_as_the_backlog() -> None:
    cursor = CursorStats(mark_delete_position=(5, -1), read_position=(5, -1))
    assert unread_of(InternalStats(last_confirmed_entry=(5, 299)), cursor) == 300
    ranges = replace(cursor, individually_deleted_messages="[(5:-1..5:9]]")
    assert unread_of(InternalStats(last_confirmed_entry=(5, 299)), ranges) == 290


def test_entries_are_not_told_where_a_ledger_between_is_not() -> None:
    last = (5, 39)
    assert entries_from((3, 0), InternalStats(last_confirmed_entry=last)) is None
    cut = (LedgerStats(3, None), LedgerStats(5, 0))
    assert entries_from((3, 0), InternalStats(last_confirmed_entry=last, ledgers=cut)) is None
    assert entries_from((3, 0), InternalStats()) is None


def test_single_messages_that_all_are_out_leave_nothing() -> None:
    case = {"subscription": {"msgBacklog": 10, "unackedMessages": 10}, "consumers": {"w": HOLDS}}
    assert left(case) == Between(0, 0)


def test_batches_that_may_all_be_out_leave_nobody_knows_what() -> None:
    batches = {"availablePermits": 0, "unackedMessages": 1000, "avgMessagesPerEntry": 100}
    case = {
        "subscription": {"msgBacklog": 12, "unackedMessages": 1000},
        "consumers": {"w": batches},
    }
    assert left(case) == Between(0, 7)  # 5 entries at least hold 1000 messages of about 100 each


def test_delayed_entries_are_not_left() -> None:
    case = {"subscription": {"msgBacklog": 30, "msgDelayed": 20}, "consumers": {"w": {}}}
    assert left(case) == Between(10, 10)


def test_entries_in_replay_are_left_whatever_the_backlog_says() -> None:
    subscription = {"msgBacklog": 10, "unackedMessages": 10, "msgInReplay": 3}
    case = {"subscription": subscription, "consumers": {"w": HOLDS}}
    assert left(case) == Between(3, 3)


def test_the_read_position_tells_exactly() -> None:
    case = {
        "subscription": {"msgBacklog": 12, "unackedMessages": 1000, "msgInReplay": 1},
        "consumers": {"w": {"unackedMessages": 1000, "avgMessagesPerEntry": 100}},
        "cursor": {"readPosition": "5:10"},
        "internal": {"lastConfirmedEntry": "5:11"},
    }
    assert left(case) == Between(3, 3)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_a_single_active_subscription_needs_the_read_position(kind: str) -> None:
    case: dict[str, Any] = {
        "type": kind,
        "subscription": {"msgBacklog": 12},
        "consumers": {"w": {"msgOutCounter": 9}},
    }
    assert left(case) == Between(3, 12)  # all that it was sent may be acknowledged
    assert observed(case).held == Between(0, 9)
    not_told = case | {"consumers": {"w": {"msgOutCounter": None}}}
    assert (left(not_told), observed(not_told).held) == (Between(0, 12), Between(0, 12))
    case |= {"cursor": {"readPosition": "5:9"}, "internal": {"lastConfirmedEntry": "5:11"}}
    assert left(case) == Between(3, 3)
    assert observed(case).held == Between(9, 9)


def test_what_is_not_told_is_not_zero() -> None:
    assert left({"subscription": {"msgBacklog": None}, "consumers": {"w": HOLDS}}) is None
    assert left({"subscription": {"unackedMessages": None}, "consumers": {"w": HOLDS}}) is None
    unknown_batches = {"availablePermits": 0, "unackedMessages": 10, "avgMessagesPerEntry": None}
    case = {
        "subscription": {"msgBacklog": 12, "unackedMessages": 10},
        "consumers": {"w": unknown_batches},
    }
    assert left(case) == Between(2, 11)  # at least one entry is out


# -- ledgers that somebody has left out ------------------------------------------------------------

LEDGERS = (LedgerStats(3, 100), LedgerStats(7, 100), LedgerStats(9, 0))


@pytest.mark.parametrize(
    ("position", "entries"),
    [
        ((2, 7), 250),  # deleted: before the first of the list
        ((7, 40), 110),
        ((5, 0), 150),  # never written to, and taken off the list when the topic was loaded
        ((5, 12), None),  # among those that the list has, and not in it
        ((9, 20), 30),
    ],
)
def test_a_ledger_that_is_missing_among_others_is_not_an_empty_one(
    position: tuple[int, int], entries: int | None
) -> None:
    internal = InternalStats(last_confirmed_entry=(9, 49), ledgers=LEDGERS)
    assert entries_from(position, internal) == entries


def test_the_last_confirmed_entry_lies_in_a_ledger_that_is_told() -> None:
    internal = InternalStats(last_confirmed_entry=(12, 49), ledgers=LEDGERS)
    assert entries_from((3, 0), internal) is None


def test_a_list_that_holds_less_than_the_topic_has_is_shortened() -> None:
    whole = InternalStats(
        last_confirmed_entry=(9, 49),
        ledgers=LEDGERS,
        number_of_entries=250,
        current_ledger_entries=50,
    )
    assert entries_from((3, 0), whole) == 250
    assert entries_from((3, 0), replace(whole, number_of_entries=9250)) is None


def test_what_is_left_is_not_told_by_positions_where_ledgers_are_left_out() -> None:
    case = {
        "type": "Exclusive",
        "subscription": {"msgBacklog": 9000},
        "consumers": {"w": HOLDS},
        "cursor": {"markDeletePosition": "5:12", "readPosition": "5:13"},
        "internal": {
            "lastConfirmedEntry": "9:49",
            "ledgers": [
                {"ledgerId": 3, "entries": 100},
                {"ledgerId": 7, "entries": 100},
                {"ledgerId": 9, "entries": 0},
            ],
        },
    }
    seen = observed(case)
    assert (seen.backlog.positions, seen.unread) == (None, None)
    assert seen.left == Between(9000, 9000)  # all: nothing lies between the two positions


# -- a cursor that waits for what comes ------------------------------------------------------------

WAITS = {
    "type": "Exclusive",
    "subscription": {"msgBacklog": 1150},
    "consumers": "not told",
    "cursor": {"markDeletePosition": "5:49", "readPosition": "5:50", "waitingReadOp": True},
    "internal": {"lastConfirmedEntry": None, "ledgers": None},
}


def test_a_cursor_that_waits_behind_mark_delete_shows_that_nothing_waits() -> None:
    seen = observed(WAITS)
    assert (seen.nothing_waits, seen.left, seen.held) == (True, Between(0, 0), Between(0, 0))
    assert seen.backlog.empty is False  # that is what the counter says


@pytest.mark.parametrize(
    "denied",
    [
        {"cursor": {**WAITS["cursor"], "waitingReadOp": False}},
        {"cursor": {**WAITS["cursor"], "readPosition": "5:51"}},
        {"internal": {"lastConfirmedEntry": "5:60"}},
        {"type": "Shared", "subscription": {"msgBacklog": 3, "unackedMessages": 3}},
        {"type": "Shared", "subscription": {"msgBacklog": 3, "msgInReplay": 3}},
        {"type": "Shared", "consumers": {"w": HOLDS}},
    ],
)
def test_it_does_not_where_anything_denies_it(denied: dict[str, Any]) -> None:
    assert not observed({**WAITS, **denied}).nothing_waits


@pytest.mark.parametrize(
    ("cursor", "armed"),
    [
        ({"waitingReadOp": True}, True),
        ({"pendingReadOps": 1}, True),
        ({}, False),
        ({"waitingReadOp": None, "pendingReadOps": None}, None),
    ],
)
def test_a_read_that_waits_or_is_under_way_is_armed(
    cursor: dict[str, Any], armed: bool | None
) -> None:
    assert observed({"cursor": cursor}).read_armed is armed
    assert observed({}).read_armed is None
