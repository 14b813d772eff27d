"""A topic's ledgers and cursors, as `topics stats-internal` reports them.

Names are the broker's in snake case; None is "not reported". Positions are (ledger, entry); entry
-1 is before the first of its ledger. messages_consumed_counter is entries added since the topic was
loaded, less the backlog: it grows with every entry acknowledged, in order or not, starts below zero
where a backlog was loaded (seen: -52), and falls on a seek back.

A non-persistent topic has no ledgers: the broker then writes cursors with 0 as each number and
without positions (seen); such a cursor shows nothing here. cursor_ledger is -1 where there is none.
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
    """One cursor: `cursors.owner_of` names its owner. individually_deleted_messages: as written."""

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
