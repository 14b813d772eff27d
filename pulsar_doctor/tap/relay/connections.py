"""What all connections through the relay share: the journal, the counters, the limit.

One of them is in connection.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from pulsar_doctor.tap.relay.addresses import Address
from pulsar_doctor.tap.relay.connection_journal import ConnectionJournal, Unmasked
from pulsar_doctor.tap.relay.counters import RelayCounters
from pulsar_doctor.tap.relay.dialling import Dialler
from pulsar_doctor.tap.relay.journal_file import JournalFile
from pulsar_doctor.tap.relay.sides import Side
from pulsar_doctor.wire.masking import Mask

CLOSE_SECONDS = 2.0
CLOSE_POLL_SECONDS = 0.01
FOLLOWED_AT_ONCE = 64  # connections of our own, of the whole relay
CONNECTIONS_MOST = 10_000

# Where a client finds the cluster that its topic has moved to: an address of the tap.
MigrateConnection = Callable[
    [tuple[Address, ...], asyncio.BaseTransport | None, Dialler], Address | None
]


class Connections:
    """All connections of one relay, and what they share.

    say: tells a sentence to whoever runs the tap.
    """

    def __init__(
        self,
        journal: JournalFile,
        *,
        migrate: MigrateConnection | None = None,
        say: Callable[[str], None] = lambda sentence: None,
        most: int = CONNECTIONS_MOST,
    ) -> None:
        self.journal = journal
        self.counters = RelayCounters()
        self.open: set[Side] = set()
        self.following = asyncio.Semaphore(FOLLOWED_AT_ONCE)
        self.migrate = migrate
        self.say = say
        self._most = most
        self.mask = Mask(os.urandom(16))
        self._unmasked = Unmasked(journal, self.mask)
        self._next_conn_id = 0

    def admit(self) -> ConnectionJournal | None:
        """A client is there: what is written down of it; None where there are too many."""
        if self.counters.connections_open >= self._most:
            self.counters.connections_refused += 1
            return None
        self.counters.connections_open += 1
        self.counters.connections_opened += 1
        self._next_conn_id += 1
        return ConnectionJournal(self.journal, self._unmasked, self._next_conn_id - 1)

    def read_bytes(self, direction: int) -> int:
        """All that was read, in that direction."""
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
