"""Timelines of subscriptions and their consumers from a broker's statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats
from pulsar_doctor.broker.stats.window import Course
from pulsar_doctor.checkup.timelines.timeline import (
    DRAWN_MOST,
    SHOWN_MOST,
    ConsumerTimeline,
    Moved,
    Point,
    Recording,
    Slots,
    StepPoints,
    SubscriptionTimeline,
    Timelines,
    drawn,
    in_all,
    points_of,
)
from pulsar_doctor.wording.printable import many


def timelines_of_samples(those: Iterable[Observed]) -> Timelines:
    """For each subscription the backlog, and the permits of each consumer in the last sample."""
    subscriptions, recordings, missing = [], [], Counter[str]()
    for observed in those:
        moments = [sample.now_ms for sample in observed.window.samples]
        times = [ms * 1000 for ms in moments if ms is not None]
        if len(times) < max(2, len(moments)):
            unknown = "it is not known when the statistics were taken"
            missing[unknown if None in moments else "one sample shows nothing over time"] += 1
            continue
        subscriptions.append(_subscription(observed, times))
        recordings += [_consumer(observed, each, times) for each in observed.consumers]
    recordings.sort(key=_longest)
    for others in recordings[DRAWN_MOST:]:
        others.lines = False
    found = drawn(recordings[:SHOWN_MOST])
    return replace(
        found,
        subscriptions=tuple(subscriptions[:DRAWN_MOST]),
        left_out=max(0, len(recordings) - SHOWN_MOST),
        notes=tuple(f"{many(n, 'subscription')} not drawn: {why}" for why, n in missing.items()),
    )


def _longest(made: Recording) -> tuple[int, int]:
    """Who was longest without permits first, then who holds most."""
    return -in_all(made.starved.values()).longest_us, -((*made.last, 0, 0)[1] or 0)


def _subscription(observed: Observed, times: list[int]) -> SubscriptionTimeline:
    def line(read: Callable[[SubscriptionStats], int | None]) -> tuple[Point, ...]:
        """A number in every sample; empty where none reports it."""
        values = [None if stats is None else read(stats) for stats in observed.course.values]
        points: Slots[StepPoints] = Slots()
        for point in zip(times, values, strict=False):
            points.add(StepPoints((point,)))
        return points_of(points) if any(value is not None for value in values) else ()

    of = observed.key
    return SubscriptionTimeline(
        *of, line(lambda stats: stats.msg_backlog), line(lambda stats: stats.unacked_messages)
    )


def _consumer(observed: Observed, course: Course[ConsumerStats], times: list[int]) -> Recording:
    """If others are like this consumer, only the last sample counts.

    It is without permits from the first sample without to the next one with some, or to the last.
    """
    values = zip(times[-len(course.values) :], course.values, strict=True)
    there = [(us, stats) for us, stats in values if stats is not None]
    (since_us, _), (until_us, last) = there[0], there[-1]
    name, address = last.consumer_name or "consumer without a name", last.address or ""
    of = observed.full_topic, observed.subscription, name, address.lstrip("/"), since_us
    made = Recording(ConsumerTimeline(*of, sampled=True), acknowledged=None)
    for us, stats in there:
        permits = stats.available_permits
        made.is_at(us, permits, stats.unacked_messages)
        if permits is not None and permits <= 0:
            made.without_permits(us)
        else:
            made.end_starvation(made.starved_seen_us if permits is None else us)
    made.finish(until_us)
    _deliveries(made, there)
    return made


def _deliveries(made: Recording, there: list[tuple[int, ConsumerStats]]) -> None:
    """What the counter of deliveries grew by from one sample to the next."""
    made.delivered = None
    for (since_us, before), (until_us, after) in pairwise(there):
        if before.msg_out_counter is None or after.msg_out_counter is None:
            continue
        grown = max(0, after.msg_out_counter - before.msg_out_counter)
        made.delivered = (made.delivered or 0) + grown
        if grown:
            made.moved.add(Moved(since_us, until_us, delivered=grown))
