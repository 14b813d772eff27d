"""A trace that somebody else made: nothing outside its folder is read or made, no reader waits for
it or takes memory without measure, and what is wrong is said in one sentence."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_doctor import cli
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.folder import INDEX, META, RELAY_LOCK, RING, SEAL_LOCK, journal_name
from pulsar_doctor.trace.index import read_index
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.wire.journal import FILE_HEADER
from tests.made.traces import values, write_trace
from tests.made.wire import slow_consumer

pytestmark = pytest.mark.timeout(60)
SEGMENT = "seg-000001.parquet"
READERS = (
    ("trace", "show"),
    ("trace", "summary"),
    ("trace", "verify"),
    ("stall-check", "--trace"),
    ("holes", "--trace"),
)
DEEP = b"[" * 100_000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return open_trace(write_trace(tmp_path / "t.ptrace", slow_consumer().close().blocks)).path


def link_to(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return make


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def moved_out(path: Path) -> None:
    outside = path.parent.parent / "outside"
    shutil.move(path, outside)
    path.symlink_to(outside)


def deep(path: Path) -> None:
    path.write_bytes(DEEP + b"\n")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)


FOREIGN: list[tuple[str, Callable[[Path], None]]] = [
    (SEGMENT, pipe), (SEGMENT, moved_out), (SEGMENT, link_to("/dev/zero")),
    (META, pipe), (META, moved_out), (META, link_to("/dev/zero")), (META, deep), (META, huge),
    (INDEX, pipe), (INDEX, moved_out), (INDEX, link_to("/dev/zero")), (INDEX, deep), (INDEX, huge),
]  # fmt: skip


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
@pytest.mark.parametrize(
    ("name", "made"), FOREIGN, ids=[f"{name}-{number}" for number, (name, _) in enumerate(FOREIGN)]
)
def test_what_is_no_file_of_a_trace_is_refused_in_one_sentence(
    trace: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    made: Callable[[Path], None],
    reader: tuple[str, ...],
) -> None:
    made(trace / name)
    assert cli.run([*reader, str(trace)]) == 2
    told = "".join(capsys.readouterr())
    assert name in told
    assert "mistake" not in told
    assert "Traceback" not in told
    if reader[1] != "verify":
        assert told.count("\n") == 1


@pytest.mark.parametrize("made", [pipe, link_to("/dev/zero"), huge, deep])
def test_saved_ledgers_that_are_none_are_done_without(
    trace: Path, capsys: pytest.CaptureFixture[str], made: Callable[[Path], None]
) -> None:
    cli.run(["trace", "summary", str(trace)])
    before = capsys.readouterr().out
    made(trace / folder.state_name(1))
    assert cli.run(["trace", "summary", str(trace)]) == 0
    assert capsys.readouterr().out == before


@pytest.mark.parametrize("made", [pipe, link_to("/dev/zero")])
@pytest.mark.parametrize("name", [journal_name(2), RELAY_LOCK])
def test_no_journal_and_no_lock_is_waited_for(
    trace: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    made: Callable[[Path], None],
) -> None:
    (trace / journal_name(2)).write_bytes(FILE_HEADER)
    made(trace / name)
    assert cli.run(["trace", "show", str(trace)]) == 2
    assert f"{name} is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("made", [pipe, deep, link_to("/dev/zero")])
def test_the_limits_of_a_ring_are_a_file(trace: Path, made: Callable[[Path], None]) -> None:
    made(trace / RING)
    with pytest.raises(folder.TraceError, match=RING):
        Sealer(trace)


@pytest.mark.parametrize("name", [SEAL_LOCK, f".{SEGMENT}.tmp", ".state-000001.tmp"])
def test_nothing_is_made_where_a_link_leads(tmp_path: Path, name: str) -> None:
    path = write_trace(tmp_path / "t.ptrace", slow_consumer().blocks)
    outside = tmp_path / "outside"
    (path / name.replace("..", ".")).symlink_to(outside)
    trace = open_trace(path)
    assert "could not be sealed" in trace.notes[0]
    assert not outside.exists()
    assert len(values(trace.rows())) == 57


def test_a_small_file_that_unfolds_into_gigabytes_takes_no_memory(trace: Path) -> None:
    table = pq.read_table(trace / SEGMENT).slice(0, 1)
    text = pa.array(["x" * 1_000_000])
    at = table.schema.get_field_index("topic")
    large = table.set_column(at, table.schema.field("topic"), text)
    large = pa.concat_tables([large] * 3000)
    with pq.ParquetWriter(trace / SEGMENT, large.schema, compression="zstd") as writer:
        for start in range(0, 3000, 1000):
            writer.write_table(large.slice(start, 1000))
    assert (trace / SEGMENT).stat().st_size < 1 << 20
    del large, table
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for row in segments.read_rows(trace / SEGMENT) if row.topic) == 3000
    assert segments.count_rows(trace / SEGMENT) == 3000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert read_index(trace).parts
