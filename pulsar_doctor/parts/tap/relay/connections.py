"""What all connections of the relay share: journal, counters, limit.

One of them is in connection.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import ssl
from collections.abc import Callable
from typing import Protocol

from pulsar_doctor.parts.tap.options import CONNECTIONS_MOST
from pulsar_doctor.parts.tap.relay import tls
from pulsar_doctor.parts.tap.relay.addresses import Address, Way
from pulsar_doctor.parts.tap.relay.connection_journal import ConnectionJournal, Unmasked
from pulsar_doctor.parts.tap.relay.conversation import RelayCounters
from pulsar_doctor.parts.tap.relay.dialling import Dialler
from pulsar_doctor.parts.tap.relay.journal_file import JournalFile, moment
from pulsar_doctor.parts.tap.relay.sides import Side
from pulsar_doctor.wire.columns import GENERATION_BITS
from pulsar_doctor.wire.masking import Mask

CLOSE_SECONDS = 2.0
CLOSE_POLL_SECONDS = 0.01
FOLLOWED_AT_ONCE = 64  # connections of our own, of the whole relay


class TapPlaces(Protocol):
    """Addresses of the tap that stand for others; None where there is none."""

    def migrate(
        self, brokers: tuple[Address, ...], client: asyncio.BaseTransport | None, before: Dialler
    ) -> Address | None:
        """One for the cluster that a topic has moved to, where this client can reach it."""

    def stand_in(
        self, way: Way, client: asyncio.BaseTransport | None, dialler: Dialler
    ) -> Address | None:
        """One for this broker, where this client can reach it."""

    def way_of(self, address: Address) -> Way | None:
        """The broker that this address represents."""


class Connections:
    """Every connection of one relay, and what they share."""

    def __init__(
        self,
        journal: JournalFile,
        *,
        places: TapPlaces | None = None,
        say: Callable[[str], None] = lambda sentence: None,
        most: int = CONNECTIONS_MOST,
        generation: int = 0,
    ) -> None:
        self.journal = journal
        self.counters = RelayCounters()
        self.open: set[Side] = set()
        self.following = asyncio.Semaphore(FOLLOWED_AT_ONCE)
        self.places = places
        self.say = say  # a sentence, to whoever runs the tap
        self._most = most
        self.mask = Mask(os.urandom(16))
        self._unmasked = Unmasked(journal, self.mask)
        self._conn_ids = itertools.count(generation << GENERATION_BITS)

    def admit(self) -> ConnectionJournal | None:
        """A client is there: what is written down of it; None where there are too many."""
        if self.counters.connections_open >= self._most:
            self.counters.connections_refused += 1
            return None
        self.counters.connections_open += 1
        self.counters.connections_opened += 1
        return ConnectionJournal(self.journal, self._unmasked, next(self._conn_ids))

    def tls_failed(self, error: ssl.SSLError) -> None:
        """A client and the tap could not agree on TLS: nothing else is known of it."""
        self.counters.client_tls_failed += 1
        why = tls.why_not_client(error)
        self.say(why)
        notes = ConnectionJournal(self.journal, self._unmasked, next(self._conn_ids))
        now = moment()
        notes.open(None, None, now)
        notes.close(why, now)

    def read_bytes(self, direction: int) -> int:
        """How many bytes were read, in that direction."""
        living = sum(side.read_bytes for side in self.open if side.direction == direction)
        return self.counters.read_bytes[direction] + living

    async def close(self) -> None:
        """Ends all connections, and gives them a moment to send what was written to them."""
        for side in list(self.open):
            side.connection.close("the tap ends")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self.open:
                    await asyncio.sleep(CLOSE_POLL_SECONDS)
