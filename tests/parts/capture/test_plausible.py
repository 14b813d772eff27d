"""Chains of frames: what proves a boundary without any silence, and what does not."""

from __future__ import annotations

import time

import pytest

from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.plausible import TO_BROKER_ONLY, TO_CLIENT_ONLY, only_boundary
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.capture.packing import START_NS, Talk
from tests.parts.capture.talks import ACK, BEGINNING, frames_in_stream, heard
from tests.parts.capture.torn import MARK, Torn, check, marked
from tests.parts.tap.tapped import flow, frame, message


def test_a_client_requests_and_a_broker_responds():
    numbers = {each.name: each.number for each in wire.BaseCommand.DESCRIPTOR.fields}
    responses = {name for name in numbers if name.endswith("_response")} - {"auth_response"}
    requests = {name.removesuffix("_response") for name in responses}
    assert {numbers[name] for name in responses} <= TO_CLIENT_ONLY
    assert {numbers[name] for name in requests} <= TO_BROKER_ONLY
    assert not TO_CLIENT_ONLY & TO_BROKER_ONLY


def leapfrogging(count: int, pad: int, between: bytes = b"") -> tuple[bytes, set[int], int]:
    """A stream, its boundaries and its longest frame; another chain that never meets the true one.

    What begins in each payload is a frame that ends in the payload of the next one.
    between: whole frames in the middle of the stream.
    """
    head = len(message(1, b"", 1 << 20))
    size = len(message(1, bytes(pad) + message(MARK, b"", 1 << 20) + bytes(pad), 1 << 20))
    stream, boundaries = b"", set()
    for number in range(count):
        behind = between if number == count // 2 else b""
        fake = bytearray(message(MARK, b"", 1 << 20))
        fake[:4] = (size - 4 + len(behind)).to_bytes(4, "big")
        boundaries |= {len(stream), len(stream) + size}
        whole = message(1, bytes(pad) + fake + bytes(pad), (1 << 20) + number)
        assert len(whole) == size
        assert whole[head + pad :].startswith(fake)
        stream += whole + behind
    return stream, boundaries, size + len(between)


@pytest.mark.parametrize("pad", [20, 300])
def test_two_chains_that_never_meet_prove_nothing(pad):
    stream, _, size = leapfrogging(40, pad)
    assert len(frames_in_stream(stream)) == 40
    for begin in (1, pad, pad + 70, size - 1):
        assert only_boundary(bytearray(stream[begin:]), TO_CLIENT, size - 4) is None
    torn = Torn().say(TO_CLIENT, stream)
    packets = torn.talk.packets[torn.begins + 2 :]
    assert check(torn, packets, size - 4 - 10240)[TO_CLIENT] == 0


def test_where_all_chains_meet_the_boundary_is_true():
    fakes = b"".join(marked(TO_CLIENT, n) for n in range(4))
    each = [message(1, fakes, (1 << 20) + n) for n in range(9)]
    stream, size = b"".join(each), len(each[0])
    for begin in range(1, size):
        at = only_boundary(bytearray(stream[begin:]), TO_CLIENT, size - 4)
        assert at is not None
        assert (begin + at) % size == 0


def test_frames_of_16_mib_may_be_there_so_nothing_is_proven():
    stream = bytearray(b"".join(message(1, bytes(90), n) for n in range(9)))
    assert only_boundary(stream, TO_CLIENT, 200) is not None
    assert only_boundary(stream, TO_CLIENT, 1 << 24) is None


@pytest.mark.parametrize(
    "newer",
    [
        frame(b"\x08\x7f", b"what it carries"),
        frame(b"\x08\x8a\x01\x92\x08\x02ab"),
        frame(b"\x08\xac\x02", bytes(30)),
        frame(b"\x08\x0e\x72\x02\x10\x7f"),
        frame(b"\x08\x2a", b"a command of today's gaps"),
    ],
    ids=["payload", "above 127", "above 127 with payload", "newer error", "gap"],
)
def test_a_newer_command_does_not_end_the_true_chain(newer):
    stream, boundaries, size = leapfrogging(12, 60, newer)
    for begin in (1, 70):
        at = only_boundary(bytearray(stream[begin:]), TO_CLIENT, size - 4)
        assert at is None or at + begin in boundaries
    plain = b"".join(message(1, b"x", n) for n in range(50))
    assert only_boundary(bytearray(plain + newer + plain), TO_CLIENT, 200) is not None


HOSTILE = b"\x00\x4f\xff\x9c\x00\x4f\xff\x98\x08\x0b"  # a command of 5 MB begins at each


def test_a_payload_does_not_choose_how_long_a_search_takes_and_others_are_read():
    hostile = Talk(segment_bytes=60_000).say(TO_BROKER, HOSTILE * 1_100_000)
    other = Talk(client=(b"\x0a\0\0\x08", 9), now_ns=START_NS).open()
    for way, data, _ in BEGINNING:
        other.say(way, data)
    while other.now_ns < hostile.now_ns:
        other.wait(0.02).say(TO_BROKER, flow(1))
    packets = sorted(hostile.packets + other.packets, key=lambda packet: packet.time_ns)
    began = time.process_time()
    out, following = heard(packets)
    assert time.process_time() - began < 4  # with no budget: minutes
    assert {conn_id for conn_id, _ in out.frames_of} == {0}
    assert [each[0] for each in out.both[TO_BROKER]].count(11) > 10
    assert following.totals.unrecognised == 1


def test_the_smallest_frames_one_behind_the_other_do_not_exhaust_a_search():
    most = 200_000
    stream = bytearray(b"x" + ACK * (3 * most // len(ACK)))
    assert only_boundary(stream, TO_BROKER, most) is not None
