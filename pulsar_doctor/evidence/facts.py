"""Facts of the broker's documents that are not numbers of the view, sample by sample.

No cause rests on these: the fingerprints of known issues need them (see docs/known-issues.md).
None is "not reported" everywhere. A number of several samples can be compared with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partialmethod
from operator import attrgetter, itemgetter
from typing import Any

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.positions import ranges_of
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import ConsumerStats, SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Course


@dataclass(frozen=True, slots=True)
class Documents:
    """What one sample reports of a subscription, and of one of its consumers."""

    sample: Sample
    subscription: SubscriptionStats | None
    cursor: CursorStats | None
    consumer: ConsumerStats | None

    @property
    def internal(self) -> InternalStats | None:
        """The topic's internal stats."""
        return self.sample.internal


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """The documents of one subscription over a window, and how numbers of them compare."""

    observed: Observed

    def now(self, name: str, consumer: int | None) -> Any:
        """A number of the last sample. consumer: its place in the broker's list."""
        return FACTS[name](self._documents(len(self.observed.window.samples) - 1, consumer))

    def same(self, name: str, consumer: int | None) -> bool | None:
        """Whether it is the same in all samples; None: there is only one, or it is not reported."""
        values = self._values(name, consumer)
        return None if values is None else all(value == values[0] for value in values)

    def grew(self, name: str, consumer: int | None) -> bool | None:
        """Whether it is larger in the last sample than in the first; None: as in `same`."""
        values = self._values(name, consumer)
        return None if values is None else values[-1] > values[0]

    def kept(self) -> FactTable:
        """Everything reported of the subscription and each consumer, without the documents."""
        consumers = range(len(self.observed.now.consumers or ()))
        places = [
            (name, place)
            for name in FACTS
            for place in (consumers if name.startswith("con.") else (None,))
        ]
        table = {
            place: (self.now(*place), self.same(*place), self.grew(*place)) for place in places
        }
        return FactTable({place: row for place, row in table.items() if row != NOTHING_KEPT})

    def _values(self, name: str, consumer: int | None) -> list[Any] | None:
        course = self.observed.course if consumer is None else self._course(consumer)
        if self.observed.one_sample or course is None or course.broken:
            return None
        samples = range(len(self.observed.window.samples))
        values = [FACTS[name](self._documents(at, consumer)) for at in samples]
        reported = [value for value in values if value is not None]
        return reported if len(reported) > 1 and values[-1] is not None else None

    def _course(self, consumer: int) -> Course[ConsumerStats] | None:
        """None of a consumer that only a trace lists: the broker's document has none."""
        listed = self.observed.consumers
        return listed[consumer] if consumer < len(listed) else None

    def _documents(self, at: int, consumer: int | None) -> Documents:
        observed = self.observed
        sample = observed.window.samples[at]
        course = None if consumer is None else self._course(consumer)
        values = () if course is None else course.values
        # A course may begin later than the window: it is counted from its end.
        place = at - len(observed.window.samples)
        there = values[place] if -place <= len(values) else None
        return Documents(
            sample,
            sample.subscription(observed.subscription),
            sample.cursor(observed.subscription),
            there,
        )


NOTHING_KEPT = (None, None, None)


@dataclass(frozen=True, slots=True)
class FactTable:
    """The answers of BrokerFacts without its documents: `now`, `same` and `grew` of each fact.

    rows: by the name of the fact and the consumer's place in the broker's list.
    """

    rows: Mapping[tuple[str, int | None], tuple[Any, bool | None, bool | None]]

    def _answer(self, at: int, name: str, consumer: int | None) -> Any:
        return self.rows.get((name, consumer), NOTHING_KEPT)[at]

    now = partialmethod(_answer, 0)
    same = partialmethod(_answer, 1)
    grew = partialmethod(_answer, 2)

    def kept(self) -> FactTable:
        """This table."""
        return self


def _of(part: str, what: str | Callable[[Any], Any]) -> Callable[[Documents], Any]:
    """A number of this part of the documents; None where the part is not reported."""
    names, read = part.split("."), attrgetter(what) if isinstance(what, str) else what

    def fact(documents: Documents) -> Any:
        found: Any = documents
        for name in names:
            found = None if found is None else getattr(found, name)
        return None if found is None else read(found)

    return fact


def _first_ledger(internal: InternalStats) -> int | None:
    return internal.ledgers[0].ledger_id if internal.ledgers else None


def _chunks(topic: TopicStats) -> bool | None:
    """Whether chunks were published. No says nothing: a load of the topic and a minute hide it."""
    return topic.msg_chunk_published or None


def _waiting_reads(cursors: Mapping[str, CursorStats]) -> int | None:
    """Cursors of the topic that wait for new entries by their own flag."""
    if not cursors or any(each.waiting_read_op is None for each in cursors.values()):
        return None
    return sum(bool(each.waiting_read_op) for each in cursors.values())


def _read_ledger_is_empty(documents: Documents) -> bool | None:
    """Whether the next read begins at the first entry of a last ledger that has none yet."""
    internal, cursor = documents.internal, documents.cursor
    if internal is None or cursor is None or cursor.read_position is None:
        return None
    last = internal.last_confirmed_entry
    return None if last is None else last[1] < 0 and cursor.read_position == (last[0], 0)


def _largest_acked_range(cursor: CursorStats) -> int | None:
    """Entries of the largest acknowledged range after mark-delete, within one ledger."""
    ranges = ranges_of(cursor)
    if ranges is None:
        return None
    within = (end - begin for ledger, begin, last, end in ranges if ledger == last)
    return max(within, default=0)


def _out_of_order(joined: Mapping[str, str]) -> bool | None:
    """Whether consumers that joined later wait from an earlier position than those before."""
    try:
        positions = [tuple(map(int, text.split(":"))) for text in joined.values()]
    except ValueError:
        return None
    return positions != sorted(positions)


def _held_by_all(everybody: Sequence[ConsumerStats]) -> int | None:
    """Unacknowledged messages of all listed consumers together."""
    held = [each.unacked_messages for each in everybody]
    return None if None in held else sum(count or 0 for count in held)


def _listed_twice(everybody: Sequence[ConsumerStats]) -> bool | None:
    """Whether two consumers have the same name and come from the same address."""
    named = [(each.consumer_name, each.address) for each in everybody]
    if any(None in each for each in named):
        return None
    return len(set(named)) < len(named)


FACTS: Mapping[str, Callable[[Documents], Any]] = {
    "topic.chunks": _of("sample.topic", _chunks),
    "topic.open_transactions": _of("sample.topic", "ongoing_txn_count"),
    "topic.state": _of("internal", "state"),
    "topic.entries": _of("internal", "number_of_entries"),
    "topic.last_entry": _of("internal", "last_confirmed_entry"),
    "topic.first_ledger": _of("internal", _first_ledger),
    "topic.compacted_entries": _of("internal.compacted_ledger", lambda e: max(0, e.entries or 0)),
    "topic.waiting_cursors": _of("internal", "waiting_cursors_count"),
    "topic.waiting_reads": _of("internal.cursors", _waiting_reads),
    "cursor.mark_delete": _of("cursor", "mark_delete_position"),
    "cursor.mark_delete_ledger": _of("cursor.mark_delete_position", itemgetter(0)),
    "cursor.read_position": _of("cursor", "read_position"),
    "cursor.read_ledger_is_empty": _read_ledger_is_empty,
    "cursor.waits": _of("cursor", "waiting_read_op"),
    "cursor.reads_under_way": _of("cursor", "pending_read_ops"),
    "cursor.read_pending": _of("cursor", "subscription_have_pending_read"),
    "cursor.replay_pending": _of("cursor", "subscription_have_pending_replay_read"),
    "cursor.acked_ranges": _of("cursor", "total_non_contiguous_deleted_messages_range"),
    "cursor.largest_acked_range": _of("cursor", _largest_acked_range),
    "cursor.since_first_unacked": _of("cursor", "number_of_entries_since_first_not_acked_message"),
    "cursor.state": _of("cursor", "state"),
    "sub.backlog_counter": _of("subscription", "msg_backlog"),
    "sub.unacked_counter": _of("subscription", "unacked_messages"),
    "sub.consumers": _of("subscription.consumers", len),
    "sub.unacked_of_consumers": _of("subscription.consumers", _held_by_all),
    "sub.blocked": _of("subscription", "blocked_subscription_on_unacked_msgs"),
    "sub.replayed": _of("subscription", "msg_in_replay"),
    "sub.not_due": _of("subscription", "msg_delayed"),
    "sub.expired": _of("subscription", "total_msg_expired"),
    "sub.filter_rescheduled": _of("subscription", "filter_rescheduled_msg_count"),
    "sub.joined_out_of_order": _of(
        "subscription.consumers_after_mark_delete_position", _out_of_order
    ),
    "sub.consumer_listed_twice": _of("subscription.consumers", _listed_twice),
    "con.unacked_counter": _of("consumer", "unacked_messages"),
    "con.permits_counter": _of("consumer", "available_permits"),
    "con.messages_per_entry": _of("consumer", "avg_messages_per_entry"),
    "con.draining_hashes": _of("consumer", "draining_hashes_count"),
    "con.draining_unacked": _of("consumer", "draining_hashes_unacked_messages"),
}
