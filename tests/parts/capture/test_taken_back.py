"""What the broker's statistics contradict is taken back, and no verdict rests on what is likely."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from pulsar_doctor.checkup.recorded import read_trace
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose_wire
from pulsar_doctor.parts.capture.connections import TO_BROKER, TO_CLIENT
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.reported import ConsumerSample
from pulsar_doctor.parts.capture.running import RunningCapture
from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import RETRACTED, Row
from tests.parts.capture.packing import Talk
from tests.parts.capture.talks import checked
from tests.parts.capture.test_likely import busy
from tests.parts.capture.test_naming import flow_of, told
from tests.parts.tap.tapped import frame, message

SECOND = 10**9
Samples = list[tuple[int, list[tuple[str, int, int]]]]  # when, and name, permits, messages sent


def captured(folder: Path, packets: list[Packet], samples: Samples) -> list[Row]:
    """The rows of a capture, with complete samples of the broker in between."""
    queue = SimpleQueue[ConsumerSample]()
    with TraceWriter(folder, {"files": []}) as writer:
        running = RunningCapture(writer, lambda out: CaptureFollowing(out, [6650]), samples=queue)
        for packet in packets:
            while samples and samples[0][0] <= packet.time_ns:
                at_ns, consumers = samples.pop(0)
                seen = [told(*each, at_ns) for each in consumers]
                acked = {"last_acked_timestamp_ms": at_ns // 1_000_000}
                now = [each._replace(of=replace(each.of, **acked)) for each in seen]
                queue.put(ConsumerSample(now, complete=True))
            running.packet(packet)
        running.pass_time(packets[-1].time_ns + 60 * SECOND)
        running.finish()
    return list(open_trace(folder).rows())


def status_of(folder: Path) -> str | None:
    wires = read_trace(folder, say=print, say_more=print).wires
    found = diagnose_wire(wires, load(), limits_of(load()), "capture")
    return found[0].status if found else None


def from_the_first(talk: Talk, data: bytes) -> list[Packet]:
    first = next(n for n, packet in enumerate(talk.packets) if data in packet.data)
    return talk.packets[first:]


def test_five_seconds_give_the_consumers_name_and_a_balance(tmp_path):
    packets, _ = busy(10)
    begins = packets[0].time_ns
    samples: Samples = [(begins + n * SECOND, [("a", 5, 5 * n)]) for n in (2, 3, 4)]
    rows = captured(tmp_path / "t", packets, samples)
    flows = [row for row in rows if row.command == "FLOW"]
    assert [row.permits for row in flows] == [5] * 10
    assert flows[-1].consumer_name == "a"
    last = rows[-2]
    assert last.available_permits_min <= 0 <= last.available_permits
    assert last.available_permits - last.available_permits_min <= 45  # of 2.5 seconds


def torn_within(way: int, fakes: list[bytes]) -> Talk:
    """A payload that ends with a frame, and ordinary ones of the other direction around it."""
    talk = Talk().open()
    if way == TO_CLIENT:
        whole = checked(message(7, b"".join(fakes), 1))
    else:
        command = b"\x08\x06\x32\x04\x08\x01\x10\x01"
        whole = checked(frame(command, b"\x0e\x01\0\0\0\1\0\0\0\0" + b"".join(fakes)))
    talk.say(way, whole[: len(whole) - sum(map(len, fakes))])
    for number, each in enumerate(fakes):
        other = checked(message(7, b"", number)) if way == TO_BROKER else flow_of(7, 1)
        talk.say(1 - way, other).say(way, each).wait(0.2)
    return talk


def test_more_numbers_than_consumers_are_a_contradiction(tmp_path):
    """A payload that ends where its last frame ends; then the true ones of another number."""
    fakes = [flow_of(66, 1000 + number) for number in range(20)]
    talk = torn_within(TO_BROKER, fakes)
    for _ in range(40):
        talk.say(TO_BROKER, flow_of(7, 5)).wait(0.4)
        talk.say(TO_CLIENT, checked(message(7, b"x", 1)))
    packets = from_the_first(talk, fakes[0])
    begins = packets[0].time_ns
    samples: Samples = [(begins + n * SECOND, [("a", 5, 5 * n)]) for n in (8, 10)]
    rows = captured(tmp_path / "t", packets, samples)
    assert [row.error_message for row in rows if row.command == RETRACTED] == [
        "the broker's statistics contradict it"
    ] * 2
    assert {row.consumer_id for row in rows if row.command == "FLOW"} == {7}


@pytest.mark.parametrize("permits", [0, 5, 1000])
@pytest.mark.parametrize("way", [TO_BROKER, TO_CLIENT])
def test_a_payload_of_frames_with_checksums_makes_nobody_stalled_or_healthy(tmp_path, way, permits):
    if way == TO_BROKER:
        fakes = [flow_of(7, 1000) for _ in range(40)]
    else:
        fakes = [checked(message(7, b"", 50 + number)) for number in range(40)]
    packets = from_the_first(torn_within(way, fakes), fakes[0])
    begins = packets[0].time_ns
    samples: Samples = [(begins + n * SECOND, [("a", permits, 5)]) for n in (3, 4)]
    rows = captured(tmp_path / "t", packets, samples)
    assert any(row.grade == "likely" or row.command == RETRACTED for row in rows)
    assert status_of(tmp_path / "t") in (None, "unknown")


def test_once_two_samples_agree_with_its_frames_a_consumer_is_judged(tmp_path):
    packets, _ = busy(10)
    begins, ends = packets[0].time_ns, packets[-1].time_ns
    samples: Samples = [(begins + 2 * SECOND, [("a", 0, 10)])]
    captured(tmp_path / "one", packets, [*samples])
    assert status_of(tmp_path / "one") == "unknown"
    samples.append((ends, [("a", 0, 50)]))
    rows = captured(tmp_path / "two", packets, [*samples])
    assert [row.grade for row in rows if row.command == "STATS"] == ["likely", None]


def test_bounds_do_not_make_healthy_who_has_stopped(tmp_path):
    """A minute later it may have no permits: the last sample was taken while frames passed."""
    packets, _ = busy(10)
    begins = packets[0].time_ns
    samples: Samples = [(begins + n * SECOND, [("a", 5, 5 * n)]) for n in (2, 3, 4)]
    rows = captured(tmp_path / "t", packets, samples)
    assert [row.grade for row in rows if row.command == "STATS"] == ["likely", None, None]
    assert status_of(tmp_path / "t") == "unknown"
