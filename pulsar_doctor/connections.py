"""The connections that pass through the relay, each a client and its broker.

Bytes move first and unchanged, but for rewrites.py, and are journaled afterwards. What cannot be
parsed passes as it comes; what can be cut is, seen or not, so that the client stays on the tap.

Not frozen values but the tap's hot path: every byte comes through `Side.data_received`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import cast

from pulsar_doctor import rewrites
from pulsar_doctor.connection_journal import ConnectionJournal
from pulsar_doctor.framing import FRAME_PADDING_BYTES, Cutter, Frame
from pulsar_doctor.journal import Mask
from pulsar_doctor.journal_file import JournalFile
from pulsar_doctor.rewrites import (
    Address,
    address_of,
    longest_message,
    rewritten,
    wanted_broker,
)
from pulsar_doctor.sockets import peer_of, reset_at_close

TO_BROKER, TO_CLIENT = 0, 1  # as in journal.DIRECTIONS
CONNECTED = 3
WRITE_BUFFER_BYTES = 256 * 1024
CONNECT_BYTES_MOST = 1024 * 1024  # of a client that has not shown a whole frame yet
DIAL_SECONDS = 10.0
CLOSE_SECONDS = 2.0
CLOSE_POLL_SECONDS = 0.01
FRAME_BYTES_MOST = 2**31 - 1  # what a column of the trace holds


class Connections:
    """All connections of one relay, and what they share.

    unreachable: how often no broker could be reached for a client.
    """

    def __init__(self, upstream: Address, journal: JournalFile) -> None:
        self.upstream = upstream
        self.brokers = {(upstream[0].lower(), upstream[1])}
        self.journal = journal
        self._mask = Mask(os.urandom(16))
        self.open: set[Side] = set()
        self.unreachable = 0
        self._next_conn_id = 0

    def accept(self) -> Client:
        """A new client."""
        journal = ConnectionJournal(self.journal, self._mask, self._next_conn_id)
        self._next_conn_id += 1
        return Connection(self, journal).client

    async def close(self) -> None:
        """Ends all connections, and gives them a moment to send what was written to them."""
        for side in list(self.open):
            side.connection.close("the tap ends")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self.open:
                    await asyncio.sleep(CLOSE_POLL_SECONDS)


class Side(asyncio.Protocol):
    """One end of a connection: what is read here is written to the other end."""

    direction = TO_BROKER
    name = "client"
    held = rewrites.HELD_TO_BROKER

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.other: Side
        self.transport: asyncio.Transport | None = None
        self.cutter: Cutter | None = Cutter(self.held)
        self.waiting = b""  # read, and not to be passed on yet
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its buffer is bounded; TCP_NODELAY is asyncio's and uvloop's default."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.transport = transport
        self.connection.all.open.add(self)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    @property
    def live(self) -> asyncio.Transport | None:
        """Its transport, while it can be written to."""
        transport = self.transport
        return None if transport is None or transport.is_closing() else transport

    def pause_writing(self) -> None:
        """This end takes no more: the other end is not read until it does."""
        if (source := self.other.live) is not None:
            source.pause_reading()

    def resume_writing(self) -> None:
        """This end takes again."""
        if (source := self.other.live) is not None and not self.other.ended:
            source.resume_reading()

    def eof_received(self) -> bool:
        """A half-close is carried over; the other direction goes on."""
        self.ended = True
        self.pass_on_end()
        if self.other.ended:
            self.connection.close(f"closed by the {self.other.name}")
        return self.other.live is not None

    def pass_on_end(self) -> None:
        """Nothing comes any more from here: what was kept back goes, then the end itself."""
        kept, self.waiting = self.waiting, b""
        self.pass_on(kept)
        if (target := self.other.live) is not None:
            target.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of one end is the end of both; a reset is carried over as one."""
        self.connection.all.open.discard(self)
        how = "reset" if exc else "closed"
        self.connection.close(f"{how} by the {self.name}", reset=exc is not None)

    def pass_on(self, data: bytes) -> None:
        """Writes to the other end."""
        if data and (target := self.other.live) is not None:
            target.write(data)

    def data_received(self, data: bytes) -> None:
        """The hot path: cut, pass on, journal."""
        cutter = self.cutter
        if cutter is None:
            self.pass_on(data)
            return
        unparsed = feed(cutter, data)
        if self.waiting or cutter.undecided or cutter.completed_held:
            self.pass_on_decided(data, cutter.frames, cutter)
        else:
            self.pass_on(data)
        if cutter.frames:
            self.observe(cutter.frames)
        if unparsed is not None:
            self.cut_no_more(unparsed)

    def pass_on_decided(self, data: bytes, frames: list[Frame], cutter: Cutter) -> None:
        """Some of this is to be rewritten, or its type is not known yet."""
        buffer = self.waiting + data
        start = cutter.position - len(buffer)
        passed = 0
        out = []
        for frame in frames:
            if frame.code in self.held:
                begin, end = frame.end - frame.frame_bytes - start, frame.end - start
                out.append(buffer[passed:begin])
                out.append(rewritten(frame, buffer[begin:end], self.connection.all.brokers))
                passed = end
        until = len(buffer) - cutter.undecided
        out.append(buffer[passed:until])
        self.waiting = buffer[until:]
        self.pass_on(b"".join(out))

    def observe(self, frames: list[Frame]) -> None:
        """Journals what has passed."""
        self.connection.journal.frames(frames, self.direction)

    def cut_no_more(self, error: Exception) -> None:
        """From now on everything passes as it comes."""
        # Without a CONNECTED it may not be Pulsar at all: then the other way keeps nothing back.
        for side in (self,) if self.connection.broker.greeted else (self, self.other):
            side.cutter = None
            kept, side.waiting = side.waiting, b""
            side.pass_on(kept)
        self.connection.journal.unparsed(error, self.direction)


class Client(Side):
    """The client's end. The broker is dialled when the client's CONNECT says which one."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.first: list[Frame] = []

    def data_received(self, data: bytes) -> None:
        """Until the broker is there, everything waits."""
        if self.other.transport is not None:
            super().data_received(data)
            return
        assert self.cutter is not None
        self.waiting += data
        unparsed = feed(self.cutter, data)
        self.first += self.cutter.frames
        self.connection.unparsed = unparsed
        if self.first or unparsed or len(self.waiting) > CONNECT_BYTES_MOST:
            self._dial()

    def eof_received(self) -> bool:
        """What a client says before it hangs up reaches the broker, however little it is."""
        if self.other.transport is not None or not self.waiting:
            return super().eof_received()
        self.ended = True
        self._dial()
        return not self.connection.closed

    def _dial(self) -> None:
        assert self.transport is not None
        self.transport.pause_reading()
        self.connection.dial(wanted_broker(self.first[0].command) if self.first else "")

    def broker_is_there(self) -> None:
        """Sends what waited, CONNECT without the broker's name in it."""
        assert self.transport is not None
        assert self.cutter is not None
        if not self.ended:
            self.transport.resume_reading()  # first: what is written next may pause it again
        frames, self.first = self.first, []
        data, self.waiting = self.waiting, b""
        self.pass_on_decided(data, frames, self.cutter)
        self.observe(frames)
        if self.connection.unparsed is not None:
            self.cut_no_more(self.connection.unparsed)
        if self.ended:
            self.pass_on_end()


class Broker(Side):
    """The broker's end."""

    direction = TO_CLIENT
    name = "broker"
    held = rewrites.HELD_TO_CLIENT

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """At once, before anything is read here, the broker gets what the client has said."""
        super().connection_made(transport)
        if not self.connection.closed:
            self.connection.made()
        elif self.transport is not None:
            self.transport.abort()

    def observe(self, frames: list[Frame]) -> None:
        """Journals, and learns the longest message of this broker from CONNECTED."""
        if not self.greeted:
            for frame in frames:
                if frame.code == CONNECTED:
                    self.greeted = True
                    self.connection.allow(longest_message(frame))
        super().observe(frames)


class Connection:
    """A client and its broker."""

    def __init__(self, connections: Connections, journal: ConnectionJournal) -> None:
        self.all = connections
        self.journal = journal
        self.client = Client(self)
        self.broker = Broker(self)
        self.client.other, self.broker.other = self.broker, self.client
        self.dialling: asyncio.Task[None] | None = None
        self.unparsed: Exception | None = None  # why it cannot be observed, once that is known
        self.closed = False

    def dial(self, broker: str) -> None:
        """Connects to the broker that the client names, "" for the one behind the service URL."""
        target = address_of(broker) if broker else self.all.upstream
        if target is None or (broker and target not in self.all.brokers):
            self.close(f"refused: no lookup of this cluster named the broker {broker}")
            return
        self.dialling = asyncio.get_running_loop().create_task(self._dial(*target))

    async def _dial(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await loop.create_connection(lambda: self.broker, host, port)
        except Exception as error:  # OSError; UnicodeError for a name that is none
            self.all.unreachable += 1
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number and number > 0 else str(error) or "no answer"
            self.close(f"the broker {host}:{port} cannot be reached: {why}")
            return

    def made(self) -> None:
        """The broker is there."""
        self.journal.open(peer_of(self.client.transport), peer_of(self.broker.transport))
        self.client.broker_is_there()

    def allow(self, message_bytes: int) -> None:
        """Sets the longest frame: a message of so many bytes and what is added to it."""
        for side in (self.client, self.broker):
            if message_bytes > 0 and side.cutter is not None:
                most = min(message_bytes + FRAME_PADDING_BYTES, FRAME_BYTES_MOST)
                side.cutter.max_frame_bytes = most

    def close(self, why: str, *, reset: bool = False) -> None:
        """Ends both ends, after what was written to them has gone out."""
        if self.closed:
            return
        self.closed = True
        if not self.journal.opened:  # no broker was reached: what the client said is told anyway
            self.journal.open(peer_of(self.client.transport), None)
            self.client.observe(self.client.first)
        for side in (self.client, self.broker):
            if (transport := side.live) is not None:
                if reset:
                    reset_at_close(transport)
                transport.close()
        self.journal.close(why)


def feed(cutter: Cutter, data: bytes) -> Exception | None:
    """Has the cutter cut; what cannot be cut is no reason to stop, so the reason is returned."""
    try:
        cutter.feed(data)
    except Exception as error:
        return error
    return None
