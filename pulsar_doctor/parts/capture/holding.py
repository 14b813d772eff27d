"""Holds TCP segments back until the data that they acknowledge was seen.

Packets may stand in a capture in another order than the ends of the connection had them, and what
is missing is waited for. So an answer never comes before its question, unless that does not come.
"""

from __future__ import annotations

from pulsar_doctor.parts.capture.packets import ACK, TcpSegment
from pulsar_doctor.parts.capture.streams import WAIT_NS, Stream

SEGMENTS_MOST = 5_000
HELD_NS_MOST = 3 * WAIT_NS


class Holding:
    """The segments of one direction, before they are put into its stream. Changed in place."""

    def __init__(self, stream: Stream, other: Stream) -> None:
        self.begins: int | None = None  # position of the first that is held
        self.waiting_bytes = 0
        self._stream, self._other = stream, other
        self._held: list[TcpSegment] = []
        self._since_ns = 0
        self._released_at = -1  # where the other direction was when they were looked at

    def __len__(self) -> int:
        return len(self._held)

    @property
    def waits_until_ns(self) -> int | None:
        """When it is read without what it waits for; None where nothing is held."""
        return self._since_ns + HELD_NS_MOST if self._held else None

    def put(self, segment: TcpSegment) -> None:
        """A segment with data: into the stream, or held."""
        if self._must_wait(segment):
            at = self._stream.position(segment.seq)
            self._held.append(segment)
            self.waiting_bytes += len(segment.data)
            self.begins = at if self.begins is None else min(self.begins, at)
        else:
            self._stream.put(segment.seq, segment.data, segment.size)

    def is_long(self, now_ns: int) -> bool:
        """Whether what is waited for does not come."""
        if not self._held:
            self._since_ns = now_ns
        return now_ns - self._since_ns >= HELD_NS_MOST or len(self._held) > SEGMENTS_MOST

    def release(self, *, forced: bool = False) -> None:
        """Puts in place what need not be held any longer; forced: all."""
        held, reached = self._held, self._other.next
        if not held or (reached == self._released_at and not forced):
            return
        self._released_at = reached
        self._held, self.begins, self.waiting_bytes = [], None, 0
        for segment in held:
            if forced:
                self._stream.put(segment.seq, segment.data, segment.size)
            else:
                self.put(segment)

    def _must_wait(self, segment: TcpSegment) -> bool:
        """Whether it acknowledges what has not come out of the other direction yet."""
        other = self._other
        if not segment.flags & ACK:
            return False
        if other.begin is None:
            return self._stream.from_syn
        fin = 1 if other.end is not None else 0  # it is acknowledged as a byte more
        return other.position(segment.ack) > other.next + fin
