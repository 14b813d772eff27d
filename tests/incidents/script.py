"""All that is given of an incident before it is played. Times in nanoseconds since its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pulsar_doctor.model.scenario import ProducedEntry

SECOND = 1_000_000_000

Acks = Literal["each", "groups", "cumulative", "never"]
Goes = Literal["closes", "loses"]
Face = Literal["none", "lost", "asleep"]  # no read, one that nobody does, one that waits for new


@dataclass(frozen=True, slots=True)
class Worker:
    """One incarnation of a consumer and its application.

    work_ns: for a message, spread: up to this share more or less. hands: messages in work at once.
    group: so many entries share an ACK. hangs_ns: from then on it finishes nothing. paused_ns: from
    then on it takes nothing. slows: from when on a message takes how long. nacks: share of the
    messages that it gives back, nack_ns after it had them.

    dies_ns: from then on its machine is gone, and the broker does not know until leave_ns. leaks:
    share of what it takes for which its client never asks again. skips: these of the entries that
    it finishes, by their order, it never acknowledges. stays_ns, again_ns: it crashes after so
    long, and is back so much later, for ever; 0 for none.
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
    dies_ns: int | None = None
    leaks: float = 0.0
    skips: tuple[int, ...] = ()
    stays_ns: int = 0
    again_ns: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """What the broker does wrong, or is told to do. Nothing, as a rule.

    stuck_ns: from then on it reads nothing, until_ns: until then (None: for good), face: how its
    flags look meanwhile. rate: so many messages a second at most; 0: any. due: entries that are not
    due before a moment. drift: from when on its counter of the backlog is off by how many entries.
    keeps_active: it chooses no other active consumer when that one goes.
    """

    stuck_ns: int | None = None
    until_ns: int | None = None
    face: Face = "none"
    rate: int = 0
    due: Mapping[int, int] = field(default_factory=dict)
    drift: tuple[int, int] = (0, 0)
    keeps_active: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """One incident. consumer_limit, subscription_limit: of unacknowledged messages, 0 for none.

    delay_ns: applications hold a message back until it is so old. moments_ns: when it is looked at.
    trouble: what is wrong with it, by name, for whoever reads a table. redelivers: whether the
    stats tell the rate of what is sent again. followed_ns: how long it goes on after the last look.
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
    fault: Fault = Fault()
    redelivers: bool = False
    followed_ns: int = 7200 * SECOND
