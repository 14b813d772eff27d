"""Open transactions on a topic, as its broker reports them beside the statistics.

Source: TransactionBufferStats, TransactionPendingAckStats and TransactionMetadata of
pulsar-client-admin-api.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.values import Position

LISTED_SECONDS = 10.0  # of the time-out: where no client sets one it is a minute


@dataclass(frozen=True, slots=True)
class PendingAcks:
    """Open transactions in which entries of one subscription are acknowledged."""

    subscription: str
    open: int


@dataclass(frozen=True, slots=True)
class SlowTransaction:
    """An open transaction of which the time-out is longer than `LISTED_SECONDS`.

    So the broker lists it, however old it is. One that is not listed ends within that time.
    """

    number: str  # most and least significant bits, as `1,25`
    subscription: str | None  # the one in which it acknowledges; None: it publishes
    opened_ms: int  # since the epoch
    timeout_seconds: float  # then its coordinator aborts it

    def open_seconds(self, now_ms: int) -> float:
        """For how long it has been open."""
        return max(0.0, (now_ms - self.opened_ms) / 1000)


@dataclass(frozen=True, slots=True)
class Transactions:
    """What the broker reported at the end of a window. What is not here is not reported."""

    # The last entry that may be read: behind it is an open transaction of a producer.
    max_read_position: Position | None = None
    pending_acks: tuple[PendingAcks, ...] = ()
    slow: tuple[SlowTransaction, ...] = ()  # of the topic, oldest first
    none: bool = False  # whether the broker has no coordinator, so that none can be open

    def pending_of(self, subscription: str) -> int | None:
        """Open transactions of one subscription; None: not reported."""
        if self.none:
            return 0
        found = (each.open for each in self.pending_acks if each.subscription == subscription)
        return next(found, None)

    def slow_of(self, subscription: str) -> tuple[SlowTransaction, ...]:
        """Slow transactions on the topic's messages or the subscription's acknowledgements."""
        concerned = (None, subscription)
        return tuple(each for each in self.slow if each.subscription in concerned)


NO_TRANSACTIONS = Transactions()
