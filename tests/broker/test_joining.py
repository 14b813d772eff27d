"""Windows that go on: from one round of a watch to the next, and where one does not decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pulsar_doctor.broker.sampling.joining import LastSamples, joined
from pulsar_doctor.broker.stats.observed import ClusterLimits, TopicWindow
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Window

T0 = 1_795_262_260_000  # after SINCE
SINCE, LATER = "2026-11-21T11:57:38.603Z", "2026-11-21T11:58:02Z"


def read(at_seconds: int, *, since: str = SINCE, backlog: int = 9, out: int = 5) -> Sample:
    worker = ConsumerStats(consumer_name="a", connected_since=since, msg_out_counter=out)
    told = SubscriptionStats(consumers=(worker,), msg_backlog=backlog, msg_out_counter=out)
    return Sample(T0 + 1000 * at_seconds, TopicStats(subscriptions={"s": told}))


def window(*samples: Sample, **more: Any) -> TopicWindow:
    return TopicWindow("persistent://a/b/c", None, Window(samples), **more)


def seconds(*rounds: TopicWindow) -> list[float]:
    """How long each round's window is in the end."""
    kept = LastSamples()
    return [(kept.window(each).window.span_ms or 0) / 1000 for each in rounds]


def test_a_round_goes_on_where_the_one_before_ended() -> None:
    first, second = window(read(0), read(10)), window(read(30), read(40))
    assert seconds(first, second, window(read(60), read(70))) == [10, 30, 30]


def test_a_round_stands_alone_where_the_one_before_would_make_it_weaker() -> None:
    first = window(read(0), read(10))
    anew = [read(at, since=LATER) for at in (30, 40)]
    assert seconds(first, window(*anew)) == [10, 10], "who came since has no beginning there"
    fell = [read(at, out=1) for at in (30, 40)]
    assert seconds(first, window(*fell)) == [10, 10], "counters began again"
    behind = [read(at) for at in (5, 8)]
    assert seconds(first, window(*behind)) == [10, 3], "by another broker's clock"


def test_to_wait_for_work_is_no_slow_pace() -> None:
    idle = window(read(0, backlog=0), read(10, backlog=0))
    busy = window(read(30, out=50), read(40, out=90))
    assert seconds(idle, busy) == [10, 10]
    assert seconds(idle, window(read(30, backlog=0), read(40, backlog=0))) == [10, 30]


def test_another_topic_is_another_one() -> None:
    other = replace(window(read(30), read(40)), partition=3)
    assert seconds(window(read(0), read(10)), other) == [10, 10]


def test_nothing_that_was_seen_is_thrown_away() -> None:
    before = window(read(0), read(10), limits=ClusterLimits(20, None, 7))
    after = window(read(12), read(20), limits=ClusterLimits(30, None, None))
    both = joined(before, after)
    assert [each.taken_ms for each in both.window.samples] == [
        T0 + 1000 * at for at in (0, 10, 12, 20)
    ]
    assert both.limits == ClusterLimits(30, None, 7)


def test_what_the_other_partitions_told_is_kept() -> None:
    before = window(read(0), read(10), elsewhere=frozenset({"s"}))
    assert joined(before, window(read(12), read(20))).elsewhere == {"s"}
