"""Capture files of every kind are read alike, in any pieces, and damage is one sentence."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.capture.files import (
    BLOCK_BYTES_MOST,
    INTERFACES_MOST,
    FileCounts,
    Packet,
    packets_of,
)
from pulsar_doctor.parts.capture.packets import Fragment, segment_of
from tests.parts.capture.packing import (
    BROKER,
    CLIENT,
    Talk,
    block,
    option,
    pcap,
    pcapng,
    tcp,
    zipped,
)

PACKETS = Talk().open().say(0, b"hello" * 9).say(1, b"world").close().packets
FORMS = {
    "pcap": pcap(PACKETS),
    "pcap, nanoseconds, other byte order": pcap(PACKETS, order=">", nano=True),
    "pcapng": pcapng(PACKETS),
    "pcapng, microseconds, other byte order": pcapng(PACKETS, order=">", nano=False),
    "gzip of pcap": zipped(pcap(PACKETS)),
    "gzip of pcapng, two members": zipped(pcapng(PACKETS)[:100]) + zipped(pcapng(PACKETS)[100:]),
}


def read(content: bytes, piece: int = 1 << 20) -> tuple[list[Packet], FileCounts]:
    counts = FileCounts()
    chunks = (content[at : at + piece] for at in range(0, len(content), piece))
    return list(packets_of(chunks, "x.pcap", counts)), counts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 20])
def test_every_form_is_read_alike_in_any_pieces(form, piece):
    assert read(FORMS[form], piece)[0] == PACKETS


def test_what_the_kernel_dropped_is_told_by_pcapng():
    assert read(FORMS["pcapng"])[1].kernel_drops == 3


def test_interfaces_of_one_file_have_their_own_links():
    second = PACKETS[0]._replace(link=101, data=PACKETS[0].data[14:])
    found, _ = read(pcapng([*PACKETS, second], links=(1, 101)))
    assert found[-1].link == 101


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_is_still_written_ends_with_its_last_whole_packet(form):
    content = FORMS[form]
    for size in range(len(content) // 2, len(content)):
        found, _ = read(content[:size])
        assert found == PACKETS[: len(found)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 something else", "is not a capture"),
        (zipped(b"something else"), "is not a capture"),
        (FORMS["pcap"][:24] + b"\xff" * 16, "is damaged"),
        (FORMS["pcapng"][:28] + b"\x06\0\0\0\xff\xff\xff\xff", "is damaged"),
        (b"\x1f\x8b not gzip at all", "is damaged"),
    ],
    ids=["nothing", "no capture", "gzip of no capture", "pcap", "pcapng", "no gzip"],
)
def test_damage_is_one_sentence(content, said):
    with pytest.raises(InputError, match=said):
        read(content)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.tuples(st.integers(0), st.binary(min_size=1, max_size=4))),
)
def test_any_damage_gives_packets_or_one_sentence(form, changes):
    content = bytearray(FORMS[form])
    for at, put in changes:
        content[at % len(content) : at % len(content) + len(put)] = put
    with contextlib.suppress(InputError):
        for packet in read(bytes(content), 100)[0]:
            segment_of(packet.link, packet.data, packet.wire_bytes)


PNG_HEAD = FORMS["pcapng"][:28]


def interface_block(*options: bytes) -> bytes:
    return block("<", 1, struct.pack("<HHI", 1, 0, 0) + b"".join(options))


def packet_block(number: int, ticks: int, packet: Packet) -> bytes:
    sizes = len(packet.data), packet.wire_bytes
    head = struct.pack("<IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, *sizes)
    return block("<", 6, head + packet.data)


@pytest.mark.parametrize(
    "options",
    [
        [option("<", 9, b"\x00")],
        [option("<", 14, struct.pack("<q", 2**63 - 1))],
        [option("<", 14, struct.pack("<q", -(2**63)))],
        [option("<", 9, b"\x06"), option("<", 14, struct.pack("<q", 10**10))],
    ],
    ids=["ticks of a second", "the largest offset", "the least offset", "the year 2286"],
)
def test_a_packet_whose_time_cannot_be_is_counted_and_the_others_are_read(options):
    content = PNG_HEAD + interface_block(*options) + interface_block(option("<", 9, b"\x09"))
    content += packet_block(0, PACKETS[0].time_ns // 1000, PACKETS[0])
    content += b"".join(packet_block(1, each.time_ns, each) for each in PACKETS)
    found, counts = read(content)
    assert found == PACKETS
    assert counts.impossible_times == 1


def test_of_more_interfaces_than_can_be_the_packets_are_counted_and_the_others_are_read():
    content = PNG_HEAD + interface_block(option("<", 9, b"\x09"))
    content += interface_block() * (INTERFACES_MOST + 5)
    content += packet_block(INTERFACES_MOST + 1, 0, PACKETS[0])
    content += b"".join(packet_block(0, each.time_ns, each) for each in PACKETS)
    found, counts = read(content)
    assert found == PACKETS
    assert counts.beyond_interfaces == 1
    with pytest.raises(InputError, match="is damaged"):
        read(content + packet_block(INTERFACES_MOST + 7, 0, PACKETS[0]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (FORMS["pcap"][:24] + struct.pack("<IIII", 1, 0, BLOCK_BYTES_MOST + 4, 1), "is none"),
        (FORMS["pcapng"] + struct.pack("<II", 7, BLOCK_BYTES_MOST + 4), "cannot be"),
    ],
    ids=["pcap", "pcapng"],
)
def test_a_block_that_would_take_too_much_memory_is_damage(content, said):
    with pytest.raises(InputError, match=said):
        read(content + bytes(BLOCK_BYTES_MOST), 1 << 24)


V6 = (b"\xfd" + bytes(14) + b"\x07", 43668), (b"\xfd" + bytes(14) + b"\x01", 6650)
KINDS = {4: b"\x08\0", 6: b"\x86\xdd"}


def link_heads(version: int) -> dict[int, bytes]:
    kind = KINDS[version]
    return {
        1: bytes(12) + kind,
        0: b"\x02\0\0\0",
        108: b"\0\0\0\x02",
        101: b"",
        12: b"",
        113: bytes(14) + kind,
        276: kind + bytes(18),
        228 if version == 4 else 229: b"",
    }


@pytest.mark.parametrize("ends", [(CLIENT, BROKER), V6], ids=["IPv4", "IPv6"])
def test_a_segment_is_found_behind_every_link(ends):
    packet = tcp(*ends, 7, 8, 16, b"data")
    heads = link_heads(4 if ends[0] is CLIENT else 6)
    for link, head in heads.items():
        segment = segment_of(link, head + packet + b"padding", len(head) + len(packet) + 7)
        assert (segment.source, segment.target, segment.data) == (*ends, b"data"), link
        cut = segment_of(link, head + packet[:-3], len(head) + len(packet))
        assert (cut.data, cut.size) == (b"d", 4), link


@pytest.mark.parametrize("tags", [b"\x81\0\0\x05", b"\x88\xa8\0\x09\x81\0\0\x05"])
def test_vlans_are_passed_over(tags):
    packet = tcp(CLIENT, BROKER, 7, 8, 16, b"data")
    ethernet = bytes(12) + tags + b"\x08\0" + packet
    assert segment_of(1, ethernet, len(ethernet)).data == b"data"
    cooked = bytes(14) + tags + b"\x08\0" + packet
    assert segment_of(113, cooked, len(cooked)).data == b"data"
    cooked_2 = tags[:2] + bytes(18) + tags[2:] + b"\x08\0" + packet
    assert segment_of(276, cooked_2, len(cooked_2)).data == b"data"


def test_extension_headers_are_passed_over_and_fragments_are_none():
    packet = tcp(*V6, 7, 8, 16, b"data")
    longer = struct.pack(">H", len(packet) - 40 + 8)
    extended = packet[:4] + longer + b"\0" + packet[7:40] + b"\x06\0" + bytes(6) + packet[40:]
    assert segment_of(101, extended, len(extended)).data == b"data"
    fragment = bytearray(tcp(CLIENT, BROKER, 7, 8, 16, b"data"))
    fragment[6:8] = b"\x20\0"
    assert isinstance(segment_of(101, bytes(fragment), len(fragment)), Fragment)
