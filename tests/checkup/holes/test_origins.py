"""Which origin holes have: what the four look like in stats, and what only looks like them."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.holes.account import CursorAccount, account
from pulsar_doctor.ledger.acks.persisting import Storing

NOW_MS = 1_795_000_000_000
STORING = Storing((4, 0), 10_000, 1000, bit_arrays=False)
RANGES = "[(7:10..7:19],(7:20..7:29],(7:30..7:39]]"  # holes 7:10, 7:20, 7:30; then 7:40 to 7:49


def consumer(**fields: Any) -> dict[str, Any]:
    return {"availablePermits": 500, "unackedMessages": 0, "avgMessagesPerEntry": 1} | fields


def seen(
    subscription: dict[str, Any], cursor: dict[str, Any] | None = None, name: str = "s",
    topic: str = "persistent://public/default/t",
) -> CursorAccount:  # fmt: skip
    """A subscription with three holes of one entry each, unless said otherwise."""
    held = consumer(unackedMessages=max(0, subscription.get("unackedMessages", 0)))
    stats = {"isDurable": True, "msgBacklog": 13, "consumers": [held]} | subscription
    told = {
        "markDeletePosition": "7:9",
        "readPosition": "7:50",
        "individuallyDeletedMessages": RANGES,
        "state": "Open",
    } | (cursor or {})
    internal = {
        "lastConfirmedEntry": "7:49",
        "totalSize": 5000,
        "ledgers": [{"ledgerId": 7, "entries": 0, "size": 0}],
        "cursors": {name: told},
    }
    sample = Sample(NOW_MS, topic_stats({"subscriptions": {name: stats}}), internal_stats(internal))
    (observed,) = TopicWindow(topic, None, Window((sample,))).subscriptions()
    assert isinstance(observed, Observed)
    return account(observed, STORING)


def told(found: CursorAccount) -> list[tuple[str, int, int]]:
    return [(each.code, each.least, each.most) for each in found.origins]


SHARED: dict[str, Any] = {
    "type": "Shared", "msgDelayed": 0, "msgInReplay": 0, "unackedMessages": 0,
}  # fmt: skip
KEY_SHARED = SHARED | {"type": "Key_Shared"}


@pytest.mark.parametrize(
    ("what", "subscription", "cursor", "origin", "origins"),
    [
        ("three messages never acknowledged", SHARED | {"unackedMessages": 13}, {},
         "unacked", [("unacked", 3, 3)]),
        ("given back, waiting to be sent again", SHARED | {"msgInReplay": 13}, {},
         "unacked", [("unacked", 3, 3)]),
        ("delayed", SHARED | {"msgDelayed": 13}, {}, "delayed", [("delayed", 3, 3)]),
        ("delayed and unacked, which lie where is not told",
         SHARED | {"msgDelayed": 10, "unackedMessages": 3}, {},
         "cannot-tell", [("delayed", 0, 3), ("unacked", 0, 3)]),
        ("mostly delayed: two of three for certain",
         SHARED | {"msgDelayed": 12, "unackedMessages": 1}, {},
         "delayed", [("delayed", 2, 3), ("unacked", 0, 1)]),
        ("mostly unacked: one delayed may be in a hole",
         SHARED | {"msgDelayed": 1, "unackedMessages": 12}, {},
         "unacked", [("unacked", 2, 3), ("delayed", 0, 1)]),
        ("single acks on Exclusive", {"type": "Exclusive"}, {},
         "individual-acks", [("individual-acks", 3, 3)]),
        ("single acks on Failover", {"type": "Failover", "unackedMessages": 0}, {},
         "individual-acks", [("individual-acks", 3, 3)]),
        ("markers of a replicated subscription", {"type": "Exclusive", "isReplicated": True}, {},
         "cannot-tell", [("cannot-tell", 3, 3)]),
        ("a full consumer beside one with permits",
         KEY_SHARED | {"unackedMessages": 5, "msgInReplay": 8, "consumers": [
             consumer(availablePermits=0, unackedMessages=5), consumer()]}, {},
         "key-shared", [("key-shared", 3, 3)]),
        ("hashes that drain",
         KEY_SHARED | {"unackedMessages": 13, "drainingHashesCount": 2, "consumers": [
             consumer(unackedMessages=6), consumer(unackedMessages=7)]}, {},
         "key-shared", [("key-shared", 3, 3)]),
        ("Key_Shared, in flight on both, healthy",
         KEY_SHARED | {"unackedMessages": 13, "consumers": [
             consumer(unackedMessages=6), consumer(unackedMessages=7)]}, {},
         "unacked", [("unacked", 3, 3)]),
        ("Key_Shared, one consumer: no other can pass it",
         KEY_SHARED | {"unackedMessages": 13, "consumers": [
             consumer(availablePermits=0, unackedMessages=13)]}, {},
         "unacked", [("unacked", 3, 3)]),
        ("Key_Shared, all with one that has permits: slow or forgotten",
         KEY_SHARED | {"unackedMessages": 13, "consumers": [
             consumer(unackedMessages=13), consumer()]}, {},
         "cannot-tell", [("unacked", 0, 3), ("key-shared", 0, 3)]),
        ("Key_Shared, both full: no one waits for work",
         KEY_SHARED | {"unackedMessages": 13, "consumers": [
             consumer(availablePermits=0, unackedMessages=6),
             consumer(availablePermits=0, unackedMessages=7)]}, {},
         "unacked", [("unacked", 3, 3)]),
        ("Key_Shared with delayed messages only", KEY_SHARED | {"msgDelayed": 13}, {},
         "delayed", [("delayed", 3, 3)]),
        ("loaded anew, nobody has come", SHARED | {"type": "None", "consumers": []},
         {"readPosition": "7:10"}, "cannot-tell", [("cannot-tell", 3, 3)]),
        ("read again up to the second hole", SHARED | {"unackedMessages": 1},
         {"readPosition": "7:15"}, "cannot-tell", [("cannot-tell", 2, 2), ("unacked", 1, 1)]),
        ("in none of the counts", SHARED, {}, "cannot-tell", [("cannot-tell", 3, 3)]),
        ("counts that have sunk below zero", SHARED | {"unackedMessages": -5, "msgDelayed": 13}, {},
         "delayed", [("delayed", 3, 3)]),
        ("2.x: nothing told of delays", {"type": "Shared", "unackedMessages": 13}, {},
         "cannot-tell", [("cannot-tell", 3, 3)]),
        ("2.x: nothing told of replay", {"type": "Shared", "unackedMessages": 13, "msgDelayed": 0},
         {}, "unacked", [("unacked", 3, 3)]),
        ("no type told", {"unackedMessages": 13}, {}, "cannot-tell", [("cannot-tell", 3, 3)]),
        ("no holes", SHARED | {"unackedMessages": 40}, {"individuallyDeletedMessages": "[]"},
         None, []),
    ],
)  # fmt: skip
def test_an_origin_is_named_only_where_the_numbers_tell_it(
    what: str,
    subscription: dict[str, Any],
    cursor: dict[str, Any],
    origin: str | None,
    origins: list[tuple[str, int, int]],
) -> None:
    found = seen(subscription, cursor)
    assert (found.origin, told(found)) == (origin, origins), what


@pytest.mark.parametrize("name", ["__compaction", "pulsar.dedup", "pulsar.repl.west"])
def test_the_brokers_own_cursors_are_not_judged(name: str) -> None:
    found = seen(SHARED | {"unackedMessages": 13}, name=name)
    assert told(found) == [("broker", 3, 3)]


def test_unacknowledged_without_ranges_is_no_hole() -> None:
    found = seen(SHARED | {"unackedMessages": 40}, {"individuallyDeletedMessages": "[]"})
    assert (found.ranges, found.holes, found.origins, found.status) == (0, 0, (), "healthy")


def test_batches_count_as_entries() -> None:
    batched = [consumer(unackedMessages=130, avgMessagesPerEntry=10)]
    found = seen(SHARED | {"unackedMessages": 130, "msgDelayed": 2, "consumers": batched})
    assert told(found) == [("unacked", 1, 3), ("delayed", 0, 2)]


def test_a_subscription_that_is_not_durable_keeps_nothing() -> None:
    found = seen(SHARED | {"isDurable": False, "unackedMessages": 13})
    assert (found.forecast, found.status) == (None, "healthy")


def test_without_a_backlog_there_are_no_holes_and_positions_are_missing() -> None:
    sample = Sample(NOW_MS, topic_stats({"subscriptions": {"s": {"msgBacklog": 0}}}))
    (observed,) = TopicWindow("t", None, Window((sample,))).subscriptions()
    found = account(observed, STORING)
    assert (found.ranges, found.holes, found.status) == (0, 0, "healthy")
    assert found.unknowns == ("positions and ledgers: there are no internal stats",)
    assert (found.acknowledged_entries, found.hole_entries) == (0, 0)


def test_a_backlog_without_internal_stats_is_counted_and_not_judged() -> None:
    stats = {"msgBacklog": 9, "nonContiguousDeletedMessagesRanges": 4}
    sample = Sample(NOW_MS, topic_stats({"subscriptions": {"s": stats}}))
    (observed,) = TopicWindow("t", None, Window((sample,))).subscriptions()
    found = account(observed, STORING)
    assert (found.ranges, found.holes, found.forecast, found.origin) == (4, None, None, None)
    assert found.unknowns == ("positions and ledgers: there are no internal stats",)


def test_nothing_told_at_all_is_unknown() -> None:
    sample = Sample(NOW_MS, topic_stats({"subscriptions": {"s": {"msgBacklog": 9}}}))
    (observed,) = TopicWindow("t", None, Window((sample,))).subscriptions()
    assert account(observed, STORING).status == "unknown"


def test_mark_delete_has_stood_since_it_moved_or_at_least_since_the_load() -> None:
    moved = seen(SHARED | {"lastMarkDeleteAdvancedTimestamp": NOW_MS - 60_000})
    assert str(moved.stood) == "60 s"
    loaded = {"lastLedgerSwitchTimestamp": "2026-11-18T10:00:00Z"}
    never = seen(SHARED | {"lastMarkDeleteAdvancedTimestamp": 0}, loaded)
    assert never.stood is not None
    assert not never.stood.exact
    assert seen(SHARED).stood is None  # not told


def test_a_limit_that_is_near_is_a_warning() -> None:
    near = ",".join(f"(7:{10 + 2 * n}..7:{11 + 2 * n}]" for n in range(8000))
    found = seen(SHARED | {"unackedMessages": 1}, {"individuallyDeletedMessages": f"[{near}]"})
    assert (found.ranges, found.status) == (8000, "warning")


def test_the_oldest_hole_pins_the_ledgers_from_it_on() -> None:
    internal = {
        "lastConfirmedEntry": "9:9",
        "totalSize": 6100,
        "ledgers": [
            {"ledgerId": 6, "entries": 10, "size": 100},
            {"ledgerId": 7, "entries": 10, "size": 1000},
            {"ledgerId": 8, "entries": 10, "size": 2000},
            {"ledgerId": 9, "entries": 0, "size": 0},
        ],
        "cursors": {"s": {
            "markDeletePosition": "6:9", "readPosition": "9:10",
            "individuallyDeletedMessages": "[(7:0..7:9],(8:-1..8:4],(8:5..8:9],(9:-1..9:4]]",
        }},
    }  # fmt: skip
    stats = {"subscriptions": {"s": {"msgBacklog": 7, "type": "Exclusive"}}}
    sample = Sample(NOW_MS, topic_stats(stats), internal_stats(internal))
    (observed,) = TopicWindow("t", None, Window((sample,))).subscriptions()
    found = account(observed, STORING)
    assert found.oldest_hole == ((7, 0), (7, 0))
    assert found.pinned is not None
    # 3000 in the ledger that is written; the next hole is 8:5, the last range ends at 9:4.
    assert (found.pinned.ledgers, found.pinned.bytes) == (3, 6000)
    assert (found.pinned.without_oldest, found.pinned.without_any) == (5000, 3000)
    assert (found.ranges, found.holes) == (4, 2)
