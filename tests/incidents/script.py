"""All that is given of an incident before it is played. Times in nanoseconds since its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.simulate.scenario import ProducedEntry

SECOND = 1_000_000_000

Acks = Literal["each", "groups", "cumulative", "never"]
Goes = Literal["closes", "loses"]


@dataclass(frozen=True, slots=True)
class Worker:
    """One incarnation of a consumer and its application.

    work_ns: for a message, spread: up to this share more or less. hands: messages in work at once.
    group: so many entries share an ACK. hangs_ns: from then on it finishes nothing. paused_ns: from
    then on it takes nothing. slows: from when on a message takes how long. nacks: share of the
    messages that it gives back, nack_ns after it had them.
    """

    name: str
    client: str
    queue: int
    work_ns: int
    spread: float = 0.0
    hands: int = 1
    acks: Acks = "each"
    group: int = 1
    attach_ns: int = 0
    leave_ns: int | None = None
    goes: Goes = "closes"
    hangs_ns: int | None = None
    paused_ns: int | None = None
    slows: tuple[int, int] | None = None
    nacks: float = 0.0
    nack_ns: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """One incident. consumer_limit, subscription_limit: of unacknowledged messages, 0 for none.

    delay_ns: applications hold a message back until it is so old. moments_ns: when it is looked at.
    trouble: what is wrong with it, by name, for whoever reads a table. told: whether the wire's
    reader is told receiver queues, limits and delays.
    """

    seed: int
    type: str
    workers: tuple[Worker, ...]
    entries: tuple[ProducedEntry, ...]
    moments_ns: tuple[int, ...]
    trouble: str = "none"
    consumer_limit: int = 0
    subscription_limit: int = 0
    delay_ns: int = 0
