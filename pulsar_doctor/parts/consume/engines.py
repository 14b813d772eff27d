"""The plan of a test consumer, and the interface of the engines that run it.

An engine attaches consumers: `attach` those of pulsar-client, `receiver` our own on the wire. Both
are used from ordinary threads; a call waits where it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

PULSAR_CLIENT, WIRE = "pulsar-client", "wire"  # the two engines, as the user names them
SHARING = frozenset({"shared", "key_shared"})  # types with several active consumers


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What each consumer of a run shall do, as the options of `consume` say it."""

    type: Literal["exclusive", "shared", "failover", "key_shared"] = "shared"
    process_seconds: float | None = None  # work for each message; None: not given
    ack: Literal["individual", "cumulative", "none"] = "individual"
    ack_every: int = 1  # only every K-th message; individual leaves the others unacknowledged
    nack_share: float = 0.0  # of all messages, from 0 to 1
    nack_delay_seconds: float = 1.0
    batch_index_acks: bool = False
    permits: Literal["auto", "manual"] = "auto"  # manual: only `grant` sends FLOW
    receiver_delay_seconds: tuple[float, ...] = ()  # held back so long; several: in turn by entry
    delay_from: Literal["publish", "receipt"] = "publish"


@dataclass(frozen=True, slots=True)
class Plan(Behaviour):
    """What one consumer shall be and do."""

    name: str
    topic: str
    subscription: str
    receiver_queue_size: int = 1000
    unacked_limit: int | None = None  # of the broker, messages per consumer; None: not given

    @property
    def for_meta(self) -> dict[str, Any]:
        """What the ledger may know beside the wire."""
        return {
            # by hand nothing is unsent and nobody knows when the next FLOW comes, as with none
            "receiver_queue_size": 0 if self.permits == "manual" else self.receiver_queue_size,
            "process_seconds": self.process_seconds,
            "unacked_limit": self.unacked_limit,
            "takes_told": True,
            "receiver_delay_seconds": max(self.receiver_delay_seconds, default=None),
            "delay_from": self.delay_from,
        }


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the application gets it. Never its payload, key or properties."""

    topic: str
    partition: int | None
    ledger_id: int
    entry_id: int
    batch_index: int | None  # None: not in a batch
    batch_size: int | None  # None: not in a batch
    published_ms: int  # epoch milliseconds
    redelivery_count: int
    corrupt: str | None = None  # why it is unreadable (a word of the protocol's ValidationError)
    handle: Any = None  # how its engine identifies it


def is_partitioned(topic: str, names: Sequence[str]) -> bool:
    """Whether these are the names of a topic's partitions, and not its own."""
    return bool(names) and names[0].endswith(f"{topic}-partition-0")


class Closed(Exception):
    """The consumer was closed while, or before, somebody waited for it."""


class Attached(Protocol):
    """A consumer that is subscribed. All of it may be called from several threads."""

    def receive(self, seconds: float | None) -> Message | None:
        """The next message; None where none came in time. seconds None: waits. Raises Closed."""

    def acknowledge(self, message: Message) -> None: ...
    def acknowledge_cumulative(self, message: Message) -> None: ...
    def negative_acknowledge(self, message: Message) -> None: ...

    def close(self) -> None: ...


class Granting(Attached, Protocol):
    """One that asks the broker only on command: a plan with manual permits."""

    def grant(self, permits: int) -> None:
        """Sends a FLOW of so many permits."""


class Engine(Protocol):
    """A client of one cluster. Refusals are DoctorError."""

    def subscribe(self, plan: Plan) -> Attached: ...

    def partitions_of(self, topic: str) -> list[str]:
        """The names of a topic's partitions; the topic alone where it has none."""

    def close(self) -> None: ...
