"""Lower and upper bounds for holes, where a trace or the internal stats are incomplete.

Of a trace:
- What came before the trace is not in it: mark-delete is at most what is shown, and there may be
  any number of ranges and holes before it.
- A ledger that is taken to end at its last known entry may go on: mark-delete is there then, what
  was taken to be before it are ranges, and each such end may be a hole, of any length.
- Where commands are missing, or transactions may be committed, nothing is sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.checkup.holes.shape import Shape, entries_of
from pulsar_doctor.ledger.acks.doubts import IN_TRANSACTIONS, LEDGER_ENDS, MISSING, OLDER
from pulsar_doctor.ledger.acks.ranges import Range, ranges_of
from pulsar_doctor.ledger.acks.subscription import Acknowledgements
from pulsar_doctor.ledger.acks.written import Written

OPEN = (None, None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and most of each number; None: no such bound. Equal where the number is known."""

    mark_delete: tuple[Position | None, Position | None] = OPEN
    ranges: tuple[int | None, int | None] = OPEN
    acknowledged_entries: tuple[int | None, int | None] = OPEN
    holes: tuple[int | None, int | None] = OPEN
    hole_entries: tuple[int | None, int | None] = OPEN
    oldest_hole: tuple[Position | None, Position | None] = OPEN  # its first entry
    oldest_hole_end: tuple[Position | None, Position | None] = OPEN  # its last entry

    def or_else(self, other: Bounds) -> Bounds:
        """Where one of the two holds, and nobody knows which."""
        return Bounds(*(_hull(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def _hull(*pairs: Sequence[Any]) -> tuple[Any, Any]:
    least, most = zip(*pairs, strict=True)
    return (None if None in least else min(least)), (None if None in most else max(most))


def bounds_of(cursor: CursorStats | None, ranges: Sequence[Range] | None) -> Bounds | None:
    """Where the internal stats do not tell all ledgers: behind mark-delete, up to the last range.

    ranges: in order. A gap between two ranges of one ledger is a hole, whatever else there is.
    Between ranges of two ledgers a hole is certain only where the later one does not begin with
    the first entry of its ledger: whether the earlier ledger, or one between them, has more
    entries is not known, and so is the most that holes hold.
    """
    done = None if cursor is None else cursor.mark_delete_position
    if done is None or not ranges:
        return None
    least, most, entries = 0, 0, 0
    ledger, read = done
    for each in ranges:
        same = each.ledger_id == ledger
        gap = each.first - read - 1 if same else each.first
        least += gap > 0
        most += gap > 0 or not same
        entries += max(0, gap)
        ledger, read = each.ledger_id, each.last
    acknowledged = sum(each.entries for each in ranges)
    first, last = _oldest(done, ranges)
    return Bounds(
        (done, done),
        (len(ranges), len(ranges)),
        (acknowledged, acknowledged),
        (least, most),
        (entries, None),
        (first, first),
        (last, last),
    )


def _oldest(
    mark_delete: Position, ranges: Sequence[Range]
) -> tuple[Position | None, Position | None]:
    """The first and the last entry of the first hole; None where one is not certain."""
    ledger, read = mark_delete
    first = ranges[0] if ranges else None
    if first is None or first.ledger_id != ledger or first.first <= read + 1:
        return OPEN
    return (ledger, read + 1), (ledger, first.first - 1)


def known_entries(
    internal: InternalStats | None, cursor: CursorStats | None, written: Sequence[Written] | None
) -> Mapping[int, int]:
    """Entries of each ledger that is known; without a list of them, of the only one that matters.

    That is the one of mark-delete, where all ranges lie in it too: it has so many at least.
    """
    if internal is None:
        return {}
    done = None if cursor is None else cursor.mark_delete_position
    if internal.ledgers or cursor is None or done is None or written is None:
        return entries_of(internal)
    if any((begin, end) != (done[0], done[0]) for begin, _, end, _ in written):
        return {}
    ends = [done[1] + 1, *(last + 1 for _, _, _, last in written)]
    ends += [entry for ledger, entry in (cursor.read_position or done,) if ledger == done[0]]
    last = internal.last_confirmed_entry
    ends += [last[1] + 1] if last is not None and last[0] == done[0] else []
    return {done[0]: max(ends)}


def known_ranges(
    internal: InternalStats | None, entries: Mapping[int, int], written: Sequence[Written] | None
) -> list[Range] | None:
    """The ranges, cut at the ends of ledgers; None where such an end is not known."""
    listed = internal is not None and internal.ledgers
    if written is None or not (listed or all(begin == end for begin, _, end, _ in written)):
        return None
    return ranges_of(written, entries)


def certain_of(acks: Acknowledgements, shape: Shape | None) -> Bounds:
    """The bounds that one pass proves. shape: the entries behind mark-delete in the trace."""
    mark_delete, doubts = acks.mark_delete, acks.doubts
    if mark_delete is None or shape is None or {MISSING, IN_TRANSACTIONS} & set(doubts):
        return Bounds()
    ranges = acks.ranges()
    entries = sum(each.entries for each in ranges)
    holes, hole_entries = len(shape.holes), sum(shape.hole_entries)
    oldest = None if shape.oldest is None else shape.oldest[0]
    found = Bounds(
        (mark_delete, mark_delete),
        (len(ranges), len(ranges)),
        (entries, entries),
        (holes, holes),
        (hole_entries, hole_entries),
        (oldest, oldest),
    )
    if LEDGER_ENDS in doubts:
        found = _if_ledgers_go_on(acks, found)
    return _if_older(found) if OLDER in doubts else found


def _if_ledgers_go_on(acks: Acknowledgements, found: Bounds) -> Bounds:
    """Each ledger may have entries that were never sent behind its last known one."""
    (ranges, _), (entries, _), (holes, _) = found.ranges, found.acknowledged_entries, found.holes
    assert ranges is not None
    assert entries is not None
    assert holes is not None
    passed, ends = acks.passed(), acks.ends()
    first = passed[0]
    behind = [last + 1 for _, last in passed[1:]]
    return replace(
        found,
        mark_delete=(first, found.mark_delete[1]),
        ranges=(ranges, ranges + sum(1 for each in behind if each)),
        acknowledged_entries=(entries, entries + sum(behind)),
        holes=(holes, holes + ends),
        hole_entries=(found.hole_entries[0], None),
        oldest_hole=((first[0], first[1] + 1), found.oldest_hole[1]),
    )


def _if_older(found: Bounds) -> Bounds:
    """Entries from before the trace may be open: mark-delete is before them then."""
    return Bounds(
        mark_delete=(None, found.mark_delete[1]),
        ranges=(found.ranges[0], None),
        acknowledged_entries=(found.acknowledged_entries[0], None),
        holes=(found.holes[0], None),
        hole_entries=(found.hole_entries[0], None),
        oldest_hole=(None, found.oldest_hole[1]),
    )
