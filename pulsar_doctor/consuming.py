"""What a consumer of ours shall be and do, and what any engine offers to do it with.

An engine attaches consumers: `attach` those of pulsar-client, `receiver` our own on the wire. Both
are used from ordinary threads; a call waits where it says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Plan:
    """What one consumer shall be and do.

    process_seconds: work for each message, None: not told. ack: individual, cumulative or none.
    unacked_limit: the broker's limit of unacknowledged messages per consumer, None: not told.
    """

    name: str
    topic: str
    subscription: str
    type: str = "shared"
    receiver_queue_size: int = 1000
    process_seconds: float | None = None
    ack: str = "individual"
    unacked_limit: int | None = None

    @property
    def told(self) -> dict[str, Any]:
        """What the ledger may know beside the wire."""
        return {
            "receiver_queue_size": self.receiver_queue_size,
            "process_seconds": self.process_seconds,
            "unacked_limit": self.unacked_limit,
            "takes_told": True,
        }


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the application gets it. Never its payload, key or properties.

    batch_index, batch_size: None outside of a batch. published_ms: epoch milliseconds.
    corrupt: why it could not be read (a word of the protocol's ValidationError), None: it could.
    handle: what its engine knows it by.
    """

    topic: str
    partition: int | None
    ledger_id: int
    entry_id: int
    batch_index: int | None
    batch_size: int | None
    published_ms: int
    redelivery_count: int
    corrupt: str | None = None
    handle: Any = None


class Closed(Exception):
    """The consumer was closed while, or before, somebody waited for it."""


class Attached(Protocol):
    """A consumer that is subscribed. All of it may be called from several threads."""

    def receive(self, seconds: float | None) -> Message | None:
        """The next message; None where none came in time. seconds None: waits. Raises Closed."""

    def acknowledge(self, message: Message) -> None: ...
    def acknowledge_cumulative(self, message: Message) -> None: ...
    def negative_acknowledge(self, message: Message) -> None: ...

    def pause(self) -> None:
        """The listener gets no more until `resume`."""

    def resume(self) -> None: ...
    def unsubscribe(self) -> None: ...
    def close(self) -> None: ...


class Engine(Protocol):
    """A client of one cluster. Refusals are DoctorError."""

    def subscribe(
        self, plan: Plan, listener: Callable[[Message], None] | None = None
    ) -> Attached: ...

    def partitions_of(self, topic: str) -> list[str]: ...
    def close(self) -> None: ...
