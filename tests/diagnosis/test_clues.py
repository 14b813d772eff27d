"""Single clues: who has lost permits, and what nobody has read yet."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.reading import internal_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.diagnosis.consumer_clues import of_consumers
from pulsar_doctor.diagnosis.observing import Clues
from pulsar_doctor.diagnosis.subscription_clues import of_subscription
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.wording.sentences import values_in
from tests.causes.stats_script import observed
from tests.made.states import recorded


def clues_of(consumer: dict[str, Any]) -> Clues:
    view = by_stats.subscription_view(
        observed({"subscription": {"msgBacklog": 500}, "consumers": {"w": consumer}})
    )
    assert view.consumers is not None
    return of_consumers(view)[0][1]


@pytest.mark.parametrize(
    ("consumer", "there"),
    [
        ({"availablePermits": 0, "msgOutCounter": 7000}, True),
        ({"availablePermits": 3, "msgOutCounter": 7000}, False),
        ({"availablePermits": 0, "msgOutCounter": 7000, "unackedMessages": 20}, False),
    ],
)
def test_no_permits_and_nothing_in_hand_is_a_clue(consumer: dict[str, Any], there: bool) -> None:
    assert ("empty_handed" in clues_of(consumer)) == there


def test_of_a_window_a_counter_of_another_moment_is_no_clue() -> None:
    view = by_stats.subscription_view(recorded("5.0.0-M1", "healthy-batches-far-below-zero"))
    assert view.backlog is not None
    assert view.backlog.doubtful
    assert "counter_differs" not in of_subscription(view)


@pytest.mark.parametrize(
    ("quiet", "later"),
    [("40s ago", {"w"}), ("35s ago", {"w"}), ("34s ago", set()), (None, set())],
)
def test_who_is_half_a_minute_behind_its_neighbour_has_a_clue(
    quiet: str | None, later: set[str]
) -> None:
    moments = {"lastAckedTimestamp": quiet, "lastConsumedFlowTimestamp": quiet}
    consumers = {
        "w": {"unackedMessages": 9, "connectedSince": quiet, **moments},
        "v": {"unackedMessages": 9, "lastAckedTimestamp": "5s ago"},
    }
    view = by_stats.subscription_view(observed({"consumers": consumers}))
    found = {each.label for each, clues in of_consumers(view) if "neighbour_later" in clues}
    assert found == later


def test_who_may_have_no_queue_is_not_said_to_have_none() -> None:
    assert "may ask" in clues_of({"availablePermits": 0, "msgOutCounter": 7000})["asks_singly"].text


@pytest.mark.parametrize(
    ("last", "keys"),
    [("5:509", {"unread", "read_asleep"}), ("5:9", {"read_waits"})],
)
def test_internal_stats_alone_tell_what_is_not_read(last: str, keys: set[str]) -> None:
    """Where all is read, a cursor that waits for new entries is not asleep."""
    cursor = {"readPosition": "5:10", "markDeletePosition": "5:4", "waitingReadOp": True}
    internal = internal_stats(
        {
            "lastConfirmedEntry": last,
            "cursors": {"s": {**cursor, "pendingReadOps": 0, "subscriptionHavePendingRead": True,
                              "subscriptionHavePendingReplayRead": False, "state": "Open"}},
        }
    )  # fmt: skip
    stats = TopicStats(subscriptions={"s": SubscriptionStats()})
    window = Window((Sample(None, stats, internal),))
    clues = of_subscription(by_stats.subscription_view(Observed("t", None, "s", window)))
    assert {"unread", "read_asleep", "read_waits"} & clues.keys() == keys


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        (1, "1 acknowledged range lies behind an entry that is not"),
        (2, "2 acknowledged ranges lie behind an entry that is not"),
    ],
)
def test_acknowledged_ranges_are_counted_in_the_text(ranges: int, text: str) -> None:
    subscription = {"msgBacklog": 500, "nonContiguousDeletedMessagesRanges": ranges}
    view = by_stats.subscription_view(observed({"subscription": subscription, "consumers": {}}))
    assert of_subscription(view)["hole"].text == text


def test_the_text_of_an_observation_knows_its_numbers() -> None:
    text = clues_of({"availablePermits": 1, "unackedMessages": 1})["has_permits"].text
    assert text.endswith("has 1 permit")
    assert {"1", "1 permits"} <= values_in(text)


def test_what_several_observations_show_is_one_clue_with_the_number_of_each() -> None:
    watched = {"samples": ["0s", "5s"], "subscription": {"msgBacklog": [40, 50]}}
    sent = {"msgBacklog": 50, "msgRateOut": 1.0}
    rates = {"samples": ["0s"], "subscription": sent, "topic": {"msgRateIn": 9.0}}
    clues = [
        of_subscription(by_stats.subscription_view(observed({**told, "consumers": {}})))
        for told in (watched, rates)
    ]
    assert [each["backlog_grows"].name for each in clues] == ["backlog_change", "msg_rate_in"]
    texts = [each["backlog_grows"].text for each in clues]
    assert texts[0] == "the backlog grew by 10 within 5 s"
    assert texts[1] == "9 messages a second were published lately, 1 were sent first"
