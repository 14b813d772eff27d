"""Damaged captures: one sentence each, never a hang, and memory that stays where it is."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.capture.packing import Talk, pcap, pcapng, zipped
from tests.parts.capture.talks import BEGINNING
from tests.parts.tap.tapped import flow, message

MEMORY_MOST = 256 << 20


def captures(folder: Path) -> list[str]:
    """Small ones of each kind, and one that is joined in a payload of whole frames."""
    talk = Talk().open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    for number in range(20):
        talk.say(0, flow(number)).say(1, message(1, bytes(300), number)).wait(0.3)
    talk.wait(2).say(1, message(1, bytes(30_000), 99)).close()
    fakes = Talk(client=(b"\x0a\0\0\x08", 9))
    fakes.say(1, message(1, message(66, b"", 1) * 3_000, 1)).wait(2).say(1, message(1, b"", 2))
    mixed = sorted([*talk.packets, *fakes.packets], key=lambda packet: packet.time_ns)
    tls = Talk(client=(b"\x0a\0\0\x09", 9)).open().say(0, b"\x16\x03\x01\x02\0" + bytes(512))
    contents = {
        "a.pcap": pcap(mixed),
        "b.pcap": pcap(mixed, order=">", nano=True),
        "c.pcapng": pcapng(mixed),
        "d.pcapng": pcapng(mixed, order=">", nano=False),
        "e.pcap.gz": zipped(pcap(mixed)),
        "f.pcapng.gz": zipped(pcapng([*tls.packets, *mixed])),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in contents]


def damage(folder: Path, seconds: float, seed: int) -> dict[str, object]:
    files = captures(folder)
    run = subprocess.run(
        [sys.executable, "-m", "tests.parts.capture.damaging", str(seconds), str(seed), *files],
        capture_output=True, text=True, check=False, timeout=seconds + 120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr + run.stdout
    told: dict[str, object] = json.loads(run.stdout)
    assert "wrong" not in told, told
    assert int(str(told["memory_bytes"])) < MEMORY_MOST
    return told


def test_a_few_damaged_captures(tmp_path):
    assert int(str(damage(tmp_path, 8, 0)["cases"])) > 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_damaged_captures_for_ten_minutes(tmp_path):
    seed = random.SystemRandom().randrange(10**9)
    told = damage(tmp_path, 600, seed)
    print(seed, told)
