"""What changed between the first and last sample of a topic, and what cannot be compared.

A window is judged by differences of counters, positions and moments, never by the broker's rates.
All of these restart when the topic is loaded anew (unload, restart, another broker) or when the
subscription is made anew; a difference over such a reset is None, never a guess and never negative.

How a reset of the topic is seen, between any two samples that follow each other:
- a consumer or producer that is there in both, with the same connectedSince, proves that there was
  none: the broker closes every connection's consumers and producers when it unloads a topic;
- otherwise a counter that fell, another owner, or connections of which none is left, speak for one.
A counter of one subscription that fell by itself is a reset of that subscription alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Generic, TypeVar

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.sample import MOMENTS, Moment, Sample
from pulsar_doctor.broker.stats.topic import (
    ConsumerStats,
    PublisherStats,
    ReplicatorStats,
    SubscriptionStats,
    TopicStats,
)
from pulsar_doctor.errors import InputError

T = TypeVar(
    "T",
    ConsumerStats,
    SubscriptionStats,
    CursorStats,
    TopicStats,
    InternalStats,
    ReplicatorStats,
)
R = TypeVar("R")
MINUTE = 60.0  # seconds, of which the broker's rates are
RATE_SECONDS = 120.0  # so old a rate may be: it is of a full minute, and stays until the next
SHORT_MS = 60_000  # a window that is no longer shows what moves now
Identity = tuple[str | None, str, str | None]  # name, connectedSince, address


@dataclass(frozen=True)  # no slots: derived values are cached
class Course(Generic[T]):
    """One subscription, consumer or cursor over a window."""

    values: tuple[T | None, ...]  # one for each sample that reports it, None: it was not there
    reset: bool = False  # whether its counters and moments started anew within the window

    @cached_property
    def broken(self) -> bool:
        """Whether first and last cannot be compared: a reset, a gap, or fewer than two values."""
        return self.reset or len(self.values) < 2 or None in self.values

    def growth(self, read: Callable[[T], int | None]) -> int | None:
        """By how much a counter grew; None where not reported, or where it fell on the way."""
        series = self._series(read)
        if series is None or any(after < before for before, after in pairwise(series)):
            return None
        return series[-1] - series[0]

    def change(self, read: Callable[[T], int | None]) -> int | None:
        """By how much a number that may fall (unacked, backlog, permits) is higher at the end."""
        series = self._series(read)
        return None if series is None else series[-1] - series[0]

    def moved(self, read: Callable[[T], object]) -> bool | None:
        """Whether a position, flag or number ever differed from the sample before it."""
        series = self._series(read)
        if series is None:
            return None
        return any(before != after for before, after in pairwise(series))

    def passed(self, moment: Moment) -> bool | None:
        """Whether a moment came (again) within the window; None where not reported or set back."""

        def read(value: T) -> int | None:
            if moment in getattr(value, "never", ()):
                return 0
            reported: int | None = getattr(value, moment)
            return reported

        grown = self.growth(read)
        return None if grown is None else grown > 0

    def _series(self, read: Callable[[T], R | None]) -> list[R] | None:
        if self.broken:
            return None
        reported = [read(value) for value in self.values if value is not None]
        if reported[0] is None or reported[-1] is None:
            return None
        return [value for value in reported if value is not None]


@dataclass(frozen=True)  # no slots: derived values are cached
class Window:
    """Samples of one topic or partition, in order of time. Raises InputError on none or disorder.

    Two samples may be of the same moment: a Date has steps of one second.
    """

    given: tuple[Sample, ...]
    interval_ms: int | None = field(default=None, kw_only=True)  # how far apart, without a clock

    def __post_init__(self) -> None:
        if not self.given:
            raise InputError("a window needs at least one sample")
        times = [sample.taken_ms for sample in self.given if sample.taken_ms is not None]
        if any(after < before for before, after in pairwise(times)):
            raise InputError("the samples are not in order of time; give the oldest first")

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The samples; with an interval, those that do not tell when have a `not_before_ms`."""
        interval_ms = self.interval_ms
        return self.given if interval_ms is None else tuple(spaced(self.given, interval_ms))

    @cached_property
    def reset(self) -> bool:
        """Whether the topic seems to have been loaded anew within the window."""
        return any(reloaded(before, after) for before, after in pairwise(self.samples))

    @cached_property
    def signs(self) -> Mapping[str, int]:
        """Address of a connection -> when anybody on it last acknowledged, requested more or
        connected, in epoch milliseconds."""
        return _signs(self.last.topic)

    @property
    def first(self) -> Sample:
        """The oldest sample."""
        return self.samples[0]

    @property
    def last(self) -> Sample:
        """The newest sample, to which ages and verdicts refer."""
        return self.samples[-1]

    @cached_property
    def span_ms(self) -> int | None:
        """From the first sample to the last; None where neither a clock nor `interval_ms` tells.

        By the broker's clock, or by another one that is reported for both.
        """
        first, last = self.first, self.last
        by_now = (first.now_ms, last.now_ms) if first.now_known and last.now_known else (None, None)
        for began, ended in (by_now, (first.taken_ms, last.taken_ms)):
            if began is not None and ended is not None:
                return max(0, ended - began)
        return None if self.interval_ms is None else (len(self.samples) - 1) * self.interval_ms

    @property
    def is_short(self) -> bool:
        """Whether all of it is known to be within a minute: what moved in it moved lately."""
        return self.span_ms is not None and self.span_ms <= SHORT_MS

    @property
    def span_least_ms(self) -> int | None:
        """The same, at least: also by moments that came between them; None where nothing tells."""
        span = self.span_ms
        return self._least_ms_since(0) if span is None else span

    def seconds_since(self, at: int) -> float | None:
        """From that sample to the last, at least; None where nothing tells."""
        least = self._least_ms_since(at)
        return None if least is None else least / 1000

    def _least_ms_since(self, at: int) -> int | None:
        since, now = self.samples[at], self.last.now_ms
        if since.now_known and since.now_ms is not None and now is not None:
            return max(0, now - since.now_ms)
        if self.interval_ms is not None:
            return (len(self.samples) - 1 - at) * self.interval_ms
        # What is new in a later sample came after this one was taken.
        came = [moment for later in self.samples[at + 1 :] for moment in came_since(since, later)]
        return max(0, now - min(came)) if came and now is not None else None

    def beside(self, names: Iterable[str]) -> Window:
        """The same, with more subscriptions, of which the stats tell nothing."""
        bare = dict.fromkeys(names, SubscriptionStats())
        samples = (
            replace(
                s, topic=replace(s.topic, subscriptions={**(s.topic.subscriptions or {}), **bare})
            )
            for s in self.samples
        )
        return Window(tuple(samples), interval_ms=self.interval_ms)

    def replicator(self, cluster: str) -> Course[ReplicatorStats]:
        """The replicator to one remote cluster."""
        values = ((sample.topic.replication or {}).get(cluster) for sample in self.samples)
        return Course(tuple(values), self.reset)

    def topic(self) -> Course[TopicStats]:
        """The topic itself."""
        return Course(tuple(sample.topic for sample in self.samples), self.reset)

    def subscription(self, name: str) -> Course[SubscriptionStats]:
        """One subscription."""
        values = tuple(sample.subscription(name) for sample in self.samples)
        fell = any(
            subscription_fell(before, after)
            for before, after in pairwise(values)
            if before is not None and after is not None
        )
        return Course(values, self.reset or fell)

    def cursor(self, name: str) -> Course[CursorStats]:
        """The cursor of one subscription, over the samples with internal stats."""
        values = tuple(sample.cursor(name) for sample in self.samples if sample.internal)
        return Course(values, self.reset or self.subscription(name).reset)

    def consumers(self, name: str) -> tuple[Course[ConsumerStats], ...]:
        """Each consumer of the last sample, in its order, as it was in every sample.

        One that came within the window has None before. One that reconnected is another consumer.
        One without a telling identity has a course of its last value alone.
        """
        listed = [consumers_of(sample, name) or () for sample in self.samples]
        known = [by_identity(consumers) for consumers in listed]
        courses = []
        for consumer in listed[-1]:
            key = identity(consumer)
            if key is None or key not in known[-1]:
                courses.append(Course((consumer,)))
            else:
                courses.append(Course(tuple(found.get(key) for found in known)))
        return tuple(courses)

    def left(self, name: str) -> tuple[ConsumerStats, ...] | None:
        """Consumers of earlier samples that are not in the last, as last seen; None: unknown."""
        last = consumers_of(self.last, name)
        if last is None or None in (still := [identity(consumer) for consumer in last]):
            return None
        seen: dict[Identity, ConsumerStats] = {}
        for sample in self.samples:
            seen |= by_identity(consumers_of(sample, name) or ())
        return tuple(consumer for key, consumer in seen.items() if key not in still)


def spaced(samples: Iterable[Sample], interval_ms: int) -> Iterator[Sample]:
    """The samples, each at least `interval_ms` after the one before where it tells no time."""
    earliest: int | None = None
    for sample in samples:
        untold = sample.taken_ms is None and earliest is not None
        placed = replace(sample, not_before_ms=earliest) if untold else sample
        earliest = None if placed.now_ms is None else placed.now_ms + interval_ms
        yield placed


def came_since(before: Sample, after: Sample) -> Iterator[int]:
    """Moments of the later reading that cannot have been before the earlier one was taken."""
    connected = set(connections(before.topic))
    for name, subscription in (after.topic.subscriptions or {}).items():
        was = before.subscription(name)
        if was is None or was.consumers is None:
            continue
        yield from _changed(was, subscription)
        earlier = by_connection(was.consumers)
        for key, consumer in by_connection(subscription.consumers or ()).items():
            if key in earlier:
                yield from _changed(earlier[key], consumer)
            elif key not in connected and consumer.connected_since_ms is not None:
                yield consumer.connected_since_ms


def _changed(
    before: ConsumerStats | SubscriptionStats, after: ConsumerStats | SubscriptionStats
) -> Iterator[int]:
    """Moments that came again, or for the first time; not those that an older load had."""
    for moment in MOMENTS:
        now, was = getattr(after, moment, None), getattr(before, moment, None)
        known = was is not None or moment in before.never
        if now is not None and known and (was is None or now > was):
            yield now


def reloaded(before: Sample, after: Sample) -> bool:
    """Whether the topic seems to have been loaded anew between two samples that follow."""
    connected = set(connections(before.topic))
    if connected & set(connections(after.topic)):
        return False
    owners = (before.topic.owner_broker, after.topic.owner_broker)
    if None not in owners and owners[0] != owners[1]:
        return True
    return bool(connected) or any(topic_counters_fell(before, after))


def topic_counters_fell(before: Sample, after: Sample) -> Iterator[bool]:
    """For each counter of the topic, whether it fell."""
    yield fell(before.topic.msg_in_counter, after.topic.msg_in_counter)
    yield fell(before.topic.bytes_in_counter, after.topic.bytes_in_counter)
    if before.internal is not None and after.internal is not None:
        yield fell(before.internal.entries_added_counter, after.internal.entries_added_counter)


def subscription_fell(before: SubscriptionStats, after: SubscriptionStats) -> bool:
    """Whether a counter of the subscription fell, or a moment that had come has never come."""
    if fell(before.msg_out_counter, after.msg_out_counter):
        return True
    return any(getattr(before, moment) is not None and moment in after.never for moment in MOMENTS)


def fell(before: int | None, after: int | None) -> bool:
    """Whether a counter fell; False where it is not reported."""
    return before is not None and after is not None and after < before


def consumers_of(sample: Sample, name: str) -> Sequence[ConsumerStats] | None:
    """The consumers of a subscription in a sample; None where they are not reported."""
    subscription = sample.subscription(name)
    return None if subscription is None else subscription.consumers


def identity(consumer: ConsumerStats | PublisherStats) -> Identity | None:
    """What makes a consumer one incarnation; None where connectedSince is not reported.

    Metrics have its number within a connection instead. It is another incarnation, too, where its
    counter falls, which leaves no difference to judge by.
    """
    if not consumer.connected_since:
        if not isinstance(consumer, ConsumerStats) or consumer.consumer_id is None:
            return None
        return consumer.consumer_name, f"number {consumer.consumer_id}", None
    name = consumer.consumer_name if isinstance(consumer, ConsumerStats) else consumer.producer_name
    return name, consumer.connected_since, consumer.address


def by_connection(consumers: Iterable[ConsumerStats]) -> dict[Identity, ConsumerStats]:
    """The same, of those that report since when: with the same key it has never been away."""
    return by_identity(each for each in consumers if each.connected_since)


def by_identity(consumers: Iterable[ConsumerStats]) -> dict[Identity, ConsumerStats]:
    """Consumers by their identity; those that share one are left out."""
    found: dict[Identity, ConsumerStats] = {}
    twice: set[Identity] = set()
    for consumer in consumers:
        key = identity(consumer)
        if key is not None:
            twice |= {key} & found.keys()
            found[key] = consumer
    return {key: consumer for key, consumer in found.items() if key not in twice}


def connections(topic: TopicStats) -> Iterator[Identity]:
    """The identities of all consumers and producers of a topic."""
    for publisher in topic.publishers or ():
        key = identity(publisher)
        if key is not None:
            yield key
    for subscription in (topic.subscriptions or {}).values():
        yield from by_connection(subscription.consumers or ())


def strangers(one: TopicStats, other: TopicStats) -> bool:
    """Whether both list connections and none is in both: nothing shows that they are one topic."""
    before, after = {*connections(one)}, {*connections(other)}
    return bool(before and after) and before.isdisjoint(after)


def _signs(topic: TopicStats) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for subscription in (topic.subscriptions or {}).values():
        for consumer in subscription.consumers or ():
            address, sign = consumer.address, consumer.last_sign_ms
            if address is not None and sign is not None:
                found[address] = max(found.get(address, sign), sign)
    return found
