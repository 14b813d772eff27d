"""How many entries lie between two positions, and behind a cursor, by internal stats."""

from __future__ import annotations

from itertools import pairwise

from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.acks.written import Written, parse_written


def entries_between(after: Position, to: Position, internal: InternalStats) -> int | None:
    """Entries behind one position, up to another and with it; None where a ledger is not listed.

    Below 0 where the second lies before the first. A ledger that is gone holds nothing; that is one
    before the first of the list. Nothing is counted in a list that somebody has shortened.
    """
    if to < after:
        back = entries_between(to, after, internal)
        return None if back is None else -back
    (first_ledger, read), (last_ledger, last_entry) = after, to
    if first_ledger == last_ledger:
        return last_entry - read
    if not internal.ledgers or _shortened(internal, after, to):
        return None
    found = last_entry + 1
    for ledger in internal.ledgers:
        if ledger.ledger_id is None or ledger.entries is None:
            return None
        if first_ledger <= ledger.ledger_id < last_ledger:
            done = read + 1 if ledger.ledger_id == first_ledger else 0
            found += max(0, ledger.entries - done)
    return found


def entries_by_positions(internal: InternalStats, cursor: CursorStats) -> int | None:
    """Entries that are not acknowledged, by positions; None where a ledger is not listed.

    Below 0 where mark-delete was read later than the last confirmed entry, and lies behind it.
    """
    done = cursor.mark_delete_position
    if done is None or nothing_waits(internal, cursor):
        return None if done is None else 0
    return entries_behind(done, internal, cursor)


def nothing_waits(internal: InternalStats, cursor: CursorStats) -> bool:
    """Whether all is acknowledged, whatever ledgers and ranges tell.

    Nothing lies between mark-delete and the read position, and the read waits for what comes next.
    The broker counts the entries after mark-delete up to the read position, with that one.
    """
    done, read, last = (
        cursor.mark_delete_position,
        cursor.read_position,
        internal.last_confirmed_entry,
    )
    if not cursor.waiting_read_op or (last is not None and read is not None and read <= last):
        return False
    behind = cursor.number_of_entries_since_first_not_acked_message
    if behind is not None and 0 <= behind <= 1:
        return last is None or read is not None
    return done is not None and read is not None and read == (done[0], done[1] + 1)


def entries_behind(after: Position, internal: InternalStats, cursor: CursorStats) -> int | None:
    """Entries behind a position in no acknowledged range; None where a ledger is not listed."""
    last, ranges = internal.last_confirmed_entry, ranges_of(cursor)
    if last is None or ranges is None:
        return None
    found = entries_between(after, last, internal)
    for ledger, begin, end, entry in ranges:
        if found is None:
            return None
        if ledger == end and (ledger, begin) >= after:  # nearly all: there may be many thousands
            found -= entry - begin
        elif (end, entry) > after:
            acked = entries_between(max(after, (ledger, begin)), (end, entry), internal)
            found = None if acked is None else found - acked
    return found


def unread_of(internal: InternalStats, cursor: CursorStats) -> int | None:
    """Entries from the read position on that are not acknowledged; None where not reported.

    Where the acknowledged ranges are not reported, those in them count, too.
    """
    if cursor.read_position is None:
        return None
    left = entries_behind(_before(cursor.read_position), internal, cursor)
    return entries_from(cursor.read_position, internal) if left is None else max(0, left)


def entries_from(position: Position, internal: InternalStats) -> int | None:
    """Entries from a position to the last confirmed one; None where a ledger is not listed."""
    last = internal.last_confirmed_entry
    if last is None:
        return None
    return 0 if position > last else entries_between(_before(position), last, internal)


def entry_after(position: Position, internal: InternalStats) -> Position:
    """The next entry; in the next ledger where that one is closed and has no more."""
    ledger, entry = position
    for one, other in pairwise(internal.ledgers or ()):
        closed = one.ledger_id == ledger and one.entries is not None
        if closed and entry + 1 >= (one.entries or 0) and other.ledger_id is not None:
            return other.ledger_id, 0
    return ledger, entry + 1


def _before(position: Position) -> Position:
    """What lies before it. Entry -1 is no entry: a ledger begins with 0."""
    ledger, entry = position
    return ledger, max(entry, 0) - 1


def ranges_of(cursor: CursorStats) -> tuple[Written, ...] | None:
    """Acknowledged ranges after mark-delete; None where not reported, or written in no known way.

    `holes` says what is wrong with those that cannot be read.
    """
    written = cursor.individually_deleted_messages
    try:
        return None if written is None else parse_written(written)
    except InputError:
        return None


def _shortened(internal: InternalStats, *positions: Position) -> bool:
    """Whether a ledger is not in the list though it is there: people paste a few of many."""
    ledgers = [(each.ledger_id, each.entries) for each in internal.ledgers or ()]
    ids = [ledger for ledger, _ in ledgers if ledger is not None]
    if len(ids) < len(ledgers):
        return True
    # One without entries is taken off the list, and a cursor may still stand before them.
    held = [ledger for ledger, entry in positions if entry >= 0]
    if any(ledger > ids[0] and ledger not in ids for ledger in held):
        return True
    current, whole = internal.current_ledger_entries, internal.number_of_entries
    if current is None or whole is None:
        return False
    return sum(entries or 0 for _, entries in ledgers) + current < whole
