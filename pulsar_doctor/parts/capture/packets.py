"""Finds the TCP segment in a packet, whatever link it was captured on.

Links: Ethernet, loopback (null and loop), raw IP, Linux cooked 1 and 2; VLANs on top of them; IPv4
and IPv6 with its extension headers. Of a packet that was cut by a snap length the segment says how
long it was.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import NamedTuple

from pulsar_doctor.wording.addresses import shown

NULL, ETHERNET, RAW_OLD, RAW_BSD, RAW, LOOP, COOKED, COOKED_2 = 0, 1, 12, 14, 101, 108, 113, 276
IPV4_ONLY, IPV6_ONLY = 228, 229
LINKS = (NULL, ETHERNET, RAW_OLD, RAW_BSD, RAW, LOOP, COOKED, COOKED_2, IPV4_ONLY, IPV6_ONLY)
IPV4, IPV6, VLANS = 0x0800, 0x86DD, (0x8100, 0x88A8, 0x9100)
TCP = 6
EXTENSIONS, FRAGMENT = (0, 43, 60), 44  # hop by hop, routing, destination options
FIN, SYN, RST, ACK = 1, 2, 4, 16
_KIND = struct.Struct(">H")
_IPV4 = struct.Struct(">BxHxxHxBxx4s4s")  # version and length, total, fragment, protocol, from, to
_IPV6 = struct.Struct(">4xHBx16s16s")  # payload, next header, from, to
_TCP = struct.Struct(">HHIIBBH")  # ports, seq, ack, length, flags, window


class TcpSegment(NamedTuple):
    """A TCP segment. An end is (address bytes, port)."""

    source: tuple[bytes, int]
    target: tuple[bytes, int]
    seq: int
    ack: int
    flags: int
    window: int
    data: bytes
    size: int  # of its data, before a cut


class Fragment:
    """A piece of an IP packet: none that TCP sends; counted, not put together."""


def segment_of(link: int, data: bytes, wire_bytes: int) -> TcpSegment | Fragment | None:
    """The segment of a packet; None where it has none, or is cut before its data begins."""
    try:
        at = _network(link, data)
        return None if at is None else _ip(data, at, wire_bytes)
    except (struct.error, IndexError):
        return None


def address_text(end: tuple[bytes, int]) -> str:
    """ip:port, an IPv6 address in brackets."""
    return shown((str(ip_address(end[0])), end[1]))


def _network(link: int, data: bytes) -> int | None:
    """Where the IP header begins."""
    if link == ETHERNET:
        return _tagged(data, 12)
    if link == COOKED:
        return _tagged(data, 14)
    if link == COOKED_2:
        (kind,) = _KIND.unpack_from(data)
        if kind in VLANS:
            return _tagged(data, 22)  # the tag comes first behind the 20 bytes of the header
        return 20 if kind in (IPV4, IPV6) else None
    if link in (NULL, LOOP):
        return 4
    return 0 if link in LINKS else None


def _tagged(data: bytes, at: int) -> int | None:
    (kind,) = _KIND.unpack_from(data, at)
    while kind in VLANS:
        at += 4
        (kind,) = _KIND.unpack_from(data, at)
    return at + 2 if kind in (IPV4, IPV6) else None


def _ip(data: bytes, at: int, wire_bytes: int) -> TcpSegment | Fragment | None:
    version = data[at] >> 4
    if version == 4:
        first, total, fragment, protocol, source, target = _IPV4.unpack_from(data, at)
        behind = at + 4 * (first & 15)
        ends = at + total if total else wire_bytes  # 0: larger than the field can hold (offloading)
        if protocol == TCP and fragment & 0x3FFF:
            return Fragment()
    elif version == 6:
        total, protocol, source, target = _IPV6.unpack_from(data, at)
        behind = at + 40
        ends = behind + total if total else wire_bytes
        while protocol in EXTENSIONS:
            protocol, behind = data[behind], behind + 8 * (data[behind + 1] + 1)
        if protocol == FRAGMENT:
            return Fragment() if data[behind] == TCP else None
    else:
        return None
    return _tcp(data, behind, min(ends, wire_bytes), (source, target)) if protocol == TCP else None


def _tcp(data: bytes, at: int, ends: int, ends_of: tuple[bytes, bytes]) -> TcpSegment | None:
    source, target, seq, ack, offset, flags, window = _TCP.unpack_from(data, at)
    begins = at + 4 * (offset >> 4)
    if offset >> 4 < 5 or begins > ends:
        return None
    return TcpSegment(
        (ends_of[0], source),
        (ends_of[1], target),
        seq,
        ack,
        flags,
        window,
        data[begins : min(ends, len(data))],
        ends - begins,
    )
