"""One subscription over a window of samples, and how many entries are left to send.

Entries and messages are different things: the backlog counts entries, unacknowledged messages are
messages, and how many messages an entry holds is only known on average. So what is left to send
is a range of entries, from `least` to `most`; the two are equal where the internal stats tell the
read position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog, backlog_of, is_durable
from pulsar_doctor.broker.stats.bounds import sentence
from pulsar_doctor.broker.stats.cursors import CursorOwner, judged_cursors, owner_of
from pulsar_doctor.broker.stats.fields import shown
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.positions import (
    entries_from,
    nothing_waits,
    ranges_of,
    unread_of,
)
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.segments import SegmentPlace
from pulsar_doctor.broker.stats.topic import ConsumerStats, ReplicatorStats, SubscriptionStats
from pulsar_doctor.broker.stats.transactions import NO_TRANSACTIONS, Transactions
from pulsar_doctor.broker.stats.window import Course, Window
from pulsar_doctor.ledger.defaults import RANGES, by_default, version_of
from pulsar_doctor.ledger.topics import AboutSubscription, AboutTopic

SINGLE_ACTIVE = frozenset({"Exclusive", "Failover"})
SHARING = frozenset({"Shared", "Key_Shared"})


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """What the cluster allows; None where not reported. 0 of an unacked limit is no limit."""

    max_unacked_messages_per_consumer: int | None = None
    max_unacked_messages_per_subscription: int | None = None
    max_unacked_ranges_to_persist: int | None = None
    # Of this broker version, where nothing else is set.
    unacked_ranges_by_default: int | None = None
    # Of a topic that falls behind; 0 and below are no limit.
    backlog_quota_bytes: int | None = None
    backlog_quota_seconds: int | None = None
    backlog_quota_policy: str | None = None
    message_ttl_seconds: int | None = None

    def on(self, broker_version: str | None) -> ClusterLimits:
        """With what this version does by default; the same where it is no version."""
        version = version_of(broker_version)
        if version is None:
            return self
        return replace(self, unacked_ranges_by_default=by_default(RANGES, version))


NO_LIMITS = ClusterLimits()
BACKLOG = attrgetter("msg_backlog")


class Between(NamedTuple):
    """A number of entries of which only the bounds are known; both are possible."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class TopicWindow(AboutTopic):
    """The samples of one topic, or of one partition."""

    topic: str  # without the partition
    partition: int | None
    window: Window
    limits: ClusterLimits = NO_LIMITS
    # When the last may have been taken, if not known; no finding rests on that.
    guess_ms: int | None = None
    place: SegmentPlace | None = None  # of a segment, in its scalable topic
    summed: bool = False  # whether each number is that of all partitions together
    # Subscriptions that have consumers on other partitions of the topic, as far as these were read.
    elsewhere: frozenset[str] = frozenset()
    transactions: Transactions = NO_TRANSACTIONS

    @property
    def attended(self) -> frozenset[str]:
        """Subscriptions that have consumers here in the last sample."""
        here = self.window.last.topic.subscriptions or {}
        return frozenset(name for name, stats in here.items() if stats.consumers)

    def subscriptions(self) -> Iterator[Observed]:
        """Each subscription of the last sample, in its order."""
        for name in self.window.last.topic.subscriptions or {}:
            yield self._observed(name, self.window)

    def judged(self) -> Iterator[Observed]:
        """The same, and the cursors of replicators and of compaction, as far as they are reported.

        A broker reports no subscription for these: they are seen as one of which nothing is
        reported.
        """
        yield from self.subscriptions()
        names = own_cursors(self.window.last)
        if names:
            window = self.window.beside(names)
            for name in names:
                yield self._observed(name, window)

    def _observed(self, name: str, window: Window) -> Observed:
        return Observed(
            self.topic,
            self.partition,
            name,
            window,
            self.limits,
            self.place,
            self.summed,
            name in self.elsewhere,
            self.transactions,
        )


@dataclass(frozen=True)  # no slots: derived values are cached
class Observed(AboutSubscription):
    """One subscription, as it is in the last sample of the window, and how it came there."""

    topic: str
    partition: int | None
    subscription: str
    window: Window
    limits: ClusterLimits = NO_LIMITS
    place: SegmentPlace | None = None
    summed: bool = False
    elsewhere: bool = False  # whether it has consumers on other partitions
    transactions: Transactions = NO_TRANSACTIONS

    @cached_property
    def course(self) -> Course[SubscriptionStats]:
        """The subscription over the window."""
        return self.window.subscription(self.subscription)

    @cached_property
    def consumers(self) -> tuple[Course[ConsumerStats], ...]:
        """Each consumer of the last sample over the window."""
        return self.window.consumers(self.subscription)

    @cached_property
    def replicator(self) -> Course[ReplicatorStats]:
        """The replicator over the window, where the cursor belongs to one."""
        return self.window.replicator(self.owner.of or "")

    @cached_property
    def cursor(self) -> Course[CursorStats]:
        """The subscription's cursor over the window, as far as there are internal stats."""
        return self.window.cursor(self.subscription)

    @cached_property
    def backlog(self) -> Backlog:
        """What waits for it in the last sample."""
        samples = self.window.samples[-1:] if self.course.broken else self.window.samples
        return backlog_of(samples, self.subscription, self.acknowledged_ranges)

    @property
    def backlog_change(self) -> int | None:
        """By how many entries the counter rose in the window; None also where that is wrong."""
        return None if self.backlog.wrong else self.course.change(BACKLOG)

    @cached_property
    def published(self) -> int | None:
        """Messages that were published in the window."""
        return self.window.topic().growth(attrgetter("msg_in_counter"))

    @property
    def backlog_lost(self) -> int | None:
        """Entries that the backlog lost in the window: what came, less what it rose by."""
        added, risen = self.published, self.course.change(BACKLOG)
        return None if added is None or risen is None else max(0, added - risen)

    @property
    def mark_delete_moved(self) -> bool:
        """Whether mark-delete is known to have moved in the window."""
        by_cursor = self.cursor.moved(attrgetter("mark_delete_position"))
        return bool(by_cursor or self.course.passed("last_mark_delete_advanced_timestamp_ms"))

    @cached_property
    def now(self) -> SubscriptionStats:
        """The subscription in the last sample."""
        last = self.course.values[-1]
        assert last is not None
        return last

    @cached_property
    def names(self) -> Counter[str | None]:
        """How many consumers of the last sample have each name."""
        return Counter(each.consumer_name for each in self.now.consumers or ())

    @property
    def hides_partitions(self) -> bool:
        """Whether it is a sum in which the backlog of a partition may be that of a stuck one.

        Where the sum was 0 once, every partition was at its end then.
        """
        seen = (each for each in self.course.values if each is not None)
        return self.summed and not any(each.msg_backlog == 0 for each in seen)

    @property
    def owner(self) -> CursorOwner:
        """Who owns the subscription's cursor."""
        return owner_of(self.subscription, clusters=self.window.last.topic.replication or ())

    @cached_property
    def type(self) -> str | None:
        """Exclusive, Shared, Failover or Key_Shared; None where nobody attached or not reported."""
        if self.now.type is None and _orders_keys(self.now):
            return "Key_Shared"
        return None if self.now.type in (None, "None") else self.now.type

    @property
    def one_sample(self) -> bool:
        """Whether movement cannot be judged: one sample, or a load in between."""
        return len(self.course.values) < 2 or self.course.broken

    @property
    def watched_seconds(self) -> float | None:
        """How long the window is, where movement can be seen in it."""
        span_ms = None if self.one_sample else self.window.span_ms
        return None if span_ms is None else span_ms / 1000

    @property
    def persistent(self) -> bool | None:
        """Whether the broker keeps its messages; None where that is not reported.

        A cursor of a persistent topic has positions, whatever happened to it.
        """
        scheme, named, _ = self.topic.partition("://")
        if named:
            return scheme != "non-persistent"
        return False if self._has_no_positions else None

    @property
    def _has_no_positions(self) -> bool:
        """Whether internal statistics are those of a topic that stores nothing."""
        cursor, internal = self.cursor_now, self.internal
        if cursor is None or internal is None or internal.number_of_entries != 0:
            return False
        nowhere = cursor.mark_delete_position is None and cursor.read_position is None
        return nowhere and internal.last_confirmed_entry is None and not internal.ledgers

    @property
    def internal(self) -> InternalStats | None:
        """The internal stats of the last sample."""
        return self.window.last.internal

    @property
    def cannot_be(self) -> tuple[str, ...]:
        """What was reported and is impossible, in any sample: a sentence for each."""
        reasons = [line for sample in self.window.samples for line in sample.topic.cannot_be]
        for stats in self.course.values:
            if stats is not None:
                reasons += stats.cannot_be
                reasons += [line for each in stats.consumers or () for line in each.cannot_be]
        counter = self.backlog.counter
        if counter is not None and counter < 0 and self.backlog.entries is None:
            reasons.append(sentence(f"msgBacklog of {shown(self.subscription)}", counter))
        unacked = self.now.unacked_messages or 0
        if self.type in SINGLE_ACTIVE and unacked < 0:  # where no broker counts any
            reasons.append(sentence(f"unackedMessages of {shown(self.subscription)}", unacked))
        return tuple(dict.fromkeys(reasons))

    @cached_property
    def cursor_now(self) -> CursorStats | None:
        """The cursor in the last sample; None where it is not reported."""
        return self.window.last.cursor(self.subscription)

    @property
    def durable(self) -> bool | None:
        """Whether the broker keeps its place; None where not reported."""
        return is_durable(self.now, self.cursor_now)

    @cached_property
    def nothing_waits(self) -> bool:
        """Whether the cursor shows that all is acknowledged, and no count of messages denies it.

        A counter of the backlog that says otherwise is wrong, or of another moment.
        """
        cursor, internal = self.cursor_now, self.internal
        if cursor is None or internal is None or not nothing_waits(internal, cursor):
            return False
        return self._nothing_counted

    @property
    def _nothing_counted(self) -> bool:
        """Whether no count of messages shows any that wait or are held."""
        now = self.now
        counted = [now.unacked_messages, *(each.unacked_messages for each in now.consumers or ())]
        return not now.msg_in_replay and not any((count or 0) > 0 for count in counted)

    @property
    def read_armed(self) -> bool | None:
        """Whether the cursor reads, or waits for entries: a consumer is there and requested some.

        When the last one leaves, the broker ends that read. None where it is not reported.
        """
        cursor = self.cursor_now
        pending = None if cursor is None else (cursor.waiting_read_op, cursor.pending_read_ops)
        return None if pending is None or pending == (None, None) else any(pending)

    @cached_property
    def left(self) -> Between | None:
        """Entries that could be sent now if a consumer had permits; None where not reported."""
        counted_empty = self.backlog.counter is None or self._nothing_counted
        if self.nothing_waits or (self.backlog.empty and counted_empty):
            return Between(0, 0)
        unread, now, entries = self.unread, self.now, self.backlog.entries
        if self.type in SINGLE_ACTIVE:
            if unread is not None:
                return Between(unread, unread)
            return None if entries is None else self._rest_of(max(0, entries))
        by_backlog = self._left_by_backlog()
        if unread is None:
            return by_backlog
        if now.msg_in_replay is not None:
            return Between(unread + now.msg_in_replay, unread + now.msg_in_replay)
        most = max(unread, by_backlog.most) if by_backlog else None
        return None if most is None else Between(unread, most)

    @property
    def since_delivery(self) -> Age | None:
        """Since a consumer was sent anything, or the broker tried to; None: not reported."""
        return self.window.last.age(self.now.last_consumed_timestamp_ms)

    @cached_property
    def unread(self) -> int | None:
        """Entries that the cursor has to read yet; None without internal stats."""
        cursor, internal = self.cursor_now, self.internal
        return None if cursor is None or internal is None else unread_of(internal, cursor)

    @property
    def open_transactions(self) -> int | None:
        """Transactions that producers on the topic have open; None: not reported."""
        return 0 if self.transactions.none else self.window.last.topic.ongoing_txn_count

    @property
    def unreadable(self) -> int | None:
        """How many of these entries an open transaction of a producer hides; None: unknown."""
        position, internal, unread = (
            self.transactions.max_read_position,
            self.internal,
            self.unread,
        )
        if position is None or internal is None or unread is None:
            return None
        behind = entries_from((position[0], position[1] + 1), internal)
        return None if behind is None else min(unread, behind)

    @property
    def may_be_pending(self) -> bool:
        """Whether entries were read that a transaction may have acknowledged, and not yet for good.

        Of a single active consumer that is what it holds, otherwise what nobody holds for certain.
        """
        now, unread, held = self.now, self.unread, self.held
        if unread is None or held is None or not now.consumers:
            return False
        waits = (now.msg_delayed or 0) + (now.msg_in_replay or 0)
        known = 0 if self.type in SINGLE_ACTIVE else waits + held.least
        return (self.backlog.entries or 0) - unread > known

    def _rest_of(self, entries: int) -> Between:
        """What the one active consumer has not been sent of so many entries."""
        held = self._held_by_cursor() or self._held_of(entries)
        return Between(max(0, entries - held.most), max(0, entries - held.least))

    def _held_of(self, entries: int) -> Between:
        """By what was ever sent to the present consumers: a new active one begins anew."""
        consumers = self.now.consumers
        sent = [None] if consumers is None else [each.msg_out_counter for each in consumers]
        most = entries if None in sent else min(entries, sum(each or 0 for each in sent))
        return Between(0, max(0, most))

    def _held_by_cursor(self) -> Between | None:
        """Entries that were read and not acknowledged, where both positions are in one ledger.

        Those in acknowledged ranges count for the upper bound where the ranges are not reported.
        """
        cursor = self.cursor_now
        if cursor is None or cursor.read_position is None or cursor.mark_delete_position is None:
            return None
        (ledger, read), (done_ledger, done) = cursor.read_position, cursor.mark_delete_position
        if ledger != done_ledger:
            return None
        sent = max(0, read - done - 1)
        ranges = ranges_of(cursor)
        if ranges is None and self.acknowledged_ranges != 0:
            return Between(0, sent)
        acked = sum(
            min(end, read - 1) - begin
            for _, begin, _, end in ranges or ()
            if done <= begin < read - 1
        )
        return Between(max(0, sent - acked), max(0, sent - acked))

    def _left_by_backlog(self) -> Between | None:
        """By the backlog, less what is not due, less what consumers hold."""
        now, entries, held = self.now, self.backlog.entries, self.held
        if entries is None or now.unacked_messages is None or held is None:
            return None
        due = max(0, entries - (now.msg_delayed or 0))
        replay = min(due, now.msg_in_replay or 0)
        return Between(max(replay, due - held.most), max(replay, due - held.least))

    @cached_property
    def held(self) -> Between | None:
        """Entries that consumers hold unacknowledged; None where not reported."""
        now, unread, entries = self.now, self.unread, self.backlog.entries
        if self.nothing_waits:
            return Between(0, 0)
        if self.type in SINGLE_ACTIVE:
            if unread is not None and entries is not None:
                held = max(0, entries - unread)
                return Between(held, held)
            by_cursor = self._held_by_cursor()
            if by_cursor is not None or entries is None:
                return by_cursor
            return self._held_of(entries)
        if now.unacked_messages is None:
            return None
        messages = max(0, now.unacked_messages)
        return Between(-(-messages // self._entry_messages), messages)

    @cached_property
    def acknowledged_ranges(self) -> int | None:
        """Acknowledged ranges after mark-delete, in the last sample; None: not reported."""
        reported, cursor = self.now.non_contiguous_deleted_messages_ranges, self.cursor_now
        if reported is not None or cursor is None:
            return reported
        if cursor.total_non_contiguous_deleted_messages_range is not None:
            return cursor.total_non_contiguous_deleted_messages_range
        ranges = ranges_of(cursor)
        return None if ranges is None else len(ranges)

    @cached_property
    def _entry_messages(self) -> int:
        """Messages in an entry, about the most."""
        there = (course.values[-1] for course in self.consumers)
        each = [consumer.entry_messages_most for consumer in there if consumer is not None]
        known = [most for most in each if most is not None]
        return max(known) if known and len(known) == len(each) else 1_000_000


def own_cursors(last: Sample) -> tuple[str, ...]:
    """Names of the broker's own cursors that are judged, and that are no subscription."""
    clusters = tuple(last.topic.replication or ())
    known = () if last.internal is None else tuple(last.internal.cursors or ())
    names = judged_cursors(known, clusters)
    return tuple(name for name in names if name not in (last.topic.subscriptions or {}))


def _orders_keys(now: SubscriptionStats) -> bool:
    """Whether something is reported that a broker reports for Key_Shared alone."""
    each = now.consumers or ()
    drains = any(consumer.draining_hashes or consumer.draining_hashes_count for consumer in each)
    return bool(now.consumers_after_mark_delete_position or now.draining_hashes_count or drains)
