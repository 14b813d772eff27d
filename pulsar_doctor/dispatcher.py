"""Whether the broker reads for a subscription, and what keeps it from reading, by its stats.

The dispatcher reads entries for its consumers, one read at a time, and the end of a read starts the
next. The flags of the cursor in the internal stats tell what the read does; a healthy reader passes
through all of them, so that only the same picture in every sample says anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter

from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.internal import CursorStats
from pulsar_doctor.stats.observed import SINGLE_ACTIVE, Observed, entries_from
from pulsar_doctor.stats.sample import CLOCK_SLACK_MS, Age, Sample
from pulsar_doctor.stats.topic import ConsumerStats

THROTTLED = tuple(
    f"dispatch_throttled_{what}_events_by_{whose}_limit"
    for what in ("msg", "bytes")
    for whose in ("subscription", "topic", "broker")
)


class Face(Enum):
    """What the flags of one sample say of the dispatcher's read."""

    NONE_PENDING = "no read is pending"
    LOST = "a read is marked as pending that the cursor does not do"
    ASLEEP = "the cursor waits for new entries though there are some"
    UNDER_WAY = "a read is under way"


@dataclass(frozen=True, slots=True)
class Reading:
    """The broker's reading in one sample. unread, replay: entries, None where not told."""

    sample: Sample
    cursor: CursorStats
    unread: int | None
    replay: int | None

    @property
    def face(self) -> Face | None:
        """None where the flags are not told."""
        cursor = self.cursor
        pending, replays = (
            cursor.subscription_have_pending_read,
            cursor.subscription_have_pending_replay_read,
        )
        if pending is None or replays is None or cursor.pending_read_ops is None:
            return None
        if cursor.pending_read_ops > 0 or replays:  # the reads of a replay are not counted
            return Face.UNDER_WAY
        if not pending:
            return Face.NONE_PENDING
        if cursor.waiting_read_op is None:
            return None
        return Face.ASLEEP if cursor.waiting_read_op else Face.LOST


def may_receive(consumer: ConsumerStats) -> bool:
    """Whether it has permits, and no limit of unacknowledged messages holds it."""
    return (consumer.available_permits or 0) > 0 and not consumer.blocked_consumer_on_unacked_msgs


def moves(observed: Observed) -> bool:
    """Whether anything was delivered or read, or has been just now.

    Where the read position is not told over time, mark-delete may have moved with it (an entry
    filter); where it is told and stands, mark-delete shows acks of what was delivered before.
    """
    last = observed.window.last.age(observed.now.last_consumed_timestamp_ms)
    read = observed.cursor.moved(attrgetter("read_position"))
    skipped = observed.course.passed("last_mark_delete_advanced_timestamp_ms")
    return bool(
        observed.course.growth(attrgetter("msg_out_counter"))
        or any(standing.delivered for standing in standings(observed))
        or read
        or (read is None and skipped)
        or observed.course.passed("last_consumed_timestamp_ms")  # also where nothing could be sent
        or (last is not None and last.exact and last.ms <= CLOCK_SLACK_MS)
    )


def held_back(observed: Observed) -> bool:
    """Whether the stats show what keeps the broker from reading; other rules speak of these."""
    now = observed.now
    if now.blocked_subscription_on_unacked_msgs and observed.type not in SINGLE_ACTIVE:
        return True
    if any(observed.course.growth(attrgetter(name)) for name in THROTTLED):
        return True
    bound = observed.type == "Key_Shared" and (now.msg_in_replay or 0) > 0
    consumers = [standing.now for standing in standings(observed)]
    counts = (now.draining_hashes_count, *(each.draining_hashes_count for each in consumers))
    draining = any(count is not None and count > 0 for count in counts)
    return bound and (draining or not all(map(may_receive, consumers)))


def readings_of(observed: Observed) -> Iterator[Reading]:
    """One for each sample with internal stats of this subscription."""
    for sample in observed.window.samples:
        internal = sample.internal
        cursor = (internal.cursors or {}).get(observed.subscription) if internal else None
        if internal is None or cursor is None or cursor.read_position is None:
            continue
        subscription = (sample.topic.subscriptions or {}).get(observed.subscription)
        replay = subscription.msg_in_replay if subscription else None
        if observed.type in SINGLE_ACTIVE:
            replay = 0
        yield Reading(sample, cursor, entries_from(cursor.read_position, internal), replay)


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a doubt is judged by: who could receive, and each sample's reading."""

    observed: Observed
    ready: Sequence[Standing]
    readings: Sequence[Reading]
    limits: Mapping[str, float]

    @property
    def face(self) -> Face | None:
        """What all samples say; None where they differ or do not tell."""
        faces = {reading.face for reading in self.readings}
        return faces.pop() if len(faces) == 1 else None

    @property
    def unread_least(self) -> int:
        """Entries beyond the read position in every sample."""
        return min((reading.unread or 0 for reading in self.readings), default=0)

    @property
    def left_least(self) -> int:
        """Entries left to send in every sample."""
        return min(
            ((reading.unread or 0) + (reading.replay or 0) for reading in self.readings), default=0
        )

    @property
    def last_alone_tells(self) -> bool:
        """Whether the topic's samples show the standstill, and the last one's flags how it came."""
        window, limits = self.observed.window, self.limits
        if self.readings[-1].sample is not window.last or self.unread_before <= 0:
            return False
        span = (window.span_ms or 0) / 1000
        looked = len(window.samples) >= limits["samples"] and span >= limits["still_for"]
        return looked or span >= limits["retried_within"]

    @property
    def span(self) -> float | None:
        """Seconds from the first sample with internal stats to the last; None: not told."""
        first, last = self.readings[0].sample, self.readings[-1].sample
        told = first.now_told and last.now_told
        if told and first.now_ms is not None and last.now_ms is not None:
            return (last.now_ms - first.now_ms) / 1000
        interval = self.observed.window.interval_ms
        return None if interval is None else (len(self.readings) - 1) * interval / 1000

    @property
    def unread_before(self) -> int:
        """Entries beyond the read position since the window began, at least: not new ones."""
        came = self.observed.window.topic().growth(attrgetter("msg_in_counter"))
        return 0 if came is None else self.unread_least - came

    @property
    def asked(self) -> Age | None:
        """Since the last of those that could receive connected or asked."""
        connected = [standing.now.connected_since_ms for standing in self.ready]
        flows = [standing.now.last_consumed_flow_timestamp_ms for standing in self.ready]
        return self._since_last([*connected, *flows])

    @property
    def stands(self) -> float:
        """Seconds for which nothing was sent or asked for, at least."""
        sent = self._since_last(
            [standing.now.last_consumed_timestamp_ms for standing in self.ready]
        )
        ages = [age.ms / 1000 for age in (sent, self.asked) if age is not None]
        return max(min(ages, default=0.0), self.span or 0.0)

    def _since_last(self, moments: Sequence[int | None]) -> Age | None:
        last = max((moment for moment in moments if moment is not None), default=None)
        return self.observed.window.last.age(last)


def ready_throughout(standing: Standing) -> bool:
    """Whether it could receive in every sample."""
    values = standing.course.values
    observed = len(standing.observed.window.samples)
    return len(values) == observed and all(v is not None and may_receive(v) for v in values)
