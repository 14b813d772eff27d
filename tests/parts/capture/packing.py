"""Packets and capture files of our own, so that nothing need be installed to test with."""

from __future__ import annotations

import gzip
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.packets import ACK, ETHERNET, FIN, SYN
from pulsar_doctor.wire.columns import BY_SEGMENT, JOINED, OPEN, RETRACTED, STATS
from pulsar_doctor.wire.framing import Frames


def may_capture() -> bool:
    """Whether this machine lets us read its interfaces."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0).close()
    except (AttributeError, OSError):
        return False
    return True


CLIENT, BROKER = (b"\x0a\0\0\x07", 43668), (b"\x0a\0\0\x01", 6650)
STEP_NS = 1_000_000
START_NS = 1_790_000_000 * 10**9
ETHERNET_HEAD = bytes(12) + b"\x08\0"


def tcp(
    source: tuple[bytes, int],
    target: tuple[bytes, int],
    seq: int,
    ack: int,
    flags: int,
    data: bytes = b"",
    window: int = 512,
) -> bytes:
    """An IP packet; its version is that of the addresses."""
    ports = struct.pack(">HH", source[1], target[1])
    numbers = struct.pack(">IIBBHHH", seq % 2**32, ack % 2**32, 5 << 4, flags, window, 0, 0)
    segment = ports + numbers + data
    if len(source[0]) == 16:
        head = struct.pack(">IHBB", 6 << 28, len(segment), 6, 64)
        return head + source[0] + target[0] + segment
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0)
    return head + source[0] + target[0] + segment


@dataclass
class Talk:
    """The packets of one connection, in the order in which its ends have them."""

    packets: list[Packet] = field(default_factory=list)
    client: tuple[bytes, int] = CLIENT
    broker: tuple[bytes, int] = BROKER
    segment_bytes: int = 1448
    now_ns: int = START_NS
    begun: tuple[int, int] = (2**32 - 700, 5_000)  # the first wraps soon

    def __post_init__(self) -> None:
        self.sent, self.heard = list(self.begun), list(self.begun)
        self.windows = [512, 512]

    def open(self) -> Talk:
        self._add(0, SYN)
        self.sent[0] += 1
        self.heard[0] = self.sent[0]
        self._add(1, SYN | ACK)
        self.sent[1] += 1
        self.heard[1] = self.sent[1]
        self._add(0, ACK)
        return self

    def say(self, way: int, data: bytes, *, acked: bool = True) -> Talk:
        """In segments, each acknowledged."""
        for at in range(0, len(data), self.segment_bytes):
            piece = data[at : at + self.segment_bytes]
            self._add(way, ACK, piece)
            self.sent[way] += len(piece)
            self.heard[way] = self.sent[way] if acked else self.heard[way]
            if acked:
                self._add(1 - way, ACK)
        return self

    def hear(self, way: int, window: int = 512) -> Talk:
        """The receiver of that direction has all of it, and so much room."""
        self.heard[way], self.windows[1 - way] = self.sent[way], window
        self._add(1 - way, ACK)
        return self

    def wait(self, seconds: float) -> Talk:
        self.now_ns += round(seconds * 1e9)
        return self

    def close(self) -> Talk:
        self.end(0).end(1)._add(0, ACK)
        return self

    def end(self, way: int) -> Talk:
        """Nothing more comes in that direction."""
        self._add(way, FIN | ACK)
        self.sent[way] += 1
        self.heard[way] = self.sent[way]
        return self

    def _add(self, way: int, flags: int, data: bytes = b"") -> None:
        ends = (self.client, self.broker) if way == 0 else (self.broker, self.client)
        ack = self.heard[1 - way] if flags & ACK else 0
        packet = tcp(*ends, self.sent[way], ack, flags, data, self.windows[way])
        frame = ETHERNET_HEAD + packet
        self.packets.append(Packet(self.now_ns, ETHERNET, frame, len(frame)))
        self.now_ns += STEP_NS


class Heard:
    """What a capture told, in memory: frames by connection and direction, and all in order.

    What is likely since it began with a segment stands apart, in likely_of and taken_back.
    """

    def __init__(self) -> None:
        self.likely_of: dict[tuple[int, int], list[tuple[object, ...]]] = {}
        self.taken_back: list[tuple[object, ...]] = []
        self._by: dict[tuple[int, int], str] = {}
        self.told: list[tuple[object, ...]] = []
        self.known_by: list[str] = []
        self.frames_of: dict[tuple[int, int], list[tuple[object, ...]]] = {}
        self.stats: list[dict[str, Any]] = []

    def event(
        self, conn_id: int, command: str, now_ns: int, way: int | None = None, **columns: Any
    ) -> None:
        if command == STATS:
            self.stats.append(columns)
        elif command == JOINED:
            self.known_by.append(columns["known_by"])
            self._by[conn_id, way or 0] = columns["known_by"]
        elif command == RETRACTED:
            self.taken_back += self.likely_of.pop((conn_id, way or 0), [])
        elif command == OPEN:
            where = columns["client_addr"], columns["broker_addr"] or ""
            self.told.append(("OPEN", conn_id, *where))
        else:
            self.told.append((command, conn_id, *(() if way is None else (way,))))

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        for frame in frames:
            each = tuple(frame)[:5]
            if self._by.get((conn_id, direction)) == BY_SEGMENT:
                self.likely_of.setdefault((conn_id, direction), []).append(each)
                continue
            self.frames_of.setdefault((conn_id, direction), []).append(each)
            self.told.append((frame.code, conn_id, direction))

    @property
    def both(self) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """The frames of the one connection, to the broker and to the client."""
        return self.frames_of.get((0, 0), []), self.frames_of.get((0, 1), [])


def cut_short(packet: Packet, size: int) -> Packet:
    """As a snap length leaves it."""
    return replace_data(packet, packet.data[:size])


def replace_data(packet: Packet, data: bytes) -> Packet:
    return Packet(packet.time_ns, packet.link, data, packet.wire_bytes)


def pcap(
    packets: Iterable[Packet], *, order: str = "<", nano: bool = False, link: int = 1
) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, 10**9)
        part = rest if nano else rest // 1000
        sizes = len(packet.data), packet.wire_bytes
        out += (struct.pack(order + "IIII", seconds, part, *sizes), packet.data)
    return b"".join(out)


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def pcapng(
    packets: Sequence[Packet], *, order: str = "<", links: Sequence[int] = (1,), nano: bool = True
) -> bytes:
    """An interface for each link; drops of three packets are told by an ISB."""
    out = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    resolution = option(order, 9, b"\x09") if nano else b""
    for link in links:
        out += block(order, 1, struct.pack(order + "HHI", link, 0, 0) + resolution)
    for packet in packets:
        ticks = packet.time_ns // (1 if nano else 1000)
        sizes = len(packet.data), packet.wire_bytes
        head = struct.pack(
            order + "IIIII", links.index(packet.link), ticks >> 32, ticks & 0xFFFFFFFF, *sizes
        )
        out += block(order, 6, head + packet.data)
    drops = option(order, 5, struct.pack(order + "Q", 3))
    return out + block(order, 5, struct.pack(order + "III", 0, 0, 0) + drops)


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # the same bytes in every run
