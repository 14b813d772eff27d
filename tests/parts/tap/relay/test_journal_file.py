"""The journal on a real disk, and on one that refuses, or hangs: no space, no folder, no answer."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.tap.relay import journal_disk, journal_file
from pulsar_doctor.parts.tap.relay.journal_file import BUFFER_BYTES_MOST, JournalFile
from pulsar_doctor.trace.folder import JournalLimits, is_live
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import EVENT, FILE_HEADER, Block, pack_event, read_blocks
from pulsar_doctor.wire.masking import Read
from tests.support import eventually
from tests.support.wanting import wanting

RECORD = pack_event("TAKEN", consumer_name="c")


def journaling(folder: Path, seconds: float = 1e9, **limits: Any) -> JournalFile:
    return JournalFile(str(folder), JournalLimits(rotate_seconds=seconds, **limits))


def flush(journal: JournalFile, seconds: float = 2.0) -> bool:
    return not wait([journal.flushing()], seconds).not_done


def rotate(journal: JournalFile, seconds: float = 2.0) -> int | None:
    complete = journal.rotating()
    return None if wait([complete], seconds).not_done else complete.result()


def tick(journal: JournalFile, now: float) -> None:
    """A tick, and what the thread makes of it."""
    journal.tick(now)
    assert flush(journal)
    assert journal.seen == journal.written + journal.dropped


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


@pytest.fixture
def nameless(monkeypatch):
    """Something that is no file of the folder takes the place of the journal."""
    monkeypatch.setattr(journal_disk, "is_at", lambda *_: True)


def told(folder: Path) -> tuple[int, list[int]]:
    """How many records were written, and how many each GAP says are missing, in order."""
    records = [record for block in blocks(folder) for record in block.records]
    gaps = [record for record in records if b'"GAP"' in record.command]
    assert all(record.kind == EVENT for record in gaps)
    missing = [int(gap.command.rpartition(b":")[2].rstrip(b"}")) for gap in gaps]
    return len(records) - len(gaps), missing


def test_a_block_is_on_the_disk_after_a_flush_and_not_before(tmp_path):
    with journaling(tmp_path, 60) as journal:
        assert names(tmp_path) == [".journal-000001.pdj"]
        before = time.time_ns() // 1000, time.monotonic_ns()
        journal.add([RECORD, RECORD], 3, 1)
        assert blocks(tmp_path) == []
        flush(journal)
        (block,) = blocks(tmp_path)
        assert (block.conn_id, block.direction, len(block.records)) == (3, 1, 2)
        assert before <= (block.ts, block.mono_ns)
        journal.add([])
        flush(journal)
        assert len(blocks(tmp_path)) == 1


def test_a_full_buffer_does_not_wait_for_the_tick(tmp_path):
    with journaling(tmp_path, 60) as journal:
        for _ in range(BUFFER_BYTES_MOST // len(RECORD) + 1):
            journal.add([RECORD])
        assert sum(map(len, journal._buffer)) < BUFFER_BYTES_MOST // 2
        eventually(lambda: journal.written > 1000)


def test_the_end_leaves_a_beat_and_everything_before_it(tmp_path):
    with journaling(tmp_path, 60) as journal:
        journal.add([RECORD])
    assert [len(block.records) for block in blocks(tmp_path)] == [1, 0]


def test_an_idle_second_leaves_a_beat_and_a_busy_one_none(tmp_path):
    with journaling(tmp_path, 60) as journal:
        for tenth in range(31):
            tick(journal, 100 + tenth / 10)
        assert len(blocks(tmp_path)) == 4
        for tenth in range(30):
            journal.add([RECORD])
            tick(journal, 104 + tenth / 10)
        assert [len(block.records) for block in blocks(tmp_path)] == [0] * 4 + [1] * 30


def test_one_trace_has_one_relay(tmp_path):
    with journaling(tmp_path, 60):
        with pytest.raises(DoctorError, match=f"another tap writes to {tmp_path}"):
            journaling(tmp_path, 60)
        assert names(tmp_path) == [".journal-000001.pdj"]
    with journaling(tmp_path, 60):
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
    with journaling(tmp_path, 60):
        assert f".journal-{next_one:06d}.pdj" in names(tmp_path)


def test_a_folder_that_is_not_there_is_an_error_at_the_start(tmp_path):
    with pytest.raises(FileNotFoundError):
        journaling(tmp_path / "gone", 60)


def test_time_begins_the_next_file_once_the_last_has_something(tmp_path):
    with journaling(tmp_path, 0.05) as journal:
        for _ in range(3):
            tick(journal, time.monotonic() + 100)
        assert len(names(tmp_path)) == 1, "beats alone are no reason"
        for _ in range(3):
            journal.add([RECORD])
            flush(journal)
            tick(journal, time.monotonic())
            time.sleep(0.06)
            tick(journal, time.monotonic())
        assert len(names(tmp_path)) == 4
    assert told(tmp_path) == (3, [])


@pytest.mark.parametrize(("records", "size"), [(10, 1 << 30), (10**9, 1000)])
def test_a_long_file_is_followed_by_the_next(tmp_path, monkeypatch, records, size):
    monkeypatch.setattr(journal_disk, "ROTATE_RECORDS", records)
    with journaling(tmp_path, rotate_bytes=size) as journal:
        for _ in range(100):
            journal.add([RECORD])
            tick(journal, 0)
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
    with journaling(tmp_path, 1e9) as journal:
        for full in (False, True, True, False, True, False):
            used = (tmp_path / names(tmp_path)[-1]).stat().st_size
            room(used + 40 if full else None)  # a part of a block still fits
            for size in (1, 2, 3):
                journal.add([RECORD] * size, 1)
                flush(journal)
                seen += size
            tick(journal, 0)
            room(None)
    assert told(tmp_path) == (18, [12, 6])
    assert seen == 18 + 12 + 6


def test_a_gap_stands_where_the_records_are_missing(tmp_path, room):
    with journaling(tmp_path, 1e9) as journal:
        journal.add([RECORD], 1)
        flush(journal)
        room((tmp_path / names(tmp_path)[0]).stat().st_size)
        journal.add([RECORD] * 5, 2)
        flush(journal)
        dropped_at = time.monotonic_ns()
        room(None)
        time.sleep(0.02)
        journal.add([RECORD], 3)
        flush(journal)
    one, gap, two, beat = blocks(tmp_path)
    assert (one.conn_id, gap.conn_id, two.conn_id, beat.records) == (1, -1, 3, ())
    assert one.mono_ns < gap.mono_ns < dropped_at < two.mono_ns
    assert b'"dropped":5' in gap.records[0].command


def test_a_gap_is_told_as_soon_as_there_is_room_though_nothing_happens(tmp_path, room):
    with journaling(tmp_path, 1e9) as journal:
        room(len(FILE_HEADER))
        journal.add([RECORD] * 5, 2)
        tick(journal, 100.0)
        room(None)
        tick(journal, 101.5)
        assert told(tmp_path) == (0, [5])


def test_a_disk_that_stays_full_costs_no_memory(tmp_path, room):
    with journaling(tmp_path, 1e9) as journal:
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
    monkeypatch.setattr(journal_disk, "ROTATE_RECORDS", 1)
    with journaling(tmp_path, 1e9) as journal:
        journal.add([RECORD])
        flush(journal)
        room(len(FILE_HEADER) - 3)
        tick(journal, 0)  # the next file is due
        journal.add([RECORD])
        tick(journal, 0)
        tick(journal, 0)
        room(None)
        for _ in range(2):
            journal.add([RECORD])
            tick(journal, 0)
    written, missing = told(tmp_path)
    assert (written, missing) == (3, [1])
    numbers = [int(name[9:15]) for name in names(tmp_path)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_folder_that_is_taken_away_costs_records_and_raises_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_disk, "ROTATE_RECORDS", 1)
    folder, moved = tmp_path / "trace", tmp_path / "moved"
    folder.mkdir()
    with journaling(folder, 1e9) as journal:
        journal.add([RECORD])
        folder.rename(moved)
        tick(journal, 0)  # written, and the next file cannot be begun
        for _ in range(3):
            journal.add([RECORD] * 2)
            tick(journal, 0)
        moved.rename(folder)
        journal.add([RECORD])
        tick(journal, 0)
    assert told(folder) == (1, [7])


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_is_taken_away_is_put_back_with_all_that_it_held(tmp_path, how):
    folder = tmp_path / "trace"
    folder.mkdir()
    name = folder / ".journal-000001.pdj"
    with journaling(folder) as journal:
        journal.add([RECORD] * 5)
        tick(journal, 0)
        if how == "deleted":
            name.unlink()
        else:
            name.rename(tmp_path / "elsewhere")
        if how == "replaced":
            name.touch()
        journal.add([RECORD] * 2)
        tick(journal, 0)
        assert (journal.written, journal.dropped) == ((7, 0) if how != "replaced" else (2, 5))
        if how == "replaced":
            name.unlink()
    assert told(folder) == ((7, []) if how != "replaced" else (2, [5]))


def test_a_file_that_is_taken_away_and_has_no_room_any_more_is_counted(tmp_path, room):
    with journaling(tmp_path) as journal:
        journal.add([RECORD] * 5)
        tick(journal, 0)
        (tmp_path / ".journal-000001.pdj").unlink()
        room(0)
        journal.add([RECORD])
        tick(journal, 0)
        assert (journal.written, journal.dropped) == (0, 6)
        room(None)
        tick(journal, 0)
    assert told(tmp_path) == (0, [6])


def test_a_file_that_is_taken_away_just_before_the_end_is_put_back(tmp_path):
    with journaling(tmp_path) as journal:
        journal.add([RECORD] * 5)
        tick(journal, 0)
        (tmp_path / ".journal-000001.pdj").unlink()
    assert told(tmp_path) == (5, [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason=wanting("/dev/full"))
@pytest.mark.usefixtures("nameless")
def test_a_device_without_space_that_cannot_be_cut_either_is_left_for_the_next_file(tmp_path):
    with journaling(tmp_path, 1e9) as journal:
        journal.add([RECORD])
        flush(journal)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, journal._disk._fd)  # ENOSPC for writing, EINVAL for cutting
        os.close(full)
        journal.add([RECORD] * 4)
        flush(journal)
        journal.add([RECORD])
        flush(journal)
        assert names(tmp_path) == [".journal-000001.pdj", ".journal-000002.pdj"]
    assert told(tmp_path) == (2, [4])


def test_rotating_names_the_file_that_is_complete(tmp_path):
    with journaling(tmp_path) as journal:
        assert rotate(journal) is None
        journal.tick(1e9)
        assert rotate(journal) is None, "beats alone are nothing"
        journal.add([RECORD])
        assert rotate(journal) == 1
        assert names(tmp_path) == [".journal-000001.pdj", ".journal-000002.pdj"]
        assert rotate(journal) is None
        journal.add([RECORD])
        assert journal.rotating().result(10) == 2
    assert told(tmp_path) == (2, [])


def test_a_batch_counts_as_what_it_holds(tmp_path):
    with journaling(tmp_path) as journal:
        journal.add_block([RECORD], 70, Read(1, 2, 3, 0, Frames()))
        journal.add([RECORD])
        flush(journal)
        assert (journal.seen, journal.written, journal.dropped) == (71, 71, 0)


class Hanging:
    """A disk that takes 64 KiB and then nothing: a pipe that nobody reads from, for the time."""

    def __init__(self, journal: JournalFile) -> None:
        self._from, into = os.pipe()
        os.dup2(into, journal._disk._fd)
        os.close(into)
        self.taken = b""
        self._reader = threading.Thread(target=self._read)

    def _read(self) -> None:
        while data := os.read(self._from, 1 << 20):
            self.taken += data

    def go_on(self) -> None:
        self._reader.start()

    def all(self) -> list[Block]:
        """All that it was given, once the file is closed."""
        self._reader.join()
        os.close(self._from)
        return [block for block, _ in read_blocks(self.taken)]


def fill(journal: JournalFile, records: int) -> None:
    for _ in range(records // 100):
        journal.add([RECORD] * 100, 1)
        journal.tick(0)


@pytest.mark.usefixtures("nameless")
def test_a_disk_that_hangs_costs_records_and_nobody_waits_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_file, "WAITING_BYTES_MOST", 400_000)
    monkeypatch.setattr(journal_file, "BUFFER_BYTES_MOST", 50_000)
    with journaling(tmp_path) as journal:
        disk = Hanging(journal)
        fill(journal, 20_000)
        assert not flush(journal, 0.05)
        assert rotate(journal, 0.05) is None
        assert journal._handed_bytes - journal._done_bytes <= 400_000
        assert 0 < journal.dropped < journal.seen == 20_000
        assert journal._orders.qsize() < 100, "ticks pile up"
        disk.go_on()
        assert flush(journal, 30)
        journal.add([RECORD] * 5, 2)
        flush(journal)
        assert journal.seen == journal.written + journal.dropped == 20_005
    passed = disk.all()
    moments = [(block.ts, block.mono_ns) for block in passed]
    assert moments == sorted(moments)
    gaps = [r for block in passed for r in block.records if b'"GAP"' in r.command]
    missing = sum(int(gap.command.rpartition(b":")[2].rstrip(b"}")) for gap in gaps)
    rest, _ = told(tmp_path)  # what came behind the rotation
    written = sum(len(block.records) for block in passed) - len(gaps) + rest
    assert (written, missing) == (journal.written, journal.dropped)


@pytest.mark.usefixtures("nameless")
def test_a_disk_that_hangs_does_not_keep_the_relay_from_ending(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_file, "CLOSE_SECONDS", 0.1)
    with journaling(tmp_path) as journal:
        disk = Hanging(journal)
        fill(journal, 5_000)
    assert is_live(tmp_path), "somebody might seal what is still being written"
    disk.go_on()
    assert sum(len(block.records) for block in disk.all()) == 5_000
    os.close(journal._lock)


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_limit_is_never_passed_and_what_is_sealed_makes_room(tmp_path):
    most = 20_000
    with journaling(tmp_path, rotate_bytes=6_000, journal_bytes_most=most) as journal:
        for _ in range(3):
            before = journal.dropped
            while journal.dropped == before:
                for _ in range(7):
                    journal.add([RECORD], 1)
                tick(journal, 0)
                assert sizes(tmp_path) <= most
            for _ in range(5):
                journal.add([RECORD] * 4, 1)
                tick(journal, 0)
            assert journal.dropped >= before + 20
            assert sizes(tmp_path) > most - 1000
            journals = [tmp_path / name for name in names(tmp_path)]
            for path in journals[:2]:
                path.rename(tmp_path.parent / f"sealed{path.name}")
    for path in tmp_path.parent.glob("sealed.*"):
        path.rename(tmp_path / path.name.removeprefix("sealed"))
    written, missing = told(tmp_path)
    assert len(missing) >= 3
    assert (written, sum(missing)) == (journal.written, journal.dropped)


def test_a_folder_that_is_full_at_the_start_fails_no_relay(tmp_path):
    earlier = tmp_path / ".journal-000004.pdj"
    earlier.write_bytes(bytes(10_000))
    with journaling(tmp_path, journal_bytes_most=10_000) as journal:
        journal.add([RECORD])
        tick(journal, 0)
        assert (names(tmp_path), journal.dropped) == ([earlier.name], 1)
        earlier.unlink()
        journal.add([RECORD])
        tick(journal, 0)
        assert names(tmp_path) == [".journal-000005.pdj"]
    assert told(tmp_path) == (1, [1])
