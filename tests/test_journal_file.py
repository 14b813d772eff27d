"""The journal on a real disk, and on one that refuses: no space, no folder, too many bytes."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pulsar_doctor import journal_file
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.journal import EVENT, FILE_HEADER, Block, pack_event, read_blocks
from pulsar_doctor.journal_file import BUFFER_BYTES_MOST, JournalFile
from pulsar_doctor.trace.folder import RELAY_LOCK

RECORD = pack_event("TAKEN", consumer_name="c")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".journal-*"))


def blocks(folder: Path) -> list[Block]:
    found: list[Block] = []
    for name in names(folder):
        data = (folder / name).read_bytes()
        assert data.startswith(FILE_HEADER)
        read = list(read_blocks(data, len(FILE_HEADER)))
        found += [block for block, _ in read]
        ends = [len(FILE_HEADER), *(end for _, end in read)]
        assert ends[-1] == len(data), f"half a block stayed in {name}"
    return found


def told(folder: Path) -> tuple[int, list[int]]:
    """How many records were written, and how many each GAP says are missing, in order."""
    records = [record for block in blocks(folder) for record in block.records]
    gaps = [record for record in records if b'"GAP"' in record.command]
    assert all(record.kind == EVENT for record in gaps)
    missing = [int(gap.command.rpartition(b":")[2].rstrip(b"}")) for gap in gaps]
    return len(records) - len(gaps), missing


def test_a_block_is_on_the_disk_after_a_flush_and_not_before(tmp_path):
    with JournalFile(str(tmp_path), 60) as journal:
        assert names(tmp_path) == [".journal-000001.pdj"]
        before = time.time_ns() // 1000, time.monotonic_ns()
        journal.add([RECORD, RECORD], 3, 1)
        assert blocks(tmp_path) == []
        journal.flush()
        (block,) = blocks(tmp_path)
        assert (block.conn_id, block.direction, len(block.records)) == (3, 1, 2)
        assert before <= (block.ts, block.mono_ns)
        journal.add([])
        journal.flush()
        assert len(blocks(tmp_path)) == 1


def test_a_full_buffer_does_not_wait_for_the_tick(tmp_path):
    with JournalFile(str(tmp_path), 60) as journal:
        for _ in range(BUFFER_BYTES_MOST // len(RECORD) + 1):
            journal.add([RECORD])
        assert len(blocks(tmp_path)) > 1000
        assert sum(map(len, journal._buffer)) < BUFFER_BYTES_MOST


def test_the_end_leaves_a_beat_and_everything_before_it(tmp_path):
    with JournalFile(str(tmp_path), 60) as journal:
        journal.add([RECORD])
    assert [len(block.records) for block in blocks(tmp_path)] == [1, 0]


def test_an_idle_second_leaves_a_beat_and_a_busy_one_none(tmp_path):
    with JournalFile(str(tmp_path), 60) as journal:
        for tenth in range(31):
            journal.tick(100 + tenth / 10)
        assert len(blocks(tmp_path)) == 4
        for tenth in range(30):
            journal.add([RECORD])
            journal.tick(104 + tenth / 10)
        assert [len(block.records) for block in blocks(tmp_path)] == [0] * 4 + [1] * 30


def test_one_trace_has_one_relay(tmp_path):
    with JournalFile(str(tmp_path), 60):
        with pytest.raises(DoctorError, match=f"another tap writes to {tmp_path}"):
            JournalFile(str(tmp_path), 60)
        assert names(tmp_path) == [".journal-000001.pdj"]
    with JournalFile(str(tmp_path), 60):
        assert names(tmp_path) == [".journal-000001.pdj", ".journal-000002.pdj"]


@pytest.mark.parametrize(
    ("there", "next_one"),
    [
        ([], 1),
        ([".journal-000004.pdj"], 5),
        (["seg-000007.parquet"], 8),
        ([".seg-000008.parquet.tmp", "seg-000007.parquet"], 9),
        ([".state-000011"], 12),
        (["_meta.json", "notes-000099.txt", ".journal-x.pdj"], 1),
    ],
)
def test_numbering_goes_on_behind_everything_that_was_there(tmp_path, there, next_one):
    for name in there:
        (tmp_path / name).touch()
    with JournalFile(str(tmp_path), 60):
        assert f".journal-{next_one:06d}.pdj" in names(tmp_path)


def test_a_folder_that_is_not_there_is_an_error_at_the_start(tmp_path):
    with pytest.raises(FileNotFoundError):
        JournalFile(str(tmp_path / "gone"), 60)


def test_time_begins_the_next_file_once_the_last_has_something(tmp_path):
    with JournalFile(str(tmp_path), 0.05) as journal:
        for _ in range(3):
            journal.tick(time.monotonic() + 100)
        assert len(names(tmp_path)) == 1, "beats alone are no reason"
        for _ in range(3):
            journal.add([RECORD])
            journal.flush()
            journal.tick(time.monotonic())
            time.sleep(0.06)
            journal.tick(time.monotonic())
        assert len(names(tmp_path)) == 4
    assert told(tmp_path) == (3, [])


@pytest.mark.parametrize(("limit", "most"), [("ROTATE_RECORDS", 10), ("ROTATE_BYTES", 1000)])
def test_a_long_file_is_followed_by_the_next(tmp_path, monkeypatch, limit, most):
    monkeypatch.setattr(journal_file, limit, most)
    with JournalFile(str(tmp_path), 1e9) as journal:
        for _ in range(100):
            journal.add([RECORD])
            journal.tick(0)
        count = len(names(tmp_path))
    assert 5 < count < 20
    assert told(tmp_path) == (100, [])


@pytest.fixture
def room() -> Iterator[Callable[[int | None], None]]:
    """Limits how long a file may become: a write beyond it fails half-way, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size: int | None) -> None:
        soft = limits[0] if size is None else size
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, limits[1]))

    yield limit
    limit(None)
    signal.signal(signal.SIGXFSZ, before)


def test_what_a_full_disk_refuses_is_counted_to_the_record(tmp_path, room):
    seen = 0
    with JournalFile(str(tmp_path), 1e9) as journal:
        for full in (False, True, True, False, True, False):
            used = (tmp_path / names(tmp_path)[-1]).stat().st_size
            room(used + 40 if full else None)  # a part of a block still fits
            for size in (1, 2, 3):
                journal.add([RECORD] * size, 1)
                journal.flush()
                seen += size
            journal.tick(0)
            room(None)
    assert told(tmp_path) == (18, [12, 6])
    assert seen == 18 + 12 + 6


def test_a_gap_stands_where_the_records_are_missing(tmp_path, room):
    with JournalFile(str(tmp_path), 1e9) as journal:
        journal.add([RECORD], 1)
        journal.flush()
        room((tmp_path / names(tmp_path)[0]).stat().st_size)
        journal.add([RECORD] * 5, 2)
        journal.flush()
        dropped_at = time.monotonic_ns()
        room(None)
        time.sleep(0.02)
        journal.add([RECORD], 3)
        journal.flush()
    one, gap, two, beat = blocks(tmp_path)
    assert (one.conn_id, gap.conn_id, two.conn_id, beat.records) == (1, -1, 3, ())
    assert one.mono_ns < gap.mono_ns < dropped_at < two.mono_ns
    assert b'"dropped":5' in gap.records[0].command


def test_a_gap_is_told_as_soon_as_there_is_room_though_nothing_happens(tmp_path, room):
    with JournalFile(str(tmp_path), 1e9) as journal:
        room(len(FILE_HEADER))
        journal.add([RECORD] * 5, 2)
        journal.tick(100.0)
        room(None)
        journal.tick(101.5)
        assert told(tmp_path) == (0, [5])


def test_a_disk_that_stays_full_costs_no_memory(tmp_path, room):
    with JournalFile(str(tmp_path), 1e9) as journal:
        room(len(FILE_HEADER))
        for _ in range(3 * BUFFER_BYTES_MOST // len(RECORD)):
            journal.add([RECORD])
            assert journal._buffer_bytes < BUFFER_BYTES_MOST
        room(None)
    written, (missing,) = told(tmp_path)
    assert written + missing == 3 * BUFFER_BYTES_MOST // len(RECORD)


def test_a_disk_that_is_full_when_the_next_file_is_due_leaves_no_half_header(
    tmp_path, room, monkeypatch
):
    monkeypatch.setattr(journal_file, "ROTATE_RECORDS", 1)
    with JournalFile(str(tmp_path), 1e9) as journal:
        journal.add([RECORD])
        journal.flush()
        room(len(FILE_HEADER) - 3)
        journal.tick(0)  # the next file is due
        journal.add([RECORD])
        journal.tick(0)
        journal.tick(0)
        room(None)
        for _ in range(2):
            journal.add([RECORD])
            journal.tick(0)
    written, missing = told(tmp_path)
    assert (written, missing) == (3, [1])
    numbers = [int(name[9:15]) for name in names(tmp_path)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_folder_that_is_taken_away_costs_records_and_raises_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_file, "ROTATE_RECORDS", 1)
    folder, moved = tmp_path / "trace", tmp_path / "moved"
    folder.mkdir()
    with JournalFile(str(folder), 1e9) as journal:
        journal.add([RECORD])
        folder.rename(moved)
        journal.tick(0)  # written, and the next file cannot be begun
        for _ in range(3):
            journal.add([RECORD] * 2)
            journal.tick(0)
        moved.rename(folder)
        journal.add([RECORD])
        journal.tick(0)
    assert told(folder) == (2, [6])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_device_without_space_that_cannot_be_cut_either_is_left_for_the_next_file(tmp_path):
    with JournalFile(str(tmp_path), 1e9) as journal:
        journal.add([RECORD])
        journal.flush()
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, journal._fd)  # ENOSPC for writing, EINVAL for cutting
        os.close(full)
        journal.add([RECORD] * 4)
        journal.flush()
        journal.add([RECORD])
        journal.flush()
        assert names(tmp_path) == [".journal-000001.pdj", ".journal-000002.pdj"]
    assert told(tmp_path) == (2, [4])


def test_only_the_owner_may_read_it(tmp_path):
    with JournalFile(str(tmp_path), 60):
        for name in (RELAY_LOCK, ".journal-000001.pdj"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
