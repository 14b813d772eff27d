"""Follows the connections of a capture: both directions of each, in order of time.

While a direction is not in step, or only likely is, the ledgers of its connection cannot be known:
UNPARSED says so where it falls out of step, and behind each SUBSCRIBE that passes until both
directions are proven again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulsar_doctor.parts.capture.boundaries import BEGINNING, Boundaries, Footing
from pulsar_doctor.parts.capture.holding import Holding
from pulsar_doctor.parts.capture.listening import CaptureListener
from pulsar_doctor.parts.capture.packets import ACK, FIN, RST, SYN, TcpSegment, address_text
from pulsar_doctor.parts.capture.silences import Quiet
from pulsar_doctor.parts.capture.streams import WAIT_NS, WRAP, Hole, Stream
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import CLOSE, JOINED, OPEN, RETRACTED, UNPARSED
from pulsar_doctor.wire.framing import DEFAULT_MAX_MESSAGE_BYTES, Frames

TO_BROKER, TO_CLIENT = 0, 1  # indexes of journal.DIRECTIONS
SUBSCRIBE, CONNECTED = 4, 3
HALF_CLOSED_NS = 60 * WAIT_NS
CAPTURE_ENDS = "the capture ends"  # and the connection does not
PIECE_BYTES = 200  # of memory beside its data: for each segment that is held, or waits
TcpEnd = tuple[bytes, int]


class Sides(NamedTuple):
    """The two sides of a connection."""

    client: TcpEnd
    broker: TcpEnd


class CapturedConnection:
    """One connection. out: is notified. ids: numbers for connections; it takes the next one."""

    def __init__(
        self,
        sides: Sides,
        out: CaptureListener,
        ids: Iterator[int],
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        *,
        proven_only: bool = False,
    ) -> None:
        self.sides = sides
        self._out, self._ids = out, ids
        self.conn_id: int | None = None  # None: no frame yet
        self._resumed, self._retracted = [0, 0], [0, 0]  # as far as it was reported
        self.closed = False  # nothing more is read
        self.streams = (Stream(), Stream())
        self.bounds = tuple(
            Boundaries(way, max_message_bytes, proven_only=proven_only)
            for way in (TO_BROKER, TO_CLIENT)
        )
        self.syn_seqs: list[int | None] = [None, None]
        to_broker, to_client = self.streams
        self._held = (Holding(to_broker, to_client), Holding(to_client, to_broker))
        self._quiets = (Quiet(), Quiet())
        self._silent_at: list[int | None] = [None, None]  # a silence before anything came out
        self._data_ns = 0  # last data of either direction; 0: none was seen
        self._reset_ns: int | None = None
        self._letting_go = False
        self._at_rest = False  # nothing waits to be put together
        self.restless = True  # something may be left to do without another packet
        self.begun_ns = self.packet_ns = self.kept_ns = 0  # met, last packet; see OpenConnections
        self.due_ns: int | None = None  # see OpenConnections

    @property
    def is_mute(self) -> bool:
        """Whether nothing is known of it: neither data, nor that it is a consumer's."""
        return not self._data_ns and self.conn_id is None

    @property
    def settled(self) -> bool:
        """Whether all that was seen of it is passed on, and none of its frames is being missed."""
        ready = all(bounds.in_step for bounds in self.bounds)
        return ready and not self._unread_bytes

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of it are held."""
        return self._unread_bytes + sum(bounds.kept_bytes for bounds in self.bounds)

    @property
    def _unread_bytes(self) -> int:
        """What waits for its turn, or for what is missing before it."""
        parts = (*self._held, *self.streams)
        return sum(each.waiting_bytes + PIECE_BYTES * len(each) for each in parts)

    def apply(self, segment: TcpSegment, now_ns: int) -> None:
        """One segment of it."""
        way = TO_BROKER if segment.source == self.sides.client else TO_CLIENT
        self.packet_ns = now_ns
        plain = segment.flags & (SYN | FIN | RST | ACK) == ACK
        if plain and self._at_rest and self._pass_on(way, segment, now_ns):
            return
        stream, other = self.streams[way], self.streams[1 - way]
        self.settle(now_ns)
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
            self._says(way, stream.position(segment.seq), segment.size, now_ns)
            self._held[way].put(segment)
        self.settle(now_ns)

    def _pass_on(self, way: int, segment: TcpSegment, now_ns: int) -> bool:
        """Nothing waits, and this one is the next: as `apply` does it, without a look at the rest.

        So are most of them. False, and nothing is done, where this one is another.
        """
        stream, other = self.streams[way], self.streams[1 - way]
        acked = other.position(segment.ack)
        if stream.next % WRAP != segment.seq or acked > other.next:
            return False
        if segment.size != len(segment.data):
            return False
        if other.acked is None or acked > other.acked:
            other.acked = acked
        self._quiets[1 - way].heard(acked, segment.window, now_ns)
        if segment.size:
            self._says(way, stream.next, segment.size, now_ns)
            stream.pass_on(segment.size)
            self._feed(way, segment.data, now_ns)
        return True

    def settle(self, now_ns: int, ends: str = "") -> None:
        """Reads what is due by now. ends: why nothing more is read of it, so that all of it is.

        No end is recorded for a connection that outlives the capture: its consumers are attached.
        """
        at_end = bool(ends)
        self._read_on(now_ns, at_end=at_end)
        for way in (TO_BROKER, TO_CLIENT):
            if at_end or self._held[way].is_long(now_ns):
                self._let_go(way, now_ns)
                self._read_on(now_ns, at_end=at_end)
        if not self.closed and (at_end or self._is_over(now_ns)):
            self._close(ends or self._why(), now_ns)
        self._at_rest = (
            self._reset_ns is None
            and not any(self._held)
            and all(stream.at_rest for stream in self.streams)
        )
        self.restless = not (self._at_rest and all(bounds.in_step for bounds in self.bounds))

    def changes_ns(self, now_ns: int) -> int | None:
        """When time alone may change it next; None: nothing but a packet can."""
        moments = [] if self._reset_ns is None else [self._reset_ns + WAIT_NS]
        for way in (TO_BROKER, TO_CLIENT):
            stream = self.streams[way]
            moments += [stream.waits_until_ns or 0, self._held[way].waits_until_ns or 0]
            if not self.bounds[way].in_step:
                moments.append(self._quiets[way].silent_ns or 0)
            if stream.ended:
                moments.append(self._data_ns + HALF_CLOSED_NS)
        return min((moment for moment in moments if moment > now_ns), default=None)

    def _read_on(self, now_ns: int, *, at_end: bool) -> None:
        """Reads both directions, as long as one of them lets the other go on."""
        before = None
        while before != (before := self._reached()):
            for way in (TO_BROKER, TO_CLIENT):
                self._held[way].release()
                self._drain(way, now_ns, at_end=at_end)
            if not any(self._held):
                break

    def _reached(self) -> tuple[int, ...]:
        to_broker, to_client = self.streams
        return to_broker.next, to_client.next, *map(len, self._held)

    def _let_go(self, way: int, now_ns: int) -> None:
        """Reads what is held without what it waits for, so that the ledgers are not known."""
        if self._held[way]:
            self._unparsed(1 - way, "what was answered is missing in the capture", now_ns)
            self._held[way].release(forced=True)
            self._letting_go = True
            self._drain(way, now_ns)
            self._letting_go = False

    def pass_time(self, now_ns: int) -> None:
        """Time went on without a packet of it."""
        self.settle(now_ns)
        for way in (TO_BROKER, TO_CLIENT):
            if not self.bounds[way].in_step:
                at = self._quiets[way].silent_at(now_ns)
                if at is not None and self.streams[way].begin is not None:
                    self._end_silence(way, at)

    def _says(self, way: int, at: int, size: int, now_ns: int) -> None:
        """Takes that its sender has sent so much from there on."""
        quiet = self._quiets[way]
        if quiet.silent_at(now_ns) == at:
            self._end_silence(way, at)
        quiet.sent(at + size, now_ns)
        self._data_ns = now_ns

    def _end_silence(self, way: int, at: int) -> None:
        """Ends a silence of its sender at this position."""
        stream = self.streams[way]
        if stream.begin is None:
            self._silent_at[way] = at if self._silent_at[way] is None else self._silent_at[way]
        elif stream.next == at and not stream.waiting_bytes and not self._held[way]:
            self.bounds[way].silence()

    def retract(self, why: str, now_ns: int) -> None:
        """What is only likely of it contradicts what is known otherwise."""
        for way in (TO_BROKER, TO_CLIENT):
            self.bounds[way].retract(why)
            self._say_retracted(way, now_ns)

    def give_way(self, now_ns: int) -> None:
        """Lets go of all that is held: what waits for something is read without it."""
        for way in (TO_BROKER, TO_CLIENT):
            self._let_go(way, now_ns)
            self._drain(way, now_ns, at_end=True)
            if not self.bounds[way].is_proven:
                self.bounds[way].drop()

    def _drain(self, way: int, now_ns: int, *, at_end: bool = False) -> None:
        stream, bounds = self.streams[way], self.bounds[way]
        begun, first_ns = stream.begin is not None, stream.waits_since_ns
        pieces = stream.take(now_ns, at_end=at_end, held_from=self._held[way].begins)
        if not begun and stream.begin is not None:
            if bounds.join(now_ns if first_ns is None else first_ns):
                self._unparsed(way, "its beginning is not in the capture", now_ns)
            if self._silent_at[way] == stream.begin:
                bounds.silence()
        for piece in pieces:
            if isinstance(piece, Hole):
                if bounds.hole(piece):
                    self._unparsed(way, f"{piece.size} bytes are {_words(piece)}", now_ns)
            else:
                self._feed(way, piece, now_ns)

    def _feed(self, way: int, data: bytes, now_ns: int) -> None:
        bounds = self.bounds[way]
        was = bounds.in_step
        found = bounds.feed(data, now_ns)
        if bounds.retracted != self._retracted[way]:
            was = False
            self._say_retracted(way, now_ns)
        self._tell(way, found, now_ns)
        if bounds.standing in (Footing.FOREIGN, Footing.TLS):
            for each in self.bounds:
                if each.standing is not bounds.standing:
                    each.give_up(bounds.standing)
        elif was and not bounds.in_step:
            self.restless = True
            self._unparsed(way, "what follows is no frame", now_ns)

    def _tell(self, way: int, found: list[Frames], now_ns: int) -> None:
        for frames in found:
            conn_id = self.open(now_ns)
            self._say_joined(way, now_ns)
            if CONNECTED in frames.codes and way == TO_CLIENT and self.bounds[way].is_proven:
                self._learn(frames)
            if SUBSCRIBE in frames.codes and not self._is_whole:
                for part in _behind_each(frames, SUBSCRIBE):
                    self._out.frames(conn_id, way, part, now_ns)
                    self._unparsed(way, "not both directions are proven", now_ns)
            else:
                self._out.frames(conn_id, way, frames, now_ns)

    @property
    def _is_whole(self) -> bool:
        """Whether it is certain that no frame of either direction is being missed."""
        return all(each.is_proven for each in self.bounds) and not self._letting_go

    def open(self, now_ns: int) -> int:
        """Tells of it, where that was not done yet; its number."""
        if self.conn_id is None:
            self.conn_id = next(self._ids)
            client, broker = self.sides
            where = address_text(broker) if broker[1] else None
            columns = {"client_addr": address_text(client), "broker_addr": where}
            self._out.event(self.conn_id, OPEN, now_ns, None, **columns, known_by=BEGINNING)
        return self.conn_id

    def _say_joined(self, way: int, now_ns: int) -> None:
        bounds = self.bounds[way]
        if self.conn_id is not None and self._resumed[way] != bounds.resumed:
            self._resumed[way] = bounds.resumed
            self._out.event(self.conn_id, JOINED, now_ns, way, known_by=bounds.known_by)

    def _say_retracted(self, way: int, now_ns: int) -> None:
        """Tells that what was likely is not so, where that is news."""
        bounds = self.bounds[way]
        if self._retracted[way] == bounds.retracted:
            return
        self._retracted[way] = bounds.retracted
        self.restless = True
        if self.conn_id is not None:
            why = bounds.why_retracted
            self._out.event(self.conn_id, RETRACTED, now_ns, way, error_message=why)
        self._unparsed(way, bounds.why_retracted, now_ns)

    def _learn(self, frames: Frames) -> None:
        for frame in frames:
            if frame.code == CONNECTED:
                try:
                    connected = wire.BaseCommand.FromString(frame.command).connected
                except Exception:  # upb's DecodeError; masking deals with it
                    continue
                if connected.max_message_size > 0:
                    for bounds in self.bounds:
                        bounds.allow(connected.max_message_size)

    def _unparsed(self, way: int, why: str, now_ns: int) -> None:
        if self.conn_id is not None:
            self._out.event(self.conn_id, UNPARSED, now_ns, way, error_message=why)

    def _is_over(self, now_ns: int) -> bool:
        ended = [stream.ended for stream in self.streams]
        if all(ended):
            return True
        if self._reset_ns is not None:
            waits = any(self._held) or any(stream.waiting_bytes for stream in self.streams)
            return not waits or now_ns - self._reset_ns >= WAIT_NS
        return any(ended) and now_ns - self._data_ns >= HALF_CLOSED_NS

    def _why(self) -> str:
        if self._reset_ns is not None:
            return "the connection was reset"
        first = "client" if self.streams[TO_BROKER].ended else "broker"
        return f"the {first} closed the connection"

    def _close(self, why: str, now_ns: int) -> None:
        self.closed = True
        for bounds in self.bounds:
            bounds.finish()
        if self.conn_id is not None and why != CAPTURE_ENDS:
            self._out.event(self.conn_id, CLOSE, now_ns, error_message=why)


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
