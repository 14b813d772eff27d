"""Many small segments become few: the trace says what it said, before, meanwhile and afterwards."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.errors import TraceError
from pulsar_doctor.spark.reading import look
from pulsar_doctor.trace import compacting, folder, ring
from pulsar_doctor.trace.compacting import Compaction, compact
from pulsar_doctor.trace.index import append_part, read_index, write_index
from pulsar_doctor.trace.reading import CompactedMeanwhileError, Trace, ledgers_at
from pulsar_doctor.trace.ring import Ring
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.trace.verifying import verify
from tests.spark.made_traces import sealed, without_new_columns
from tests.trace.journals import relay_alive, slow_consumer, values, write_trace

PARTS = 8
TELLERS = (
    ("trace", "summary", "-o", "json"),
    ("trace", "show", "-o", "jsonl"),
    ("trace", "verify", "-o", "json"),
    ("stall-check", "-o", "json", "--trace"),
    ("holes", "-o", "json", "--trace"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "t.ptrace")


def write(path: Path, **more: Any) -> Path:
    sealed(path, slow_consumer(), "t", parts=PARTS, **more)
    assert len(read_index(path).parts) == PARTS
    return path


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[Path], list[Any]]:
    """What the readers say of it, but how many files there are and when they were asked."""

    def told(path: Path) -> list[Any]:
        said = []
        for teller in TELLERS:
            code = run([*teller, str(path)])
            out = capsys.readouterr().out
            if teller[1] == "verify" or teller[0] == "stall-check":
                document = json.loads(out)
                for name in ("segments", "checked_at"):
                    document.pop(name, None)
                out = json.dumps(document)
            said.append((teller, code, out))
        return said

    return told


def files(path: Path) -> set[str]:
    return {name for name in folder.names_in(path) if name.startswith("seg-")}


def states(path: Path) -> list[int]:
    return folder.numbers(path, ".state-*[0-9]")


def rows_of_files(path: Path) -> list[tuple[Any, ...]]:
    """What a reader sees that takes all files of the folder and knows of no list."""
    tables = [pq.read_table(path / name) for name in sorted(files(path))]
    return [row for table in tables for row in zip(*table.to_pydict().values(), strict=True)]


def test_all_readers_say_the_same_before_and_after(
    path: Path, told: Callable[[Path], list[Any]]
) -> None:
    before, rows = told(path), rows_of_files(path)
    done = compact(path)
    assert (done.segments_before, done.segments, done.merged) == (PARTS, 1, 1)
    assert files(path) == {"seg-000008.from-000001.parquet"}
    assert told(path) == before
    assert rows_of_files(path) == rows
    assert verify(path).problems == []


def test_without_the_saved_ledgers_too(path: Path, told: Callable[[Path], list[Any]]) -> None:
    before = told(path)
    compact(path)
    for number in states(path):
        (path / folder.state_name(number)).unlink()
    assert told(path) == before


def test_what_was_compacted_is_left_as_it_is(path: Path) -> None:
    compact(path)
    before = {file.name: file.stat().st_ino for file in path.iterdir()}
    done = compact(path)
    assert (done.segments_before, done.segments, done.merged) == (1, 1, 0)
    assert {file.name: file.stat().st_ino for file in path.iterdir()} == before


def test_what_came_later_is_merged_with_what_was(tmp_path: Path) -> None:
    blocks = slow_consumer().blocks
    whole = open_trace(write_trace(tmp_path / "whole", blocks, parts=4))
    path = write_trace(tmp_path / "t", blocks, parts=4)
    later = [
        (path / folder.journal_name(number)).rename(tmp_path / str(number)) for number in (3, 4)
    ]
    open_trace(path)
    compact(path)
    for number, journal in zip((3, 4), later, strict=True):
        journal.rename(path / folder.journal_name(number))
    assert len(open_trace(path).parts()) == 3
    compact(path)
    assert files(path) == {"seg-000004.from-000001.parquet"}
    assert values(open_trace(path).rows()) == values(whole.rows())
    assert verify(path).problems == []


# --- a kill ---


@pytest.mark.parametrize("killed_after", [0, 1, 2, 3])
def test_a_kill_leaves_the_old_trace_or_the_new_one(
    path: Path, told: Callable[[Path], list[Any]], killed_after: int
) -> None:
    before = told(path)
    _until(Compaction(path, read_index(path)), killed_after)
    left = len(read_index(path).parts)
    assert left == (PARTS if killed_after < 2 else 1)
    assert told(path) == before
    assert [segment.rows for segment in look([str(path)], here=True).segments] == [
        part.rows for part in read_index(path).parts
    ]
    compact(path)
    assert files(path) == {"seg-000008.from-000001.parquet"}
    assert states(path) == [8]
    assert told(path) == before


def _until(compaction: Compaction, step: int) -> None:
    if step:
        for at in compaction.steps():
            if at == step:
                return


KILLED = """
import os, signal, sys
from pathlib import Path
from pulsar_doctor.trace import compacting
compacting.SegmentWriter.close = lambda self: os.kill(os.getpid(), signal.SIGKILL)
compacting.compact(Path(sys.argv[1]))
"""


def test_a_kill_in_the_middle_of_a_file_or_of_a_deletion(
    path: Path, told: Callable[[Path], list[Any]]
) -> None:
    before = told(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert any(name.endswith(".tmp") for name in folder.names_in(path))
    assert told(path) == before
    _until(Compaction(path, read_index(path)), 2)
    for number in (1, 2, 5):
        (path / folder.segment_name(number)).unlink()
    assert told(path) == before
    with Sealer(path):  # whoever seals next deletes the others
        pass
    assert files(path) == {"seg-000008.from-000001.parquet"}
    assert not any(name.endswith(".tmp") for name in folder.names_in(path))
    assert told(path) == before


# --- who else is there ---


def test_a_trace_that_is_being_written_is_refused(path: Path, capsys: Any) -> None:
    with relay_alive(path):
        assert run(["trace", "compact", str(path)]) == 2
    assert "is being written" in capsys.readouterr().err
    with Sealer(path):
        assert run(["trace", "compact", str(path)]) == 2
    assert "is sealing" in capsys.readouterr().err
    assert len(read_index(path).parts) == PARTS


def test_no_tap_can_begin_meanwhile_and_readers_do_not_take_it_for_one(path: Path) -> None:
    compaction = compacting._alone(path)
    with compaction:
        assert not Trace(path).live
        with pytest.raises(Exception, match="another tap writes to"):
            folder.take_relay_lock(path)


def test_who_reads_meanwhile_reads_all_of_it(path: Path) -> None:
    expected = values(Trace(path).rows())
    for at in (0, 1, 20):
        again = write(path.with_name(f"again-{at}"))
        rows = Trace(again).rows()
        seen = [next(rows) for _ in range(at)]
        compact(again)
        assert values([*seen, *rows]) == expected


def test_ledgers_and_segments_are_those_of_a_whole_trace_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Trace(path).timeline().state()
    index = read_index(path)
    monkeypatch.setattr(
        Trace,
        "_ledgers",
        lambda trace, index: _once(path) or ledgers_at(trace.path, trace.meta, index),
    )
    assert Trace(path).timeline().state() == expected
    opened = Trace(write(path.with_name("again")))
    compact(opened.path)
    with pytest.raises(CompactedMeanwhileError, match="read it again"):
        opened.require(index.parts)


def _once(path: Path) -> None:
    if len(read_index(path).parts) > 1:
        for number in states(path):
            (path / folder.state_name(number)).unlink()
        compact(path)


# --- rings ---


@pytest.fixture
def of_a_ring(path: Path) -> Path:
    """Its first two parts have expired, all ledgers are there."""
    shutil.rmtree(path)
    write_trace(path, slow_consumer().blocks, parts=PARTS, trace_id="t")
    ring.begin(path, ring.shares(3600.0, None, 60.0))
    open_trace(path)
    found = Ring.of(path)
    assert found is not None
    for _ in found.dropping_steps(2):
        pass
    assert states(path) == [2, 3, 4, 5, 6, 7, 8]
    return path


def test_a_ring_starts_where_it_did_and_drops_what_was_merged(
    of_a_ring: Path, told: Callable[[Path], list[Any]]
) -> None:
    before = told(of_a_ring)
    compact(of_a_ring)
    assert files(of_a_ring) == {"seg-000008.from-000003.parquet"}
    assert states(of_a_ring) == [2, 8]
    assert told(of_a_ring) == before
    found = Ring.of(of_a_ring)
    assert found is not None
    rows = sum(part.rows for part in found.index.parts)
    kept = found.keep("test", 8)
    for _ in found.dropping_steps(1):
        pass
    assert files(of_a_ring) == set()
    assert found.index.expired.rows == rows + Trace(kept).expired().rows
    assert verify(of_a_ring).problems == []
    assert verify(kept).problems == []
    assert (verify(kept).segments, verify(kept).rows) == (1, rows)


def test_a_crash_while_a_merged_one_expires_leaves_nothing(of_a_ring: Path) -> None:
    compact(of_a_ring)
    index = read_index(of_a_ring)
    write_index(of_a_ring, replace(index, expired=index.expired.and_part(index.parts[0]), parts=[]))
    assert verify(of_a_ring).problems == []
    assert [*Trace(of_a_ring).rows()] == []
    with Sealer(of_a_ring):
        pass
    assert files(of_a_ring) == set()


# --- what is not merged ---


def test_hours_rows_and_bytes_bound_a_segment(path: Path) -> None:
    index = read_index(path)
    compaction = Compaction(path, index)
    compaction.rows_most = sum(part.rows for part in index.parts[:3])
    sizes = [sum(part.rows for part in group) for group in compaction._groups()]
    assert all(size <= compaction.rows_most for size in sizes)
    assert 1 < len(sizes) < PARTS
    compaction = Compaction(path, index)
    compaction.span_us = index.parts[3].until_us - index.parts[0].until_us
    assert len(next(compaction._groups())) == 4
    short = Ring(path, ring.shares(5.0, None, 60.0))
    assert short.limits.ring_seconds == 5.0
    ring.begin(path, short.limits)
    assert Compaction(path, index).span_us == 500_000
    ring.begin(path, ring.shares(None, 8 << 20, 60.0))
    assert Compaction(path, index).bytes_most < 1 << 20


def test_segments_of_an_older_program_keep_their_columns(path: Path) -> None:
    without_new_columns(path, through=3)
    rows = values(Trace(path).rows())
    compact(path)
    assert files(path) == {"seg-000003.from-000001.parquet", "seg-000008.from-000004.parquet"}
    older, newer = (pq.read_schema(path / name).names for name in sorted(files(path)))
    assert len(older) < len(newer)
    assert values(Trace(path).rows()) == rows
    assert verify(path).problems == []


def test_what_tells_of_a_cut_journal_stays_by_itself(path: Path) -> None:
    index = read_index(path)
    parts = [replace(part, cut_bytes=7) if part.number == 4 else part for part in index.parts]
    write_index(path, replace(index, parts=parts))
    before = verify(path)
    compact(path)
    assert [(part.first_number, part.number) for part in read_index(path).parts] == [
        (1, 3),
        (4, 4),
        (5, 8),
    ]
    assert verify(path).notes == before.notes


def test_times_without_commands_go_into_what_is_around_them(path: Path) -> None:
    index = read_index(path)
    last = index.parts[-1]
    quiet = replace(
        last, number=9, name=None, rows=0, first_seq=None, last_seq=None, bytes=0, sha256=None,
        until_us=last.until_us + 1_000_000, until_ns=last.until_ns + 10**9, first_us=None,
        last_us=None,
    )  # fmt: skip
    append_part(path, quiet)
    (path / folder.state_name(8)).unlink()
    before = Trace(path).timeline().state()
    compact(path)
    (part,) = read_index(path).parts
    assert (part.first_number, part.number, part.until_us) == (1, 9, quiet.until_us)
    assert Trace(path).timeline().state() == before
    assert verify(path).problems == []


def test_damage_is_not_made_new(path: Path) -> None:
    segment = path / folder.segment_name(5)
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    with pytest.raises(TraceError, match="does not agree with its SHA-256"):
        compact(path)
    assert len(read_index(path).parts) == PARTS
    assert len(files(path)) == PARTS


def test_row_groups_are_small_enough_to_be_left_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_doctor.trace.segments.GROUP_ROWS", 16)
    compact(path)
    (name,) = files(path)
    file = pq.ParquetFile(path / name)
    at = file.schema_arrow.names.index("ts")
    groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
    assert [group.num_rows for group in groups[:-1]] == [16] * (len(groups) - 1)
    assert len(groups) > 2
    assert all(group.column(at).statistics.has_min_max for group in groups)


def test_what_is_not_listed_and_was_not_merged_is_still_refused(path: Path) -> None:
    compact(path)
    (name,) = files(path)
    shutil.copy(path / name, path / "seg-000009.parquet")
    with pytest.raises(TraceError, match=r"seg-000009.parquet is not in _segments.jsonl"):
        Trace(path)
    assert any("seg-000009" in problem for problem in verify(path).problems)
