"""What is certain of the holes where the internal stats do not tell all ledgers.

A gap between two ranges of one ledger is a hole, whatever else there is. Between ranges of two
ledgers a hole is certain only where the later one does not begin with the first entry of its
ledger: whether the earlier ledger, or one between them, has more entries is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsar_doctor.holes.ranges import Range, ranges_of
from pulsar_doctor.holes.storage import entries_of
from pulsar_doctor.stats.fields import Position
from pulsar_doctor.stats.internal import CursorStats, InternalStats
from pulsar_doctor.stats.written import Written


@dataclass(frozen=True, slots=True)
class Bounds:
    """least, most: holes. entries_least: in them; how many more there are is not known.

    oldest: the first hole's first and last entry, None where one of them is not certain.
    """

    least: int
    most: int
    entries_least: int
    oldest: tuple[Position, Position] | None


def bounds_of(cursor: CursorStats | None, ranges: Sequence[Range] | None) -> Bounds | None:
    """Of the holes between mark-delete and the last of these ranges, which are in order."""
    done = None if cursor is None else cursor.mark_delete_position
    if done is None or ranges is None:
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
    return Bounds(least, most, entries, _oldest(done, ranges))


def _oldest(mark_delete: Position, ranges: Sequence[Range]) -> tuple[Position, Position] | None:
    ledger, read = mark_delete
    first = ranges[0] if ranges else None
    if first is None or first.ledger_id != ledger or first.first <= read + 1:
        return None
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
    """The ranges, cut at the ends of ledgers; None where such an end is not told."""
    listed = internal is not None and internal.ledgers
    if written is None or not (listed or all(begin == end for begin, _, end, _ in written)):
        return None
    return ranges_of(written, entries)
