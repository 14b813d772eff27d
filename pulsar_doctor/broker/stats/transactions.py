"""Open transactions on a topic, as its broker reports them beside the statistics.

Source: TransactionBufferStats, TransactionPendingAckStats and TransactionMetadata of
pulsar-client-admin-api.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.broker.stats.fields import Fields
from pulsar_doctor.broker.stats.values import Position

NUMBER = re.compile(r"\(([0-9]{1,20}),([0-9]{1,20})\)")
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


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """An answer about transactions that somebody brings. It names topics only if it lists any."""

    slow: tuple[Fields, ...] = ()
    acknowledging: int | None = None  # how many are open in a subscription
    subscription: str | None = None  # which that is; None: nothing names it

    @property
    def topics(self) -> set[str]:
        """What the slow ones are about."""
        names = "producedPartitions", "ackedPartitions"
        inner = (each.inner(name) for each in self.slow for name in names)
        return {topic for each in inner if each is not None for topic in each.document}

    def pending(self, topic: str, only: str | None) -> Iterator[PendingAcks]:
        """Subscriptions of the topic that are acknowledged. only: the one that there is at all."""
        slow = {each.subscription for one in self.slow for each in slow_of(topic, one)}
        yield from (PendingAcks(name, 1) for name in sorted(filter(None, slow)))
        if (name := self.subscription or only) is not None and self.acknowledging is not None:
            yield PendingAcks(name, self.acknowledging)


def slow_of(topic: str, fields: Fields | None) -> Iterator[SlowTransaction]:
    """What one transaction does on the topic: publish, acknowledge, or both."""
    number = NUMBER.fullmatch((fields and fields.text("txnId")) or "")
    if fields is None or number is None:
        return
    opened, timeout = fields.time_ms("openTimestamp"), fields.at_least_0("timeoutAt")
    if opened is None or timeout is None:
        return
    produced, acked = (fields.inner(name) for name in ("producedPartitions", "ackedPartitions"))
    on_topic = acked.inner(topic) if acked else None
    subscriptions = tuple(on_topic.document) if on_topic else ()
    publishes = (None,) if produced and topic in produced.document else ()
    for name in (*publishes, *subscriptions):
        yield SlowTransaction(f"{number[1]},{number[2]}", name, opened, timeout / 1000)
