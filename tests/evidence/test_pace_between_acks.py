"""A pace by the moments of acks in two readings that nobody timed."""

from __future__ import annotations

import pytest

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.evidence.by_stats import subscription_view

T0 = 1_795_262_300_000


def read(acked_ms: int, *, sent: int, held: int, taken_ms: int | None = None) -> Sample:
    worker = ConsumerStats(
        consumer_name="a",
        connected_since="2026-11-21T11:57:38.603Z",
        msg_out_counter=sent,
        unacked_messages=held,
        available_permits=0,
        last_acked_timestamp_ms=acked_ms,
    )
    told = SubscriptionStats(type="Shared", consumers=(worker,), msg_backlog=500)
    return Sample(taken_ms, TopicStats(subscriptions={"s": told}))


def pace(*samples: Sample) -> float | None:
    view = subscription_view(Observed("persistent://a/b/c", None, "s", Window(samples)))
    [consumer] = view.consumers or ()
    return None if consumer.pace is None else consumer.pace.seconds


@pytest.mark.parametrize(
    ("held", "done", "seconds"),
    [
        (100, 20, 3.0),
        (100, 100, 0.6),
        (19, 20, None),  # it may have waited for the last of them
        (100, 1, None),
        (100, 0, None),
    ],
)
def test_of_what_it_held_all_the_time(held: int, done: int, seconds: float | None) -> None:
    first = read(T0, sent=500, held=held)
    last = read(T0 + 60_000, sent=600, held=held + 100 - done)
    assert pace(first, last) == seconds


def test_a_window_that_is_told_has_its_own() -> None:
    first = read(T0, sent=500, held=100, taken_ms=T0 + 1000)
    last = read(T0 + 60_000, sent=500, held=80, taken_ms=T0 + 101_000)
    assert pace(first, last) == 5.0
