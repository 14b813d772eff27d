"""Payloads of whole Pulsar frames, torn where it hurts: what is told is what was said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.checkup.recorded import read_trace
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.packets import segment_of
from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.parts.capture.talks import ACK, SUBSCRIBE, SUCCESS, heard
from tests.parts.capture.torn import PAUSES, Torn, check, marked, true
from tests.parts.tap.tapped import command_frame, flow, message


@pytest.mark.parametrize("way", [TO_BROKER, TO_CLIENT])
@pytest.mark.parametrize("pause", PAUSES)
def test_a_pause_within_a_payload_that_is_no_silence_proves_nothing(way, pause):
    torn = Torn()
    fakes = [marked(way, n) for n in range(9)]
    whole = true(way, 1, b"".join(fakes))
    at = len(whole) - len(b"".join(fakes))
    torn.say(way, whole[:at])
    for each in fakes:
        torn.say(way, each, pause, PAUSES[pause])
    torn.say(way, true(way, 2, None))
    assert check(torn, torn.talk.packets[torn.begins + 2 :])[way] == 0


@pytest.mark.parametrize("way", [TO_BROKER, TO_CLIENT])
def test_a_stall_within_a_payload_and_a_silence_behind_it_invent_nothing(way):
    torn = Torn()
    fakes = [marked(way, n) for n in range(9)]
    whole = true(way, 1, b"".join(fakes))
    at = len(whole) - len(b"".join(fakes[4:]))
    torn.say(way, whole[:40]).say(way, whole[40:at], "honest", 4.0)
    torn.say(way, whole[at:], "honest", 4.0)
    for n in range(3):
        torn.say(way, true(way, n + 2, None))
    assert check(torn, torn.talk.packets[torn.begins + 2 :])[way] == 3


def test_one_silence_alone_is_not_believed():
    torn = Torn()
    fakes = b"".join(marked(TO_CLIENT, n) for n in range(9))
    whole = true(TO_CLIENT, 1, fakes)
    at = len(whole) - len(fakes)
    torn.say(TO_CLIENT, whole[:at], "honest", 4.0)
    torn.say(TO_CLIENT, whole[at:])
    torn.say(TO_CLIENT, true(TO_CLIENT, 2, b""))
    assert check(torn, torn.talk.packets[torn.begins + 1 :])[TO_CLIENT] == 0


@st.composite
def torn_talks(draw: st.DrawFn) -> Torn:
    """Both directions, with every pause that is allowed where a frame of a payload ends."""
    torn = Torn(draw(st.integers(30, 400)))
    stalls = [draw(st.booleans()), draw(st.booleans())]
    for number in range(draw(st.integers(1, 10))):
        way = draw(st.sampled_from([TO_BROKER, TO_CLIENT]))
        held = [marked(way, n) for n in draw(st.lists(st.integers(0, 9), max_size=6))]
        payload = None if draw(st.booleans()) else b"".join(held)
        whole = true(way, number, payload)
        parts = [whole[: len(whole) - len(payload or b"")], *(held if payload is not None else [])]
        for part in parts[:-1]:
            pause = draw(st.sampled_from(["none", "none", *PAUSES, "honest"]))
            if pause == "honest" and not stalls[way]:
                pause = "none"
            stalls[way] = stalls[way] and pause != "honest"
            torn.say(way, part, pause, PAUSES.get(pause, 2.0))
        torn.say(way, parts[-1], draw(st.sampled_from(["none", "honest"])), 2.0)
    torn.talk.close()
    return torn


SMALL = 5 << 20, 400, 120


@settings(max_examples=400, deadline=None)
@given(torn_talks(), st.floats(0, 1), st.sampled_from(SMALL))
def test_joined_anywhere_between_all_pauses_nothing_is_invented(torn, share, most):
    check(torn, torn.talk.packets[int(share * len(torn.talk.packets)) :], most)


@settings(max_examples=400, deadline=None)
@given(torn_talks(), st.integers(1, 40), st.randoms(use_true_random=False))
def test_with_data_lost_anywhere_nothing_is_invented_and_nothing_is_forgotten_in_silence(
    torn, percent, chance
):
    """What an end says without data is not lost: it tells an honest pause from the others."""
    packets = []
    for packet in torn.talk.packets:
        segment = segment_of(packet.link, packet.data, packet.wire_bytes)
        if not segment.data or chance.random() * 100 >= percent:
            packets.append(packet)
    check(torn, packets)


@pytest.mark.parametrize("tail", [1, 1448, 2896])
def test_a_hole_that_ends_with_the_payload_is_not_passed_over(tail):
    torn = Torn()
    whole = true(TO_CLIENT, 1, bytes(5 * 1448))
    torn.say(TO_CLIENT, whole[:-tail]).say(TO_CLIENT, whole[-tail:])
    lost = len(torn.talk.packets)
    torn.say(TO_CLIENT, true(TO_CLIENT, 2, None), "honest", 3.0)
    torn.say(TO_CLIENT, true(TO_CLIENT, 3, None), "honest", 3.0)
    torn.say(TO_CLIENT, true(TO_CLIENT, 4, None))
    packets = [*torn.talk.packets[: lost - 2 * -(-tail // 1448)], *torn.talk.packets[lost:]]
    assert check(torn, packets)[TO_CLIENT] >= 3


TOPIC = "persistent://public/default/t"
TOLD = {"topic": TOPIC, "subscription": "s", "subscription_type": "Shared", "consumer_name": "c"}


def tell(permits: int, following: CaptureFollowing, writer: TraceWriter) -> int | None:
    """What the broker says of consumer 1, where one of its directions is in step."""
    for connection in following.connections():
        if any(bounds.in_step and bounds.resumed for bounds in connection.bounds):
            told = {**TOLD, "consumer_id": 1, "permits": permits, "messages": 0}
            conn_id = connection.open(following.now_ns)
            writer.event(conn_id, "STATS", following.now_ns, **told, known_by="address")
            return None
    return permits


def judged(
    folder: Path, packets: list[Packet], permits: int | None
) -> tuple[list[Row], str | None]:
    """The rows of a capture, and the verdict. permits: that the broker tells once it is in step."""
    with TraceWriter(folder, {"files": []}) as writer:
        following = CaptureFollowing(writer, [6650])
        for packet in packets:
            following.pass_time(packet.time_ns)
            if permits is not None:
                permits = tell(permits, following, writer)
            following.packet(packet)
        following.pass_time(following.now_ns + 60 * 10**9)
        following.finish()
    rows = [row for row in open_trace(folder).rows() if row.command_code > 1]
    wires = read_trace(folder, say=print, say_more=print).wires
    found = diagnose_wire(wires, load(), limits_of(load()), "capture")
    return rows, found[0].status if found else None


def faking(way: int, inner: list[bytes]) -> list[Packet]:
    """From the middle of a frame: a sender that pauses in its payload where one of these ends."""
    torn = Torn()
    whole = true(way, 1, b"".join(inner))
    torn.say(way, whole[: -len(b"".join(inner))], "honest", 1.6)
    for each in inner:
        torn.say(way, each, "honest", 1.6)
    return torn.talk.packets[torn.begins + 1 :]


@pytest.mark.parametrize("permits", [None, 1000])
def test_what_a_client_fakes_by_pausing_in_its_payload_is_likely_and_judged_by_nobody(
    tmp_path, permits
):
    inner = [SUBSCRIBE + flow(1000) + ACK for _ in range(30)]
    rows, status = judged(tmp_path / "t", faking(TO_BROKER, inner), permits)
    faked = [row for row in rows if row.direction == "to_broker"]
    assert {row.command for row in faked} == {"SUBSCRIBE", "FLOW", "ACK"}
    assert {row.known_by for row in faked} == {"silence"}
    assert status in (None, "unknown")


def test_what_a_broker_that_stalls_twice_in_a_payload_seems_to_send_is_judged_by_nobody(tmp_path):
    inner = [message(1, b"", 1), b"".join(message(1, b"", number) for number in range(2, 62))]
    rows, status = judged(tmp_path / "t", faking(TO_CLIENT, inner), 50)
    faked = [row for row in rows if row.command == "MESSAGE"]
    assert len(faked) == 60
    assert {row.known_by for row in faked} == {"silence"}
    assert faked[-1].available_permits == -10
    assert status == "unknown"


def test_a_subscribe_while_one_direction_is_only_likely_opens_no_certain_ledger():
    torn = Torn()
    lost = len(torn.talk.packets)
    torn.say(TO_CLIENT, true(TO_CLIENT, 1, None))
    for number in range(2, 5):
        torn.say(TO_CLIENT, true(TO_CLIENT, number, None), "honest", 1.6)
    torn.say(TO_BROKER, SUBSCRIBE).say(TO_CLIENT, SUCCESS)
    packets = torn.talk.packets
    out, _ = heard([*packets[:lost], *packets[lost + 2 :]])
    last = len(out.told) - 1 - out.told[::-1].index((4, 0, TO_BROKER))
    assert out.known_by == ["silence"]
    assert out.told[last + 1] == ("UNPARSED", 0, TO_BROKER)


def test_a_connected_that_is_only_likely_does_not_say_how_long_frames_are():
    """Were its limit believed, the long message behind it would be none."""
    small = command_frame(3, "connected", server_version="x", max_message_size=1)
    torn = Torn()
    begins = len(torn.talk.packets)
    whole = true(TO_CLIENT, 1, small * 3)
    torn.say(TO_CLIENT, whole[: -3 * len(small)], "honest", 1.6)
    for _ in range(3):
        torn.say(TO_CLIENT, small, "honest", 1.6)
    torn.say(TO_CLIENT, true(TO_CLIENT, 2, bytes(50_000)))
    out, _ = heard(torn.talk.packets[begins + 1 :])
    told = [(each[0], each[2]) for each in out.told if each[0] in (3, 9)]
    assert told == [(3, TO_CLIENT), (3, TO_CLIENT), (9, TO_CLIENT)]
