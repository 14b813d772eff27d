"""The client's end of a connection, which says where to go, and the broker's, which comes later."""

from __future__ import annotations

import asyncio
import ssl

from pulsar_doctor.errors import FramingError
from pulsar_doctor.framing import Frame, Frames
from pulsar_doctor.relay import rewrites
from pulsar_doctor.relay.rewrites import longest_message, wanted_broker
from pulsar_doctor.relay.sides import TO_CLIENT, Ends, Side, feed

CONNECTED = 3
CONNECT_BYTES_MOST = 1024 * 1024  # of a client that has not shown a whole frame yet


class Client(Side):
    """The client's end. The broker is dialled when the client's CONNECT says which one."""

    def __init__(self, connection: Ends) -> None:
        super().__init__(connection)
        self.first: list[Frames] = []
        self.first_held: list[Frame] = []
        self.at_first: Exception | None = None  # why more cannot be observed
        self.behind = b""  # read after that

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Where there are too many already, this one is closed at once."""
        super().connection_made(transport)
        if not self.connection.admit() and self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Until the broker is there, everything waits."""
        if self.other.transport is not None:
            super().data_received(data)
            return
        if self.connection.closed:
            return
        assert self.cutter is not None
        self.read_bytes += len(data)
        if self.at_first is not None:
            self.behind += data
            return
        self.waiting += data
        unparsed = feed(self.cutter, data)
        if (unparsed is None or isinstance(unparsed, FramingError)) and len(self.cutter.frames):
            self.first.append(self.cutter.frames)
            self.first_held += self.cutter.held_frames
        self.at_first = unparsed
        if self.first or unparsed or len(self.waiting) > CONNECT_BYTES_MOST:
            self._dial()

    def eof_received(self) -> bool:
        """What a client says before it hangs up reaches the broker, however little it is."""
        if self.other.transport is not None or not self.waiting:
            return super().eof_received()
        self.ended = True
        self._dial()
        return not self.connection.closed and not self.tls

    def _dial(self) -> None:
        assert self.transport is not None
        self.transport.pause_reading()
        first = next(iter(self.first[0])) if self.first else None
        self.connection.dial(wanted_broker(first.command) if first else "")

    def broker_is_there(self) -> None:
        """Sends what waited, CONNECT without the broker's name in it."""
        assert self.transport is not None
        assert self.cutter is not None
        if not self.ended:
            self.transport.resume_reading()  # first: what is written next may pause it again
        first, self.first = self.first, []
        held, self.first_held = self.first_held, []
        data, self.waiting = self.waiting, b""
        if self.at_first is None or isinstance(self.at_first, FramingError):
            self.pass_on_decided(data, self.cutter, held, Frames())
            for frames in first:
                self.observe(frames)
        else:
            self.pass_on(data)
        if self.at_first is not None:
            self.cut_no_more(self.at_first)
            self.pass_on(self.behind)
            self.behind = b""
        if self.ended:
            self.pass_on_end()


class Broker(Side):
    """The broker's end."""

    direction = TO_CLIENT
    name = "broker"
    held = rewrites.HELD_TO_CLIENT

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """At once, before anything is read here, the broker gets what the client has said."""
        super().connection_made(transport)
        if not self.connection.closed:
            self.connection.made()
        elif self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """With TLS 1.3 a broker refuses our certificate after the handshake."""
        if isinstance(exc, ssl.SSLError):
            self.connection.tls_failed(exc)
        super().connection_lost(exc)

    def observe(self, frames: Frames) -> None:
        """Journals, and learns the longest message of this broker from CONNECTED."""
        if not self.connection.greeted:
            for frame in frames:
                if frame.code == CONNECTED:
                    self.connection.greeted = True
                    self.connection.allow(longest_message(frame))
        super().observe(frames)
