"""A capture that keeps its newest part only, as a tap does: of files and of what passes now."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsar_doctor.trace.index import read_index
from pulsar_doctor.trace.sealing import open_trace
from tests.parts.capture.packing import Talk, pcap
from tests.parts.capture.talks import BEGINNING
from tests.parts.tap.tapped import flow, message
from tests.support.command_line import answered

SECOND_US = 1_000_000
EXPIRED = 5  # of `trace verify`: whole, but for what a ring has dropped


def spoken(path: Path, count: int, *, pause: float, size: int = 100) -> Path:
    """A capture of a talk of so many messages, each with a FLOW, and a pause behind it."""
    talk = Talk(segment_bytes=60_000).open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    for number in range(count):
        talk.say(0, flow(1)).say(1, message(1, bytes(size), number)).wait(pause)
    path.write_bytes(pcap(talk.packets))
    return path


def test_of_a_file_a_ring_keeps_the_newest_seconds_of_the_packets(tmp_path):
    file = spoken(tmp_path / "f.pcap", 600, pause=1)
    whole, ring = tmp_path / "whole", tmp_path / "ring"
    assert answered("capture", str(file), "--trace", str(whole)).returncode == 0
    ran = answered("capture", str(file), "--trace", str(ring), "--ring", "60s")
    assert ran.returncode == 0, ran.stderr
    rows, kept = list(open_trace(whole).rows()), list(open_trace(ring).rows())
    assert [row.seq for row in kept] == [row.seq for row in rows][-len(kept) :]
    assert [row.available_permits for row in kept] == [r.available_permits for r in rows][
        -len(kept) :
    ]
    seconds = (kept[-1].ts - kept[0].ts) / SECOND_US
    assert 60 <= seconds <= 75
    assert read_index(ring).expired.rows == len(rows) - len(kept)
    assert answered("trace", "verify", str(ring)).returncode == EXPIRED


@pytest.mark.slow
def test_of_a_file_no_more_bytes_are_kept_than_are_allowed(tmp_path):
    file = spoken(tmp_path / "f.pcap", 60_000, pause=0, size=1)
    ring = tmp_path / "ring"
    ran = answered("capture", str(file), "--trace", str(ring), "--max-bytes", "8MiB")
    assert ran.returncode == 0, ran.stderr
    assert sum(each.stat().st_size for each in ring.rglob("*") if each.is_file()) <= 8 << 20
    rows = list(open_trace(ring).rows())
    assert (rows[-1].command, rows[-1].entry_id) == ("MESSAGE", 59_999)
    assert answered("trace", "verify", str(ring)).returncode == EXPIRED


def test_thresholds_are_for_what_passes_now(tmp_path):
    file = spoken(tmp_path / "f.pcap", 1, pause=0)
    set_ = ("--set", "permits-exhausted.refill_wait=2s")
    ran = answered("capture", str(file), "--trace", str(tmp_path / "t"), *set_)
    assert ran.returncode == 2
    assert "stall-check" in ran.stderr
    assert not (tmp_path / "t").exists()
