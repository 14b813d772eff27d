"""Whether anybody is attached now: a trace tells it while its consumers are there."""

from __future__ import annotations

from dataclasses import replace

from pulsar_doctor.broker.stats.values import Backlog
from pulsar_doctor.diagnosis.answers import NotReported
from pulsar_doctor.diagnosis.causes import no_consumer
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.wire_script import played

LINES = ["0s subscribe w Exclusive", "0s flow w 10", "1s message w 10 singles"]


def by_trace(*more: str) -> SubscriptionView:
    [wire] = played([*LINES, *more], "40s").subscriptions()
    return by_wire.subscription_view(wire)


def with_cursor(view: SubscriptionView) -> SubscriptionView:
    """Beside it the internal stats alone, which name no consumer."""
    cursor = replace(view, sources=frozenset({STATS}), consumers=None, attended=None)
    return merged(replace(cursor, backlog=Backlog(positions=10)), view)


def test_one_of_the_trace_is_there() -> None:
    view = with_cursor(by_trace())
    assert view.attended
    assert list(no_consumer.check(view, {"reconnect_wait": 5})) == []


def test_one_of_the_trace_has_left_and_nobody_tells_who_came_since() -> None:
    view = with_cursor(by_trace("30s close w"))
    assert view.consumers
    assert view.attended is None
    [answer] = no_consumer.check(view, {"reconnect_wait": 5})
    assert isinstance(answer, NotReported)
