"""Joined in the middle of a busy connection: what is likely is told as such, or taken back."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.likely import JOIN_NS, LikelyJoin
from pulsar_doctor.parts.capture.plausible import SearchBudget
from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import RETRACTED, Row
from tests.parts.capture.packing import Heard, Talk
from tests.parts.capture.talks import (
    ACK,
    BEGINNING,
    FAKE_FLOWS,
    PING,
    accounted,
    checked,
    frames_in_stream,
    heard,
    send,
    within_a_payload,
)
from tests.parts.tap.tapped import flow, frame, message
from tests.support.command_line import answered

HALF_SECOND = 0.5
SEND, CHECKSUM = b"\x08\x06\x32\x04\x08\x01\x10\x01", b"\x0e\x01\0\0\0\1\0\0\0\0"


def busy(rounds: int, payload: bytes = b"x" * 40) -> tuple[list[Packet], list[bytes]]:
    """A FLOW of 5 every half second, five messages and their ACKs; from after the beginning."""
    talk, said = Talk().open(), [b"", b""]
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    begins = len(talk.packets)
    for number in range(rounds):
        for way, data in (
            (TO_BROKER, flow(5)),
            *((TO_CLIENT, checked(message(1, payload, 5 * number + n))) for n in range(5)),
            (TO_BROKER, ACK),
        ):
            talk.say(way, data)
            said[way] += data
        talk.wait(HALF_SECOND)
    return talk.packets[begins:], said


def traced(folder: Path, packets: list[Packet]) -> tuple[list[Row], CaptureFollowing]:
    with TraceWriter(folder, {"files": []}) as writer:
        following = CaptureFollowing(writer, [6650])
        for packet in packets:
            following.packet(packet)
        following.finish()
    return list(open_trace(folder).rows()), following


def test_five_seconds_of_a_busy_connection_give_all_of_its_commands():
    packets, said = busy(10)
    out, following = heard(packets)
    for way in (TO_BROKER, TO_CLIENT):
        assert out.likely_of[0, way] == frames_in_stream(said[way])
    assert out.taken_back == []
    assert accounted(following)
    assert following.totals.skipped == 0


def test_a_likely_join_takes_three_frames_or_a_second_whichever_is_later():
    for gap, frames in ((0.1, 11), (0.8, 3)):
        talk = Talk().open()
        begins = len(talk.packets)
        following = CaptureFollowing(out := Heard(), [6650])
        for number in range(20):
            talk.say(TO_BROKER, flow(number + 1)).wait(gap)
        told = []
        for packet in talk.packets[begins:]:
            following.packet(packet)
            told.append(len(out.likely_of.get((0, TO_BROKER), ())))
        first = next(count for count in told if count)
        assert first == frames, gap
        assert (frames - 1) * (gap * 10**9) >= JOIN_NS - 10**8


def test_rows_of_a_likely_join_say_so_and_which_it_is(tmp_path):
    packets, _ = busy(10)
    rows, _ = traced(tmp_path / "t", packets)
    joins = {row.direction: row.seq for row in rows if row.command == "JOINED"}
    commands = [row for row in rows if row.command_code > 0]
    assert len(commands) == 70
    assert {row.grade for row in commands} == {"likely"}
    assert all(row.join == joins[row.direction] for row in commands)
    assert {row.permits for row in commands if row.command == "FLOW"} == {5}


def test_with_proven_only_nothing_likely_is_told():
    packets, _ = busy(10)
    following = CaptureFollowing(out := Heard(), [6650], proven_only=True)
    for packet in packets:
        following.packet(packet)
    following.finish()
    assert out.told == []
    assert out.likely_of == {}


def test_a_wrong_checksum_makes_no_chain():
    talk = Talk().open()
    begins = len(talk.packets)
    for number in range(9):
        talk.say(TO_CLIENT, message(1, b"x", number)).wait(0.4)
    out, _ = heard(talk.packets[begins:])
    assert out.likely_of == {}


def test_frames_of_a_payload_that_ends_otherwise_are_taken_back_and_counted():
    talk = within_a_payload(FAKE_FLOWS, b"the end of the payload")
    true = [flow(number + 1) for number in range(8)]
    for each in true:
        talk.say(TO_BROKER, each).wait(0.4)
    first = next(n for n, packet in enumerate(talk.packets) if FAKE_FLOWS[0] in packet.data)
    out, following = heard(talk.packets[first:])
    assert out.taken_back == frames_in_stream(b"".join(FAKE_FLOWS))
    assert out.likely_of[0, TO_BROKER] == frames_in_stream(b"".join(true))
    assert accounted(following)
    assert (following.totals.retracted, following.totals.retracted_frames) == (1, len(FAKE_FLOWS))


def taken_back(folder: Path) -> list[Row]:
    """A trace of FLOWs of a payload, and then of true ones; its rows."""
    talk = within_a_payload(FAKE_FLOWS, b"the end of the payload")
    for number in range(8):
        talk.say(TO_BROKER, flow(number + 1)).wait(0.4)
    first = next(n for n, packet in enumerate(talk.packets) if FAKE_FLOWS[0] in packet.data)
    return traced(folder, talk.packets[first:])[0]


def test_readers_leave_out_what_was_taken_back_and_count_it(tmp_path):
    rows, folder = taken_back(tmp_path / "t"), str(tmp_path / "t")
    (retracted,) = (row for row in rows if row.command == RETRACTED)
    flows = [row for row in rows if row.command == "FLOW"]
    assert [row.permits for row in flows] == [*range(1, 9)]
    assert retracted.join not in {row.join for row in flows}
    note = "12 rows were no commands and taken back, of a likely join: they are left out"
    shown = answered("trace", "show", folder, "--command", "FLOW", "-o", "jsonl")
    assert shown.stdout.count("\n") == 8
    assert note in shown.stderr
    for reader in ("summary", "verify"):
        found = answered("trace", reader, folder, "-o", "json")
        assert found.returncode == 0, found.stderr
        assert note in json.loads(found.stdout)["notes"]


def test_a_reader_leaves_out_all_that_is_likely_where_that_is_wanted(tmp_path):
    taken_back(tmp_path / "t")
    shown = answered("trace", "show", str(tmp_path / "t"), "--proven-only", "-o", "jsonl")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    commands = [row["command"] for row in rows]
    assert commands == ["OPEN", "UNPARSED", "UNPARSED"]  # none but ours


@pytest.mark.parametrize("ends", [12, 5])
def test_a_message_around_a_join_refutes_it_by_its_checksum(ends):
    """Its head shares a segment with the end of another frame, so that no chain begins there. It
    ends after its frames have been believed, or before."""
    fakes, true = FAKE_FLOWS, [flow(number + 1) for number in range(12)]
    whole = checked(frame(SEND, CHECKSUM + b"".join(fakes)))
    head = whole[: -len(b"".join(fakes))]
    talk = Talk().open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    talk.say(TO_BROKER, PING[:5]).say(TO_BROKER, PING[5:] + head)
    for each in (*fakes[:ends], b"".join(fakes[ends:]), *true):
        talk.say(TO_BROKER, each).wait(0.4 if ends == len(fakes) else 0.05)
    for each in true:
        talk.say(TO_BROKER, each).wait(0.4)
    first = next(n for n, packet in enumerate(talk.packets) if head in packet.data)
    out, following = heard(talk.packets[first:])
    assert accounted(following)
    assert set(out.likely_of[0, TO_BROKER]) <= set(frames_in_stream(b"".join(true)))
    assert len(out.likely_of[0, TO_BROKER]) >= 5
    told = frames_in_stream(b"".join(fakes[:-1])) if ends == len(fakes) else []
    assert out.taken_back == told
    assert following.totals.retracted_frames == len(told)


def test_a_payload_of_frames_to_its_end_stays_likely_where_its_head_is_not_seen():
    """What follows is as it would be if they were commands, so that it refutes nothing."""
    talk = within_a_payload(FAKE_FLOWS, b"")
    for number in range(200):
        talk.say(TO_BROKER, checked(send(bytes(1500), number))).wait(0.02)
    first = next(n for n, packet in enumerate(talk.packets) if FAKE_FLOWS[0] in packet.data)
    out, following = heard(talk.packets[first:], 2000)
    assert out.known_by == ["segment", "length"]
    assert out.likely_of[0, TO_BROKER][:12] == frames_in_stream(b"".join(FAKE_FLOWS))
    assert len(out.both[TO_BROKER]) > 100
    assert following.totals.retracted == 0
    assert accounted(following)


def test_size_proves_no_join_whose_own_frames_are_longer_than_it_allows():
    small, most = checked(message(1, bytes(500), 1)), 2000
    for first, proven in ((b"", True), (checked(message(1, 5 * small, 1)), False)):
        kept, budget = first + 20 * small, SearchBudget(1 << 30)
        join = LikelyJoin(bytearray(kept), 0, 0, len(kept))
        assert join.is_proven(TO_CLIENT, most, budget) is proven


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_with_packets_dropped_no_command_is_invented(share):
    for seed in range(10):
        chance = random.Random(seed)
        packets, said = busy(40)
        kept = [packet for packet in packets if chance.random() >= share]
        out, following = heard(kept)
        for way in (TO_BROKER, TO_CLIENT):
            true = set(frames_in_stream(said[way]))
            assert set(out.likely_of.get((0, way), ())) <= true
            assert set(out.both[way]) <= true
        assert out.taken_back == []
        assert accounted(following)
