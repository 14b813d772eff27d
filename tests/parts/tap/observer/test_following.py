"""The observer follows what grows, and another one goes on where it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.parts.tap.observer.channel import Channel
from pulsar_doctor.parts.tap.observer.events import (
    ASKS,
    EVENTS,
    Begin,
    Counted,
    CountRows,
    Seal,
    Sealed,
)
from pulsar_doctor.parts.tap.observer.following import main
from pulsar_doctor.parts.tap.observer.telling import ROWS_BETWEEN, Teller
from pulsar_doctor.trace import folder
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.wire.columns import Row
from tests.made.traces import relay_alive, rotating, values, write_trace
from tests.made.wire import slow_consumer
from tests.support import eventually

BLOCKS = slow_consumer().close().blocks
JOURNAL = slow_consumer().close().journal


def undisturbed(path: Path, blocks: list[bytes], parts: int) -> tuple[object, ...]:
    trace = open_trace(write_trace(path, blocks, parts=parts))
    return values(trace.rows()), trace.parts(), trace.timeline().state()


def outcome(path: Path) -> tuple[object, ...]:
    trace = Trace(path)
    assert folder.journals(path) == []
    return values(trace.rows()), trace.parts(), trace.timeline().state()


def test_each_row_is_told_once_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = write_trace(tmp_path, [])
    told: list[Row] = []
    observer = Sealer(path, told.append)
    with relay_alive(path):
        for _ in rotating(path, BLOCKS, parts=3):
            before = len(told)
            assert observer.follow() == len(told) - before
            assert observer.follow() == 0
            assert values(told) == values(Trace(path).rows())
            assert observer.timeline.next_seq == len(told)
        assert [part.number for part in Trace(path).parts()] == [1, 2]
    assert observer.finish() == 0
    observer.close()
    assert len(told) == 58
    assert outcome(path) == undisturbed(tmp_path / "other", BLOCKS, 3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(JOURNAL)), max_size=6))
def test_however_the_bytes_arrive_the_rows_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    path = write_trace(tmp_path_factory.mktemp("pieces"), [])
    told: list[Row] = []
    observer = Sealer(path, told.append)
    for cut in [*sorted(cuts), len(JOURNAL)]:
        (path / folder.journal_name(1)).write_bytes(JOURNAL[:cut])
        observer.follow()
    assert [row.seq for row in told] == list(range(58))
    observer.finish()
    observer.close()
    assert values(Trace(path).rows()) == values(told)


def test_half_a_block_that_the_relay_took_back_is_not_counted(tmp_path: Path) -> None:
    """A relay whose disk is full cuts its journal back to whole blocks, and goes on later."""
    path = write_trace(tmp_path, BLOCKS[:5])
    journal = path / folder.journal_name(1)
    whole = journal.read_bytes()
    observer = Sealer(path)
    journal.write_bytes(whole + BLOCKS[5][:-9])
    observer.follow()
    journal.write_bytes(whole + BLOCKS[6] + BLOCKS[7])
    observer.follow()
    observer.finish()
    observer.close()
    (part,) = Trace(path).parts()
    assert (part.cut_bytes, part.damaged) == (0, False)
    assert outcome(path) == undisturbed(tmp_path / "o", [*BLOCKS[:5], BLOCKS[6], BLOCKS[7]], 1)


def test_an_observer_that_stops_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    path = write_trace(tmp_path, [])
    for moment, _ in enumerate(rotating(path, BLOCKS, parts=3)):
        if moment % 7 == 3:
            observer = Sealer(path)
            observer.follow()
            observer.close()
            assert not list(path.glob("*.tmp")), moment
    observer = Sealer(path)
    observer.finish()
    observer.close()
    assert outcome(path) == undisturbed(tmp_path / "other", BLOCKS, 3)


def test_counts_are_told_while_the_journal_is_being_read(tmp_path: Path) -> None:
    """Also at the first look, which may take long; SIGUSR1 to the tap asks for them."""
    path = write_trace(tmp_path, slow_consumer(3 * ROWS_BETWEEN, queue=100).blocks)
    (to_us, from_parent), (to_parent, from_us) = os.pipe(), os.pipe()
    teller = Teller(Channel(to_us, from_us), Begin())
    for asked in (Seal(1), CountRows()):
        os.write(from_parent, json.dumps(ASKS.to_json(asked)).encode() + b"\n")
    with Sealer(path, teller.row) as observer:
        teller.begin(observer)
        total = observer.follow()
        told = EVENTS.of_line(os.read(to_parent, 1 << 16))
        assert isinstance(told, Counted)
        assert told.rows == ROWS_BETWEEN < total
        assert told.unread_bytes > 0
        teller.hear()
        observer.finish()
        teller.caught_up(observer)
        assert Sealed(observer.timeline.now_us, 1) == EVENTS.of_line(lines(to_parent)[0])


def lines(pipe: int) -> list[bytes]:
    """What is written to it by now."""
    return os.read(pipe, 1 << 20).splitlines()


def start(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "pulsar_doctor.parts.tap.observer", str(path)])


def test_an_observer_that_is_killed_again_and_again_changes_nothing(tmp_path: Path) -> None:
    blocks = slow_consumer(3000, queue=100).blocks
    path = write_trace(tmp_path / "killed", [])
    with relay_alive(path):
        process = start(path)
        for moment, number in enumerate(rotating(path, blocks, parts=8)):
            if moment % 60 == 50:
                eventually(lambda number=number: len(Trace(path).parts()) >= number - 1)
                process.send_signal(signal.SIGKILL)
                process.wait()
                process = start(path)
    assert process.wait(20) == 0
    assert outcome(path) == undisturbed(tmp_path / "other", blocks, 8)


def test_it_goes_on_until_the_relay_has_ended_whatever_the_keyboard_says(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS[:-4], parts=2)
    journal = path / folder.journal_name(2)
    with relay_alive(path):
        process = start(path)
        eventually((path / ".seg-000002.parquet.tmp").exists)
        process.send_signal(signal.SIGINT)
        journal.write_bytes(journal.read_bytes() + b"".join(BLOCKS[-4:]))
        time.sleep(0.3)
        assert process.poll() is None
    assert process.wait(20) == 0
    assert [row.command for row in Trace(path).rows()][-1] == "CLOSE"


MANY = slow_consumer(1500, queue=100).blocks


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    return undisturbed(tmp_path_factory.mktemp("many"), MANY, 40)


@pytest.mark.parametrize("pause_ms", [0, 4, 11, 27])
def test_killed_at_any_moment_of_its_work_it_changes_nothing(
    tmp_path: Path, many: tuple[object, ...], pause_ms: int
) -> None:
    path = write_trace(tmp_path, MANY, parts=40)
    process = start(path)
    eventually((path / folder.INDEX).exists)
    time.sleep(pause_ms / 1000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    open_trace(path)
    assert outcome(path) == many


def test_a_folder_that_is_no_trace_ends_the_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        assert main([str(tmp_path)]) == 2
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err.endswith("it has no _meta.json\n")
