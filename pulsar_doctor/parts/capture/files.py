"""Reads packets from pcap and pcapng files, also compressed, also while they grow.

pcap: draft-ietf-opsawg-pcap; pcapng: draft-ietf-opsawg-pcapng. Of pcapng the blocks that carry
packets and what these need: SHB (1 section), IDB (its interfaces), EPB, SPB and the old PB; ISB for
what the kernel dropped. Others are passed over. What is held is one block, of 16 MiB at most, and
the first interfaces of a section: packets of the others are left out and counted, as are those
with an impossible time, since nothing shows when they were seen.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pulsar_doctor.errors import InputError

BLOCK_BYTES_MOST = 16 << 20
UNZIPPED_BYTES_MOST = 1 << 20  # at once
GZIP = b"\x1f\x8b"
PCAP = {  # magic -> byte order, ticks of a second
    b"\xa1\xb2\xc3\xd4": (">", 10**6),
    b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\x3c\x4d": (">", 10**9),
    b"\x4d\x3c\xb2\xa1": ("<", 10**9),
}
SHB, IDB, PB, SPB, ISB, EPB = 0x0A0D0D0A, 1, 2, 3, 5, 6
SECTION = SHB.to_bytes(4, "big")
BYTE_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
NO_MORE, RESOLUTION, OFFSET = 0, 9, 14  # options of an IDB: if_tsresol, if_tsoffset
INTERFACES_MOST = 10_000  # of one section
TIMES_NS = range(1 << 62)  # until 2116; a pcap ends in 2106
IF_DROPS = (5, 7)  # options of an ISB: isb_ifdrop, isb_osdrop


class Packet(NamedTuple):
    """One packet."""

    time_ns: int  # since 1970, UTC
    link: int  # its LINKTYPE_
    data: bytes
    wire_bytes: int  # before it was cut


@dataclass(slots=True)
class FileCounts:
    """What files report about themselves."""

    kernel_drops: int = 0  # packets that were dropped according to their ISBs
    impossible_times: int = 0  # packets left out: their time cannot be right
    beyond_interfaces: int = 0  # left out: more than INTERFACES_MOST interfaces


class _Interface(NamedTuple):
    link: int
    ticks: int  # of a second
    offset_ns: int
    snap_bytes: int  # 0: none


class _Source:
    """Bytes of a file in the pieces that are requested; at most one piece is held."""

    def __init__(self, chunks: Iterable[bytes], name: str) -> None:
        self.name = name
        self._chunks = iter(chunks)
        self._have = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """So many bytes; fewer where the file ends."""
        at, end = self._at, self._at + size
        if end > len(self._have):
            self._read(size)
            at, end = 0, size
        self._at = end
        return self._have[at:end]

    def _read(self, size: int) -> None:
        """Reads on until so many are there, or the file ends."""
        pieces = [self._have[self._at :]]
        there = len(pieces[0])
        while there < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            pieces.append(chunk)
            there += len(chunk)
        self._have = b"".join(pieces)

    def damaged(self, why: str) -> InputError:
        return InputError(f"{self.name} is damaged: {why}; what came before it has been read")


def packets_of(chunks: Iterable[bytes], name: str, counts: FileCounts) -> Iterator[Packet]:
    """The packets of one file, in its order. chunks: its bytes; none of them is empty.

    A last packet that is not all there is no error, since files are read while they are written.
    counts: of all files. Raises InputError where the file is none of these, or damaged.
    """
    source = _Source(chunks, name)
    magic = source.take(4)
    if magic[:2] == GZIP:
        source = _Source(_unzipped(magic, source), name)
        magic = source.take(4)
    if magic in PCAP:
        yield from _pcap(source, *PCAP[magic])
    elif magic == SECTION:
        yield from _pcapng(source, counts)
    elif not magic:
        raise InputError(f"{name} is empty: it has not even the header of a capture")
    else:
        raise InputError(
            f"{name} is not a capture: it is neither pcap nor pcapng, nor gzip of these"
        )


def _unzipped(begin: bytes, source: _Source) -> Iterator[bytes]:
    """Every member of a gzip file; its end may be missing."""
    unzip = zlib.decompressobj(wbits=31)
    data = begin + source.take(65536)
    while data:
        try:
            out = unzip.decompress(data, UNZIPPED_BYTES_MOST)
        except zlib.error as error:
            raise source.damaged("its gzip cannot be read") from error
        if out:
            yield out
        if unzip.eof:
            data = unzip.unused_data.lstrip(b"\0") or source.take(65536).lstrip(b"\0")
            unzip = zlib.decompressobj(wbits=31)
        else:
            data = unzip.unconsumed_tail or source.take(65536)


def _pcap(source: _Source, order: str, ticks: int) -> Iterator[Packet]:
    head = source.take(20)
    if len(head) < 20:
        raise source.damaged("its header is not all there")
    link = struct.unpack_from(order + "I", head, 16)[0] & 0x0FFFFFFF
    record = struct.Struct(order + "IIII")
    while head := source.take(16):
        if len(head) < 16:
            return
        seconds, parts, size, wire_bytes = record.unpack(head)
        if size > BLOCK_BYTES_MOST or parts >= ticks:
            raise source.damaged("what should be a packet is none")
        data = source.take(size)
        if len(data) < size:
            return
        time_ns = seconds * 10**9 + parts * (10**9 // ticks)
        yield Packet(time_ns, link, data, max(wire_bytes, size))


def _pcapng(source: _Source, counts: FileCounts) -> Iterator[Packet]:
    order, interfaces, declared, last_ns = "<", list[_Interface](), 0, 0
    kind_bytes = SECTION
    while kind_bytes:
        rest = source.take(8) if kind_bytes == SECTION else source.take(4)
        if kind_bytes == SECTION and len(rest) == 8:
            found = BYTE_ORDERS.get(rest[4:])
            if found is None:
                raise source.damaged("a section says no byte order")
            order, interfaces, declared = found, [], 0
        if len(kind_bytes) < 4 or len(rest) < 4:
            return
        kind = struct.unpack(order + "I", kind_bytes)[0]
        size = struct.unpack_from(order + "I", rest)[0]
        if size % 4 or not 12 <= size <= BLOCK_BYTES_MOST:
            raise source.damaged(f"a block of {size} bytes cannot be")
        body = rest[4:] + source.take(size - 8 - len(rest[4:]))
        if len(body) < size - 8:
            return
        if struct.unpack(order + "I", body[-4:])[0] != size:
            raise source.damaged("the two sizes of a block differ")
        try:
            if kind == IDB:
                declared += 1
                if declared <= INTERFACES_MOST:
                    interfaces.append(_interface(order, body[:-4]))
            elif kind == ISB:
                counts.kernel_drops += _drops(order, body[:-4])
            elif kind in (EPB, PB) and len(interfaces) <= _number(order, kind, body) < declared:
                counts.beyond_interfaces += 1
            elif kind in (EPB, PB, SPB):
                packet = _packet(order, kind, body[:-4], interfaces, last_ns)
                if packet.time_ns in TIMES_NS:
                    last_ns = packet.time_ns
                    yield packet
                else:
                    counts.impossible_times += 1
        except (struct.error, IndexError) as error:
            raise source.damaged("a block does not hold what it should") from error
        kind_bytes = source.take(4)


def _interface(order: str, body: bytes) -> _Interface:
    link, _, snap_bytes = struct.unpack_from(order + "HHI", body)
    ticks, offset = 10**6, 0
    for code, value in _options(order, body[8:]):
        if code == RESOLUTION and value:
            base, power = (2, value[0] & 0x7F) if value[0] & 0x80 else (10, value[0])
            ticks = base**power
        elif code == OFFSET and len(value) == 8:
            offset = struct.unpack(order + "q", value)[0]
    return _Interface(link, ticks, offset * 10**9, snap_bytes)


def _number(order: str, kind: int, body: bytes) -> int:
    """The number of the interface that a packet was seen on."""
    return int(struct.unpack_from(order + ("I" if kind == EPB else "H"), body)[0])


def _packet(
    order: str, kind: int, body: bytes, interfaces: list[_Interface], last_ns: int
) -> Packet:
    if kind == SPB:
        face = interfaces[0]
        (wire_bytes,) = struct.unpack_from(order + "I", body)
        size = min(wire_bytes, face.snap_bytes or wire_bytes, len(body) - 4)
        return Packet(last_ns, face.link, body[4 : 4 + size], wire_bytes)
    high, low, size, wire_bytes = struct.unpack_from(order + "IIII", body, 4)
    if size > len(body) - 20:
        raise IndexError
    face = interfaces[_number(order, kind, body)]
    time_ns = ((high << 32) | low) * 10**9 // face.ticks + face.offset_ns
    return Packet(time_ns, face.link, body[20 : 20 + size], max(wire_bytes, size))


def _drops(order: str, body: bytes) -> int:
    drops = (
        int(struct.unpack(order + "Q", value)[0])
        for code, value in _options(order, body[12:])
        if code in IF_DROPS and len(value) == 8
    )
    return sum(drops)


def _options(order: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from(order + "HH", data, at)
        if code == NO_MORE:
            return
        yield code, data[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4
