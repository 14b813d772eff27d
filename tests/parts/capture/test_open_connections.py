"""However many connections say nothing, the others are read, and what they cost is bounded."""

from __future__ import annotations

import time

import pytest

from pulsar_doctor.parts.capture.connections import TO_BROKER
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import SWEEP_BYTES, CaptureFollowing
from pulsar_doctor.parts.capture.open_connections import CONNECTIONS_MOST, IDLE_NS, MUTE_MOST
from pulsar_doctor.parts.capture.packets import ACK, ETHERNET, SYN
from tests.parts.capture.packing import BROKER, ETHERNET_HEAD, START_NS, Heard, Talk, tcp
from tests.parts.capture.talks import BEGINNING, accounted, frames_in_stream, heard
from tests.parts.tap.tapped import flow


def alone(number: int, now_ns: int, flags: int = SYN, data: bytes = b"") -> Packet:
    """The only packet of a connection."""
    client = (number + (11 << 24)).to_bytes(4, "big"), 40_000
    frame = ETHERNET_HEAD + tcp(client, BROKER, 7, 0, flags, data)
    return Packet(now_ns, ETHERNET, frame, len(frame))


def speaking(pauses: list[float]) -> tuple[list[Packet], list[tuple[object, ...]]]:
    """A conversation from its beginning, and what its client says in it."""
    talk, said = Talk().open(), b""
    for way, data, _ in BEGINNING:
        talk.say(way, data)
        said += data if way == TO_BROKER else b""
    for number, pause in enumerate(pauses):
        talk.wait(pause).say(TO_BROKER, flow(number + 1))
        said += flow(number + 1)
    return talk.packets, frames_in_stream(said)


def test_lone_syns_cost_little_are_let_go_and_others_are_read():
    packets, said = speaking([20.0] * 60)
    packets += [alone(number, START_NS + number * 300_000_000) for number in range(4_000)]
    packets.sort(key=lambda packet: packet.time_ns)
    following = CaptureFollowing(out := Heard(), [6650])
    began, most = time.process_time(), 0
    for packet in packets:
        following.packet(packet)
        most = max(most, sum(1 for _ in following.connections()))
    assert time.process_time() - began < 6  # the scan of them all: 60 s
    assert most < 250  # those of the last minute
    following.finish()
    assert out.both[TO_BROKER] == said
    assert following.totals.mute == 4_000
    assert following.totals.unrecognised == 0


def test_many_syns_at_once_push_no_other_connection_away():
    packets, said = speaking([1.0, 1.0])
    scan = [alone(number, packets[-3].time_ns + number) for number in range(MUTE_MOST + 100)]
    following = CaptureFollowing(out := Heard(), [6650])
    for packet in sorted(packets + scan, key=lambda packet: packet.time_ns):
        following.packet(packet)
    assert sum(1 for _ in following.connections()) <= MUTE_MOST + 1
    following.finish()
    assert out.both[TO_BROKER] == said


def test_who_is_silent_for_long_is_let_go_and_comes_back_as_one_that_was_there_before():
    packets, said = speaking([1.0, 2 * IDLE_NS / 1e9 + 60, 1.5, 1.5, 1.5])
    later = packets[-8].time_ns
    others = [alone(0, later - each * 10**9) for each in range(1, 1800, 5)]
    out, following = heard(sorted(packets + others, key=lambda packet: packet.time_ns))
    lives = [told[0] for told in out.told if told[0] in ("OPEN", "CLOSE")]
    assert lives == ["OPEN", "CLOSE", "OPEN"]  # the last goes on when the capture ends
    assert out.known_by == ["silence"]
    assert out.frames_of[0, TO_BROKER] == said[:3]
    assert set(out.frames_of[1, TO_BROKER]) < set(said[4:])
    assert following.totals.gone_idle == 1
    assert accounted(following)


def test_where_the_clock_jumps_who_speaks_behind_it_is_not_let_go():
    packets, said = speaking([1.0, 2 * IDLE_NS / 1e9, 0.1])
    jumped = alone(0, packets[-4].time_ns - 1)
    out, following = heard(sorted([*packets, jumped], key=lambda packet: packet.time_ns))
    assert out.both[TO_BROKER] == said
    assert following.totals.gone_idle == 0


@pytest.mark.slow
def test_of_too_many_the_longest_silent_are_let_go():
    packets, said = speaking([0.001] * 3000)
    crowd = [
        alone(number, START_NS + number * 100_000, ACK, b"some data")
        for number in range(CONNECTIONS_MOST + 1_000)
    ]
    following = CaptureFollowing(out := Heard(), [6650])
    for packet in sorted(packets + crowd, key=lambda packet: packet.time_ns):
        following.packet(packet)
    assert sum(1 for _ in following.connections()) <= CONNECTIONS_MOST
    following.finish()
    assert out.both[TO_BROKER] == said
    assert following.totals.crowded_out >= 1_000


def test_where_too_much_waits_who_holds_most_gives_it_up():
    """A segment is missing at the beginning of each; what is behind it cannot be told yet."""
    following = CaptureFollowing(Heard(), [6650])
    most, size = 64 << 20, 4 << 20
    for number in range(20):
        client = (number + (11 << 24)).to_bytes(4, "big"), 40_000
        for at in range(0, size, 60_000):
            frame = ETHERNET_HEAD + tcp(client, BROKER, 9_000 + at, 0, ACK, bytes(60_000))
            following.packet(Packet(START_NS + number, ETHERNET, frame, len(frame)))
        waiting = sum(each.waiting_bytes for each in following.connections())
        assert waiting < most + SWEEP_BYTES + size
    assert waiting < 19 * size
    following.finish()
    assert following.totals.skipped == following.totals.seen
    assert accounted(following)


def test_a_silence_is_noticed_when_it_is_due_though_no_packet_comes():
    packets, _ = speaking([1.5] * 3)
    following = CaptureFollowing(Heard(), [6650])
    for packet in packets[-4:]:
        following.packet(packet)
    (connection,) = following.connections()
    for waited, in_step in ((900, False), (1_300, True)):
        following.pass_time(packets[-1].time_ns + waited * 1_000_000)
        assert connection.bounds[TO_BROKER].in_step == in_step
