"""What moved between readings of a topic: on a real broker, and over every kind of reset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.reading import partitioned_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import (
    ConsumerStats,
    PublisherStats,
    SubscriptionStats,
    TopicStats,
)
from pulsar_doctor.broker.stats.window import Course, Window
from pulsar_doctor.errors import InputError
from tests.broker.recorded import recording, sample_of, stats_of, window_of

T0 = 1_795_262_258_000
SINCE = "2026-11-21T11:57:38.603Z"
LATER = "2026-11-21T11:57:42.498Z"


BASE_MS = 1_795_262_400_000  # minutes after SINCE


def consumer(name: str = "a", since: str | None = SINCE, **told: Any) -> ConsumerStats:
    return ConsumerStats(consumer_name=name, connected_since=since, **told)


def sample(
    *consumers: ConsumerStats,
    at: int | None = None,
    topic: dict[str, Any] | None = None,
    **sub: Any,
) -> Sample:
    stats = SubscriptionStats(consumers=consumers, **sub)
    return Sample(at, TopicStats(subscriptions={"s": stats}, **(topic or {})))


def out(course: Course[SubscriptionStats] | Course[ConsumerStats]) -> int | None:
    return course.growth(lambda stats: stats.msg_out_counter)


# -- on a real broker -----------------------------------------------------------------------------


def test_nothing_moves_while_a_subscription_stands_still() -> None:
    window = window_of("4.0.8-shared-stuck")
    billing = window.subscription("billing")
    assert out(billing) == 0
    assert billing.change(lambda s: s.unacked_messages) == 0
    assert billing.passed("last_consumed_flow_timestamp_ms") is False
    assert billing.passed("last_acked_timestamp_ms") is False  # never, in both: told
    assert window.cursor("billing").moved(lambda c: c.read_position) is False
    assert [out(each) for each in window.consumers("billing")] == [0, 0]
    assert window.left("billing") == ()


def test_what_moves_is_told_for_the_subscription_and_for_each_consumer() -> None:
    window = window_of("4.0.8-shared-moving")
    billing = window.subscription("billing")
    assert out(billing) == 5
    assert billing.change(lambda s: s.unacked_messages) == -3
    assert billing.passed("last_acked_timestamp_ms") is True  # never, then told
    assert billing.passed("last_mark_delete_advanced_timestamp_ms") is False
    cursor = window.cursor("billing")
    assert cursor.moved(lambda c: c.mark_delete_position) is False
    assert cursor.moved(lambda c: c.read_position) is True
    assert cursor.growth(lambda c: c.messages_consumed_counter) == 8  # entries acknowledged
    stuck, worker = window.consumers("billing")
    assert (out(stuck), out(worker)) == (0, 5)
    assert stuck.passed("last_acked_timestamp_ms") is False
    assert worker.passed("last_consumed_flow_timestamp_ms") is True


def test_an_unload_is_a_reset_of_everything() -> None:
    window = window_of("4.0.8-shared-unloaded")
    assert window.reset is True
    billing = window.subscription("billing")
    assert out(billing) is None
    assert billing.change(lambda s: s.unacked_messages) is None
    assert billing.passed("last_acked_timestamp_ms") is None
    assert window.cursor("billing").moved(lambda c: c.read_position) is None
    assert [out(each) for each in window.consumers("billing")] == [None, None]
    assert [each.consumer_name for each in window.left("billing") or ()] == ["worker-1", "worker-2"]


def test_a_reset_anywhere_in_the_window_counts() -> None:
    window = window_of("4.0.8-shared-stuck", "4.0.8-shared-unloaded")
    assert window.reset is True
    assert out(window.subscription("billing")) is None


def test_redelivery_of_the_same_messages() -> None:
    window = window_of("4.0.8-nacked")
    assert out(window.subscription("s")) == 28
    assert window.cursor("s").growth(lambda c: c.messages_consumed_counter) == 0


def test_throttle_events_grow() -> None:
    course = window_of("4.0.8-dispatch-throttled").subscription("s")
    grown = course.growth(lambda s: s.dispatch_throttled_msg_events_by_subscription_limit)
    assert grown == 4


# -- differences ----------------------------------------------------------------------------------


def test_not_told_is_not_zero() -> None:
    a = consumer()
    for first, last in ((None, 5), (5, None), (None, None)):
        window = Window((sample(a, msg_out_counter=first), sample(a, msg_out_counter=last)))
        assert window.reset is False
        assert out(window.subscription("s")) is None
        assert window.subscription("s").moved(lambda s: s.msg_out_counter) is None
        assert window.subscription("s").passed("last_acked_timestamp_ms") is None
    assert out(window.subscription("unknown")) is None
    assert window.cursor("s").moved(lambda c: c.read_position) is None


def test_one_sample_has_no_difference() -> None:
    window = Window((sample(consumer(msg_out_counter=3), msg_out_counter=3),))
    assert out(window.subscription("s")) is None
    assert [out(each) for each in window.consumers("s")] == [None]
    assert window.span_ms is None


def test_a_value_not_told_in_between_is_passed_over() -> None:
    a = consumer()
    counts = (3, None, 9)
    window = Window(tuple(sample(a, msg_out_counter=count) for count in counts))
    assert out(window.subscription("s")) == 6


def test_a_move_there_and_back_is_a_move() -> None:
    a = consumer()
    window = Window(tuple(sample(a, msg_in_replay=count) for count in (0, 4, 0)))
    assert window.subscription("s").moved(lambda s: s.msg_in_replay) is True
    assert window.subscription("s").change(lambda s: s.msg_in_replay) == 0


# -- resets ---------------------------------------------------------------------------------------


def test_a_counter_that_fell_and_rose_above_its_start_has_no_difference() -> None:
    a = consumer()
    window = Window(tuple(sample(a, msg_out_counter=count) for count in (10, 2, 30)))
    assert window.reset is False  # a is still connected: the subscription alone was made anew
    assert window.subscription("s").reset is True
    assert out(window.subscription("s")) is None


def test_any_other_counter_that_fell_has_no_difference_of_its_own() -> None:
    a = consumer()
    samples = (
        sample(a, msg_out_counter=1, dispatch_throttled_msg_events_by_topic_limit=n)
        for n in (9, 2, 11)
    )
    course = Window(tuple(samples)).subscription("s")
    assert course.growth(lambda s: s.dispatch_throttled_msg_events_by_topic_limit) is None
    assert out(course) == 0
    window = Window(tuple(sample(consumer(msg_out_counter=n)) for n in (9, 2)))
    assert [out(each) for each in window.consumers("s")] == [None]


def test_a_subscription_made_anew_has_a_new_cursor() -> None:
    a, internal = consumer(), sample_of(recording("4.0.8-nacked")["samples"][0]).internal
    window = Window(tuple(replace(sample(a, msg_out_counter=n), internal=internal) for n in (9, 2)))
    assert window.reset is False
    assert window.cursor("s").moved(lambda c: c.read_position) is None


def test_a_moment_that_is_suddenly_never_is_a_reset() -> None:
    a, moment = consumer(), "last_acked_timestamp_ms"
    before = sample(a, last_acked_timestamp_ms=T0, msg_out_counter=1)
    after = sample(a, never=frozenset({moment}), msg_out_counter=5)
    assert out(Window((before, after)).subscription("s")) is None


def test_all_connections_new_means_loaded_anew_though_counters_grew() -> None:
    window = Window(
        (sample(consumer(), msg_out_counter=3), sample(consumer(since=LATER), msg_out_counter=9))
    )
    assert window.reset is True
    assert out(window.subscription("s")) is None


def test_a_producer_that_stayed_proves_that_only_the_consumer_reconnected() -> None:
    topic = {"publishers": (PublisherStats(producer_name="p", connected_since=SINCE),)}
    window = Window(
        (
            sample(consumer(msg_out_counter=3), topic=topic, msg_out_counter=3),
            sample(consumer(since=LATER, msg_out_counter=9), topic=topic, msg_out_counter=12),
        )
    )
    assert window.reset is False
    assert out(window.subscription("s")) == 9
    (course,) = window.consumers("s")
    assert course.values[0] is None
    assert out(course) is None
    assert [each.connected_since for each in window.left("s") or ()] == [SINCE]


@pytest.mark.parametrize(
    ("before", "after", "reset"),
    [
        ({"msg_in_counter": 5}, {"msg_in_counter": 4}, True),
        ({"bytes_in_counter": 5}, {"bytes_in_counter": 0}, True),
        ({"owner_broker": "b1"}, {"owner_broker": "b2"}, True),
        ({"msg_in_counter": 5}, {"msg_in_counter": 6}, False),
        ({"msg_in_counter": 5}, {}, False),
        ({"owner_broker": "b1"}, {}, False),
    ],
)
def test_without_connections_counters_and_the_owner_tell(
    before: dict[str, Any], after: dict[str, Any], reset: bool
) -> None:
    window = Window(
        (sample(topic=before, msg_backlog=1), sample(topic=after, msg_backlog=3)),
    )
    assert window.reset is reset
    assert window.subscription("s").change(lambda s: s.msg_backlog) == (None if reset else 2)


def test_internal_counters_that_fell_are_a_reset() -> None:
    recorded = sample_of(recording("4.0.8-no-consumer")["samples"][0])
    bare = replace(recorded, topic=TopicStats(subscriptions=recorded.topic.subscriptions))
    assert bare.internal is not None
    fallen = replace(bare, internal=replace(bare.internal, entries_added_counter=0))
    assert Window((bare, fallen)).reset is True
    assert Window((fallen, bare)).reset is False


def test_a_subscription_that_was_gone_in_between_has_no_difference() -> None:
    a = consumer()
    gone = Sample(None, TopicStats(subscriptions={"other": SubscriptionStats(consumers=(a,))}))
    window = Window((sample(a, msg_out_counter=1), gone, sample(a, msg_out_counter=4)))
    assert out(window.subscription("s")) is None
    assert [out(each) for each in window.consumers("s")] == [None]


def test_consumers_without_a_telling_identity_are_not_matched() -> None:
    nameless = consumer(since=None, msg_out_counter=1)
    window = Window((sample(nameless), sample(nameless)))
    assert [len(each.values) for each in window.consumers("s")] == [1]
    assert window.left("s") is None
    twins = consumer(msg_out_counter=1), consumer(msg_out_counter=2)
    window = Window((sample(*twins), sample(*twins)))
    assert [each.values for each in window.consumers("s")] == [(twins[0],), (twins[1],)]
    assert [out(each) for each in window.consumers("s")] == [None, None]


def test_the_last_consumer_that_left() -> None:
    topic = {"publishers": (PublisherStats(producer_name="p", connected_since=SINCE),)}
    window = Window((sample(consumer(), topic=topic), sample(topic=topic)))
    assert [each.consumer_name for each in window.left("s") or ()] == ["a"]
    assert window.consumers("s") == ()


def test_the_totals_of_partitions_have_no_consumer_to_follow() -> None:
    totals = partitioned_stats(stats_of("4.0.8-partitioned-folded")).totals
    window = Window((Sample(None, totals), Sample(None, totals)))
    assert out(window.subscription("s")) == 0
    assert [out(each) for each in window.consumers("s")] == [None]


# -- the clock ------------------------------------------------------------------------------------


def test_the_date_is_now_and_ages_are_exact() -> None:
    window = window_of("4.0.8-shared-stuck")
    billing = (window.last.topic.subscriptions or {})["billing"]
    assert window.last.now_known is True
    assert window.span_ms == 2000
    age = window.last.age(billing.last_consumed_flow_timestamp_ms)
    assert age == Age(1795262261000 - 1795262258608, exact=True)


def test_a_moment_ahead_of_the_date_by_less_than_its_step_is_now() -> None:
    (reader,) = window_of("4.0.8-reader").samples
    assert (reader.taken_ms, reader.newest_ms) == (1795262275000, 1795262275170)
    assert (reader.now_ms, reader.now_known) == (1795262275170, True)
    assert reader.age(1795262275170) == Age(0, exact=True)


def test_without_a_date_the_newest_moment_is_the_earliest_now() -> None:
    stats = topic_stats(stats_of("4.0.8-shared-moving"))
    told = Sample(None, stats)
    assert (told.now_ms, told.now_known) == (1795262261908, False)
    assert told.age(1795262258608) == Age(3300, exact=False)
    assert told.age(None) is None
    assert Sample(None, TopicStats(msg_in_counter=1)).age(5) is None


def test_the_date_of_another_clock_does_not_count_as_now() -> None:
    stats = topic_stats(stats_of("4.0.8-shared-moving"))
    behind = Sample(1795262261908 - 60_000, stats)
    assert (behind.now_ms, behind.now_known) == (1795262261908, False)
    later = Sample(1795262261908 - 50_000, stats)
    assert Window((behind, later)).span_ms == 10_000  # it goes as fast as the broker's


def test_a_sample_without_a_time_is_an_interval_after_the_one_before() -> None:
    moments = (T0, None, T0 + 12_000, T0 + 1)  # the newest that each document tells
    samples = tuple(sample(last_acked_timestamp_ms=moment) for moment in moments)
    window = Window(samples, interval_ms=10_000)
    assert [each.now_ms for each in window.samples] == [T0, T0 + 10_000, T0 + 20_000, T0 + 30_000]
    assert [each.now_known for each in window.samples] == [False] * 4
    assert window.last.age(T0 + 1) == Age(29_999, exact=False)
    assert window.span_ms == 30_000
    assert Window(window.samples, interval_ms=10_000).samples == window.samples


def test_the_newest_moment_may_be_later_than_the_interval_says() -> None:
    samples = (sample(last_acked_timestamp_ms=T0), sample(last_acked_timestamp_ms=T0 + 60_000))
    window = Window((*samples, samples[1]), interval_ms=1000)
    assert [each.now_ms for each in window.samples] == [T0, T0 + 60_000, T0 + 61_000]


def test_an_interval_does_not_change_a_time_that_is_told() -> None:
    window = Window((sample(at=T0), sample(at=T0 + 3000), sample()), interval_ms=10_000)
    assert [each.now_ms for each in window.samples] == [T0, T0 + 3000, T0 + 13_000]
    assert [each.now_known for each in window.samples] == [True, True, False]
    assert Window(window.samples[:2], interval_ms=10_000).span_ms == 3000


def test_without_any_moment_only_the_span_is_known() -> None:
    window = Window((sample(), sample(), sample()), interval_ms=500)
    assert window.last.now_ms is None
    assert window.span_ms == 1000
    assert Window((sample(), sample())).span_ms is None


def test_a_window_is_in_order_and_not_empty() -> None:
    with pytest.raises(InputError, match="at least one"):
        Window(())
    with pytest.raises(InputError, match="not in order"):
        Window((sample(at=T0 + 1000), sample(), sample(at=T0)))
    assert Window((sample(at=T0), sample(at=T0))).span_ms == 0


# -- how far apart, where nobody tells -------------------------------------------------------------


def worked(acked_ms: int | None, *, since: str = SINCE, **told: Any) -> Sample:
    never = frozenset({"last_acked_timestamp_ms"} if acked_ms is None else ())
    return sample(consumer("a", since, last_acked_timestamp_ms=acked_ms, never=never, **told))


def test_what_is_new_in_the_later_reading_came_after_the_earlier_one() -> None:
    first = worked(BASE_MS, last_consumed_timestamp_ms=BASE_MS)
    last = worked(BASE_MS + 40_000, last_consumed_timestamp_ms=BASE_MS + 10_000)
    window = Window((first, last))
    assert window.span_ms is None
    assert window.span_least_ms == 30_000  # taken before the delivery, and after the ack
    assert Window((first, replace(last, taken_ms=BASE_MS + 70_000))).span_least_ms == 60_000
    assert Window((first, first)).span_least_ms is None
    assert Window((worked(None), worked(BASE_MS))).span_least_ms == 0


def test_without_its_time_a_reading_is_not_as_old_as_its_newest_moment() -> None:
    idle = sample(consumer("a"), at=None)
    window = Window((idle, replace(idle, taken_ms=BASE_MS + 10**9)))
    assert window.seconds_since(0) is None


def test_who_came_within_the_window_came_after_its_beginning() -> None:
    came = "2026-11-21T12:00:20Z"
    window = Window((sample(consumer("a")), sample(consumer("a"), consumer("b", came))))
    assert window.span_least_ms == 0
    later = worked(BASE_MS + 60_000)
    both = replace(later, topic=replace(later.topic, subscriptions=None))
    assert Window((sample(consumer("a")), both)).span_least_ms is None
