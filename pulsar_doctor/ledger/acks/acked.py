"""Lower and upper bounds for the number of acknowledged messages.

Only an ack that was seen and that the broker keeps surely acknowledges a message. Nobody knows what
became of messages that only a transaction has acknowledged, nor of those that the broker did not
send again although no ack of them was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass

from pulsar_doctor.ledger.acks.cursor import START, Cursor, Position
from pulsar_doctor.ledger.acks.entries import OPEN, SEEK, UNSEEN


@dataclass(frozen=True, slots=True)
class Acked:
    """Messages of one subscription of one topic or partition, each counted once."""

    delivered: int
    open_least: int  # not acknowledged, at least
    open_most: int  # not acknowledged, at most
    holders: Mapping[str, int]  # name of a consumer -> of `open_least`, those that it was sent
    since_us: int | None  # first delivery of the oldest of these; None: there is none

    def beside(self, given_up: Acked) -> Acked:
        """With those that were not acknowledged when the subscription was removed."""
        oldest = [us for us in (self.since_us, given_up.since_us) if us is not None]
        return Acked(
            self.delivered,
            self.open_least + given_up.open_least,
            self.open_most + given_up.open_most,
            Counter(self.holders) + Counter(given_up.holders),
            min(oldest, default=None),
        )

    def or_else(self, other: Acked) -> Acked:
        """Either of the two is true."""
        least, most = sorted((self, other), key=lambda each: each.open_least)
        return Acked(
            self.delivered,
            least.open_least,
            max(self.open_most, other.open_most),
            least.holders,
            most.since_us if least.open_least else None,
        )


def acked_of(
    cursor: Cursor, names: Mapping[int, str], pending: Container[Position], delivered: int
) -> Acked:
    """names: by the number of an incarnation. pending: acknowledged if a transaction commits.

    delivered: all of them. After a seek to a place that is not known, only what is sent from then
    on tells anything.
    """
    holders: Counter[str] = Counter()
    surely = perhaps = 0
    since_us: int | None = None
    for ledger_id, page, at, entry in cursor.delivered():
        position, how = (ledger_id, entry), page.how[at]
        if how == UNSEEN:
            perhaps += page.messages[at]
        if how not in (OPEN, SEEK):
            continue
        left = cursor.open_bits(position, page.messages[at]).bit_count()
        passed = how == OPEN and position <= (cursor.mark_delete or START)
        if cursor.mark_delete is None or passed or position in pending:
            perhaps += left
            continue
        surely += left
        holders[names[page.last_by[at]]] += left
        since_us = min(since_us or page.first_us[at], page.first_us[at])
    return Acked(delivered, surely, surely + perhaps, holders, since_us)
