"""The two sides of a connection through the relay: what is read on one is written to the other.

Bytes move first and unchanged, but for the frames that the other modules decide about, and are
journaled afterwards. What cannot be parsed passes as it comes; what can be cut is, seen or not, so
that the client stays on the tap.

Not frozen values but the tap's hot path: every byte comes through `Side.data_received`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Protocol, cast

from pulsar_doctor.errors import FramingError
from pulsar_doctor.framing import Cutter, Frame, Frames
from pulsar_doctor.relay import rewrites
from pulsar_doctor.relay.sockets import is_tls, reset_at_close

TO_BROKER, TO_CLIENT = 0, 1  # as in journal.DIRECTIONS
WRITE_BUFFER_BYTES = 256 * 1024


class Ends(Protocol):
    """What a connection is to its two sides."""

    closed: bool
    greeted: bool  # by the broker's CONNECTED

    def admit(self) -> bool:
        """A client is there: whether it may stay."""

    def dial(self, broker: str) -> None:
        """Connects to the broker that the client names, "" for one of the service URL's."""

    def made(self) -> None:
        """The broker is there."""

    def gone(self, side: Side) -> None:
        """A side has ended for good."""

    def close(self, why: str, *, reset: bool = False) -> None:
        """Ends both sides, after what was written to them has gone out."""

    def decide(self, frame: Frame, original: bytes, direction: int) -> bytes:
        """What to pass on instead of a held frame. Never raises."""

    def tls_failed(self, error: ssl.SSLError) -> None:
        """The broker ended the connection, and said why."""

    def allow(self, message_bytes: int) -> None:
        """Sets the longest frame: a message of so many bytes and what is added to it."""

    def observe(self, frames: Frames, direction: int) -> None:
        """Journals what has passed. Never raises."""

    def unparsed(self, error: Exception, direction: int) -> None:
        """From here on nothing can be said of this connection. Never raises."""


class Side(asyncio.Protocol):
    """One end of a connection: what is read here is written to the other end."""

    direction = TO_BROKER
    name = "client"
    held = rewrites.HELD_TO_BROKER

    def __init__(self, connection: Ends) -> None:
        self.connection = connection
        self.other: Side
        self.transport: asyncio.Transport | None = None
        self.cutter: Cutter | None = Cutter(self.held)
        self.waiting = b""  # read, and not to be passed on yet
        self.insertion = b""  # frames of our own, to go between two of this side's
        self.read_bytes = 0
        self.ended = False
        self.tls = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its buffer is bounded; TCP_NODELAY is asyncio's and uvloop's default."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.transport = transport
        self.tls = is_tls(transport)
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
        """A half-close is carried over; the other direction goes on, where no TLS forbids it."""
        self.ended = True
        self.pass_on_end()
        if self.other.ended:
            self.connection.close(f"closed by the {self.other.name}")
        return self.other.live is not None and not self.tls

    def pass_on_end(self) -> None:
        """Nothing comes any more from here: what was kept back goes, then the end itself."""
        kept, self.waiting = self.waiting, b""
        self.pass_on(kept)
        if (target := self.other.live) is None:
            return
        if target.can_write_eof():
            target.write_eof()
        else:  # TLS has no half-close: what was written goes out, then this end is over
            target.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of one end is the end of both; a reset is carried over as one."""
        self.connection.gone(self)
        how = "reset" if exc else "closed"
        self.connection.close(f"{how} by the {self.name}", reset=exc is not None)

    def end(self, *, reset: bool) -> None:
        """Closes this end, after what was written to it has gone out."""
        if (transport := self.live) is not None:
            if reset:
                reset_at_close(transport)
            if reset and self.tls and not transport.get_write_buffer_size():
                transport.abort()  # an orderly end of TLS would be no reset
            else:
                transport.close()

    def pass_on(self, data: bytes) -> None:
        """Writes to the other end."""
        if data and (target := self.other.live) is not None:
            target.write(data)

    def data_received(self, data: bytes) -> None:
        """The hot path: cut, pass on, journal."""
        self.read_bytes += len(data)
        cutter = self.cutter
        if cutter is None:
            self.pass_on(data)
            return
        unparsed = feed(cutter, data)
        if unparsed is not None and not isinstance(unparsed, FramingError):
            self.waiting += data  # a mistake of ours: what the cutter says is worth nothing
            self.cut_no_more(unparsed)
            return
        if self.waiting or self.insertion or cutter.undecided or cutter.held_frames:
            self.pass_on_decided(data, cutter, cutter.held_frames, cutter.frames)
        else:
            self.pass_on(data)
        if cutter.frames:
            self.observe(cutter.frames)
        if unparsed is not None:
            self.cut_no_more(unparsed)

    def pass_on_decided(
        self, data: bytes, cutter: Cutter, held: Sequence[Frame], frames: Frames
    ) -> None:
        """Some of this is to be rewritten, or its type is not known yet."""
        buffer = self.waiting + data
        start = cutter.position - len(buffer)
        edits = [
            (frame.end - frame.frame_bytes, frame.end, self._decided(frame, buffer, start))
            for frame in held
        ]
        if self.insertion and len(frames):  # the first one was in the middle, and so not held
            first_ends = frames.start + frames.sizes[0] + 4
            edits.insert(0, (first_ends, first_ends, self.insertion))
            self.insertion = b""
        passed = 0
        out: list[bytes] = []
        for begin, end, instead in edits:
            out += (buffer[passed : begin - start], instead)
            passed = end - start
        until = len(buffer) - cutter.undecided
        out.append(buffer[passed:until])
        self.waiting = buffer[until:]
        self.pass_on(b"".join(out))

    def _decided(self, frame: Frame, buffer: bytes, start: int) -> bytes:
        original = buffer[frame.end - frame.frame_bytes - start : frame.end - start]
        return self.connection.decide(frame, original, self.direction)

    def insert(self, frames: bytes) -> bool:
        """Has frames of our own follow what has passed, as soon as no other is in the middle.

        False where that cannot be: nothing is cut any more, or there is nobody to read it.
        """
        if self.cutter is None or self.other.live is None or self.ended:
            return False
        if self.cutter.between_frames and not self.insertion:
            self.pass_on(frames)
        else:
            self.insertion += frames
        return True

    def observe(self, frames: Frames) -> None:
        """Journals what has passed."""
        self.connection.observe(frames, self.direction)

    def cut_no_more(self, error: Exception) -> None:
        """From now on everything passes as it comes."""
        # Without a CONNECTED it may not be Pulsar at all: then the other way keeps nothing back.
        for side in (self,) if self.connection.greeted else (self, self.other):
            side.cutter = None
            kept, side.waiting = side.waiting, b""
            side.pass_on(kept)
        self.connection.unparsed(error, self.direction)


def feed(cutter: Cutter, data: bytes) -> Exception | None:
    """Has the cutter cut; what cannot be cut is no reason to stop, so the reason is returned."""
    try:
        cutter.feed(data)
    except Exception as error:
        return error
    return None
