"""A topic's ledgers and cursors, as `topics stats-internal` reports them.

Names are the broker's in snake case; None is "not told". Positions are (ledger, entry); entry -1
stands before the first of its ledger. messages_consumed_counter is entries added since the topic
was loaded, less the backlog: it grows with every entry acknowledged, in order or not, starts below
zero where a backlog was loaded (seen: -52), and falls on a seek back.

A non-persistent topic has no ledgers: the broker then writes cursors with 0 as each number and
without positions (seen); such a cursor tells nothing here. cursor_ledger is -1 where there is none.
Source: ManagedLedgerInternalStats of pulsar-client-admin-api.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_doctor.broker.stats.values import Position, epoch_ms


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """One ledger. entries: 0 while it is the one being written (seen), whatever it holds."""

    ledger_id: int | None = None
    entries: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class CursorStats:
    """One cursor: `cursors.owner_of` tells whose. individually_deleted_messages: as written."""

    mark_delete_position: Position | None = None
    read_position: Position | None = None
    waiting_read_op: bool | None = None
    pending_read_ops: int | None = None
    messages_consumed_counter: int | None = None
    number_of_entries_since_first_not_acked_message: int | None = None
    cursor_ledger: int | None = None
    individually_deleted_messages: str | None = None
    last_ledger_switch_timestamp: str | None = None
    state: str | None = None
    total_non_contiguous_deleted_messages_range: int | None = None
    subscription_have_pending_read: bool | None = None
    subscription_have_pending_replay_read: bool | None = None

    @property
    def durable(self) -> bool | None:
        """Whether the broker keeps its place; None where that does not follow.

        A durable cursor without a ledger of its own is in state NoLedger. One that is not durable
        is Open without any (seen on 2.11, 3.3 and 4.0), and Uninitialized on older brokers.
        """
        if self.cursor_ledger is None or self.state is None:
            return None
        if self.cursor_ledger < 0 and self.state in ("Open", "Uninitialized"):
            return False
        return True if self.cursor_ledger > 0 or self.state == "NoLedger" else None

    @property
    def last_ledger_switch_timestamp_ms(self) -> int | None:
        """When the cursor's ledger was last changed, or the topic loaded."""
        return epoch_ms(self.last_ledger_switch_timestamp)


@dataclass(frozen=True, slots=True)
class InternalStats:
    """The ledgers and cursors of one topic or partition."""

    entries_added_counter: int | None = None
    number_of_entries: int | None = None
    current_ledger_entries: int | None = None
    total_size: int | None = None
    last_confirmed_entry: Position | None = None
    waiting_cursors_count: int | None = None
    state: str | None = None
    compacted_ledger: LedgerStats | None = None
    ledgers: tuple[LedgerStats, ...] | None = None
    cursors: Mapping[str, CursorStats] | None = None


def entries_between(after: Position, to: Position, internal: InternalStats) -> int | None:
    """Entries behind one position, up to another and with it; None where a ledger is not told.

    Below 0 where the second lies before the first. A ledger that is gone holds nothing; that is one
    before the first of the list. Of a list that somebody has shortened nothing is counted.
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
