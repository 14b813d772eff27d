from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.stats.internal import InternalStats, LedgerStats
from pulsar_doctor.broker.stats.observed import Between, entries_from
from tests.rules.stats_script import observed

HOLDS = {"availablePermits": 0, "unackedMessages": 10, "msgOutCounter": 10}


def left(case: dict[str, Any]) -> Between | None:
    return observed(case).left


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
    ],
)
def test_entries_from_a_position_on_are_counted_over_ledgers(
    position: tuple[int, int], entries: int
) -> None:
    ledgers = (LedgerStats(3, 100), LedgerStats(4, 100), LedgerStats(5, 0))
    internal = InternalStats(last_confirmed_entry=(5, 39), ledgers=ledgers)
    assert entries_from(position, internal) == entries


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
    assert left(case) == Between(0, 12)
    assert observed(case).held == Between(0, 12)
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
