"""Journals become segments, and no crash on the way changes what comes out."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace import folder, journals, sealing
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.sealing import BeingSealedError, Sealer, open_trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire.columns import GAP, Row
from pulsar_doctor.wire.journal import FILE_HEADER, read_blocks
from tests.made.traces import relay_alive, values, write_trace
from tests.made.wire import START_US, Wire, slow_consumer

BLOCKS = slow_consumer().blocks


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def outcome(path: Path) -> tuple[object, ...]:
    """All that sealing leaves: rows, the list with its checksums, ledgers, names."""
    trace = open_trace(path)
    return values(trace.rows()), trace.parts(), trace.timeline().state(), names(path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    return outcome(write_trace(tmp_path_factory.mktemp("undisturbed"), BLOCKS, parts=3))


def test_what_is_sealed_is_what_the_journals_said(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    before = Trace(path)
    unsealed, ledgers = values(before.rows()), before.timeline().state()
    after = open_trace(path)
    assert len(unsealed) == 57
    assert values(after.rows()) == unsealed
    assert [row.seq for row in after.rows()] == list(range(57))
    assert after.timeline().state() == ledgers
    assert names(path) == [
        ".seal.lock",
        ".state-000003",
        "_meta.json",
        "_segments.jsonl",
        "seg-000001.parquet",
        "seg-000002.parquet",
        "seg-000003.parquet",
    ]


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_crash_after_any_step_changes_nothing(
    tmp_path: Path, part: int, undisturbed: tuple[object, ...]
) -> None:
    path = write_trace(tmp_path / "whole", BLOCKS, parts=3)
    crashed = []
    with Sealer(path) as sealer:
        for number in range(1, part):
            for _ in sealer.sealing_steps(list(range(number, 4))):
                pass
        for step in sealer.sealing_steps(list(range(part, 4))):
            shutil.copytree(path, tmp_path / f"step{step}")
            crashed.append(step)
    assert crashed == [1, 2, 3, 4, 5, 6]
    for step in crashed:
        left = tmp_path / f"step{step}"
        assert (verify(left).problems, Trace(left).notes) == ([], []), f"step {step}"
        assert not Trace(left).timeline().incomplete, f"step {step}"
        assert outcome(left) == undisturbed, f"step {step}"


def test_a_crash_within_a_step_changes_nothing(
    tmp_path: Path, undisturbed: tuple[object, ...]
) -> None:
    path = write_trace(tmp_path / "whole", BLOCKS, parts=3)
    with Sealer(path) as sealer:
        for step in sealer.sealing_steps([1, 2, 3]):
            if step == 3:
                shutil.copytree(path, tmp_path / "before the line")
            if step == 4:
                shutil.copytree(path, tmp_path / "after the line")
    line = (tmp_path / "after the line" / folder.INDEX).read_bytes()
    for cut in (1, len(line) // 2, len(line) - 1):
        copy = shutil.copytree(tmp_path / "before the line", tmp_path / f"cut{cut}")
        (copy / folder.INDEX).write_bytes(line[:cut])
        (copy / ".state-000001").rename(copy / ".state-000001.tmp")
        (copy / ".seg-000001.parquet.tmp").write_bytes(b"PAR1 and no more")
        assert outcome(copy) == undisturbed, f"cut at {cut}"


EMPTY = zlib.compress(json.dumps(Timeline("trace-1").state()).encode())
OTHER_FORMAT = {"format": folder.LEDGER_FORMAT + 1, "crc32": zlib.crc32(EMPTY)}
OF_0_1_0 = {"program_version": "0.1.0", "crc32": zlib.crc32(EMPTY)}


@pytest.mark.parametrize(
    "state",
    [
        None, b"", b"{}", b'{"format":', b"[1]",
        *(json.dumps(head).encode() + b"\n" + EMPTY for head in (OTHER_FORMAT, OF_0_1_0)),
    ],
)  # fmt: skip
def test_without_the_saved_ledgers_they_come_from_the_rows(
    tmp_path: Path, undisturbed: tuple[object, ...], state: bytes | None
) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    with Sealer(path) as sealer:
        list(sealer.sealing_steps([1, 2, 3]))
    saved = path / ".state-000001"
    saved.unlink() if state is None else saved.write_bytes(state)
    assert outcome(path) == undisturbed


def test_saved_ledgers_that_look_otherwise_have_another_format(
    undisturbed: tuple[object, ...],
) -> None:
    """If this fails, raise LEDGER_FORMAT: programs of the other format must not trust these."""
    looks = {6: 3753375951}
    assert looks[folder.LEDGER_FORMAT] == zlib.crc32(json.dumps(undisturbed[2]).encode())


def test_a_long_journal_is_written_in_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: tuple[object, ...]
) -> None:
    from pulsar_doctor.trace import segments

    monkeypatch.setattr(segments, "BATCH_ROWS", 5)
    monkeypatch.setattr(segments, "GROUP_ROWS", 10)
    trace = open_trace(write_trace(tmp_path, BLOCKS, parts=1))
    assert values(trace.rows()) == undisturbed[0]
    with segments.pq.ParquetFile(trace.path / "seg-000001.parquet") as file:
        groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    assert groups == [10, 10, 10, 10, 10, 7]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(slow_consumer().journal)))
def test_any_cut_of_a_journal_opens_and_gives_a_gapless_prefix(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    journal = slow_consumer().journal
    path = write_trace(tmp_path_factory.mktemp("cut"), [])
    (path / folder.journal_name(1)).write_bytes(journal[:cut])
    trace = open_trace(path)
    rows = values(trace.rows())
    assert rows == WHOLE[: len(rows)]
    (part,) = trace.parts()
    whole_blocks = len(FILE_HEADER) if cut >= len(FILE_HEADER) else 0
    for block in BLOCKS:
        if whole_blocks and whole_blocks + len(block) <= cut:
            whole_blocks += len(block)
        else:
            break
    assert (part.cut_bytes, part.damaged) == (cut - whole_blocks, False)


def test_a_journal_is_read_in_pieces_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "READ_BYTES", 50)
    assert values(Trace(write_trace(tmp_path, BLOCKS)).rows()) == WHOLE


def _whole() -> list[tuple[object, ...]]:
    import tempfile

    with tempfile.TemporaryDirectory() as path:
        return values(Trace(write_trace(Path(path), BLOCKS)).rows())


WHOLE = _whole()


def test_a_damaged_block_costs_nothing_but_itself_and_a_gap_says_so(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=2)
    first = path / folder.journal_name(1)
    data = bytearray(first.read_bytes())
    at = len(FILE_HEADER) + sum(map(len, BLOCKS[:8])) + 40
    data[at] ^= 1
    first.write_bytes(data)
    unsealed = values(Trace(path).rows())
    trace = open_trace(path)
    rows = list(trace.rows())
    assert values(rows) == unsealed
    assert [row.seq for row in rows] == list(range(len(rows)))
    gap = next(at for at, row in enumerate(rows) if row.command == GAP)
    assert values(rows[:gap]) == WHOLE[:gap]
    assert rows[gap].dropped is None
    assert rows[gap].ts == rows[gap - 1].ts
    assert all(row.available_permits is None for row in rows[gap:])
    part = trace.parts()[0]
    assert (part.damaged, part.cut_bytes) == (True, len(BLOCKS[8]))
    lost = len(WHOLE) + 1 - len(rows)
    assert lost == sum(len(block.records) for block, _ in read_blocks(BLOCKS[8]))
    behind = [(row.command, row.ts) for row in rows[gap + 1 :]]
    whole = list(Trace(write_trace(tmp_path / "whole", BLOCKS)).rows())
    assert behind == [(row.command, row.ts) for row in whole[gap + lost :]]


def test_a_journal_that_is_missing_leaves_a_gap(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    (path / folder.journal_name(2)).unlink()
    unsealed = values(Trace(path).rows())
    trace = open_trace(path)
    rows = list(trace.rows())
    assert values(rows) == unsealed
    assert [row.command for row in rows].count(GAP) == 1
    assert [part.number for part in trace.parts()] == [1, 3]


def test_a_journal_without_commands_makes_no_segment_and_keeps_the_time(tmp_path: Path) -> None:
    said = Wire().open().attached().flow(10)
    rows = len(said.blocks)
    for _ in range(rows):
        said.wait(1)
    trace = open_trace(write_trace(tmp_path, said.blocks, parts=2))
    assert [(part.number, part.name, part.rows) for part in trace.parts()] == [
        (1, "seg-000001.parquet", rows),
        (2, None, 0),
    ]
    last_us = said.now_us - said.step_us
    assert trace.parts()[1].until_us == last_us
    (tmp_path / ".state-000002").unlink()
    timeline = trace.timeline()
    assert (timeline.now_us, timeline.now_ns) == (last_us, (last_us - START_US) * 1000)


def test_a_live_trace_is_read_and_left_alone(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    with relay_alive(path):
        before = names(path)
        trace = open_trace(path)
        assert trace.live
        assert values(trace.rows()) == WHOLE
        assert names(path) == before
    assert not open_trace(path).live
    assert ".journal-000001.pdj" not in names(path)


def test_half_a_block_at_the_end_of_a_live_trace_is_no_gap(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS[:-4])
    journal = path / folder.journal_name(1)
    journal.write_bytes(journal.read_bytes() + BLOCKS[-4][:-1])
    with relay_alive(path):
        rows = values(open_trace(path).rows())
        assert rows == WHOLE[: len(rows)]
        assert GAP not in [row.command for row in Trace(path).rows()]


def test_readers_and_a_sealer_at_the_same_time(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=len(BLOCKS))
    with relay_alive(path):
        sealing = threading.Thread(target=_seal_all, args=[path])
        sealing.start()
        while sealing.is_alive():
            timeline = Trace(path).timeline()
            assert (timeline.next_seq, timeline.incomplete) == (len(WHOLE), False)
            assert values(Trace(path).rows()) == WHOLE
        sealing.join()


def _seal_all(path: Path) -> None:
    with Sealer(path) as sealer:
        sealer.finish()


def test_only_one_process_seals_and_the_others_read(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    with Sealer(path):
        before = names(path)
        with pytest.raises(BeingSealedError, match="another process is sealing"):
            Sealer(path)
        trace = open_trace(path)
        assert values(trace.rows()) == WHOLE
        assert names(path) == before
    Sealer(path).close()


def test_a_reader_does_not_notice_that_journals_become_segments(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=4)
    with relay_alive(path), Sealer(path) as sealer:
        list(sealer.sealing_steps([1, 2, 3, 4]))
        reading = Trace(path).rows()
        seen = [next(reading)]
        list(sealer.sealing_steps([2, 3, 4]))
        seen += [next(reading) for _ in range(25)]
        list(sealer.sealing_steps([3, 4]))
        list(sealer.sealing_steps([4]))
        assert values([*seen, *reading]) == WHOLE


def test_a_folder_that_cannot_be_written_is_read_all_the_same(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS)
    (path / folder.SEAL_LOCK).mkdir()
    trace = open_trace(path)
    assert values(trace.rows()) == WHOLE
    assert "could not be sealed" in trace.notes[0]


def test_a_journal_of_a_newer_program_is_kept(tmp_path: Path) -> None:
    path = write_trace(tmp_path, [])
    newer = FILE_HEADER[:6] + b"\x63\x00" + b"whatever"
    (path / folder.journal_name(1)).write_bytes(newer)
    with pytest.raises(TraceError, match=r"version 99.*use a newer one"):
        open_trace(path)
    assert (path / folder.journal_name(1)).read_bytes() == newer


# --- a disk that refuses ---


@contextmanager
def file_size_limited(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealing is tried again with the next call."""
    monkeypatch.setattr(sealing, "RETRY_SECONDS", 1e-9)
    monkeypatch.setattr(sealing, "RETRY_SECONDS_MOST", 1e-9)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", [".seg-000002.parquet.tmp", "seg-000002.parquet", ".state-000002"])
def test_what_stands_in_the_way_of_sealing_delays_it_and_loses_nothing(
    tmp_path: Path, undisturbed: tuple[object, ...], name: str
) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    obstacle = path / name / "x"
    obstacle.mkdir(parents=True)
    told: list[Row] = []
    with relay_alive(path), Sealer(path, told.append) as sealer:
        for _ in range(3):
            sealer.follow()
            assert sealer.trouble == "Is a directory"
            assert sealer.sealed == 1
            assert len(folder.journals(path)) == 2
            assert sealer.timeline.next_seq >= len(told), "what was shown is forgotten"
        with pytest.raises(IsADirectoryError):
            sealer.finish()
        shutil.rmtree(path / name)
        sealer.follow()
        assert (sealer.trouble, sealer.sealed) == (None, 2)
        assert sealer.row_count == len(WHOLE)
    assert values(told) == WHOLE, "each row is told once"
    (path / folder.RELAY_LOCK).unlink()
    assert outcome(path) == undisturbed


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("room", [0, 100, 4000, 9000, 14_000])
def test_a_full_disk_delays_sealing_and_loses_nothing(
    tmp_path: Path, undisturbed: tuple[object, ...], room: int
) -> None:
    """No file may become longer than this: a write beyond it fails half-way."""
    path = write_trace(tmp_path, BLOCKS, parts=3)
    told: list[Row] = []
    with relay_alive(path), Sealer(path, told.append) as sealer:
        with file_size_limited(room):
            for _ in range(3):
                sealer.follow()
                assert sealer.trouble == "File too large"
                assert len(folder.journals(path)) == 3
            with pytest.raises(OSError, match="File too large"):
                sealer.finish()
        sealer.follow()
        assert (sealer.trouble, sealer.sealed) == (None, 2)
    assert values(told) == WHOLE
    (path / folder.RELAY_LOCK).unlink()
    assert outcome(path) == undisturbed


@pytest.mark.usefixtures("at_once")
def test_what_was_shown_stays_while_the_disk_refuses_to_begin_anew(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS)
    with relay_alive(path), Sealer(path) as sealer:
        sealer.follow()
        (path / folder.journal_name(2)).write_bytes(FILE_HEADER)
        (path / "seg-000001.parquet" / "x").mkdir(parents=True)
        sealer.follow()
        (path / ".seg-000001.parquet.tmp").mkdir()
        for _ in range(2):
            sealer.follow()
            assert sealer.trouble is not None
            assert sealer.timeline.next_seq == len(WHOLE)


def test_it_is_tried_again_after_a_while_and_not_at_once(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    with relay_alive(path), Sealer(path) as sealer:
        with file_size_limited(0):
            sealer.follow()
        assert sealer.trouble is not None
        assert (sealer.follow(), sealer.sealed) == (0, 0)
        sealer.finish()
        assert (sealer.trouble, sealer.sealed) == (None, 3)


def test_what_is_not_ours_is_left_alone(tmp_path: Path, undisturbed: tuple[object, ...]) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    foreign = ["_notes", ".journal-old.pdj", ".state-x", ".seg-2.parquet"]
    for name in foreign:
        (path / name).write_text("not ours")
    assert outcome(path)[:3] == undisturbed[:3]
    for name in foreign:
        assert (path / name).read_text() == "not ours"


def test_the_journals_that_are_behind_are_counted_in_bytes(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    size = sum(each.stat().st_size for each in path.glob(".journal-*"))
    with relay_alive(path), Sealer(path) as sealer:
        assert sealer.unread_bytes == size
        list(sealer.sealing_steps([1, 2, 3]))
        assert 0 < sealer.unread_bytes < size
        sealer.follow()
        assert sealer.unread_bytes == 0
