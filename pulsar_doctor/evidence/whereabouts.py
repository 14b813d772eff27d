"""A consumer's address, client and connection time."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a consumer is, as the broker or the wire names it. connected: for how long."""

    address: str | None = None
    client_version: str | None = None
    connected_since: str | None = None
    connected: Age | None = None
