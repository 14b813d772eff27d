"""Whether anybody is attached, and whether they may stop where they like, as a trace tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.diagnosis.answers import NotReported
from pulsar_doctor.diagnosis.causes import no_consumer
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.wire_script import START_US, ns, played

LINES = ["0s subscribe w Exclusive", "0s flow w 10", "1s message w 10 singles"]
READER = ["0s subscribe w Exclusive Pulsar-CPP-v3.7.0 reader"]


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


def durable(lines: Sequence[str]) -> tuple[bool | None, bool]:
    [wire] = played(lines, "40s").subscriptions()
    view = by_wire.subscription_view(wire)
    return view.durable, view.nothing_to_move


def test_a_reader_may_stop_where_it_likes_and_a_consumer_may_not() -> None:
    assert durable(LINES) == (True, False)
    assert durable(READER) == (False, True)


def test_after_a_reader_a_consumer_may_take_the_name_of_its_subscription() -> None:
    assert durable([*READER, "1s close w", "2s subscribe w Exclusive"]) == (True, False)
    refused = ["1s refused w Exclusive"]
    assert durable([*READER, *refused]) == (False, True)


def test_what_an_older_trace_does_not_tell_is_not_reported() -> None:
    timeline = played(READER, "40s")
    [consumer] = timeline.consumers
    consumer.durable = None
    view = by_wire.subscription_view(timeline.subscriptions()[0])
    assert (view.durable, view.nothing_to_move) == (None, False)


LEFT = ["2s ack w 8", "30s close w"]


def with_stats(view: SubscriptionView, at: str, *, attended: bool | None) -> SubscriptionView:
    """Beside statistics of that second."""
    moment_ms = (START_US + ns(at) // 1000) // 1000
    told = replace(view, sources=frozenset({STATS}), attended=attended, left_behind=None)
    return merged(replace(told, moment_ms=moment_ms, backlog=Backlog(counter=2)), view)


def test_what_waits_since_the_last_consumer_left_is_no_news_to_later_statistics() -> None:
    view = by_trace(*LEFT)
    assert view.left_behind is not None
    assert view.left_behind.unacked == 2
    assert with_stats(view, "35s", attended=True).left_behind is None
    assert with_stats(view, "35s", attended=False).left_behind is None


def test_statistics_of_before_or_that_name_nobody_leave_it_as_it_is() -> None:
    view = by_trace(*LEFT)
    assert with_stats(view, "29s", attended=True).left_behind == view.left_behind
    assert with_stats(view, "35s", attended=None).left_behind == view.left_behind
