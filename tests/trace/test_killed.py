"""Relay and observer are killed at any moment: what is recorded opens, whole and in order."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.verifying import TORN, verify
from tests.parts.tap.tapped import tapping
from tests.support import eventually
from tests.trace.flooded import FIRST_ENTRY, Flood, bursts, observer

ROWS_A_SECOND = 50_000.0
LOST_SECONDS_MOST = 0.5
WAIT_SECONDS = 600  # what is behind is sealed first, on however busy a machine


def entries(path: Path) -> list[int]:
    """The numbers of the recorded messages; every row before them in its place."""
    rows = list(open_trace(path).rows(["seq", "command", "entry_id"]))
    assert [row.seq for row in rows] == list(range(len(rows)))
    return [row.entry_id - FIRST_ENTRY for row in rows if row.command == "MESSAGE" and row.entry_id]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))]
)
def test_a_relay_that_is_killed_leaves_all_but_the_last_moment(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "t"
    with tapping(path, limits=RingLimits(rotate_seconds=chance.choice([0.2, 60.0]))) as tapped:
        watching = observer(path) if chance.random() < 0.7 else None
        flood = Flood(tapped, 60_000, rows_a_second=ROWS_A_SECOND)
        time.sleep(chance.uniform(0.05, 1.0))
        os.kill(tapped.relay.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        flood.over.set()
        flood.join()
        if watching is not None:
            assert watching.wait(WAIT_SECONDS) == 0
    recorded = entries(path)
    assert recorded == list(range(len(recorded))), "something is missing, or there twice"
    found = verify(path)
    assert found.problems == []
    assert found.status == TORN or not found.segments  # killed before it had written anything
    delivered = flood.entries_received(until=killed_at)
    if delivered > len(recorded):
        lost_seconds = killed_at - flood.received_at(len(recorded) + 1)
        print(f"killed at entry {delivered}, lost {lost_seconds * 1000:.0f} ms")
        assert lost_seconds <= LOST_SECONDS_MOST


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "kills"),
    [(0, 2), *(pytest.param(seed, 10, marks=pytest.mark.slow) for seed in range(1, 5))],
)
def test_an_observer_that_is_killed_again_and_again_loses_nothing(
    tmp_path: Path, seed: int, kills: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "t"
    messages = 25_000 * kills
    bursts(messages // 500)
    with tapping(path, limits=RingLimits(rotate_seconds=0.2)) as tapped:
        flood = Flood(tapped, messages, rows_a_second=ROWS_A_SECOND)
        for _ in range(kills):
            watching = observer(path)
            eventually((path / ".seal.lock").exists, 60)
            time.sleep(chance.uniform(0.1, 0.8))
            watching.send_signal(signal.SIGKILL)
            watching.wait()
        flood.join()
        watching = observer(path)
        tapped.relay.flush()
        counters = tapped.relay.counters()
    assert watching.wait(WAIT_SECONDS) == 0
    assert (counters["records_dropped"], counters["records_seen"]) == (
        0,
        counters["records_written"],
    )
    assert entries(path) == list(range(messages))
    found = verify(path)
    assert found.problems == []
    assert len(Trace(path).parts()) > kills
