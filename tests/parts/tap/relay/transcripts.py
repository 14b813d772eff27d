"""Messages through the relay without a socket: bytes in, bytes out, in order.

    talk = connected()
    talk.client.says(flow(1))
    assert talk.broker.hears() == flow(1)
    assert talk.commands() == ["OPEN", "CONNECT", "CONNECTED", "FLOW"]

Nothing but the sockets is left out: what decides is the relay's own conversation, and what it has
written down is masked, packed and read again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pulsar_doctor.parts.tap.relay.connection_journal import ConnectionJournal, Time, Unmasked
from pulsar_doctor.parts.tap.relay.conversation import Conversation, RelayCounters
from pulsar_doctor.parts.tap.relay.errands import Close, Dial, EndBoth, Errand, Pass
from pulsar_doctor.parts.tap.relay.passage import TO_BROKER, Passage
from pulsar_doctor.wire.columns import Row
from pulsar_doctor.wire.commands import rows_of
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import NO_CONNECTION, pack_block, read_blocks
from pulsar_doctor.wire.masking import Mask, Read
from tests.parts.tap.tapped import CONNECT, CONNECTED

CLIENT, BROKER = "10.0.0.1:1", "10.0.0.2:6650"
MOMENTS = itertools.count(1)


def now() -> Time:
    """Each time a moment later."""
    moment = next(MOMENTS)
    return 1_790_000_000_000_000 + moment, moment


class Kept:
    """A journal in memory: blocks as they would be written."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.seen = 0
        self.before: Callable[[], None] = lambda: None
        self._unmasked: Unmasked | None = None
        self._ids = itertools.count()

    def notes(self) -> ConnectionJournal:
        """Of another connection."""
        if self._unmasked is None:
            self._unmasked = Unmasked(self, Mask(b"salt"))
        return ConnectionJournal(self, self._unmasked, next(self._ids))

    def add(
        self,
        records: Sequence[bytes],
        conn_id: int = NO_CONNECTION,
        direction: int = 0,
        *,
        now: Time | None = None,
    ) -> None:
        self.before()
        read = Read(*(now or (0, 0)), conn_id, direction, Frames())
        self.add_block(records, len(records), read)

    def add_block(self, records: Sequence[bytes], count: int, read: Read) -> None:
        ts, mono_ns, conn_id, direction, _ = read
        self.seen += count
        self.blocks.append(
            pack_block(records, ts=ts, mono_ns=mono_ns, conn_id=conn_id, direction=direction)
        )

    def read(self) -> list[Row]:
        blocks = [block for block, _ in read_blocks(b"".join(self.blocks))]
        return [row for block in blocks for row in rows_of(block)]


class Speaker:
    """The client or the broker."""

    def __init__(self, talk: Talk, way: Passage) -> None:
        self.over: str | None = None  # "closed" or "reset", by the relay
        self.heard_end = False
        self.heard = bytearray()
        self._talk = talk
        self._way = way

    def says(self, data: bytes, *, pieces: int | Iterable[int] = 0) -> None:
        """pieces: the length of each, or where they are cut."""
        if isinstance(pieces, int):
            pieces = range(pieces, len(data), pieces) if pieces else ()
        for begin, end in itertools.pairwise((0, *pieces, len(data))):
            self._talk.receive(self._way, data[begin:end])

    def ends(self) -> None:
        """A half-close."""
        self._talk.conversation.ended(self._way, now())
        self._talk.carry_out()

    def goes(self, *, reset: bool = False) -> None:
        """Its socket is gone."""
        self._talk.conversation.lost(self._way, now(), reset=reset)
        self._talk.carry_out()

    def hears(self) -> bytes:
        """All that has come since it was looked at last."""
        heard, self.heard = bytes(self.heard), bytearray()
        return heard


class Talk:
    """One conversation through the relay.

    kept: what is written down, of others as well where they share it. The errands that a socket or
    a resolver would be needed for are given by `asked`, and are the test's to do.
    """

    def __init__(
        self, *, kept: Kept | None = None, counters: RelayCounters | None = None, **how: Any
    ) -> None:
        self.kept = kept or Kept()
        self.counters = counters or RelayCounters()
        self.conversation = Conversation(self.counters, **how)
        notes = self.kept.notes()
        self._conn_id = notes.conn_id
        self.conversation.client_came(notes, CLIENT)
        self.client = Speaker(self, self.conversation.to_broker)
        self.broker = Speaker(self, self.conversation.to_client)
        self._asked: list[Errand] = []

    def receive(self, way: Passage, data: bytes) -> None:
        """As sides.Side does it: the bytes first, then what follows from them."""
        talk = self.conversation
        if way.direction == TO_BROKER:
            self.broker.heard += talk.from_client(data)
        else:
            self.client.heard += talk.to_client.receive(data)
        if way.news:
            talk.settle(way, now())
        self.carry_out()

    def broker_comes(self) -> None:
        """The broker that was asked for is there."""
        self.broker.heard += self.conversation.broker_came(BROKER)
        self.conversation.opened(now())
        self.carry_out()

    def asked(self) -> list[Errand]:
        """What is to be done, since it was looked at last."""
        asked, self._asked = self._asked, []
        return asked

    def carry_out(self) -> None:
        """What concerns nobody but the two."""
        errands, self.conversation.errands[:] = list(self.conversation.errands), []
        for errand in errands:
            if isinstance(errand, Pass):
                self._towards(errand.direction).heard += errand.data
            elif isinstance(errand, EndBoth):
                self._towards(errand.direction).heard_end = True
            elif isinstance(errand, Close):
                self.client.over = self.broker.over = "reset" if errand.reset else "closed"
            else:
                self._asked.append(errand)

    def rows(self) -> list[Row]:
        """What is written down of it by now."""
        self.kept.before()
        return [row for row in self.kept.read() if row.conn_id == self._conn_id]

    def commands(self) -> list[str]:
        return [row.command for row in self.rows()]

    def why(self) -> str | None:
        """What the last row says was wrong."""
        return self.rows()[-1].error_message

    def _towards(self, direction: int) -> Speaker:
        return self.broker if direction == TO_BROKER else self.client


def connected(**how: Any) -> Talk:
    """A client and its broker, once both have said who they are."""
    talk = Talk(**how)
    talk.client.says(CONNECT)
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    assert talk.broker.hears() == CONNECT
    talk.broker.says(CONNECTED)
    assert talk.client.hears() == CONNECTED
    return talk
