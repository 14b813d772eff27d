"""What is simulated: arrivals, processing times, and consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_doctor.ledger.clients import SIMULATED, ClientLibrary

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ProducedEntry:
    """What a producer sends at once: the entry of that number."""

    number: int
    published_ns: int  # the entry's age counts from then
    arrives_ns: int  # the broker may send it from then on; later if the broker defers it
    first: int  # number of the first message
    messages: int
    key: int = 0  # of Key_Shared


@dataclass(frozen=True, slots=True)
class Work:
    """How long each message takes."""

    of_consumer: tuple[int, ...] = (0,)  # nanoseconds; the last is for all further ones
    # messages with a time that does not depend on who works
    known: Mapping[int, int] = field(default_factory=dict)

    def ns(self, message: int, consumer: int) -> int:
        """Nanoseconds that this consumer (from 0) needs for this message (from 0)."""
        known = self.known.get(message)
        if known is not None:
            return known
        return self.of_consumer[min(consumer, len(self.of_consumer) - 1)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is given but the receiver queue size."""

    entries: Sequence[ProducedEntry]
    work: Work = Work()
    client: ClientLibrary = SIMULATED["pulsar-client"]
    type: str = "shared"  # exclusive, shared, failover or key_shared
    attach_ns: tuple[int, ...] = (0,)  # when each consumer subscribes, in this order
    round_trip_ns: int = 0
    end_ns: int | None = None  # when to stop; None: when all is done
    names: tuple[str, ...] = ()  # of the consumers; (): numbers
    unreached: int = 0  # more messages that arrive until `end_ns`, too late for anybody to get

    @property
    def messages(self) -> int:
        """How many messages there are."""
        return self.entries[-1].first + self.entries[-1].messages if self.entries else 0

    @property
    def largest_batch(self) -> int:
        """Messages of the largest entry."""
        return max((entry.messages for entry in self.entries), default=0)


@dataclass(frozen=True, slots=True)
class Given:
    """What is there to be compared with."""

    scenario: Scenario
    receiver_queue_size: int  # that the consumers have now
    notes: tuple[str, ...] = ()  # what is not in a trace


def arrivals(
    messages: int,
    *,
    backlog: int = 0,
    per_second: float = 0.0,
    batch: int = 1,
    keys: Callable[[], int] = lambda: 0,
) -> list[ProducedEntry]:
    """So many messages, the backlog of them at once, the rest evenly at this rate, in batches.

    A batch is published when its last message is there. keys: gives the key of each entry.
    """
    entries = []
    for number, first in enumerate(range(0, messages, batch)):
        count = min(batch, messages - first)
        after = max(0, first + count - backlog)
        at = int(after * SECOND_NS / per_second) if per_second else 0
        entries.append(ProducedEntry(number, at, at, first, count, keys()))
    return entries
