"""Why the broker's numbers may differ from those of a trace, and by how much.

What the trace itself shows is in subscription.py; what surely holds of the numbers for all that,
in checkup/holes/bounds.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_doctor.ledger.acks.cursor import START, Cursor, Position

OLDER = "the subscription had begun before: mark-delete is at most this"
MISSING = "commands are missing from the trace"
NOTHING_SENT = "nothing was sent since it began, or since a seek: mark-delete does not show"
INDEX_ACKS = (
    "whether the broker keeps acks of single messages of a batch "
    "(acknowledgmentAtBatchIndexLevelEnabled): say it with --batch-index-acks"
)
LEDGER_ENDS = "a ledger is taken to end at the last of its entries that is known"
IN_TRANSACTIONS = "whether transactions were committed does not show: their acks are not counted"


def doubts_of(
    noted: Iterable[str], cursor: Cursor, other: Cursor | None, *, in_order: bool
) -> tuple[str, ...]:
    """Sentences; none where everything was seen.

    noted: those that the rows gave rise to. other: the same where the broker drops acks of single
    messages of a batch; None where that is known, or makes no difference.
    """
    reasons = dict.fromkeys(noted)
    if cursor.mark_delete is None:
        reasons[NOTHING_SENT] = None
    if ends(cursor, in_order=in_order):
        reasons[LEDGER_ENDS] = None
    if other is not None and _index_acks_matter(cursor, other):
        reasons[INDEX_ACKS] = None
    return tuple(reasons)


def _index_acks_matter(cursor: Cursor, other: Cursor) -> bool:
    """Whether ranges and holes, or what is open in these, are others where it drops them."""
    ranges = list(cursor.ranges())
    if (cursor.mark_delete, ranges) != (other.mark_delete, list(other.ranges())):
        return True
    end = (ranges[-1].ledger_id, ranges[-1].first) if ranges else START
    return any(position < end for position in cursor.partial)


def ends(cursor: Cursor, *, in_order: bool) -> int:
    """Ledgers that are taken to end at their last known entry, up to the last range's."""
    if in_order or cursor.mark_delete is None:
        return 0
    last = max((each.ledger_id for each in cursor.ranges()), default=cursor.mark_delete[0])
    ahead = cursor.known(cursor.mark_delete[0], last)
    return len(cursor.presumed_ends) + len(ahead) - 1


def passed(cursor: Cursor) -> list[Position]:
    """Where mark-delete is if no ledger ends that is taken to end, then the last entries that
    are acknowledged of each later ledger, up to mark-delete.
    """
    ledger_id, entry = cursor.mark_delete or START
    first = min(cursor.presumed_ends, default=ledger_id)
    known = cursor.known(first, ledger_id)
    return [*known[:-1], (ledger_id, entry)]
