"""Who is closed with messages in hand and is no trouble, though its commands look the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.diagnosis.causes import closed_unacknowledged
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.wire_script import played

pytestmark = pytest.mark.pure
LINES = ("0s subscribe w Exclusive", "0s flow w 1000", "0s message w 20 singles", "5s close w")
LIMITS = {each.name: each.default for each in closed_unacknowledged.THRESHOLDS}


def closed() -> SubscriptionView:
    [wire] = played(LINES, "6s").subscriptions()
    return by_wire.subscription_view(wire)


def test_a_reader_gives_nothing_back() -> None:
    assert [each.severity for each in closed_unacknowledged.check(closed(), LIMITS)] == ["warning"]
    for name in ("reader-221d593470", "multiTopicsReader-0c4f"):
        reader = replace(closed(), subscription=name)
        assert list(closed_unacknowledged.check(reader, LIMITS)) == []


def test_what_a_saved_trace_goes_on_from_knows_who_was_closed() -> None:
    whole = played(LINES, "6s")
    again = type(whole).restore(whole.state())
    assert again.subscriptions()[0].closed[0].closed_by == "CLOSE_CONSUMER"
    assert [each.held_since_ns for each in again.subscriptions()[0].closed] == [
        each.held_since_ns for each in whole.subscriptions()[0].closed
    ]
