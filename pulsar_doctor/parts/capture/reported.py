"""One consumer in the broker's stats at one moment, as a capture uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pulsar_doctor.broker.stats.topic import ConsumerStats

ConsumerIdentity = tuple[str, str, str | None, str | None]  # topic, subscription, name, address


class StatsConsumer(NamedTuple):
    """One consumer in one sample."""

    topic: str
    subscription: str
    type: str | None
    of: ConsumerStats  # as it was reported
    from_ns: int  # when it was requested, since 1970
    until_ns: int  # when the answer came

    @property
    def identity(self) -> ConsumerIdentity:
        """Who it is."""
        return self.topic, self.subscription, self.of.consumer_name, self.of.address


class ConsumerSample(NamedTuple):
    """What the broker reported at one moment."""

    consumers: Sequence[StatsConsumer]
    complete: bool  # has all topics that may be meant
    ledgers: Mapping[int, str] = {}  # ledger -> topic, from internal stats, each in one only
    standing: bool = False  # of no moment: only for names, and used once there is one to name


def plain_address(address: str | None) -> str:
    """The address of what the broker writes: /127.0.0.1:5000."""
    return (address or "").rpartition("/")[2]
