"""The connections of a capture: both directions of each, in the order in which things happened.

What a segment carries waits until everything that it acknowledges has come out of the other
direction, or is known to be lost: packets may stand in a capture in another order than the ends of
the connection had them. So an answer never comes before its question.

While a direction is not in step, the ledgers of its connection cannot be known: UNPARSED says so
where it falls out of step, and behind each SUBSCRIBE that passes until it is in step again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from pulsar_doctor.capture.boundaries import Boundaries, Footing
from pulsar_doctor.capture.packets import ACK, FIN, RST, SYN, TcpSegment, address_text
from pulsar_doctor.capture.silences import Quiet
from pulsar_doctor.capture.streams import WAIT_NS, Hole, Stream
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import DEFAULT_MAX_MESSAGE_BYTES, Frames

TO_BROKER, TO_CLIENT = 0, 1  # indexes of journal.DIRECTIONS
SUBSCRIBE, CONNECTED = 4, 3
HELD_SEGMENTS_MOST = 5_000
HELD_NS_MOST = 3 * WAIT_NS
TcpEnd = tuple[bytes, int]


class CaptureListener(Protocol):
    """Where what happened is written: see writing.TraceWriter."""

    def opened(self, conn_id: int, client: str, broker: str, now_ns: int) -> None:
        """A connection, before its first frames."""

    def joined(self, conn_id: int, direction: int, known_by: str, now_ns: int) -> None:
        """Where its frames begin is known: before the first ones, and again behind an UNPARSED."""

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there."""

    def unparsed(self, conn_id: int, direction: int, why: str, now_ns: int) -> None:
        """From here on the ledgers of this connection's consumers are not known."""

    def closed(self, conn_id: int, why: str, now_ns: int) -> None:
        """The end of a connection."""


class Sides(NamedTuple):
    """Whose connection it is."""

    client: TcpEnd
    broker: TcpEnd


class CapturedConnection:
    """One connection. conn_id: None until its first frame. closed: nothing more is read of it."""

    def __init__(self, sides: Sides, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self.sides = sides
        self.conn_id: int | None = None
        self._resumed = [0, 0]  # as far as it was told
        self.closed = False
        self.streams = (Stream(), Stream())
        self.bounds = tuple(Boundaries(way, max_message_bytes) for way in (TO_BROKER, TO_CLIENT))
        self.syn_seqs: list[int | None] = [None, None]
        self._held_since = [0, 0]
        self._released_at = [-1, -1]  # where the other direction was when they were looked at
        self._held: tuple[list[TcpSegment], list[TcpSegment]] = ([], [])
        self._quiets = (Quiet(), Quiet())
        self._silent_at: list[int | None] = [None, None]  # a silence before anything came out
        self._data_ns = 0  # last data of either direction
        self._reset_ns: int | None = None

    @property
    def settled(self) -> bool:
        """Whether all that was seen of it is told, and none of its frames is being missed."""
        ready = all(bounds.in_step for bounds in self.bounds)
        return ready and not self.waiting_bytes

    @property
    def waiting_bytes(self) -> int:
        """All that is held of it."""
        held = sum(len(segment.data) for way in self._held for segment in way)
        kept = sum(bounds.kept_bytes for bounds in self.bounds)
        return held + kept + sum(stream.waiting_bytes for stream in self.streams)

    def apply(
        self, segment: TcpSegment, now_ns: int, out: CaptureListener, ids: Iterator[int]
    ) -> None:
        """One segment of it."""
        way = TO_BROKER if segment.source == self.sides.client else TO_CLIENT
        stream, other = self.streams[way], self.streams[1 - way]
        self.settle(now_ns, out, ids)
        if segment.flags & SYN:
            self.syn_seqs[way] = segment.seq
            stream.opened(segment.seq)
        if segment.flags & ACK:
            other.acknowledged(segment.ack)
            window = None if segment.flags & SYN else segment.window  # a SYN's has another scale
            self._quiets[1 - way].heard(other.position(segment.ack), window, now_ns)
        if segment.flags & FIN:
            stream.finished((segment.seq + segment.size) % (1 << 32))
        if segment.flags & RST:
            self._reset_ns = self._reset_ns or now_ns
        if segment.size and not segment.flags & SYN:
            at, quiet = stream.position(segment.seq), self._quiets[way]
            if quiet.stands_at(now_ns) == at:
                self._end_silence(way, at)
            quiet.said(at + segment.size, now_ns)
            self._data_ns = now_ns
            if self._must_wait(way, segment):
                self._held[way].append(segment)
            else:
                stream.put(segment.seq, segment.data, segment.size)
        self.settle(now_ns, out, ids)

    def settle(
        self, now_ns: int, out: CaptureListener, ids: Iterator[int], *, at_end: bool = False
    ) -> None:
        """Reads what is due by now; at the end all of it."""
        for _ in range(3):  # what comes out of one direction may be waited for by the other
            for way in (TO_BROKER, TO_CLIENT):
                forced = at_end or self._is_held_long(way, now_ns)
                self._release(way, forced=forced)
                self._drain(way, now_ns, out, ids, at_end=at_end)
            if not any(self._held):
                break
        if not self.closed and (at_end or self._is_over(now_ns)):
            self._close("the capture ends" if at_end else self._why(), now_ns, out)

    def pass_time(self, now_ns: int, out: CaptureListener, ids: Iterator[int]) -> None:
        """Time went on without a packet of it."""
        self.settle(now_ns, out, ids)
        for way in (TO_BROKER, TO_CLIENT):
            if not self.bounds[way].in_step:
                at = self._quiets[way].stands_at(now_ns)
                if at is not None and self.streams[way].begin is not None:
                    self._end_silence(way, at)

    def _end_silence(self, way: int, at: int) -> None:
        """Its sender had nothing to say where it stands."""
        stream = self.streams[way]
        if stream.begin is None:
            self._silent_at[way] = at if self._silent_at[way] is None else self._silent_at[way]
        elif stream.next == at and not stream.waiting_bytes and not self._held[way]:
            self.bounds[way].silence()

    def _is_held_long(self, way: int, now_ns: int) -> bool:
        """Whether what is waited for does not come."""
        if not self._held[way]:
            self._held_since[way] = now_ns
        waited_ns = now_ns - self._held_since[way]
        return waited_ns >= HELD_NS_MOST or len(self._held[way]) > HELD_SEGMENTS_MOST

    def give_way(self, now_ns: int, out: CaptureListener, ids: Iterator[int]) -> None:
        """Lets go of all that is held: what waits for something is read without it."""
        for way in (TO_BROKER, TO_CLIENT):
            self._release(way, forced=True)
            self._drain(way, now_ns, out, ids, at_end=True)
            if not self.bounds[way].in_step:
                self.bounds[way].drop()

    def _release(self, way: int, *, forced: bool) -> None:
        """Puts in place what need not be held any longer."""
        held, reached = self._held[way], self.streams[1 - way].next
        if not held or (reached == self._released_at[way] and not forced):
            return
        self._released_at[way] = reached
        rest = []
        for segment in held:
            if not forced and self._must_wait(way, segment):
                rest.append(segment)
            else:
                self.streams[way].put(segment.seq, segment.data, segment.size)
        held[:] = rest

    def _must_wait(self, way: int, segment: TcpSegment) -> bool:
        """Whether it acknowledges what has not come out of the other direction yet."""
        other = self.streams[1 - way]
        if not segment.flags & ACK:
            return False
        if other.begin is None:
            return self.streams[way].from_syn
        return other.position(segment.ack) > other.next + _fin(other)

    def _drain(
        self, way: int, now_ns: int, out: CaptureListener, ids: Iterator[int], *, at_end: bool
    ) -> None:
        stream, bounds = self.streams[way], self.bounds[way]
        begun = stream.begin is not None
        pieces = stream.take(now_ns, at_end=at_end, patient=bool(self._held[way]))
        if not begun and stream.begin is not None:
            if bounds.join():
                self._unparsed(way, "its beginning is not in the capture", now_ns, out)
            if self._silent_at[way] == stream.begin:
                bounds.silence()
        for piece in pieces:
            if isinstance(piece, Hole):
                if bounds.hole(piece):
                    self._unparsed(way, f"{piece.size} bytes are {_words(piece)}", now_ns, out)
            else:
                self._feed(way, piece, now_ns, out, ids)

    def _feed(
        self, way: int, data: bytes, now_ns: int, out: CaptureListener, ids: Iterator[int]
    ) -> None:
        bounds = self.bounds[way]
        was = bounds.in_step
        found = bounds.feed(data)
        self._tell(way, found, now_ns, out, ids)
        if bounds.standing in (Footing.FOREIGN, Footing.TLS):
            for each in self.bounds:
                if each.standing is not bounds.standing:
                    each.give_up(bounds.standing)
        elif was and not bounds.in_step:
            self._unparsed(way, "what follows is no frame", now_ns, out)

    def _tell(
        self, way: int, found: list[Frames], now_ns: int, out: CaptureListener, ids: Iterator[int]
    ) -> None:
        for frames in found:
            self.open(now_ns, out, ids)
            assert self.conn_id is not None
            self._say_joined(way, now_ns, out)
            if CONNECTED in frames.codes and way == TO_CLIENT:
                self._learn(frames)
            if SUBSCRIBE in frames.codes and not all(each.in_step for each in self.bounds):
                for part in _behind_each(frames, SUBSCRIBE):
                    out.frames(self.conn_id, way, part, now_ns)
                    self._unparsed(way, "the other direction is not in step", now_ns, out)
            else:
                out.frames(self.conn_id, way, frames, now_ns)

    def open(self, now_ns: int, out: CaptureListener, ids: Iterator[int]) -> None:
        """Tells of it, where that was not done yet."""
        if self.conn_id is None:
            self.conn_id = next(ids)
            client, broker = self.sides
            where = address_text(broker) if broker[1] else ""
            out.opened(self.conn_id, address_text(client), where, now_ns)

    def _say_joined(self, way: int, now_ns: int, out: CaptureListener) -> None:
        bounds = self.bounds[way]
        if self.conn_id is not None and self._resumed[way] != bounds.resumed:
            self._resumed[way] = bounds.resumed
            out.joined(self.conn_id, way, bounds.known_by, now_ns)

    def _learn(self, frames: Frames) -> None:
        for frame in frames:
            if frame.code == CONNECTED:
                try:
                    told = wire.BaseCommand.FromString(frame.command).connected
                except Exception:  # upb's DecodeError; masking deals with it
                    continue
                if told.max_message_size > 0:
                    for bounds in self.bounds:
                        bounds.allow(told.max_message_size)

    def _unparsed(self, way: int, why: str, now_ns: int, out: CaptureListener) -> None:
        if self.conn_id is not None:
            out.unparsed(self.conn_id, way, why, now_ns)

    def _is_over(self, now_ns: int) -> bool:
        ended = [stream.ended for stream in self.streams]
        if all(ended):
            return True
        if self._reset_ns is not None:
            waits = any(self._held) or any(stream.waiting_bytes for stream in self.streams)
            return not waits or now_ns - self._reset_ns >= WAIT_NS
        return any(ended) and now_ns - self._data_ns >= 60 * WAIT_NS

    def _why(self) -> str:
        if self._reset_ns is not None:
            return "the connection was reset"
        first = "client" if self.streams[TO_BROKER].ended else "broker"
        return f"the {first} closed the connection"

    def _close(self, why: str, now_ns: int, out: CaptureListener) -> None:
        self.closed = True
        for bounds in self.bounds:
            bounds.finish()
        if self.conn_id is not None:
            out.closed(self.conn_id, why, now_ns)


def _fin(stream: Stream) -> int:
    """A FIN is acknowledged as a byte more."""
    return 1 if stream.end is not None else 0


def _words(hole: Hole) -> str:
    return "missing in the capture" if hole.kind == "missing" else "cut off in the capture"


def _behind_each(frames: Frames, code: int) -> Iterator[Frames]:
    """These frames in parts, each but the last ending with one of that code."""
    part = Frames()
    for frame in frames:
        part.add(frame.code, frame.command, frame.metadata, frame.frame_bytes - 4)
        if frame.code == code:
            yield part
            part = Frames()
    if part:
        yield part
