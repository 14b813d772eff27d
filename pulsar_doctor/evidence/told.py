"""What is told of a consumer beside its verdict: where it is, and its numbers, well or not.

Numbers have the names of the view (see `consumer`), of which these are a part.
"""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence.values import Count


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a consumer is, as the broker or the wire names it. connected: for how long."""

    address: str | None = None
    client_version: str | None = None
    connected_since: str | None = None
    connected: Age | None = None

    def document(self) -> dict[str, str | None]:
        """As every JSON has it."""
        return {
            "address": self.address,
            "client_version": self.client_version,
            "connected_since": self.connected_since,
        }


@dataclass(frozen=True, slots=True)
class ToldConsumer:
    """One consumer. Fields are those of `ConsumerView`; None is not told."""

    label: str
    name: str | None = None
    address: str | None = None
    client_version: str | None = None
    connected_since: str | None = None
    connected: Age | None = None
    active: bool | None = None
    queue_size: Count | None = None
    permits: Count | None = None
    held: Count | None = None
    unacked_limit: int | None = None
    blocked: bool | None = None
    sent: Count | None = None
    granted: Count | None = None
    flows: int | None = None
    until_flow: Count | None = None
    never_acked: bool | None = None
    since_ack: Age | None = None
    since_flow: Age | None = None
    since_delivery: Age | None = None
    quiet: Age | None = None
    idle: Age | None = None
    msg_rate_out: float | None = None
