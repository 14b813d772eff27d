"""How much is not acknowledged: whether that is known to be nothing, and by what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats, LedgerStats
from pulsar_doctor.broker.stats.observed import Between
from pulsar_doctor.broker.stats.positions import entries_behind, entries_between
from tests.causes.stats_script import observed

LEDGERS = (LedgerStats(3, 10), LedgerStats(4, 5), LedgerStats(6, 0))
INTERNAL = InternalStats(last_confirmed_entry=(6, 2), ledgers=LEDGERS)


@pytest.mark.parametrize(
    ("counter", "positions", "ranges", "shown_wrong", "empty", "entries"),
    [
        (0, None, 0, 0, True, 0),
        (0, None, None, 0, True, 0),
        (0, 0, 0, 0, True, 0),
        (5, None, 0, 0, False, 5),
        (5, 0, 0, 0, False, 5),  # perhaps of another moment
        (0, 3, 0, 0, None, 0),
        (0, None, 2, 0, None, 0),
        (-1, None, 0, 0, None, -1),
        (-1, 0, 0, 0, True, -1),
        (None, None, 0, 0, None, None),
        (None, 0, 0, 0, True, 0),  # the counter is not told, the positions are
        (None, 3, 0, 0, False, 3),
        (0, None, 2, 3, False, None),
        (0, 3, 0, 3, False, 3),
        (7, 0, 0, 3, True, 0),
        (-3, None, 0, 3, None, None),
    ],
)
def test_empty_is_yes_no_or_not_known(
    counter: int | None, positions: int | None, ranges: int | None, shown_wrong: int,
    empty: bool | None, entries: int | None,
) -> None:  # fmt: skip
    backlog = Backlog(counter, positions, ranges, shown_wrong)
    assert (backlog.empty, backlog.entries, backlog.wrong) == (empty, entries, shown_wrong > 0)


@pytest.mark.parametrize(
    ("backlog", "says"),
    [
        (Backlog(60), "60 entries"),
        (Backlog(0, 3, 0, 2), "3 entries"),
        (Backlog(0, None, 2, 2), "at least 1 entry"),
        (Backlog(-3, None, 0, 2), "entries that are not reported"),
    ],
)
def test_it_is_said_in_words(backlog: Backlog, says: str) -> None:
    assert str(backlog) == says


@pytest.mark.parametrize(
    ("after", "to", "entries"),
    [
        ((6, -1), (6, 2), 3),
        ((6, 2), (6, 2), 0),
        ((3, -1), (6, 2), 18),
        ((3, 9), (4, 0), 1),
        ((4, 4), (6, -1), 0),  # the end of one ledger and the beginning of the next are one place
        ((6, -1), (4, 4), 0),
        ((6, 2), (3, 7), -10),
        ((2, 8), (3, 0), 1),  # a ledger that is gone
    ],
)
def test_entries_between_positions_are_counted_over_ledgers(
    after: tuple[int, int], to: tuple[int, int], entries: int
) -> None:
    assert entries_between(after, to, INTERNAL) == entries
    assert entries_between(to, after, INTERNAL) == -entries


@pytest.mark.parametrize("ledgers", [None, ()])
def test_over_ledgers_that_are_not_told_nothing_is_known(ledgers: Any) -> None:
    blind = InternalStats(last_confirmed_entry=(6, 2), ledgers=ledgers)
    assert entries_between((3, 0), (6, 2), blind) is None
    assert entries_between((6, 0), (6, 2), blind) == 2


@pytest.mark.parametrize(
    ("written", "after", "entries"),
    [
        ("[]", (3, 4), 13),
        ("[(3:5..3:7],(4:1..4:4]]", (3, 4), 8),
        ("[(3:7..4:1]]", (3, 4), 9),  # one range over the end of a ledger
        ("[(3:5..3:7],(4:1..4:4]]", (3, 6), 11 - 1 - 3),  # from the middle of a range on
        ("[(3:5‥3:7], (4:1‥4:4]]", (3, 4), 8),
    ],
)
def test_what_is_in_ranges_is_not_left(written: str, after: tuple[int, int], entries: int) -> None:
    cursor = CursorStats(individually_deleted_messages=written)
    assert entries_behind(after, INTERNAL, cursor) == entries


def test_what_is_acknowledged_behind_the_read_position_is_not_unread() -> None:
    """After a reconnect: 20 entries, every second acknowledged, 5 read again: 3 are held."""
    written = ",".join(f"(5:{2 * n}..5:{2 * n + 1}]" for n in range(10))
    found = observed({
        "type": "Exclusive",
        "subscription": {"msgBacklog": 10},
        "cursor": {
            "markDeletePosition": "5:-1", "readPosition": "5:5",
            "individuallyDeletedMessages": f"[{written}]",
        },
        "internal": {"lastConfirmedEntry": "5:19"},
    })  # fmt: skip
    assert (found.unread, found.held, found.left) == (7, Between(3, 3), Between(7, 7))


def test_a_wrong_counter_is_replaced_by_positions_in_what_is_held_and_left() -> None:
    found = observed({
        "type": "Exclusive",
        "subscription": {"msgBacklog": 0},
        "cursor": {"readPosition": "5:12", "messagesConsumedCounter": 20},
        "internal": {"lastConfirmedEntry": "5:19", "entriesAddedCounter": 20},
    })  # fmt: skip
    assert found.backlog == Backlog(0, 20, 0, 3, consumed=20, counted=0)
    assert (found.held, found.left) == (Between(12, 12), Between(8, 8))
    blind = observed({
        "subscription": {"msgBacklog": 0, "nonContiguousDeletedMessagesRanges": 1},
    })  # fmt: skip
    assert blind.left is None
