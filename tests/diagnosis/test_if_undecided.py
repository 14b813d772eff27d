"""Causes that are suspected only where their check was made and could not decide."""

from __future__ import annotations

import pytest

from pulsar_doctor.broker.stats.cursors import COMPACTION, REPLICATOR
from pulsar_doctor.diagnosis.answers import HEALTHY, NONE_OF_THESE
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.broker_counts import OwnCursor
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.wire_script import played
from tests.incidents.asking import LIMITS, RULES

pytestmark = pytest.mark.pure
ATTACHED = ("0s subscribe w Exclusive", "0s flow w 1000", "0s message w 20 singles")
ELSE = {HEALTHY, NONE_OF_THESE}


def of_own(own: OwnCursor) -> SubscriptionView:
    return SubscriptionView(
        topic="orders",
        partition=None,
        subscription=own.kind,
        type=own.kind,
        sources=frozenset({STATS}),
        consumers=None,
        own=own,
    )


@pytest.mark.parametrize(
    ("own", "code"),
    [
        (OwnCursor(kind=REPLICATOR, of="west", connected=False), "replication-stalled"),
        (OwnCursor(kind=REPLICATOR, of="west", waiting=7), "replication-stalled"),
        (OwnCursor(kind=COMPACTION, of=None), "compaction-stalled"),
    ],
)
def test_of_the_brokers_own_cursor_only_its_own_cause_is_suspected(
    own: OwnCursor, code: str
) -> None:
    said = diagnose(of_own(own), RULES, LIMITS)
    assert said.status == "unknown"
    assert {each.code for each in said.suspects} - ELSE == {code}


def test_a_replicator_that_is_not_connected_is_suspected_more() -> None:
    away = [
        next(s for s in diagnose(of_own(own), RULES, LIMITS).suspects if s.stalls)
        for own in (
            OwnCursor(kind=REPLICATOR, of="west", connected=connected)
            for connected in (False, True)
        )
    ]
    assert away[0].probability > away[1].probability
    assert [clue.name for clue in away[0].speaks_for] == ["undecided", "connected"]


def test_who_was_closed_soon_with_messages_in_hand_is_suspected() -> None:
    [wire] = played((*ATTACHED, "1s close w"), "6s").subscriptions()
    said = diagnose(by_wire.subscription_view(wire), RULES, LIMITS)
    assert "closed-unacknowledged" in {each.code for each in said.suspects}
    [there] = played(ATTACHED, "6s").subscriptions()
    said = diagnose(by_wire.subscription_view(there), RULES, LIMITS)
    assert "closed-unacknowledged" not in {each.code for each in said.suspects}
