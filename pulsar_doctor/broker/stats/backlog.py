"""How many entries a subscription has not acknowledged, and whether the broker's count is right.

`msgBacklog` is a counter, entries added less entries consumed, and drifts as long as the topic is
loaded: docs/permits.md, part 7. Where it is below 0 the broker counts anew and reports that, which
is right; older ones tell the number below 0.

*Positions* do not drift: the entries from mark-delete to the last confirmed one, less those in
acknowledged ranges. `getPreciseBacklog` is the same number.

The counter is wrong, and not only read at another moment than the rest, where
- it is below 0 in two samples or more: one may have been read while an entry was acknowledged;
- it is 0 and there are acknowledged ranges, in every sample: an entry that is not acknowledged lies
  before a range. The broker reads one right after the other, so that between the two an entry would
  have to be published, sent, and acknowledged before an older one;
- two or more samples have internal stats, the positions differ from the counter (entriesAdded less
  messagesConsumed of the same document) in the same direction in all of them, and by more than what
  was added and consumed from one of these samples to the next. The stats of the last sample must
  have the same counter, or the two documents do not belong together.

None of this applies to a cursor that is not durable: its mark-delete moves without acks.

Source: getNumberOfEntriesInBacklog, internalResetCursor and asyncDelete of ManagedCursorImpl;
PersistentSubscription.getStats; apache/pulsar #5202, #25047.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.positions import entries_by_positions
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats
from pulsar_doctor.wording.sentences import say

COUNTER_LEAST = -1  # for a moment, while an entry is being acknowledged


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one subscription has not acknowledged, in entries; None is not reported."""

    counter: int | None = None  # as the broker reports it
    positions: int | None = None  # by those of the last sample
    ranges: int | None = None  # of acknowledged entries
    shown_wrong: int = 0  # samples that show the counter wrong; 0: not known to be
    consumed: int | None = None  # messagesConsumed of the last sample
    counted: int | None = None  # entriesAdded less that

    @property
    def wrong(self) -> bool:
        """Whether the counter is known to be wrong."""
        return self.shown_wrong > 0

    @property
    def doubtful(self) -> bool:
        """Whether counter and positions differ, perhaps as they are of two moments."""
        both = self.counter is not None and self.positions is not None
        return both and not self.wrong and self.counter != self.positions

    @property
    def is_known(self) -> bool:
        """Whether the counter or the positions are known."""
        return self.counter is not None or self.positions is not None

    @property
    def off(self) -> float:
        """By how many entries the counter is off; infinite where nothing tells what is right."""
        if self.counter is None or self.positions is None:
            return float("inf")
        return abs(self.counter - self.positions)

    @property
    def entries(self) -> int | None:
        """By the counter, or by the positions where that is wrong, impossible or not reported."""
        of_no_use = self.wrong or self.counter is None or self.counter < COUNTER_LEAST
        return self.positions if of_no_use else self.counter

    @property
    def empty(self) -> bool | None:
        """Whether everything is known to be acknowledged; None where that is not known."""
        behind_ranges = bool(self.ranges and self.ranges > 0)
        if self.wrong or self.counter is None:
            at_end = None if self.positions is None else self.positions <= 0
            return False if behind_ranges else at_end
        if self.counter > 0:
            return False
        if behind_ranges or (self.positions or 0) > 0:
            return None
        return True if self.counter == 0 or self.positions == 0 else None

    def __str__(self) -> str:
        """The backlog in words: `60 entries`."""
        if self.entries is not None:
            return say("{:entries}", self.entries)
        return "at least 1 entry" if self.empty is False else "entries that are not reported"


def is_empty(stats: SubscriptionStats) -> bool:
    """Whether nothing in the stats alone speaks against an empty backlog."""
    ranges = stats.non_contiguous_deleted_messages_ranges
    return Backlog(stats.msg_backlog, ranges=ranges).empty is True


def backlog_of(samples: Sequence[Sample], name: str, ranges: int | None) -> Backlog:
    """The backlog of one subscription that is in the last sample. samples: of one load of the
    topic.

    ranges: acknowledged ones in the last sample.
    """
    now = (samples[-1].topic.subscriptions or {})[name]
    cursors = [(sample, sample.cursor(name)) for sample in samples]
    internal, cursor = samples[-1].internal, cursors[-1][1]
    positions, shown, durable = None, 0, is_durable(now, cursor) is not False
    if internal is not None and cursor is not None and durable:
        positions = entries_by_positions(internal, cursor)
    if durable:
        shown = _shown_by_stats(samples, name, now)
    if not shown and positions is not None and now.msg_backlog is not None:
        shown = _shown_by_positions(cursors, now.msg_backlog)
    return Backlog(
        now.msg_backlog,
        None if positions is None else max(0, positions),
        ranges,
        shown,
        consumed=None if cursor is None else cursor.messages_consumed_counter,
        counted=None if internal is None or cursor is None else _counted(internal, cursor),
    )


def is_durable(stats: SubscriptionStats, cursor: CursorStats | None) -> bool | None:
    """Whether the broker keeps its place: by the stats, else by the cursor; None: not reported."""
    if stats.is_durable is not None or cursor is None:
        return stats.is_durable
    return cursor.durable


def _shown_by_stats(samples: Sequence[Sample], name: str, now: SubscriptionStats) -> int:
    """How many samples show a counter that cannot be, by what the stats alone tell; all or 0."""
    reported = [sample.subscription(name) for sample in samples]
    impossible = [each for each in reported if each is not None and _is_impossible(each)]
    alone = len(samples) == 1 and (now.msg_backlog or 0) < 0
    return len(samples) if len(impossible) == len(samples) and not alone else 0


def _is_impossible(stats: SubscriptionStats) -> bool:
    counter, ranges = stats.msg_backlog, stats.non_contiguous_deleted_messages_ranges
    return counter is not None and (counter < 0 or (counter == 0 and (ranges or 0) > 0))


def _shown_by_positions(cursors: Sequence[tuple[Sample, CursorStats | None]], counter: int) -> int:
    """How many samples show that counter and positions cannot both be right; all or 0.

    counter: as the stats of the last sample tell it.
    """
    known = [(s.internal, c) for s, c in cursors if s.internal is not None and c is not None]
    if not _drift(*known[-1]):
        return 0  # most are right, and no other sample need be looked at
    moves = [_moved(before, after) for before, after in pairwise(known)]
    drifts = [_drift(internal, cursor) for internal, cursor in known]
    moved = [each for each in moves if each is not None]
    certain = [drift for drift in drifts if drift is not None]
    if not moved or len(moved) < len(moves) or len(certain) < len(drifts):
        return 0
    counted = _counted(*known[-1])
    if counted is None or counted < 0 or abs(counted - counter) > max(moved):
        return 0  # below 0 the broker counts anew, and what it tells is right
    least = min(certain) if certain[0] > 0 else -max(certain)
    return len(drifts) if least > max(moved) else 0


def _counted(internal: InternalStats, cursor: CursorStats) -> int | None:
    """The counter itself, which may be below 0."""
    added, consumed = internal.entries_added_counter, cursor.messages_consumed_counter
    return None if added is None or consumed is None else added - consumed


def _drift(internal: InternalStats, cursor: CursorStats) -> int | None:
    """By how much the counter is above what the positions tell, in one document."""
    counted, positions = _counted(internal, cursor), entries_by_positions(internal, cursor)
    return None if counted is None or positions is None else counted - positions


def _moved(
    before: tuple[InternalStats, CursorStats], after: tuple[InternalStats, CursorStats]
) -> int | None:
    """Entries that were added and consumed from one sample to the next."""
    pairs = (
        (before[0].entries_added_counter, after[0].entries_added_counter),
        (before[1].messages_consumed_counter, after[1].messages_consumed_counter),
    )
    moves = [abs(late - early) for early, late in pairs if early is not None and late is not None]
    return sum(moves) if len(moves) == len(pairs) else None
