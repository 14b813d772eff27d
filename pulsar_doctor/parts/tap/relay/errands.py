"""What a conversation needs done by the owner of its sockets, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pulsar_doctor.parts.tap.relay.addresses import Address


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect to this broker, None for one of the service URL's; the client is not read before."""

    broker: Address | None


@dataclass(frozen=True, slots=True)
class Name:
    """The cluster has named this broker: from now on it may be dialled."""

    broker: Address
    behind: bool = False  # only through the service URL, which is a proxy


@dataclass(frozen=True, slots=True)
class Follow:
    """Ask the broker that a redirect names, and give its answer to the conversation."""

    question: bytes | None  # the client's LOOKUP; None: not known
    redirect: Any  # the LOOKUP_RESPONSE


@dataclass(frozen=True, slots=True)
class SayAloud:
    """Tell this sentence to whoever runs the tap."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Pass:
    """Write these bytes to the end that this direction leads to."""

    data: bytes
    direction: int


@dataclass(frozen=True, slots=True)
class EndBoth:
    """Nothing comes any more in this direction: its end is to see that."""

    direction: int


@dataclass(frozen=True, slots=True)
class Close:
    """End both ends, after what was written to them has gone out."""

    reset: bool  # as a reset


Errand = Dial | Name | Follow | SayAloud | Pass | EndBoth | Close
