"""What a trace is about: connections, the consumers on them, and the subscriptions they share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.ledger import balance as ledgers
from pulsar_doctor.ledger.balance import Ledger

NON_PERSISTENT = "non-persistent://"
PERSISTENT = "persistent://"  # what goes without saying where a line is short
PARTITION = re.compile(r"(.+)-partition-([0-9]{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LedgerMoment:
    """A ledger as it stood when the first consumer of its subscription went.

    Closing one consumer gives its messages to the others: later they do not show what was wrong.
    """

    ledger: Ledger
    us: int
    ns: int


@dataclass(slots=True)
class Consumer:
    """One incarnation of a consumer and its ledger. Times in microseconds and nanoseconds."""

    incarnation: int
    conn_id: int
    consumer_id: int
    topic: str
    partition: int | None
    subscription: str
    subscription_type: str | None
    consumer_name: str | None
    client_version: str | None
    client_addr: str | None
    opened_us: int
    ledger: Ledger
    request_id: int | None = None  # of the SUBSCRIBE or close that waits for its answer
    closing: bool = False
    active: bool | None = None  # Exclusive and Failover, once the broker has said
    closed_us: int | None = None
    closed_ns: int | None = None
    before_shutdown: LedgerMoment | None = None

    @property
    def label(self) -> str:
        """What to call it: its name, or its number where it has none."""
        return self.consumer_name or f"#{self.incarnation}"


@dataclass(slots=True)
class Connection:
    """One connection through the tap."""

    client_addr: str | None = None
    broker_addr: str | None = None
    client_version: str | None = None
    consumers: dict[int, Consumer] = field(default_factory=dict)
    producers: dict[int, str] = field(default_factory=dict)
    greeted: bool = False  # the broker has let the client in


@dataclass(frozen=True, slots=True)
class Subscription:
    """The consumers of one subscription of one topic (or partition) at the moment of judgement.

    now_us, now_ns: that moment: the end of the trace, or just before the last of them was shut
    down. Consumers that were closed earlier are not in it.
    """

    topic: str
    partition: int | None
    subscription: str
    type: str | None
    consumers: tuple[Consumer, ...]
    now_us: int
    now_ns: int

    @property
    def is_over(self) -> bool:
        """Whether nobody is left: then it is as it stood just before."""
        return all(consumer.closed_us is not None for consumer in self.consumers)


def split_partition(topic: str) -> tuple[str, int | None]:
    """A topic's name without its partition, and the partition; None where it has none."""
    match = PARTITION.fullmatch(topic)
    return (match[1], int(match[2])) if match else (topic, None)


def full_name(topic: str, partition: int | None) -> str:
    """The other way round: the name of a topic or of one of its partitions."""
    return topic if partition is None else f"{topic}-partition-{partition}"


def state_of(consumer: Consumer) -> dict[str, Any]:
    state = {name: getattr(consumer, name) for name in Consumer.__slots__}
    state["ledger"] = ledgers.state_of(consumer.ledger)
    kept = consumer.before_shutdown
    if kept is not None:
        state["before_shutdown"] = [ledgers.state_of(kept.ledger), kept.us, kept.ns]
    return state


def from_state(state: Mapping[str, Any]) -> Consumer:
    consumer = Consumer(**{**state, "ledger": ledgers.from_state(state["ledger"])})
    if consumer.before_shutdown is not None:
        ledger, us, ns = state["before_shutdown"]
        consumer.before_shutdown = LedgerMoment(ledgers.from_state(ledger), us, ns)
    return consumer
