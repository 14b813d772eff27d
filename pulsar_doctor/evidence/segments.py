"""The same subscription on the other segments of a scalable topic.

A stream consumer keeps the order of keys over a split: the broker assigns an active segment only
once all its sealed parents are drained (SubscriptionCoordinator.isAssignable). It checks whether
they are 2 s after a change, then after ever longer waits, at most 15 min. When its connection
breaks, a consumer keeps its segments for 60 s, in which nobody else gets them. Queue consumers
attach to all segments at once, active and sealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.segments import SegmentPlace, TopicSegment
from pulsar_doctor.broker.stats.topic import SubscriptionStats


@dataclass(frozen=True, slots=True)
class HeldOnSegment:
    """Unacknowledged messages of one consumer on a segment, by its name there."""

    consumer: str
    messages: int


@dataclass(frozen=True, slots=True)
class OnSegment:
    """The subscription on one segment."""

    segment: int
    type: str | None
    backlog: int | None  # entries
    attended: bool | None  # whether somebody is attached there
    quiet_seconds: float | None  # since an ack there, or since it was sealed; None: not known
    consumer: str | None  # the one that is attached, if it is one
    address: str | None
    held: tuple[HeldOnSegment, ...] = ()  # by each consumer there
    msg_rate_in: float | None = None  # of the segment, in the last full minute

    @property
    def drained(self) -> bool:
        """Whether nothing is left to acknowledge there."""
        return self.backlog == 0

    @property
    def ordered(self) -> bool:
        """Whether a stream consumer is attached there."""
        return bool(self.attended) and self.type in SINGLE_ACTIVE


def in_application(consumer: str | None, address: str | None, segment: int) -> str:
    """What the application calls a consumer of a segment; its address where it gave it no name.

    `worker` is `worker-seg-0` on segment 0; one without a name has another random name on each.
    """
    given = consumer or ""
    name = given.removesuffix(f"-seg-{segment}")
    return name if name != given else (address or given).lstrip("/")


@dataclass(frozen=True, slots=True)
class AmongSegments:
    """A segment among all of the topic."""

    segment: TopicSegment
    segments: tuple[TopicSegment, ...]
    own: OnSegment | None  # where the broker reports something
    others: tuple[OnSegment, ...]
    # Of a split or merge of this segment, not in the metadata yet.
    made: tuple[TopicSegment, ...] = ()

    def age_seconds(self, moment_ms: int | None) -> float | None:
        """For how long the segment has been there; None where nothing tells."""
        created_ms = self.segment.created_ms
        if created_ms is None or moment_ms is None:
            return None
        return max(0.0, (moment_ms - created_ms) / 1000)

    def active_of(self, segments: Iterable[OnSegment]) -> list[OnSegment]:
        """The active consumers among them that take messages."""
        active = {each.id for each in self.segments if each.active}
        return [each for each in segments if each.segment in active]

    @property
    def active_rates(self) -> list[float]:
        """Messages a second that each active segment receives; none where one is not reported."""
        known = self.active_of((*self.others, *([self.own] if self.own else ())))
        rates = [each.msg_rate_in for each in known if each.msg_rate_in is not None]
        return rates if len(rates) == sum(each.active for each in self.segments) else []

    @property
    def by_application(self) -> dict[str, list[OnSegment]]:
        """The segments of each stream consumer, by the name that the application gave it.

        Without one all on a host are one: a client has several connections to several brokers.
        """
        found: dict[str, list[OnSegment]] = {}
        for each in (self.own, *self.others):
            if each is not None and each.ordered:
                host = (each.address or "").rpartition(":")[0]
                name = in_application(each.consumer, host, each.segment)
                found.setdefault(name, []).append(each)
        return found

    def held_elsewhere(self, consumer: str | None) -> int:
        """Messages that the same application holds on other segments, as far as names tell."""
        name, seg, _ = (consumer or "").rpartition("-seg-")
        return sum(
            each.messages
            for other in self.others
            for each in other.held
            if seg and each.consumer == f"{name}-seg-{other.segment}"
        )

    @property
    def awaited(self) -> tuple[OnSegment, ...]:
        """The sealed parents that must be drained before a stream consumer gets this segment."""
        if not self.segment.active or not any(each.ordered for each in self.others):
            return ()
        return tuple(each for each in self.others if each.segment in self.segment.parents)


def among_segments(observed: Observed) -> AmongSegments | None:
    """What neighbours a segment has; None: the topic is no segment, or it is not reported."""
    place = observed.place
    if place is None:
        return None
    made = tuple(each for each in place.unlisted if _is_child(each, place.segment))
    own_id, all_of_them = place.segment.id, list(_on_each(observed, place))
    return AmongSegments(
        place.segment,
        tuple(place.segments.values()),
        next((each for each in all_of_them if each.segment == own_id), None),
        tuple(each for each in all_of_them if each.segment != own_id),
        made,
    )


def _is_child(made: TopicSegment, own: TopicSegment) -> bool:
    """Numbers only grow: one that is smaller is left of an ancestor."""
    overlap = made.hash_start <= own.hash_end and own.hash_start <= made.hash_end
    return own.active and overlap and made.id > own.id


def _on_each(observed: Observed, place: SegmentPlace) -> Iterator[OnSegment]:
    for number, stats in place.stats.items():
        own = (stats.subscriptions or {}).get(observed.subscription)
        if own is not None:
            sealed_ms = place.segments[number].sealed_ms
            there = _on_segment(number, own, sealed_ms, observed.window.last)
            yield replace(there, msg_rate_in=stats.msg_rate_in)


def _on_segment(
    number: int, own: SubscriptionStats, sealed_ms: int | None, last: Sample
) -> OnSegment:
    there = own.consumers
    moved_ms = own.last_mark_delete_advanced_timestamp_ms
    quiet = last.age(own.last_acked_timestamp_ms, moved_ms, sealed_ms)
    only = there[0] if there is not None and len(there) == 1 else None
    return OnSegment(
        number,
        own.type,
        own.msg_backlog,
        None if there is None else bool(there),
        None if quiet is None else quiet.seconds,
        None if only is None else only.consumer_name,
        None if only is None else only.address,
        tuple(
            HeldOnSegment(each.consumer_name, each.unacked_messages)
            for each in there or ()
            if each.consumer_name and each.unacked_messages
        ),
    )
