"""The messages between a tap and its relay process, on stdin and stdout.

TAKEN is no value here: that an application took a message is written to the journal as its line is.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.parts.tap.options import CONNECTIONS_MOST
from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.parts.tap.relay.lines import Table
from pulsar_doctor.trace.folder import JOURNAL_BYTES_MOST, ROTATE_BYTES


@dataclass(frozen=True, slots=True)
class Config:
    """The first line: where to listen, connect and write. The limits have defaults of their own."""

    listen_host: str
    listen_port: int
    upstream: tuple[Address, ...]
    trace_dir: str
    seal_every_seconds: float
    listen_tls: dict[str, str] | None = None  # see tls.py; None: no TLS
    upstream_tls: dict[str, str | bool | None] | None = None  # see tls.py; None: no TLS
    allow_brokers: tuple[Address, ...] = ()
    max_connections: int = CONNECTIONS_MOST
    journal_bytes_most: int = JOURNAL_BYTES_MOST
    rotate_bytes: int = ROTATE_BYTES
    # of the trace's lock, which the parent holds too: the relay outlives it until its clients are
    # gone; None: the relay takes the lock and ends with its parent
    lock_fd: int | None = None
    tally_fd: int | None = None  # where its counts survive it; None: nowhere
    generation: int = 0  # how many relays of this trace have died


@dataclass(frozen=True, slots=True)
class Flush:
    """To be answered once all that was seen is in the journal."""

    id: int | None = None  # repeated in the answer


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
    """It works."""

    listening: str  # the host as it was given, and the port that is used


@dataclass(frozen=True, slots=True)
class Ended:
    """The last message: the journal is closed."""

    counters: dict[str, int]  # by name, since it began


@dataclass(frozen=True, slots=True)
class CannotStart:
    """It does not listen, and why."""

    error: str


@dataclass(frozen=True, slots=True)
class Flushed:
    """The answer to Flush."""

    flushed: bool  # False: the disk takes too long
    counters: dict[str, int]  # by name
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Rotated:
    """The answer to Rotate."""

    rotated: int | None  # number of the journal that is complete now; None: there is none
    id: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficCounted:
    """The answer to CountTraffic."""

    counters: dict[str, int]  # by name
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
