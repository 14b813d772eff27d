"""When each client library sends a FLOW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Credits = Literal["received", "finished", "queued"]
ZeroBatches = Literal["refused", "each"]


@dataclass(frozen=True, slots=True)
class ClientKind:
    """One way to count. Measured: see docs/clients.md."""

    name: str
    version: str  # how the version that it reports begins
    # when a permit is given back: the application receives the message, its callback has returned,
    # or the message moves on into the queue of `ahead` messages before the application
    credits: Credits = "received"
    ahead: int = 0
    # a zero queue refuses a batch, or requests one more entry at each receive whatever is left of
    # the last one
    zero_batches: ZeroBatches = "refused"


CLIENTS = {
    client.name: client
    for client in (
        ClientKind("java", "Pulsar-Java"),
        ClientKind("pulsar-client", "Pulsar-CPP"),
        ClientKind("pulsar-client-listener", "Pulsar-CPP", credits="finished"),
        ClientKind("go", "Pulsar-Go", credits="queued", ahead=10, zero_batches="each"),
    )
}


def refill_threshold(receiver_queue_size: int) -> int:
    """Messages from one FLOW to the next: half the queue, at least 1."""
    return max(1, receiver_queue_size // 2)
