"""What the cursor tells where internal stats are all there is."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.reading import internal_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.diagnosis.fitted import weights
from pulsar_doctor.diagnosis.ranking import cases_of, suspects_of
from pulsar_doctor.diagnosis.subscription_clues import of_subscription
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.stats_script import observed
from tests.incidents.asking import HYPOTHESES

NOTHING_ELSE = {
    "msgBacklog": None,
    "msgDelayed": None,
    "msgInReplay": None,
    "unackedMessages": None,
    "isDurable": None,
    "blockedSubscriptionOnUnackedMsgs": None,
    "nonContiguousDeletedMessagesRanges": None,
}


def view_of(cursor: dict[str, Any], **internal: Any) -> SubscriptionView:
    told = {
        "samples": ["0s"],
        "clock": "not told",
        "subscription": NOTHING_ELSE,
        "consumers": "not told",
        "cursor": cursor,
        "internal": internal,
    }
    return by_stats.subscription_view(observed(told))


def keys(view: SubscriptionView) -> set[str]:
    wanted = {"counted_far", "consumed_negative", "hole_wide", "hole"}
    return wanted & of_subscription(view).keys()


STANDS = {"markDeletePosition": "5:99", "readPosition": "5:100"}


@pytest.mark.parametrize(
    ("consumed", "internal", "seen"),
    [
        (60, {"entriesAddedCounter": 160, "lastConfirmedEntry": "5:199"}, set()),
        (-40, {"entriesAddedCounter": 60, "lastConfirmedEntry": "5:199"}, set()),  # as it began
        (-4000, {"entriesAddedCounter": 160, "lastConfirmedEntry": "5:199"}, {"counted_far"}),
        (-4000, {"entriesAddedCounter": None, "lastConfirmedEntry": None}, {"consumed_negative"}),
        (4000, {"entriesAddedCounter": None, "lastConfirmedEntry": None}, set()),
    ],
)
def test_a_counter_that_is_far_from_the_positions_is_seen(
    consumed: int, internal: dict[str, Any], seen: set[str]
) -> None:
    assert keys(view_of({**STANDS, "messagesConsumedCounter": consumed}, **internal)) == seen


def held_back(entries: int | None) -> SubscriptionView:
    one_gap = {
        **STANDS,
        "readPosition": "5:90000",
        "individuallyDeletedMessages": "[(5:103..5:89999]]",
        "totalNonContiguousDeletedMessagesRange": 1,
        "numberOfEntriesSinceFirstNotAckedMessage": entries,
    }
    return view_of(one_gap, lastConfirmedEntry="5:89999", entriesAddedCounter=None)


def test_one_gap_that_holds_very_many_entries_back_is_seen() -> None:
    assert keys(held_back(89_900)) == {"hole", "hole_wide"}
    assert keys(held_back(400)) == keys(held_back(None)) == {"hole"}


def total(view: SubscriptionView, code: str) -> float:
    cases = [case for group in cases_of(view, HYPOTHESES, {}) for case in group]
    [case] = [case for case in cases if case.of.code == code]
    return case.total(weights())


def share(view: SubscriptionView, code: str) -> float:
    suspects = suspects_of(view, HYPOTHESES, {})
    return next(each.probability for each in suspects if each.code == code)


def test_they_speak_for_their_causes() -> None:
    wide, narrow = held_back(89_900), held_back(400)
    assert share(wide, "ack-hole") > share(narrow, "ack-hole")
    assert total(wide, "healthy") < total(narrow, "healthy")
    untold = {"entriesAddedCounter": None, "lastConfirmedEntry": None}
    below = view_of({**STANDS, "messagesConsumedCounter": -4000}, **untold)
    above = view_of({**STANDS, "messagesConsumedCounter": 4000}, **untold)
    code = "backlog-counter-wrong"
    assert total(below, code) > total(above, code)


def non_persistent(topic: str | None = None) -> SubscriptionView:
    document = {"entriesAddedCounter": 5120, "numberOfEntries": 0, "totalSize": 0,
                "cursors": {"live": {"waitingReadOp": False, "pendingReadOps": 0,
                                     "messagesConsumedCounter": 0, "cursorLedger": 0}}}  # fmt: skip
    internal = internal_stats(document)
    stats = TopicStats(subscriptions={"live": SubscriptionStats()})
    window = Window((Sample(None, stats, internal),))
    return by_stats.subscription_view(Observed(topic or "unknown", None, "live", window))


def test_a_cursor_without_positions_is_that_of_a_topic_that_stores_nothing() -> None:
    assert non_persistent().persistent is False
    assert "its topic is non-persistent" in (non_persistent().gap or "")
    assert non_persistent("persistent://t/n/x").gap is None
    assert view_of(STANDS).gap is None
