"""The messages between a tap and its observer: consumers, verdicts, gaps.

at_us is the moment of an event, in microseconds since 1970; what is None is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.topics import AboutTopic
from pulsar_doctor.parts.tap.broker_reports import BrokerAnswer
from pulsar_doctor.parts.tap.relay.lines import Table

# From the tap.


@dataclass(frozen=True, slots=True)
class Begin:
    """The first line: how to work."""

    changes: tuple[str, ...] = ()  # of thresholds


@dataclass(frozen=True, slots=True)
class Seal:
    """To be answered once the parts up to this one are sealed."""

    through: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Seals like Seal, and copies what the ring holds then."""

    through: int
    reason: str  # without secrets


@dataclass(frozen=True, slots=True)
class CountRows:
    """What has been read and sealed?"""


@dataclass(frozen=True, slots=True)
class Compare:
    """What the broker says of topics on the tap, to be joined with what the wire shows."""

    answers: tuple[BrokerAnswer, ...]


# From the observer.


@dataclass(frozen=True, slots=True)
class NextFlow:
    """After so many more messages, at most or exactly, in so many seconds."""

    messages: int
    at_most: bool
    seconds: float | None


@dataclass(frozen=True, slots=True)
class LivingConsumer(AboutTopic):
    """One consumer as it is now."""

    incarnation: int
    name: str | None
    topic: str
    partition: int | None
    subscription: str
    type: str | None
    client_version: str | None
    address: str | None
    receiver_queue_size: int | None
    refill_threshold: int | None
    available_permits: int | None  # at most, while parked_permits is None
    parked_permits: int | None
    unsent_permits_min: int | None
    flows: int | None
    msg_out_counter: int | None
    acknowledged: int | None
    unacked_messages: int | None
    since_last_flow: float | None
    next_flow: NextFlow | None
    certain: bool
    status: Status | None  # None: no verdict yet
    code: str | None  # of what is found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every living consumer at one moment."""

    at_us: int
    consumers: tuple[LivingConsumer, ...]
    unread_bytes: int  # of the journal


@dataclass(frozen=True, slots=True)
class Verdict:
    """One that changed."""

    at_us: int
    before: Status | None  # None: it is the first
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Gap:
    """Commands that are missing in the trace at row seq."""

    at_us: int
    seq: int
    dropped: int | None  # how many; None: not known


@dataclass(frozen=True, slots=True)
class NotLetIn:
    """Why a client did not get through; each reason once, with the first client that had it."""

    at_us: int
    reason: str
    address: str | None
    client_version: str | None


@dataclass(frozen=True, slots=True)
class PassedBy:
    """A lookup was answered and nobody came for the topic: its client may be past the tap."""

    at_us: int
    topic: str
    address: str | None
    client_version: str | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """The answer to Seal."""

    at_us: int
    through: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer to Keep."""

    at_us: int
    through: int
    reason: str
    path: str | None  # of the copy; None: nothing could be kept, see error
    error: str | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the trace cannot be sealed now; None: it can again."""

    at_us: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """The answer to CountRows."""

    at_us: int
    rows: int
    unread_bytes: int
    parts_sealed: int
    expired_rows: int


Ask = Begin | Seal | Keep | CountRows | Compare
ObserverEvent = Snapshot | Verdict | Gap | NotLetIn | PassedBy | Sealed | Kept | Trouble | Counted

ASKS: Table[Ask] = Table(
    "command",
    {"BEGIN": Begin, "SEAL": Seal, "KEEP": Keep, "COUNTERS": CountRows, "COMPARE": Compare},
)
EVENTS: Table[ObserverEvent] = Table(
    "event",
    {
        "snapshot": Snapshot,
        "verdict": Verdict,
        "gap": Gap,
        "refused": NotLetIn,
        "passed_by": PassedBy,
        "sealed": Sealed,
        "kept": Kept,
        "trouble": Trouble,
        "counted": Counted,
    },
)
