"""Moves bytes between the two sockets of a connection.

Sockets, event loop and clock are here; what passes and what follows from it is in conversation.py.

The tap's hot path: every byte comes through `Side.buffer_updated`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from time import monotonic
from typing import Protocol, cast

from pulsar_doctor.parts.tap.relay.addresses import Address
from pulsar_doctor.parts.tap.relay.conversation import Conversation
from pulsar_doctor.parts.tap.relay.journal_file import moment
from pulsar_doctor.parts.tap.relay.passage import Passage
from pulsar_doctor.wording.addresses import shown

WRITE_BUFFER_BYTES = 256 * 1024
READ_BYTES_LEAST, READ_BYTES_MOST = 4 * 1024, 256 * 1024
TURN_SECONDS, LONG_READ_SECONDS = 0.002, 0.004
ITS_TURN, ITS_BROKER, A_READER = "its turn", "its broker", "a reader"  # what an end may wait for
# What is read is taken out before anything else is read, so all connections share one room for it.
ROOM = bytearray(READ_BYTES_MOST)
ROOMS = {
    1 << bits: memoryview(ROOM)[: 1 << bits]
    for bits in range(READ_BYTES_LEAST.bit_length() - 1, READ_BYTES_MOST.bit_length())
}
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


def reset_at_close(transport: asyncio.Transport) -> None:
    """Has the peer see a reset, as the peer of the other end does, and not an orderly end."""
    with contextlib.suppress(OSError):
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """`ip:port` of the other end of a socket."""
    address = peer_address(transport)
    return shown(address) if address[1] else None


def peer_address(transport: asyncio.BaseTransport | None) -> Address:
    """Host and port of the other end of a socket."""
    name = transport.get_extra_info("peername") if transport is not None else None
    return (str(name[0]), int(name[1])) if name else ("?", 0)


class Ends(Protocol):
    """What a connection is to its two sides."""

    talk: Conversation

    def admit(self) -> bool:
        """A client is there: whether it may stay."""

    def made(self) -> None:
        """The broker is there."""

    def gone(self, side: Side) -> None:
        """A side has ended for good."""

    def tls_failed(self, error: ssl.SSLError) -> None:
        """The broker ended the connection, with a reason."""

    def close(self, why: str) -> None:
        """Ends both ends, after what was written to them has gone out."""

    def run_errands(self) -> None:
        """Does what the conversation wants done. Never raises."""


class Side(asyncio.BufferedProtocol):
    """One end of a connection: what is read here is written to the other end.

    A turn of the event loop takes so much of it as a few milliseconds suffice for, and no more: the
    other connections have their turns. Reads grow while they are quick, since fewer of them cost
    less, and shrink where they are not; reading is paused only where a turn was used up. What one
    read brings is bounded in frames too, since short ones take the longest: what is left of it
    (`way.more`) is looked at in the next turn.
    """

    def __init__(self, connection: Ends, way: Passage, receive: Callable[[bytes], bytes]) -> None:
        self.connection = connection
        self.talk = connection.talk
        self.way = way  # the direction of what is read here
        self.direction = way.direction
        self.receive = receive  # returns what to write to the other end for it
        self.other: Side
        self.transport: asyncio.Transport | None = None
        self.read_bytes = 0
        self.tls = False
        self._room_bytes = READ_BYTES_LEAST
        self._turn_seconds = 0.0  # that it took so far
        self._waits_for: set[str] = set()  # why it is not read now

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bounds the buffer; TCP_NODELAY is asyncio's and uvloop's default."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.transport = transport
        self.tls = transport.get_extra_info("ssl_object") is not None  # it has no half-close
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    @property
    def live(self) -> asyncio.Transport | None:
        """The side's transport, while it can be written to."""
        transport = self.transport
        return None if transport is None or transport.is_closing() else transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Room for the next read."""
        return ROOMS[self._room_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """The hot path: cut, pass on, journal."""
        self.read_bytes += nbytes
        begun = monotonic()
        self._pass_on(bytes(ROOMS[self._room_bytes][:nbytes]))
        seconds = monotonic() - begun
        if nbytes < self._room_bytes and seconds < TURN_SECONDS and not self.way.more:
            self._turn_seconds = 0.0  # that was all: the others have their turns anyway
        else:
            self._account(seconds)

    def _pass_on(self, data: bytes) -> None:
        out = self.receive(data)
        if out:
            target = self.other.transport
            if target is not None and not target.is_closing():
                target.write(out)
        if self.way.news:
            self.talk.settle(self.way, moment())
        if self.talk.errands:
            self.connection.run_errands()

    def _account(self, seconds: float) -> None:
        """There may be more: libuv reads on before anything else, unless it is stopped."""
        if seconds > LONG_READ_SECONDS:
            self._room_bytes = max(self._room_bytes // 2, READ_BYTES_LEAST)
        elif seconds < TURN_SECONDS and not self.way.more:
            self._room_bytes = min(self._room_bytes * 2, READ_BYTES_MOST)
        self._turn_seconds += seconds
        if self.way.more or self._turn_seconds > TURN_SECONDS:
            self.wait_for(ITS_TURN)
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """What is left of the last read, then the next one."""
        self._turn_seconds = 0.0
        if self.left:
            self._pass_on(b"")
        if self.left:
            asyncio.get_running_loop().call_soon(self._next_turn)
        else:
            self.need_not_wait_for(ITS_TURN)

    def _finish(self) -> None:
        """Nothing is read here any more: what is left of the last read."""
        while self.left:
            self._pass_on(b"")

    @property
    def left(self) -> bool:
        """Whether some of what was read is still to be looked at, and somebody is there for it."""
        return self.way.more and not self.talk.closed

    def wait_for(self, what: str) -> None:
        """It is not read until then."""
        if not self._waits_for and (transport := self.live) is not None:
            transport.pause_reading()
        self._waits_for.add(what)

    def need_not_wait_for(self, what: str) -> None:
        """It is read on, where nothing else is waited for."""
        if what not in self._waits_for:
            return
        self._waits_for.discard(what)
        if not self._waits_for and not self.way.ended and (transport := self.live) is not None:
            transport.resume_reading()

    def pause_writing(self) -> None:
        """This end takes no more: the other end is not read until it does."""
        self.other.wait_for(A_READER)

    def resume_writing(self) -> None:
        """This end takes again."""
        self.other.need_not_wait_for(A_READER)

    def eof_received(self) -> bool:
        """A half-close is carried over; the other direction continues, where no TLS forbids it."""
        self._finish()
        self.talk.ended(self.way, moment())
        self.connection.run_errands()
        return (self.talk.dialling or self.other.live is not None) and not self.tls

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of one end is the end of both; a reset is carried over as one."""
        self._finish()
        self.connection.gone(self)
        self.talk.lost(self.way, moment(), reset=exc is not None)
        self.connection.run_errands()

    def write(self, data: bytes) -> None:
        """What is not read on the other end."""
        if data and (transport := self.live) is not None:
            transport.write(data)

    def write_end(self) -> None:
        """Nothing comes any more from the other end."""
        if (transport := self.live) is None:
            return
        if not transport.can_write_eof():
            transport.close()  # TLS has no half-close: what was written is sent, and it is over
            return
        try:
            transport.write_eof()
        except OSError:  # it was reset in this moment, and has had no time to say so
            self.talk.lost(self.way, moment(), reset=True)

    def end(self, *, reset: bool) -> None:
        """Closes this end, after what was written to it has gone out."""
        if (transport := self.live) is not None:
            if reset:
                reset_at_close(transport)
            if reset and self.tls and not transport.get_write_buffer_size():
                transport.abort()  # an orderly end of TLS would be no reset
            else:
                transport.close()


class Client(Side):
    """The client's end. It is not read while its broker is dialled."""

    def __init__(self, connection: Ends) -> None:
        super().__init__(connection, connection.talk.to_broker, connection.talk.from_client)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Where there are too many already, this one is closed at once."""
        super().connection_made(transport)
        if not self.connection.admit() and self.transport is not None:
            self.transport.abort()


class Broker(Side):
    """The broker's end, which comes later."""

    def __init__(self, connection: Ends) -> None:
        super().__init__(connection, connection.talk.to_client, connection.talk.to_client.receive)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """At once, before anything is read here, the broker gets what the client has sent."""
        super().connection_made(transport)
        if self.talk.closed:
            if self.transport is not None:
                self.transport.abort()
            return
        self.connection.made()
        self.write(self.talk.broker_came(peer_of(transport)))
        self.talk.opened(moment())
        self.connection.run_errands()

    def connection_lost(self, exc: Exception | None) -> None:
        """With TLS 1.3 a broker refuses our certificate after the handshake."""
        if isinstance(exc, ssl.SSLError):
            self.connection.tls_failed(exc)
        super().connection_lost(exc)
