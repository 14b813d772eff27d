"""Conversations whose payloads hold whole Pulsar frames, and what of them is heard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google_crc32c import value as crc32c
from hypothesis import strategies as st

from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.wire.framing import Cutter
from tests.parts.capture.packing import Heard, Talk
from tests.parts.tap.tapped import (
    CONNECTED,
    PONG,
    command_frame,
    connect_frame,
    flow,
    frame,
    message,
)

SUBSCRIBE = command_frame(
    4, "subscribe", topic="persistent://public/default/t", subscription="s",
    consumer_id=1, request_id=1, sub_type=1,
)  # fmt: skip
SUCCESS = command_frame(13, "success", request_id=1)
PING = command_frame(18, "ping")
ACK = command_frame(10, "ack", consumer_id=1)


def send(payload: bytes, sequence_id: int = 0) -> bytes:
    return frame(
        b"\x08\x06\x32\x04\x08\x01\x10" + bytes([sequence_id % 128]),
        b"\x0e\x01\0\0\0\1\0\0\0\0" + payload,
    )


# What a payload may hold: frames of both directions, as the conversation itself has them.
TO_BROKER_FAKES = (flow(7), ACK, PING, PONG, SUBSCRIBE)
TO_CLIENT_FAKES = (PING, PONG, SUCCESS, message(1, b"fake", 9))


@dataclass(frozen=True)
class Said:
    """A whole conversation: its packets, the bytes and the frames of each direction."""

    packets: tuple[Packet, ...]
    frames: tuple[list[tuple[object, ...]], list[tuple[object, ...]]]
    stream_bytes: int


def frames_in_stream(stream: bytes) -> list[tuple[object, ...]]:
    return [tuple(each)[:5] for each in Cutter().feed(stream)]


def said(turns: Iterable[tuple[int, bytes, float]], segment_bytes: int = 1448) -> Said:
    """turns: whole frames of a direction, and how long it is quiet behind them."""
    talk, streams = Talk(segment_bytes=segment_bytes).open(), [b"", b""]
    for way, data, quiet in turns:
        streams[way] += data
        talk.say(way, data).wait(quiet)
    talk.close()
    return Said(
        tuple(talk.packets),
        (frames_in_stream(streams[0]), frames_in_stream(streams[1])),
        len(streams[0]) + len(streams[1]),
    )


BEGINNING = [
    (TO_BROKER, connect_frame(), 0.0),
    (TO_CLIENT, CONNECTED, 0.0),
    (TO_BROKER, SUBSCRIBE, 0.0),
    (TO_CLIENT, SUCCESS, 0.0),
]


@st.composite
def turns(draw: st.DrawFn, most: int = 12) -> list[tuple[int, bytes, float]]:
    """Behind a beginning, with silences between frames, and with payloads of nothing but frames."""
    made = list(BEGINNING)
    for number in range(draw(st.integers(1, most))):
        way = draw(st.sampled_from([TO_BROKER, TO_CLIENT]))
        fakes = TO_BROKER_FAKES if way == TO_BROKER else TO_CLIENT_FAKES
        held = b"".join(draw(st.lists(st.sampled_from(fakes), max_size=12)))
        plain = draw(st.sampled_from([flow(3), ACK, PING] if way == TO_BROKER else [PING, PONG]))
        full = send(held, number) if way == TO_BROKER else message(1, held, number)
        data = b"".join(draw(st.lists(st.sampled_from([plain, full]), min_size=1, max_size=4)))
        made.append((way, data, draw(st.sampled_from([0.0, 0.0, 0.3, 1.2, 3.0]))))
    return made


def heard(
    packets: Sequence[Packet], max_message_bytes: int = 5 << 20
) -> tuple[Heard, CaptureFollowing]:
    """All of it through a capture, to its end."""
    out = Heard()
    following = CaptureFollowing(out, [6650], (), max_message_bytes)
    for packet in packets:
        following.packet(packet)
    following.finish()
    return out, following


def is_part_of(some: Sequence[object], whole: Sequence[object]) -> bool:
    """Whether these come in the whole, in this order."""
    rest = iter(whole)
    return all(any(each == other for other in rest) for each in some)


def accounted(following: CaptureFollowing) -> bool:
    totals = following.totals
    return totals.seen == totals.used + totals.skipped + sum(totals.lost.values())


def checked(frame: bytes) -> bytes:
    """A SEND or MESSAGE with the checksum that it should have."""
    at = 8 + int.from_bytes(frame[4:8], "big")
    return frame[: at + 2] + int(crc32c(frame[at + 6 :])).to_bytes(4, "big") + frame[at + 6 :]


FAKE_FLOWS = [flow(1000 + number) for number in range(12)]


def within_a_payload(fakes: list[bytes], ends_with: bytes, gap: float = 0.4) -> Talk:
    """A SEND whose payload is these frames, each a segment of its own, and bytes of no frame."""
    talk = Talk().open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    command = b"\x08\x06\x32\x04\x08\x01\x10\x01"
    whole = checked(frame(command, b"\x0e\x01\0\0\0\1\0\0\0\0" + b"".join(fakes) + ends_with))
    talk.say(TO_BROKER, whole[: len(whole) - len(b"".join(fakes)) - len(ends_with)])
    for each in (*fakes, ends_with):
        talk.say(TO_BROKER, each).wait(gap)
    return talk
