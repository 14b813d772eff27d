"""The account of a subscription: each entry in one place, whatever the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.account import (
    Account,
    Place,
    PlaceName,
    Rest,
    account_of,
    is_settled,
    occupied,
)
from pulsar_doctor.evidence.broker_counts import OwnCursor
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count, exactly
from tests.made.states import recorded


def of(version: str, name: str) -> tuple[SubscriptionView, Account]:
    view = by_stats.subscription_view(recorded(version, name))
    return view, account_of(view)


def found_in(account: Account, name: PlaceName, consumer: str | None = None) -> Place | None:
    """The first of that name; consumer: of this one."""
    named = (each for each in account.places if each.name == name)
    return next((each for each in named if consumer in (None, each.consumer)), None)


def place_of(account: Account, name: PlaceName, consumer: str | None = None) -> Place:
    """One that is there."""
    found = found_in(account, name, consumer)
    assert found is not None
    return found


STILL = {
    "no-consumer": [("unread", 30)],
    "permits-exhausted-shared-hung": [("unread", 50), ("held", 10)],
    "delayed-messages": [("delayed", 50)],
    "negative-permits": [("unread", 10), ("replay", 9)],
    "key-shared-blocked": [("replay", 115), ("held", 165)],
    "healthy-idle": [],
}


@pytest.mark.parametrize("name", STILL)
def test_places_of_a_state_that_stands_still_are_exact(name: str) -> None:
    _, account = of("4.0.8", name)
    assert [(each.name, (each.entries or Count(0, 1)).exact) for each in account.places] == STILL[
        name
    ]


def test_what_a_single_active_consumer_holds_may_be_acknowledged_in_a_transaction() -> None:
    view, account = of("4.0.8", "permits-exhausted-exclusive-after-acks")
    assert place_of(account, "held").entries == Count(0, 8)
    assert place_of(account, "pending-ack").entries == Count(0, 8)
    known = account_of(replace(view, pending_acks=0))
    assert place_of(known, "held").entries == Count(8, 8)
    assert found_in(known, "pending-ack") is None


def test_behind_an_open_transaction_nothing_is_readable() -> None:
    view, _ = of("4.0.8", "no-consumer")
    account = account_of(replace(view, open_transactions=1))
    assert place_of(account, "in-transaction").entries == Count(0, 30)
    assert place_of(account, "unread").entries == Count(0, 30)
    known = account_of(replace(view, open_transactions=1, unreadable=Count(12, 12)))
    assert place_of(known, "in-transaction").entries == Count(12, 12)
    assert place_of(known, "unread").entries == Count(18, 18)


def test_where_open_transactions_are_not_reported_all_may_be_behind_one() -> None:
    view, account = of("2.11.0", "no-consumer")
    assert view.open_transactions is None
    assert place_of(account, "in-transaction").entries == Count(0, 30)
    assert place_of(account, "unread").entries == Count(0, 30)
    without = account_of(replace(view, open_transactions=0))
    assert [(each.name, each.entries) for each in without.places] == [("unread", Count(30, 30))]


def test_what_waits_to_be_sent_again_is_at_most_what_was_read_and_nobody_holds() -> None:
    view, account = of("2.11.0", "permits-exhausted-shared-hung")
    assert view.replay is None
    assert found_in(account, "replay") is None
    assert place_of(account, "held").entries == Count(10, 10)


def test_a_replicator_has_one_place() -> None:
    own = OwnCursor(kind="replicator", of="west", waiting=30)
    view = SubscriptionView(
        topic="persistent://t/n/x", partition=None, subscription="pulsar.repl.west",
        type="replicator", sources=frozenset({STATS}), consumers=None, own=own,
    )  # fmt: skip
    account = account_of(view)
    assert account.total == Count(30, 30)
    assert [(each.name, each.entries) for each in account.places] == [("unsent", Count(30, 30))]
    nothing = account_of(replace(view, own=replace(own, waiting=0)))
    assert (nothing.total, nothing.places) == (Count(0, 0), ())


def test_a_place_moved_when_something_left_it() -> None:
    _, account = of("4.0.8", "slow-sole-worker")
    unread = place_of(account, "unread")
    assert unread.older == 1500
    assert unread.rest is not None
    assert unread.rest.least > 9
    assert place_of(account, "held", "slow").rest == Rest(0.001, 0.001)


def test_more_in_known_places_than_in_the_backlog_is_said() -> None:
    view, _ = of("4.0.8", "permits-exhausted-shared-hung")
    assert view.backlog is not None
    less = replace(view, backlog=replace(view.backlog, counter=4, positions=None), unread=None)
    said = account_of(less).contradiction
    assert said == "at least 10 entries are in known places, and the backlog is 4"


def test_what_a_consumer_holds_counts_where_the_backlog_is_of_another_moment() -> None:
    view, _ = of("4.0.8", "permits-exhausted-shared-hung")
    assert view.backlog is not None
    none = replace(view, backlog=replace(view.backlog, counter=0, positions=0), unread=Count(0, 0))
    assert place_of(account_of(none), "held").entries == Count(10, 10)


# By one reading of the statistics alone: whether a window would show no more.
SETTLED = {
    "healthy-idle": True,
    "healthy-failover-idle": True,
    "healthy-slow-and-often-without-permits": False,  # a minute of acks is not what it holds
    "delayed-messages": False,
    "no-consumer": False,
    "ack-hole": False,
    "permits-exhausted-shared-hung": False,
    "redelivery-storm": False,
}


def glanced(view: SubscriptionView, within_seconds: float) -> bool:
    return is_settled(view, occupied(view), within_seconds)


@pytest.mark.parametrize("name", SETTLED)
def test_one_reading_is_enough_where_nothing_waits_or_all_of_it_moves(name: str) -> None:
    observed = recorded("4.0.8", name)
    last = replace(observed.window.given[-1], internal=None)
    one = replace(observed, window=replace(observed.window, given=(last,)))
    view = by_stats.subscription_view(one)
    consumers = tuple(replace(each, connected_for=Age(600_000, True)) for each in view.served)
    assert glanced(replace(view, consumers=consumers), 10) == SETTLED[name]


def test_who_has_just_come_again_is_watched() -> None:
    view, _ = of("4.0.8", "healthy-idle")
    assert view.circulation is not None
    young = tuple(replace(each, connected_for=Age(900, True)) for each in view.served)
    assert glanced(replace(view, consumers=young), 10)
    before = replace(view.circulation, ever_sent=(view.circulation.ever_sent or 0) + 5)
    assert not glanced(replace(view, consumers=young, circulation=before), 10)
    listed = replace(view.circulation, ever_known=False)
    assert not glanced(replace(view, consumers=young, circulation=listed), 10)
    since = tuple(replace(each, connected_for=Age(900, False)) for each in view.served)
    assert glanced(replace(view, consumers=since, circulation=listed), 10), "at least so long"
    old = tuple(replace(each, connected_for=Age(600_000, True)) for each in view.served)
    assert glanced(replace(view, consumers=old, circulation=listed), 10)


def test_a_list_of_topics_does_not_show_who_was_there_before() -> None:
    """`broker-stats/topics` has no msgOutCounter of a subscription."""
    observed = recorded("4.0.8", "healthy-idle")
    last = observed.window.given[-1]
    own = (last.topic.subscriptions or {})[observed.subscription]
    listed = replace(
        last.topic, subscriptions={observed.subscription: replace(own, msg_out_counter=None)}
    )
    for topic, known in ((last.topic, True), (listed, False)):
        window = replace(observed.window, given=(replace(last, topic=topic),))
        circulation = by_stats.subscription_view(replace(observed, window=window)).circulation
        assert circulation is not None
        assert circulation.ever_known == known


@pytest.mark.parametrize(
    ("dropped", "permits", "settled"),
    [(None, 0, True), (0.0, 10, True), (0.0, 0, False), (0.0, -3, False), (0.0, None, False)],
)
def test_a_non_persistent_topic_is_watched_where_a_consumer_has_no_permits(
    dropped: float | None, permits: int | None, *, settled: bool
) -> None:
    view, _ = of("4.0.8", "healthy-idle")
    assert view.consumers is not None
    [idle] = view.consumers
    other = replace(idle, label="other", available_permits=exactly(permits))
    assert glanced(replace(view, consumers=(idle, other), msg_drop_rate=dropped), 5) == settled


@pytest.mark.parametrize("internal", [True, False])
def test_consumers_that_are_not_reported_may_hold_messages(internal: bool) -> None:
    view, _ = of("4.0.8", "slow-sole-worker")
    account = account_of(
        replace(view, consumers=None, attended=None, unread=view.unread if internal else None)
    )
    held = place_of(account, "held")
    assert (held.messages, held.entries) == (Count(989, 989), Count(1, 989))
    if internal:
        assert place_of(account, "unread").entries == Count(1500, 1500)
    else:
        assert place_of(account, "unsent").entries == Count(1500, 2488)
