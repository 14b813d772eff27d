from __future__ import annotations

import itertools
import struct
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import FramingError
from pulsar_doctor.wire import framing
from pulsar_doctor.wire.framing import (
    DEFAULT_MAX_MESSAGE_BYTES,
    FRAME_PADDING_BYTES,
    HEAD_BYTES_MOST,
    HELD_BYTES_MOST,
    TOO_LONG,
    Cutter,
    Frame,
    code_of,
)

HELD = frozenset({2, 24})


def simple(command: bytes) -> bytes:
    return struct.pack(">II", len(command) + 4, len(command)) + command


def with_payload(
    command: bytes,
    metadata: bytes,
    payload: bytes,
    *,
    broker_metadata: bytes | None = None,
    checksum: bool = True,
) -> bytes:
    part = b""
    if broker_metadata is not None:
        part += struct.pack(">HI", 0x0E02, len(broker_metadata)) + broker_metadata
    if checksum:
        part += struct.pack(">HI", 0x0E01, 0xDEADBEEF)
    part += struct.pack(">I", len(metadata)) + metadata + payload
    return struct.pack(">II", len(command) + 4 + len(part), len(command)) + command + part


def cut(pieces: list[bytes], held: frozenset[int] = frozenset()) -> list[Frame]:
    cutter = Cutter(held)
    return [frame for piece in pieces for frame in cutter.feed(piece)]


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(c % (len(stream) + 1) for c in cuts)})
    return [stream[a:b] for a, b in itertools.pairwise(places)]


# A stream, with what each of its frames is: (bytes, code, command, metadata, payload_bytes).
Made = tuple[bytes, int, bytes, bytes | None, int | None]


# Sizes around those that take one byte more to be written.
binaries = st.binary(max_size=20) | st.sampled_from([100, 124, 125, 126, 127, 128, 255, 256]).map(
    bytes
)


@st.composite
def frames_made(draw: st.DrawFn) -> Made:
    code = draw(st.sampled_from([2, 6, 9, 24, 68, 127, 128, 300]))
    varint = bytes([code]) if code < 128 else bytes([code & 0x7F | 0x80, code >> 7])
    command = b"\x08" + varint + draw(binaries)
    if draw(st.booleans()):
        return simple(command), code, command, None, None
    metadata = draw(binaries)
    data = with_payload(
        command,
        metadata,
        draw(st.binary(max_size=60)),
        broker_metadata=draw(st.none() | st.binary(max_size=12)),
        checksum=draw(st.booleans()),
    )
    looked_into = metadata if code in (6, 9) else None
    return data, code, command, looked_into, len(data) - 8 - len(command)


streams = st.lists(frames_made(), max_size=6)
cuts = st.lists(st.integers(min_value=0), max_size=12)


@given(streams, cuts)
@settings(max_examples=100, deadline=None)
def test_any_cut_of_a_stream_gives_the_same_frames(made, cuts):
    stream = b"".join(one[0] for one in made)
    end = 0
    expected = []
    for data, code, command, metadata, payload_bytes in made:
        end += len(data)
        expected.append(Frame(code, command, metadata, len(data), payload_bytes, end))
    assert cut([stream]) == expected
    assert cut(pieces_of(stream, cuts)) == expected
    assert cut([bytes([byte]) for byte in stream], HELD) == expected


@given(streams, cuts, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_a_cutter_that_stops_after_some_frames_goes_on_where_it_stopped(made, cuts, most):
    stream = b"".join(one[0] for one in made)
    whole = Cutter(HELD)
    expected = list(whole.feed(stream))
    with mock.patch.object(framing, "STRETCH_BYTES", 1):
        cutter, found, held = Cutter(HELD, most), [], []
        for piece in pieces_of(stream, cuts):
            feeds = [piece]
            while feeds:
                frames = cutter.feed(feeds.pop())
                assert len(frames) <= most + 1
                found += frames
                held += cutter.held_frames
                if cutter.more:
                    assert len(frames) >= most
                    feeds.append(b"")
    assert found == expected
    assert held == whole.held_frames
    assert (cutter.undecided, cutter.position) == (whole.undecided, len(stream))


@given(streams, cuts, st.booleans())
@settings(max_examples=100, deadline=None)
def test_held_frames_are_never_passed_in_part_and_no_byte_waits_without_need(made, cuts, bytewise):
    stream = b"".join(one[0] for one in made)
    held = []  # where the held frames begin and end, and which bytes of others tell no type yet
    at = 0
    for data, code, *_ in made:
        held.append((at, at + len(data), code in HELD))
        at += len(data)
    cutter = Cutter(HELD)
    fed = 0
    for piece in [bytes([byte]) for byte in stream] if bytewise else pieces_of(stream, cuts):
        cutter.feed(piece)
        fed += len(piece)
        assert cutter.position == fed
        passed = fed - cutter.undecided
        assert 0 <= passed <= fed
        for begin, end, is_held in held:
            if is_held:
                assert not begin < passed < end, "a part of a held frame was passed on"
            elif begin + 11 <= fed:
                assert passed >= min(fed, end), "the type was known, and bytes waited"
    assert cutter.undecided == 0


def test_several_frames_in_one_piece_come_in_order():
    stream = simple(b"\x08\x12") + with_payload(b"\x08\x09", b"m", b"p") + simple(b"\x08\x13")
    assert [frame.code for frame in cut([stream])] == [18, 9, 19]


@pytest.mark.parametrize("broker_metadata", [None, b"", b"b" * 7])
@pytest.mark.parametrize("checksum", [True, False])
def test_broker_metadata_and_checksum_may_be_there_or_not(broker_metadata, checksum):
    stream = with_payload(
        b"\x08\x09zz", b"meta", b"payload", broker_metadata=broker_metadata, checksum=checksum
    )
    (frame,) = cut([stream])
    assert (frame.metadata, frame.payload_bytes) == (b"meta", len(stream) - 12)
    assert cut([bytes([byte]) for byte in stream]) == [frame]


def test_no_payload_part_and_an_empty_payload_differ():
    (without,) = cut([simple(b"\x08\x09")])
    (empty,) = cut([with_payload(b"\x08\x09", b"", b"")])
    assert (without.metadata, without.payload_bytes) == (None, None)
    assert (empty.metadata, empty.payload_bytes) == (b"", 10)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes is longer than the 5253120"),
        (struct.pack(">II", 10, 7), "a frame of 10 bytes cannot hold a command of 7"),
        (struct.pack(">II", 3, 0), "a frame of 3 bytes cannot hold a command of 0"),
        (
            struct.pack(">II", 16, 2) + b"\x08\x09" + struct.pack(">I", 99) + b"123456",
            "metadata of 99 bytes, where the frame has 6 left",
        ),
        (
            struct.pack(">II", 26, 2)
            + b"\x08\x09"
            + struct.pack(">HII", 0x0E01, 7, 11)
            + bytes(10),
            "metadata of 11 bytes, where the frame has 10 left",
        ),
        (
            struct.pack(">II", 14, 2) + b"\x08\x09" + struct.pack(">HIH", 0x0E01, 7, 0),
            "a payload part of 8 bytes is too short",
        ),
        (
            struct.pack(">II", 8, 2) + b"\x08\x09" + b"\x0e\x01",
            "a payload part of 2 bytes is too short",
        ),
        (
            struct.pack(">II", 18, 2) + b"\x08\x09" + struct.pack(">HI", 0x0E02, 900) + b"123456",
            "broker metadata of 900 bytes, where the frame has 6 left",
        ),
    ],
)
def test_what_can_be_no_frame_is_refused_in_clear_words(stream, reason):
    with pytest.raises(FramingError, match=reason):
        cut([stream])
    with pytest.raises(FramingError):
        cut([bytes([byte]) for byte in stream])


def test_the_frames_before_nonsense_are_told():
    cutter = Cutter()
    with pytest.raises(FramingError):
        cutter.feed(simple(b"\x08\x12") + simple(b"\x08\x13") + b"\xff" * 8)
    assert [frame.code for frame in cutter.frames] == [18, 19]


def test_the_payload_part_of_what_is_no_message_is_not_looked_into():
    stream = struct.pack(">II", 12, 2) + b"\x08\x45" + b"nothing"[:6] + simple(b"\x08\x12")
    first, second = cut([bytes([byte]) for byte in stream])
    assert (first.code, first.metadata, first.payload_bytes) == (69, None, 6)
    assert second.code == 18


def test_a_frame_may_be_as_long_as_the_broker_allows_and_no_longer():
    most = DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES
    assert not Cutter().feed(struct.pack(">II", most, 2))
    with pytest.raises(FramingError, match="longer than the"):
        Cutter().feed(struct.pack(">II", most + 1, 2))
    cutter = Cutter()
    cutter.max_frame_bytes = 20
    with pytest.raises(FramingError, match="longer than the 20 that the broker allows"):
        cutter.feed(struct.pack(">II", 21, 2))


@given(st.binary(max_size=200), cuts)
@settings(max_examples=100, deadline=None)
def test_nonsense_gives_frames_or_a_framing_error_and_nothing_else(stream, cuts):
    cutter = Cutter(HELD)
    try:
        for piece in pieces_of(stream, cuts):
            cutter.feed(piece)
            assert 0 <= cutter.undecided <= cutter.position
    except FramingError:
        pass


def test_a_payload_is_counted_and_never_kept():
    stream = with_payload(b"\x08\x09", b"meta", bytes(4_000_000))
    cutter = Cutter(HELD)
    frames = []
    for at in range(0, len(stream), 65536):
        frames += cutter.feed(stream[at : at + 65536])
        assert len(cutter._rest) == 0
        assert cutter.undecided == 0
    (frame,) = frames
    assert (frame.frame_bytes, frame.metadata) == (len(stream), b"meta")


def test_many_payloads_cut_anywhere_leave_no_more_than_a_head_behind():
    one = with_payload(b"\x08\x09", b"meta", bytes(10_000))
    stream = one * 50
    cutter = Cutter()
    count = 0
    for at in range(0, len(stream), 777):
        count += len(cutter.feed(stream[at : at + 777]))
        assert len(cutter._rest) < 777
    assert count == 50


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (b"\x08\x12", 18),
        (b"\x08\xac\x02", 300),
        (b"\x08\xff\xff\x01", -1),
        (b"\x08\x80", -1),
        (b"\x08", -1),
        (b"", -1),
        (b"\x12\x08", -1),
    ],
)
def test_the_type_is_the_first_field_of_a_command(command, code):
    assert code_of(command) == code


def test_a_cutter_says_when_a_held_frame_is_complete():
    cutter = Cutter(HELD)
    cutter.feed(simple(b"\x08\x18"))
    assert cutter.held_frames
    cutter.feed(simple(b"\x08\x12"))
    assert not cutter.held_frames


@pytest.mark.parametrize("command", [b"", b"\x08"])
def test_a_command_without_a_type_does_not_take_one_from_the_bytes_behind_it(command):
    behind = b"\x08\x09"[len(command) :] + bytes(20)
    stream = struct.pack(">II", 4 + len(command) + len(behind), len(command)) + command + behind
    for pieces in ([stream * 2], [bytes([byte]) for byte in stream * 2]):
        first, second = cut(pieces)
        assert (first.code, first.metadata, first.payload_bytes) == (-1, None, len(behind))
        assert second.end == 2 * first.end == 2 * len(stream)
    short = struct.pack(">II", 4 + len(command), len(command)) + command
    for pieces in ([short * 3], [bytes([byte]) for byte in short * 3]):
        assert [(f.code, f.frame_bytes) for f in cut(pieces)] == [(-1, len(short))] * 3


def test_what_carries_a_payload_cannot_be_held():
    with pytest.raises(ValueError, match="cannot be held"):
        Cutter(frozenset({9}))


def test_the_held_frames_are_told_apart():
    held, other = simple(b"\x08\x18" + b"answer"), simple(b"\x08\x12")
    cutter = Cutter(HELD)
    cutter.feed(other)
    assert (cutter.held_frames, cutter.position) == ([], 10)
    cutter.feed(other + held + other + held[:-1])
    (frame,) = cutter.held_frames
    assert frame == Frame(24, b"\x08\x18answer", None, 16, None, 36)
    assert frame in cutter.frames
    cutter.feed(held[-1:])
    assert [frame.end for frame in cutter.held_frames] == [62]


# Frames that are too long to be held.


def long_frames() -> list[tuple[bytes, int]]:
    """Each with the code that it has with HELD."""
    head = with_payload(b"\x08\x09", bytes(HEAD_BYTES_MOST - 20), b"payload")
    broker = with_payload(b"\x08\x09", b"m", b"p", broker_metadata=bytes(HEAD_BYTES_MOST))
    behind_held = with_payload(b"\x08\x18", b"", bytes(HELD_BYTES_MOST))
    return [
        (simple(b"\x08\x18" + bytes(HELD_BYTES_MOST - 6)), 24),
        (simple(b"\x08\x18" + bytes(HELD_BYTES_MOST - 5)), TOO_LONG),
        (behind_held, TOO_LONG),
        (simple(b"\x08\x12" + bytes(HEAD_BYTES_MOST - 10)), 18),
        (simple(b"\x08\x12" + bytes(HEAD_BYTES_MOST - 9)), TOO_LONG),
        (head, 9),
        (with_payload(b"\x08\x09", bytes(HEAD_BYTES_MOST - 19), b"payload"), TOO_LONG),
        (broker, TOO_LONG),
        (with_payload(b"\x08\x09" + bytes(HEAD_BYTES_MOST), b"m", b"p"), TOO_LONG),
    ]


@pytest.mark.parametrize("piece", [7_919, 65_536, 1 << 30])
def test_frames_whose_heads_are_too_long_are_told_apart_however_they_are_cut(piece):
    stream = b"".join(data + simple(b"\x08\x13") for data, _ in long_frames())
    frames = cut([stream[at : at + piece] for at in range(0, len(stream), piece)], HELD)
    assert [frame.code for frame in frames[::2]] == [code for _, code in long_frames()]
    assert {frame.code for frame in frames[1::2]} == {19}
    assert [frame.frame_bytes for frame in frames[::2]] == [len(data) for data, _ in long_frames()]
    assert frames[-1].end == len(stream)


def test_half_of_a_type_of_two_bytes_does_not_show_whether_its_frame_is_held():
    data = simple(b"\x08\xac\x02")  # 300
    cutter = Cutter(frozenset({300}))
    for at in range(len(data) - 1):
        cutter.feed(data[at : at + 1])
        assert cutter.undecided == at + 1


def test_of_a_frame_that_is_too_long_nothing_is_held():
    stream = simple(b"\x08\x18" + bytes(DEFAULT_MAX_MESSAGE_BYTES - 100))
    cutter = Cutter(HELD)
    for at in range(0, len(stream), 1000):
        cutter.feed(stream[at : at + 1000])
        assert (len(cutter._rest), cutter.undecided) == (0, 0)
    assert [frame.code for frame in cutter.frames] == [TOO_LONG]
    assert cutter.held_frames == []


def test_what_waits_to_be_whole_is_appended_to_and_not_copied():
    cutter = Cutter(HELD)
    cutter.feed(simple(b"\x08\x18" + bytes(50_000))[:20])
    waiting = cutter._rest
    for _ in range(100):
        cutter.feed(bytes(100))
        assert cutter._rest is waiting
        assert cutter.undecided == len(waiting)
