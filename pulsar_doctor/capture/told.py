"""One consumer in the broker's stats at one moment, as a capture uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ToldIdentity = tuple[str, str, str | None, str | None]  # topic, subscription, name, address


class ConsumerTold(NamedTuple):
    """One consumer in one sample. from_ns, until_ns: of the question and its answer, since 1970.

    unacked: None where the broker does not count them. sent: messages since it connected.
    """

    topic: str
    subscription: str
    type: str | None
    name: str | None
    address: str | None
    client_version: str | None
    permits: int | None
    unacked: int | None
    sent: int | None
    last_sign_us: int | None
    from_ns: int
    until_ns: int

    @property
    def identity(self) -> ToldIdentity:
        """Who it is."""
        return self.topic, self.subscription, self.name, self.address


class ToldSample(NamedTuple):
    """What was told at one moment. complete: of all topics that may be meant.

    ledgers: whose they are, as far as internal stats tell: no two topics have the same. standing:
    of no moment, so that it tells names alone, and as soon as there is somebody to be named.
    """

    consumers: Sequence[ConsumerTold]
    complete: bool
    ledgers: Mapping[int, str] = {}
    standing: bool = False


def plain_address(address: str | None) -> str:
    """Of what the broker writes: /127.0.0.1:5000."""
    return (address or "").rpartition("/")[2]
