"""Hours of traffic through a tap on a real broker: the memory of its processes does not grow.

Two hours by default (PULSAR_DOCTOR_SOAK_SECONDS), by hand: `-m slow -s -o timeout=9000`.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsar_doctor.trace.ring import MIB
from pulsar_doctor.trace.verifying import verify
from tests.parts.tap.broker_samples import BrokerSamples, lasting
from tests.parts.tap.tap_process import running
from tests.support.looking import Looking
from tests.support.processes import descriptors, linux, resident_bytes

SECONDS = float(os.environ.get("PULSAR_DOCTOR_SOAK_SECONDS", "7200"))
pytestmark = [linux, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(SECONDS + 600)]
LOOKS = 240  # in all
# Between the second quarter and the last one: Python's own pools come and go by so much.
GROWN_MOST = 3 * MIB


class Memory(Looking):
    """Bytes and open files of the processes of a tap, again and again; written as it goes."""

    def __init__(self, pids: dict[str, int], log: Path) -> None:
        super().__init__(SECONDS / LOOKS)
        self.pids = pids
        self.bytes: dict[str, list[int]] = {name: [] for name in pids}
        self.files: dict[str, list[int]] = {name: [] for name in pids}
        self._log = log

    def look(self) -> None:
        for name, pid in self.pids.items():
            self.bytes[name].append(resident_bytes(pid))
            self.files[name].append(descriptors(pid))
        with self._log.open("a") as file:
            told = [f"{self.bytes[name][-1] / MIB:.1f}" for name in self.pids]
            csv.writer(file).writerow([f"{time.time():.0f}", *told])
        super().look()


@contextmanager
def traffic(url: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """tests/clients/coming.py through the tap, until the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.clients.coming", url, topic],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> dict[str, int]:
    """What the clients say that they did."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    told: dict[str, int] = json.loads(process.stdout.readline())
    return told


def test_memory_is_flat(broker, topic, tmp_path):
    trace = tmp_path / "t"
    options = ("-o", "jsonl", "--trace", str(trace), "--max-bytes", "64MiB", "--compare-broker")
    with (
        running(*options, broker=broker) as tap,
        BrokerSamples(broker.admin_url, topic) as samples,
        traffic(tap.service_url, topic) as clients,
    ):
        tap.wait_for("snapshot")
        with Memory(tap.pids(), tmp_path / "memory.csv") as memory:
            time.sleep(SECONDS)
        done = ended(clients)
        code = tap.end()
    found = verify(trace)
    partings = lasting(samples.held_against(trace))
    print(f"{SECONDS:.0f} s: {done}, exit code {code}, {found.seen} commands, {partings}")
    for name, looks in memory.bytes.items():
        quarter = len(looks) // 4
        early, late = looks[quarter : 2 * quarter], looks[-quarter:]
        grown = statistics.median(late) - statistics.median(early)
        print(
            f"{name}: {looks[0] / MIB:.1f} MiB at first, {statistics.median(early) / MIB:.1f} in "
            f"the second quarter, {statistics.median(late) / MIB:.1f} in the last, "
            f"{max(looks) / MIB:.1f} at most; files {memory.files[name][0]} to "
            f"{max(memory.files[name])}"
        )
        assert grown <= GROWN_MOST, name
        assert max(memory.files[name][quarter:]) <= max(memory.files[name][:quarter]) + 5, name
    assert found.problems == []
    assert found.dropped == 0
    assert partings == []
    assert min(done.values()) > SECONDS / 10
