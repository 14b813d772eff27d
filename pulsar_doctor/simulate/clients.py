"""When each client library sends a FLOW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Credits = Literal["received", "finished", "queued"]
ZeroBatches = Literal["refused", "each", "whole"]


@dataclass(frozen=True, slots=True)
class ClientKind:
    """One way to count. Measured: see docs/clients.md.

    credits: a message is given back when the application receives it, when its callback has
    returned, or already when it moves on into the queue of `ahead` messages before the
    application. zero_batches: what a zero queue does with a batch: it cannot have it, each receive
    asks for one more entry whatever is left of the last one, or all of it is handed out first.
    by_due: whether deferred messages leave the queue in the order of their due times; otherwise
    the application holds back the one that it has received, and it counts as taken already.
    version: what it says of itself begins so.
    """

    name: str
    version: str
    credits: Credits = "received"
    ahead: int = 0
    zero_batches: ZeroBatches = "refused"
    by_due: bool = False


CLIENTS = {
    client.name: client
    for client in (
        ClientKind("java", "Pulsar-Java"),
        ClientKind("pulsar-client", "Pulsar-CPP"),
        ClientKind("pulsar-client-listener", "Pulsar-CPP", credits="finished"),
        ClientKind("go", "Pulsar-Go", credits="queued", ahead=10, zero_batches="each"),
        ClientKind("wire", "pulsar-doctor", zero_batches="whole", by_due=True),
    )
}


def refill_threshold(receiver_queue_size: int) -> int:
    """Messages from one FLOW to the next: half the queue, at least 1."""
    return max(1, receiver_queue_size // 2)
