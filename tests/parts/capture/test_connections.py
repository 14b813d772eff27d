"""Whatever becomes of the packets, nothing is told that was not said."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.packets import SYN, segment_of
from tests.parts.capture.packing import Heard, Talk, cut_short
from tests.parts.capture.talks import (
    ACK,
    BEGINNING,
    PING,
    PONG,
    SUBSCRIBE,
    TO_BROKER_FAKES,
    TO_CLIENT_FAKES,
    accounted,
    heard,
    is_part_of,
    said,
    send,
    turns,
)
from tests.parts.tap.tapped import CONNECTED, connect_frame, flow, message

MANY = settings(max_examples=60, deadline=None)


def at_once(packets):
    return [Packet(packets[0].time_ns, *packet[1:]) for packet in packets]


@MANY
@given(turns(), st.integers(20, 400), st.randoms(use_true_random=False))
def test_any_order_any_split_any_repetition_gives_the_same_frames(made, segment_bytes, chance):
    whole = said(made, segment_bytes)
    packets = at_once(whole.packets)
    packets += chance.sample(packets, chance.randrange(len(packets)))
    chance.shuffle(packets)
    out, following = heard(packets)
    assert out.both == whole.frames
    assert following.totals.used == following.totals.seen == whole.stream_bytes
    assert not [told for told in out.told if told[0] == "UNPARSED"]


@MANY
@given(turns(), st.integers(20, 300), st.integers(20, 300))
def test_segments_over_each_other_give_the_same_frames(made, one, other):
    first, again = said(made, one), said(made, other)
    packets = sorted(at_once(first.packets) + at_once(again.packets), key=lambda p: p.data[38:42])
    out, following = heard(packets)
    assert out.both == first.frames
    assert 0 < following.totals.repeated <= first.stream_bytes
    assert not following.totals.differing


@settings(max_examples=150, deadline=None)
@given(turns(), st.integers(8, 400), st.integers(1, 60), st.randoms(use_true_random=False))
def test_any_loss_gives_a_part_of_the_true_frames(made, segment_bytes, percent, chance):
    whole = said(made, segment_bytes)
    left = [packet for packet in whole.packets if chance.random() * 100 >= percent]
    out, following = heard(left)
    for (_, way), frames in out.frames_of.items():
        assert is_part_of(frames, whole.frames[way])
    assert accounted(following)


@settings(max_examples=150, deadline=None)
@given(turns(), st.integers(8, 400), st.floats(0, 1), st.sampled_from([0, 0, 5]), st.randoms())
def test_joined_anywhere_it_tells_a_part_of_the_true_frames(made, size, share, percent, chance):
    whole = said(made, size)
    later = whole.packets[int(share * len(whole.packets)) :]
    out, following = heard([packet for packet in later if chance.random() * 100 >= percent])
    for (_, way), frames in out.frames_of.items():
        assert is_part_of(frames, whole.frames[way])
    assert accounted(following)


@MANY
@given(turns(), st.integers(40, 200), st.integers(0, 200))
def test_a_snap_length_gives_a_part_of_the_true_frames(made, segment_bytes, snap):
    whole = said(made, segment_bytes)
    out, following = heard([cut_short(packet, 54 + snap) for packet in whole.packets])
    for way, frames in enumerate(out.both):
        assert is_part_of(frames, whole.frames[way])
    assert accounted(following)
    assert bool(following.totals.lost["snapped"]) == any(
        len(p.data) > 54 + snap for p in whole.packets
    )


def test_what_is_missing_within_a_payload_costs_no_frame_and_no_ledger():
    whole = said([*BEGINNING, (TO_CLIENT, message(1, bytes(20_000), 1), 0), (TO_CLIENT, PING, 0)])
    data = [p for p in whole.packets if len(p.data) > 1400]
    out, following = heard([p for p in whole.packets if p not in data[3:6]], 5 << 20)
    assert out.both == whole.frames
    assert following.totals.lost == {"missing": 3 * 1448}
    assert accounted(following)
    assert ("UNPARSED", 0, 1) not in out.told


def test_a_frame_that_is_missing_opens_the_ledgers_once_and_the_next_silence_resumes():
    spoken = [(TO_BROKER, flow(n), 1.5) for n in range(1, 8)]
    whole = said([*BEGINNING, *spoken])
    lost = next(p for p in whole.packets if flow(3) in p.data)
    out, following = heard([p for p in whole.packets if p is not lost])
    assert out.told.count(("UNPARSED", 0, 0)) == 1
    flows = [each for each in out.both[0] if each[0] == 11]
    assert len(flows) >= 4
    assert following.totals.resumed == 1
    assert following.totals.lost == {"missing": len(flow(3))}


def test_a_subscribe_while_the_other_direction_is_not_in_step_is_followed_by_unparsed():
    spoken = [(TO_CLIENT, PING, 0), (TO_BROKER, PONG, 2), (TO_BROKER, SUBSCRIBE, 0)]
    whole = said([*BEGINNING, *spoken])
    lost = next(p for p in whole.packets if PING in p.data)
    out, _ = heard([p for p in whole.packets if p is not lost])
    last = len(out.told) - 1 - out.told[::-1].index((4, 0, 0))
    assert out.told[last + 1] == ("UNPARSED", 0, 0)


def test_joined_within_a_payload_of_whole_frames_it_waits_until_the_payload_is_over():
    fakes = b"".join(TO_BROKER_FAKES) * 200
    behind = [(TO_BROKER, flow(n) + ACK, 1.5) for n in range(4)]
    whole = said([*BEGINNING, (TO_BROKER, send(fakes), 1.5), *behind])
    inside = next(n for n, p in enumerate(whole.packets) if len(p.data) > 1400) + 2
    out, following = heard(whole.packets[inside:])
    told = out.both[0]
    assert told == whole.frames[0][-len(told) :]
    assert len(told) == 6
    assert accounted(following)


@pytest.mark.parametrize("way", [TO_BROKER, TO_CLIENT])
def test_without_silence_twice_the_longest_frame_proves_a_boundary(way):
    fakes = b"".join(TO_BROKER_FAKES if way == TO_BROKER else TO_CLIENT_FAKES) * 30
    frames = [send(fakes, n) if way == TO_BROKER else message(1, fakes, n) for n in range(80)]
    whole = said([*BEGINNING, *((way, each, 0.0) for each in frames)])
    out, following = heard(whole.packets[20:], max_message_bytes=1000)
    told = out.both[way]
    assert told == whole.frames[way][-len(told) :]
    assert 50 < len(told) < 80
    assert following.totals.resumed == 1
    assert accounted(following)


def test_an_answer_never_comes_before_its_question():
    whole = said([*BEGINNING, (TO_BROKER, flow(5), 0.0)])
    handshake, shuffled = at_once(whole.packets)[:3], at_once(whole.packets)[3:]
    for seed in range(50):
        random.Random(seed).shuffle(shuffled)
        out, _ = heard(handshake + shuffled)
        assert [told[0] for told in out.told] == ["OPEN", 2, 3, 4, 13, 11, "CLOSE"]


def test_the_ledgers_are_unknown_before_what_answers_a_message_that_is_missing():
    spoken = [(1, message(1, b"a", 1), 0), (0, flow(5) + ACK, 0), (1, message(1, b"b", 2), 0)]
    whole = said([*BEGINNING, *spoken, (0, flow(6), 9)])
    lost = next(p for p in whole.packets if message(1, b"a", 1) in p.data)
    out, following = heard([p for p in whole.packets if p is not lost])
    assert out.told.index(("UNPARSED", 0, 1)) < out.told.index((11, 0, 0))
    assert [told for told in out.told if told[0] == "UNPARSED"] == [("UNPARSED", 0, 1)]
    assert out.both[0] == whole.frames[0]
    assert accounted(following)


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (b"GET / HTTP/1.1\r\nAuthorization: x\r\n\r\n", "foreign"),
        (b"\x16\x03\x01" + bytes(99), "tls"),
    ],
)
def test_of_what_is_not_pulsar_nothing_is_told(first, count):
    talk = Talk().open().say(0, first).say(1, b"HTTP/1.1 200 OK\r\n\r\n").wait(2)
    for n in range(9):
        talk.say(0, flow(n)).wait(2)
    out, following = heard(talk.close().packets)
    assert out.told == []
    assert getattr(following.totals, count) == 1
    assert accounted(following)
    assert following.tls_seen == ({"10.0.0.1:6650"} if count == "tls" else set())


def test_the_same_ports_again_are_another_connection():
    first = Talk().open().say(0, connect_frame()).say(1, CONNECTED)
    then = Talk(begun=(77, 99), now_ns=first.now_ns).open().say(0, connect_frame())
    out, following = heard([*first.packets, *then.close().packets])
    assert [told for told in out.told if told[0] in ("OPEN", "CLOSE")] == [
        ("OPEN", 0, "10.0.0.7:43668", "10.0.0.1:6650"), ("CLOSE", 0),
        ("OPEN", 1, "10.0.0.7:43668", "10.0.0.1:6650"), ("CLOSE", 1),
    ]  # fmt: skip
    assert following.totals.connections == 2


def test_what_one_connection_waited_for_does_not_end_the_next_one_of_its_ports():
    former, latter = Talk().open(), Talk(begun=(7, 9))
    former.say(TO_BROKER, connect_frame()[:9]).say(TO_BROKER, flow(1), acked=False)
    del former.packets[3]  # so that the rest waits for these bytes
    following = CaptureFollowing(out := Heard(), [6650])
    for packet in former.packets:
        following.packet(packet)
    following.pass_time(former.now_ns + 300_000_000)
    latter.now_ns = following.now_ns
    latter.open()
    for way, data, _ in BEGINNING:
        latter.say(way, data).wait(0.6)
    for packet in latter.packets:
        following.packet(packet)
    assert [[each[0] for each in frames] for frames in out.both] == [[2, 4], [3, 13]]
    assert [each.closed for each in following.connections()] == [False]


def test_a_side_that_has_sent_its_fin_still_hears_the_other_at_once():
    talk = Talk().open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    talk.end(TO_BROKER).say(TO_CLIENT, PING)
    following = CaptureFollowing(out := Heard(), [6650])
    for packet in talk.packets:
        following.packet(packet)
    assert out.both[TO_CLIENT][-1][0] == 18


def test_a_syn_begins_with_its_number_behind_it():
    packet = Talk().open().packets[0]
    segment = segment_of(packet.link, packet.data, packet.wire_bytes)
    assert segment.flags == SYN
    assert segment.seq == 2**32 - 700
