"""Follows all connections of a capture, and counts what happened to each.

Which connections: those to or from one of the ports, of some clients where these are named. Memory
is bounded: where too much waits to be put together or to be recognised, who holds most gives it up.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

from pulsar_doctor.parts.capture.boundaries import Footing
from pulsar_doctor.parts.capture.connections import (
    CAPTURE_ENDS,
    TO_BROKER,
    CapturedConnection,
    Sides,
    TcpEnd,
)
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.listening import CaptureListener
from pulsar_doctor.parts.capture.open_connections import IDLE_NS, OpenConnections
from pulsar_doctor.parts.capture.packets import (
    ACK,
    LINKS,
    SYN,
    Fragment,
    TcpSegment,
    address_text,
    segment_of,
)
from pulsar_doctor.wire.framing import DEFAULT_MAX_MESSAGE_BYTES

SWEEP_NS = 250_000_000
SWEEP_BYTES = 8 << 20  # where time does not move
WAITING_BYTES_MOST = 64 << 20
CLOSED_REMEMBERED = 1_000
ConnectionEnds = tuple[TcpEnd, TcpEnd]


@dataclass(slots=True)
class Totals:
    """What became of a capture. Bytes are those of the streams of the connections.

    seen = used + skipped + lost. A connection that was let go before its end (see OpenConnections)
    and sends more counts as another one, joined.
    """

    packets: int = 0  # all
    segments: int = 0  # of the connections that are followed
    others: int = 0  # packets of other connections, or not TCP
    fragments: int = 0  # of IP packets
    unread_links: int = 0  # packets of an unknown link type
    connections: int = 0
    joined: int = 0  # connections that were there before the capture
    unrecognised: int = 0  # connections of which nothing could be read
    foreign: int = 0  # connections that are not Pulsar
    tls: int = 0  # connections with TLS
    likely: int = 0  # connections with commands that are likely, not proven
    mute: int = 0  # connections that sent no data
    gone_idle: int = 0  # let go before their end: no packet for long
    crowded_out: int = 0  # let go before their end: too many connections
    seen: int = 0
    used: int = 0
    skipped: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # by kind of hole
    resumed: int = 0
    likely_joins: int = 0  # how often a direction was read as likely
    retracted: int = 0  # likely joins that were taken back
    retracted_frames: int = 0  # their frames
    repeated: int = 0  # bytes that came again
    differing: int = 0  # bytes that came again, but different


class CaptureFollowing:
    """Every connection of a capture. Changes in place. clients: ip:port or ip; none: all."""

    def __init__(
        self,
        out: CaptureListener,
        ports: Collection[int],
        clients: Collection[str] = (),
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        *,
        proven_only: bool = False,
    ) -> None:
        self.totals = Totals()  # of the connections that have ended; after `finish`, of all
        self.tls_seen: set[str] = set()  # addresses of brokers that speak TLS
        self._out = out
        self._ports = frozenset(ports)
        self._clients = frozenset(clients)
        self._max_message_bytes = max_message_bytes
        self._proven_only = proven_only
        self._ids = count()
        self._connections = OpenConnections()
        self._expected: dict[TcpEnd, CapturedConnection] = {}
        self._closed: OrderedDict[ConnectionEnds, list[int]] = OrderedDict()
        self.now_ns = 0  # the latest time of a packet, or that time has reached by other news
        self._swept_ns: int | None = None
        self._unswept_bytes = 0

    def packet(self, packet: Packet) -> None:
        """One packet of the capture."""
        totals = self.totals
        totals.packets += 1
        self.now_ns = max(self.now_ns, packet.time_ns)
        if self._swept_ns is None:
            self._swept_ns = self.now_ns
        segment = segment_of(packet.link, packet.data, packet.wire_bytes)
        if isinstance(segment, TcpSegment):
            self._segment(segment)
        elif segment is None:
            totals.others += packet.link in LINKS
            totals.unread_links += packet.link not in LINKS
        else:
            totals.fragments += isinstance(segment, Fragment)
        self._unswept_bytes += len(packet.data)
        if self.now_ns - self._swept_ns >= SWEEP_NS or self._unswept_bytes >= SWEEP_BYTES:
            self._sweep()

    def connections(self) -> Iterator[CapturedConnection]:
        """The connections that have not ended."""
        return iter([*self._connections, *self._expected.values()])

    def pass_time(self, now_ns: int) -> None:
        """Time went on, and no packet came."""
        self.now_ns = max(self.now_ns, now_ns)
        if self._swept_ns is not None and self.now_ns - self._swept_ns >= SWEEP_NS:
            self._sweep()

    def expect(self, client: TcpEnd, broker: TcpEnd) -> None:
        """A connection that is there, though no packet of it has come."""
        known = any(each.sides.client == client for each in self._connections)
        if self._is_wanted(client) and not known and client not in self._expected:
            self._expected[client] = self._made(Sides(client, broker))

    def finish(self) -> None:
        """The capture ends."""
        self._sweep()
        for connection in self.connections():
            self._end(connection, CAPTURE_ENDS)
        self._expected = {}

    def _segment(self, segment: TcpSegment) -> None:
        sides = self._sides(segment)
        if sides is None:
            self.totals.others += 1
            return
        self.totals.segments += 1
        connection = self._connections.get(sides)
        if connection is not None and self._is_new(connection, sides, segment):
            self._end(connection, "its ports began another connection")
            connection = None
        if connection is None:
            connection = self._begin(sides, segment)
            if connection is None:
                return
        connection.apply(segment, self.now_ns)
        if connection.closed:
            self._remember(connection)
        elif connection.restless:
            self._connections.touched(connection)

    def _sides(self, segment: TcpSegment) -> Sides | None:
        """Who is client and who is broker; None where nobody wants it."""
        to_broker = segment.target[1] in self._ports
        if not to_broker and segment.source[1] not in self._ports:
            return None
        if to_broker and segment.source[1] in self._ports:  # a broker that is a client, too
            known = Sides(segment.target, segment.source) in self._connections
            answers = segment.flags & (SYN | ACK) == SYN | ACK
            to_broker = not (known or answers)
        source, target = segment.source, segment.target
        sides = Sides(source, target) if to_broker else Sides(target, source)
        return sides if self._is_wanted(sides.client) else None

    def _is_wanted(self, client: TcpEnd) -> bool:
        if not self._clients:
            return True
        text = address_text(client)
        return not self._clients.isdisjoint((text, text.rpartition(":")[0].strip("[]")))

    def _is_new(self, connection: CapturedConnection, sides: Sides, segment: TcpSegment) -> bool:
        """Whether a SYN begins another connection between the same two ports."""
        if not segment.flags & SYN:
            return False
        way = TO_BROKER if segment.source == sides.client else 1
        known = connection.syn_seqs[way]
        if known is not None:
            return known != segment.seq
        return connection.streams[way].begin is not None

    def _begin(self, sides: Sides, segment: TcpSegment) -> CapturedConnection | None:
        closed = self._closed.get(sides)
        if closed is not None and (not segment.flags & SYN or segment.seq in closed):
            return None  # the last words of one that has ended, or its first ones again
        self._closed.pop(sides, None)
        made = self._expected.pop(sides.client, None)
        if made is None:
            made = self._made(sides)
        made.sides = sides
        self._connections.add(made, self.now_ns)
        return made

    def _made(self, sides: Sides) -> CapturedConnection:
        return CapturedConnection(
            sides, self._out, self._ids, self._max_message_bytes, proven_only=self._proven_only
        )

    def _end(self, connection: CapturedConnection, why: str) -> None:
        """Reads all that is left of it, and counts it."""
        connection.settle(self.now_ns, why)
        self._connections.remove(connection)
        self._count(connection)

    def _remember(self, connection: CapturedConnection) -> None:
        """It has ended by itself; its last words may come again."""
        self._connections.remove(connection)
        self._count(connection)
        seqs = [seq for seq in connection.syn_seqs if seq is not None]
        self._closed[connection.sides] = seqs
        if len(self._closed) > CLOSED_REMEMBERED:
            self._closed.popitem(last=False)

    def _sweep(self) -> None:
        now_ns, there = self.now_ns, self._connections
        self._swept_ns, self._unswept_bytes = now_ns, 0
        for connection in there.due(now_ns):
            connection.pass_time(now_ns)
            self._note_tls(connection)
            if connection.closed:
                self._remember(connection)
            else:
                there.looked_at(connection, now_ns)
        self._let_go()
        if there.waiting_bytes > WAITING_BYTES_MOST:
            self._make_room()

    def _let_go(self) -> None:
        now_ns = self.now_ns
        for connection in self._connections.mute(now_ns):
            self._end(connection, "it sent no data")
        for connection in self._connections.idle(now_ns):
            is_idle = now_ns - connection.packet_ns >= IDLE_NS
            self.totals.gone_idle += is_idle
            self.totals.crowded_out += not is_idle
            self._end(connection, "nothing was heard of it" if is_idle else "too many are open")

    def _make_room(self) -> None:
        """Who holds most gives it up, until half of what may wait is left."""
        waiting = self._connections.waiting_bytes
        for connection in self._connections.by_waiting_bytes():
            if waiting <= WAITING_BYTES_MOST // 2:
                return
            waiting -= connection.waiting_bytes
            connection.give_way(self.now_ns)
            self._connections.looked_at(connection, self.now_ns)

    def _note_tls(self, connection: CapturedConnection) -> None:
        for bounds in connection.bounds:
            like = bounds.tls_like and not bounds.in_step and not bounds.used
            if bounds.standing is Footing.TLS or like:
                self.tls_seen.add(address_text(connection.sides.broker))

    def _count(self, connection: CapturedConnection) -> None:
        totals = self.totals
        standings = {bounds.standing for bounds in connection.bounds}
        self._note_tls(connection)
        totals.connections += 1
        totals.foreign += Footing.FOREIGN in standings
        totals.tls += Footing.TLS in standings
        totals.joined += any(bounds.joined for bounds in connection.bounds)
        known = connection.conn_id is not None
        read = known or connection.is_mute or standings & {Footing.FOREIGN, Footing.TLS}
        totals.mute += connection.is_mute
        totals.likely += any(bounds.likely_joins for bounds in connection.bounds)
        totals.unrecognised += not read
        for bounds, stream in zip(connection.bounds, connection.streams, strict=True):
            totals.seen += bounds.seen
            totals.used += bounds.used
            totals.skipped += bounds.skipped
            totals.lost += bounds.lost
            totals.resumed += bounds.resumed
            totals.likely_joins += bounds.likely_joins
            totals.retracted += bounds.retracted
            totals.retracted_frames += bounds.retracted_frames
            totals.repeated += stream.repeated
            totals.differing += stream.differing
