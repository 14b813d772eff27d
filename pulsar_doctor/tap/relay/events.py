"""The messages between a tap and its relay process, on stdin and stdout.

TAKEN is no value here: that an application took a message goes to the journal as its line stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.tap.relay.addresses import Address
from pulsar_doctor.tap.relay.lines import Table


@dataclass(frozen=True, slots=True)
class Config:
    """The first line: where to listen, where to connect to, and what to write where.

    listen_tls, upstream_tls: see tls.py; None without TLS. The limits have defaults of their own.
    lock_fd: the lock of the trace, which whoever started the relay holds as well; then the relay
    outlives it, until its clients are gone. None: it takes the lock and ends with its parent.
    tally_fd: where its counts survive it; None: nowhere. generation: how many relays of this trace
    have died.
    """

    listen_host: str
    listen_port: int
    upstream: tuple[Address, ...]
    trace_dir: str
    seal_every_seconds: float
    listen_tls: dict[str, str] | None = None
    upstream_tls: dict[str, str | bool | None] | None = None
    allow_brokers: tuple[Address, ...] = ()
    max_connections: int | None = None
    journal_bytes_most: int | None = None
    rotate_bytes: int | None = None
    lock_fd: int | None = None
    tally_fd: int | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Flush:
    """To be answered once all that was seen is in the journal. id: stands in the answer again."""

    id: int | None = None


@dataclass(frozen=True, slots=True)
class Rotate:
    """Begin the next journal."""

    id: int | None = None


@dataclass(frozen=True, slots=True)
class CountTraffic:
    """What was counted?"""

    id: int | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """End."""


@dataclass(frozen=True, slots=True)
class Listens:
    """It works. listening: the host as it was told, and the port that it was given."""

    listening: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last word: the journal is closed. counters: by their names, of its whole life."""

    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class CannotStart:
    """It does not listen, and why."""

    error: str


@dataclass(frozen=True, slots=True)
class Flushed:
    """flushed: False where the disk takes too long. counters: by their names."""

    flushed: bool
    counters: dict[str, int]
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Rotated:
    """rotated: number of the journal that is complete now; None without any."""

    rotated: int | None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficCounted:
    """counters: by their names."""

    counters: dict[str, int]
    id: int | None = None


Question = Flush | Rotate | CountTraffic
Answer = Flushed | Rotated | TrafficCounted

QUESTIONS: Table[Question | Stop] = Table(
    "command", {"FLUSH": Flush, "ROTATE": Rotate, "COUNTERS": CountTraffic, "STOP": Stop}
)
ANSWERS: Table[Answer | Listens | CannotStart | Ended] = Table(
    "event",
    {
        "listening": Listens,
        "refused": CannotStart,
        "ended": Ended,
        "flushed": Flushed,
        "rotated": Rotated,
        "counted": TrafficCounted,
    },
)
