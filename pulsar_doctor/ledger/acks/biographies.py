"""The history of each delivered entry: who got it, and what acknowledged it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from pulsar_doctor.ledger.acks.cursor import START, Cursor, Position
from pulsar_doctor.ledger.acks.entries import HOW, OPEN

TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class Biography:
    """One entry that was delivered. Moments are µs since 1970, consumers are names."""

    ledger_id: int
    entry_id: int
    first_delivered_us: int
    first_consumer: str
    deliveries: int
    last_delivered_us: int
    last_consumer: str
    acknowledged_us: int | None  # None: not, as far as the trace shows
    # a word of entries.HOW; `transaction`: only one that may not be committed did
    acknowledged_by: str | None
    open_messages: int  # of its batch, not acknowledged


def lives_of(
    cursor: Cursor, names: Mapping[int, str], pending: Container[Position], *, open_only: bool
) -> list[Biography]:
    """First entries that are open behind mark-delete, then others, by id.

    names: by the number of an incarnation. pending: acknowledged if a transaction is committed.
    open_only: without those that are acknowledged, which are nearly all.
    """
    holes: list[Biography] = []
    others: list[Biography] = []
    for ledger_id, page, at, entry in cursor.delivered():
        if open_only and page.how[at] != OPEN:
            continue
        position = (ledger_id, entry)
        left = 0
        if page.how[at] == OPEN:
            left = cursor.open_bits(position, page.messages[at]).bit_count()
        life = Biography(
            *position,
            first_delivered_us=page.first_us[at],
            first_consumer=names[page.first_by[at]],
            deliveries=page.deliveries[at],
            last_delivered_us=page.last_us[at],
            last_consumer=names[page.last_by[at]],
            acknowledged_us=page.acked_us[at] if page.how[at] else None,
            acknowledged_by=HOW[page.how[at]] or (TRANSACTION if position in pending else None),
            open_messages=left,
        )
        in_hole = page.how[at] == OPEN and position > (cursor.mark_delete or START)
        (holes if in_hole else others).append(life)
    return holes + others
