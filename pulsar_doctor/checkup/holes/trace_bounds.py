"""Lower and upper bounds of a trace's numbers, given what is missing from it.

- What came before the trace is not in it: mark-delete is at most what is shown, and there may be
  any number of ranges and holes before it.
- A ledger that is taken to end at its last known entry may go on: mark-delete is there then, what
  was taken to be before it are ranges, and each such end may be a hole, of any length.
- Where commands are missing, or transactions may be committed, nothing is sure.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_doctor.checkup.holes.bounds import Bounds
from pulsar_doctor.checkup.holes.shape import Shape
from pulsar_doctor.ledger.acks.doubts import IN_TRANSACTIONS, LEDGER_ENDS, MISSING, OLDER
from pulsar_doctor.ledger.acks.subscription import Acknowledgements


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
