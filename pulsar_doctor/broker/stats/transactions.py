"""Open transactions on a topic, as its broker reports them beside the statistics.

Source: TransactionBufferStats and TransactionPendingAckStats of pulsar-client-admin-api.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.values import Position


@dataclass(frozen=True, slots=True)
class PendingAcks:
    """Open transactions in which entries of one subscription are acknowledged."""

    subscription: str
    open: int


@dataclass(frozen=True, slots=True)
class Transactions:
    """What the broker reported at the end of a window. What is not here is not reported."""

    # The last entry that may be read: behind it is an open transaction of a producer.
    max_read_position: Position | None = None
    pending_acks: tuple[PendingAcks, ...] = ()
    none: bool = False  # whether the broker has no coordinator, so that none can be open

    def pending_of(self, subscription: str) -> int | None:
        """Open transactions of one subscription; None: not reported."""
        if self.none:
            return 0
        found = (each.open for each in self.pending_acks if each.subscription == subscription)
        return next(found, None)


NO_TRANSACTIONS = Transactions()
