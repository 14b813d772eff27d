"""A trace says what was written, or says that it is damaged."""

from __future__ import annotations

import json
import random
import re
import shutil
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.index import read_index, write_index
from pulsar_doctor.trace.reading import Trace, ledgers_at_start, ledgers_behind
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire.columns import COLUMNS, IDS, NAMES, TIME, MessageId, Row
from tests.made.traces import relay_alive, values, write_trace
from tests.made.wire import START_US, Wire, slow_consumer

BLOCKS = slow_consumer().close().blocks
WORDS = st.text(max_size=5)
BYTES = st.binary(max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "string": WORDS,
    "binary": BYTES,
    "bool": st.booleans(),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": INT64,
    TIME: INT64,
    IDS: st.lists(st.builds(MessageId, INT64, INT64, st.none() | BYTES), max_size=3),
}


@st.composite
def any_row(draw: st.DrawFn) -> Row:
    row = Row()
    for column in COLUMNS:
        if not column.nullable or draw(st.booleans()):
            setattr(row, column.name, draw(OF_TYPE[column.type]))
    return row


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_trace(write_trace(tmp_path_factory.mktemp("sealed"), BLOCKS, parts=3)).path


@pytest.fixture
def trace(sealed: Path, tmp_path: Path) -> Path:
    """A sealed trace that the test may damage."""
    return shutil.copytree(sealed, tmp_path / "t.ptrace")


def rewrite(trace: Path, number: int, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes a segment the way a forger would: checksums and list agree again."""
    file = trace / folder.segment_name(number)
    table = change(pq.read_table(file))
    pq.write_table(table, file, write_page_checksum=True)
    index = read_index(trace)
    index.parts[number - 1] = replace(
        index.parts[number - 1], bytes=file.stat().st_size, sha256=segments.sha256_of(file)
    )
    write_index(trace, index)


@settings(max_examples=30, deadline=None)
@given(st.lists(any_row(), max_size=8))
def test_a_segment_gives_back_every_row_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "seg-000001.parquet"
    writer = segments.SegmentWriter(path)
    for row in rows:
        writer.add(row)
    writer.close()
    assert values(segments.read_rows(path)) == values(rows)


def test_the_columns_of_the_file_are_those_of_the_table(sealed: Path) -> None:
    schema = pq.read_schema(sealed / "seg-000001.parquet")
    assert schema.names == list(NAMES)
    assert [field.nullable for field in schema] == [column.nullable for column in COLUMNS]
    assert str(schema.field("ts").type) == "timestamp[us, tz=UTC]"
    assert str(schema.field("message_ids").type) == (
        "list<element: struct<ledger_id: int64, entry_id: int64, ack_set: binary>>"
    )


def test_columns_and_old_row_groups_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "BATCH_ROWS", 5)
    monkeypatch.setattr(segments, "GROUP_ROWS", 10)
    trace = open_trace(write_trace(tmp_path, BLOCKS))
    whole = list(trace.rows())
    some = list(trace.rows(["seq", "permits"]))
    assert [(row.seq, row.permits, row.command) for row in some] == [
        (row.seq, row.permits, "") for row in whole
    ]
    since_us = whole[33].ts
    assert [row.seq for row in trace.rows(since_us=since_us)] == list(range(30, len(whole)))


def test_every_row_comes_whichever_columns_are_wanted(sealed: Path) -> None:
    trace = Trace(sealed)
    whole = [row.command for row in trace.rows()]
    assert [row.command for row in trace.rows(["command"])] == whole
    assert len({part.number for part in trace.parts()}) > 1


def test_the_ledgers_from_the_rows_are_the_saved_ones(sealed: Path) -> None:
    trace = Trace(sealed)
    assert folder.read_state(sealed, 3) == json.loads(json.dumps(trace.timeline().state()))
    first = ledgers_at_start(trace.meta, trace.expired())
    again = ledgers_behind(sealed, first, trace.parts())
    assert again.state() == trace.timeline().state()


def test_what_was_told_of_a_consumer_reaches_its_ledger(tmp_path: Path) -> None:
    told = {"slow": {"receiver_queue_size": 0, "process_seconds": 600.0}}
    trace = open_trace(write_trace(tmp_path, Wire().open().attached().flow(1).blocks, told=told))
    (consumer,) = trace.timeline().consumers
    assert (consumer.ledger.zero_queue, consumer.ledger.given_process_seconds) == (True, 600.0)


@pytest.mark.parametrize(
    ("meta", "sentence"),
    [
        (None, "is not a trace of pulsar-doctor: it has no _meta.json"),
        ("{", "_meta.json is damaged, or the file of another program"),
        ("[]", "_meta.json is damaged"),
        ('{"schema_version": "1", "trace_id": "t"}', "_meta.json is damaged"),
        ('{"schema_version": 1}', "_meta.json is damaged"),
        ('{"schema_version": 1, "trace_id": "t", "told": [1]}', "_meta.json is damaged"),
        ('{"schema_version": 9, "trace_id": "t"}', "schema version 9, this program reads 1: use"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_folder_that_is_no_trace_is_refused(
    tmp_path: Path, meta: str | None, sentence: str
) -> None:
    if meta is not None:
        (tmp_path / folder.META).write_bytes(meta.encode(errors="surrogateescape"))
    for reader in (open_trace, verify):
        with pytest.raises(TraceError, match=sentence) as raised:
            reader(tmp_path)
        assert raised.value.exit_code == 2


def test_a_path_that_is_not_there_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"there is no folder .*: expected is a trace"):
        open_trace(tmp_path / "nowhere")


def test_a_meta_with_more_in_it_can_be_read(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS)
    meta = json.loads((path / folder.META).read_text())
    (path / folder.META).write_text(json.dumps({**meta, "later": 1}))
    assert len(list(open_trace(path).rows())) == 58


def test_verify_finds_a_whole_trace_whole_and_changes_nothing(trace: Path) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in trace.iterdir()}
    found = verify(trace)
    assert (found.status, found.problems, found.notes) == ("ended", [], [])
    assert (found.segments, found.rows, found.sealed_rows) == (3, 58, 58)
    assert found.until_us == START_US + slow_consumer().now_us - START_US
    assert {file.name: file.stat().st_mtime_ns for file in trace.iterdir()} == before


def test_verify_checks_what_is_not_sealed_too(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=3)
    with Sealer(path) as sealer:
        list(sealer.sealing_steps([1, 2, 3]))
    with relay_alive(path):
        found = verify(path)
        assert (found.status, found.problems, found.notes) == ("live", [], [])
    found = verify(path)
    assert (found.status, found.segments, found.rows) == ("ended", 1, 58)
    assert found.sealed_rows < 58


def test_verify_tells_a_killed_relay_from_one_that_ended(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS[:-1])
    with relay_alive(path):
        assert (verify(path).status, verify(path).notes) == ("live", [])
    found = verify(path)
    assert (found.status, found.problems) == ("torn", [])
    assert "the relay was killed" in found.notes[0]
    journal = path / folder.journal_name(1)
    journal.write_bytes(journal.read_bytes() + BLOCKS[-1][:-3])
    for sealed in (False, True):
        if sealed:
            open_trace(path)
        found = verify(path)
        assert (found.status, found.problems, found.rows) == ("torn", [], 57)
        cut = len(BLOCKS[-1]) - 3
        assert found.notes[0].startswith(f"{cut} bytes at the end of .journal-000001.pdj were cut")


def test_verify_tells_of_a_damaged_journal_before_and_after_sealing(tmp_path: Path) -> None:
    path = write_trace(tmp_path, BLOCKS, parts=2)
    journal = path / folder.journal_name(1)
    data = bytearray(journal.read_bytes())
    data[-5] ^= 1
    journal.write_bytes(data)
    for sealed in (False, True):
        if sealed:
            open_trace(path)
        found = verify(path)
        assert found.status == "damaged"
        assert len(found.problems) == 1
        assert found.problems[0].startswith(".journal-000001.pdj was damaged: ")


@pytest.mark.parametrize("bits", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_flipped_bit_of_a_segment_is_found(trace: Path, bits: int) -> None:
    file = trace / "seg-000002.parquet"
    whole = file.read_bytes()
    rows = values(segments.read_rows(file))
    chance = random.Random(20)
    for _ in range(bits):
        bit = chance.randrange(len(whole) * 8)
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        found = verify(trace)
        assert found.status == "damaged", f"bit {bit}"
        assert "seg-000002.parquet" in found.problems[0]
        with pytest.raises(TraceError, match=r"seg-000002.parquet is damaged: "):
            list(Trace(trace).rows())
        with suppress(TraceError):  # the file alone: what is in a page is safe, the footer is not
            assert len(list(segments.read_rows(file))) <= len(rows)


def test_page_checksums_are_there_and_are_compared(trace: Path) -> None:
    """Without the list: the Parquet file alone says that a page has changed."""
    file = trace / "seg-000002.parquet"
    whole = file.read_bytes()
    with pq.ParquetFile(file) as parquet:
        group = parquet.metadata.row_group(0)
        columns = [group.column(at) for at in range(group.num_columns)]
    noticed = 0
    for column in columns:
        behind = column.dictionary_page_offset or column.data_page_offset
        flipped = bytearray(whole)
        flipped[behind + column.total_compressed_size - 1] ^= 1
        file.write_bytes(flipped)
        with pytest.raises(TraceError, match=r"seg-000002.parquet is damaged.*CRC checksum"):
            list(segments.read_rows(file))
        noticed += 1
    assert noticed == len(segments.SCHEMA) + 2  # message_ids has three leaves


def tampered(**change: Any) -> Callable[[pa.Table], pa.Table]:
    """Another value in the last row of one column."""
    ((name, value),) = change.items()

    def apply(table: pa.Table) -> pa.Table:
        at = table.schema.names.index(name)
        field = table.schema.field(at)
        column = [*table.column(at).to_pylist()[:-1], value]
        return table.set_column(at, field, pa.array(column, field.type))

    return apply


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (tampered(available_permits=3), "row 42 says available_permits 3, from the commands"),
        (tampered(acknowledged_messages=3), "row 42 says acknowledged_messages 3, from the"),
        (tampered(starved_from=1), "row 42 says starved_from 1, from the commands"),
        (tampered(starved_us=1), "row 42 says starved_us 1, from the commands"),
        (tampered(incarnation=9), "row 42 says incarnation 9, from the commands"),
        (tampered(seq=99), "row 99 comes where 42 should be"),
        (tampered(trace_id="other"), "belongs to the trace other"),
        (lambda t: t.slice(0, t.num_rows - 1), "has 20 rows and should have 21"),
        (lambda t: t.slice(1), "row 23 comes where 22 should be"),
        (lambda t: t.drop_columns(["raw"]), "does not have the columns of a trace"),
    ],
)  # fmt: skip
def test_a_forged_segment_gives_itself_away(
    trace: Path, change: Callable[[pa.Table], pa.Table], problem: str
) -> None:
    rewrite(trace, 2, lambda table: table)
    assert verify(trace).problems == []
    rewrite(trace, 2, change)
    found = verify(trace)
    assert found.status == "damaged"
    assert any(problem in said for said in found.problems), found.problems


# --- sealed by another version ---

NEW = [*NAMES[NAMES.index("raw") + 1 :]]  # columns that the first version did not have
FILLED = ["acknowledged_messages", "starved_from", "durable"]  # of these, in the traces here


def older(table: pa.Table) -> pa.Table:
    """As the first version sealed it."""
    return table.drop_columns(NEW)


def newer(table: pa.Table) -> pa.Table:
    """As a version may seal it that has two columns more."""
    later = pa.array([[number] for number in range(table.num_rows)])
    return table.append_column("later", later).append_column("last", later)


def without_new(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    made = []
    for row in rows:
        for name in NEW:
            setattr(row, name, None)
        made.append(row)
    return values(made)


def ledgers_as_told_by_the_first_version(timeline: Timeline) -> dict[str, Any]:
    """Its SUBSCRIBEs did not say whether the subscription is durable."""
    state = timeline.state()
    for consumer in state["ended"]:
        assert consumer["durable"] in (None, True)
        consumer["durable"] = None
    return state


def test_a_trace_of_an_older_version_is_read_and_is_whole(trace: Path) -> None:
    whole = Trace(trace)
    rows, ledgers = list(whole.rows()), ledgers_as_told_by_the_first_version(whole.timeline())
    for name in FILLED:
        assert any(getattr(row, name) is not None for row in rows)
    for number in (1, 2, 3):
        rewrite(trace, number, older)
    (trace / folder.state_name(3)).unlink()
    found = verify(trace)
    assert (found.status, found.problems, found.notes) == ("ended", [], [])
    again = open_trace(trace)
    assert again.timeline().state() == ledgers
    assert values(again.rows()) == without_new(rows)
    rewrite(trace, 2, tampered(available_permits=3))
    assert "row 42 says available_permits 3" in verify(trace).problems[0]


def test_a_trace_of_a_newer_version_is_read_without_its_new_columns(trace: Path) -> None:
    rows, ledgers = values(Trace(trace).rows()), Trace(trace).timeline().state()
    for number in (2, 3):
        rewrite(trace, number, newer)
    found = verify(trace)
    assert (found.status, found.problems) == ("ended", [])
    assert found.notes == ["columns of a newer program are left alone: later, last"]
    (trace / folder.state_name(3)).unlink()
    assert values(open_trace(trace).rows()) == rows
    assert Trace(trace).timeline().state() == ledgers
    rewrite(trace, 2, tampered(starved_from=1))
    assert "row 42 says starved_from 1, from" in verify(trace).problems[0]


@pytest.mark.parametrize("saved", [True, False])
def test_what_an_older_version_began_is_sealed_to_its_end(tmp_path: Path, saved: bool) -> None:
    whole = open_trace(write_trace(tmp_path / "whole", BLOCKS, parts=3))
    path = write_trace(tmp_path / "mixed", BLOCKS, parts=3)
    with Sealer(path) as sealer:
        list(sealer.sealing_steps([1, 2, 3]))
    rewrite(path, 1, older)
    if not saved:
        (path / folder.state_name(1)).unlink()
    mixed = open_trace(path)
    first = mixed.parts()[0].rows
    assert 0 < first < 57
    rows = list(whole.rows())
    assert values(mixed.rows()) == without_new(rows[:first]) + values(rows[first:])
    told = ledgers_as_told_by_the_first_version
    assert told(mixed.timeline()) == told(whole.timeline())
    found = verify(path)
    assert (found.status, found.problems, found.notes) == ("ended", [], [])


def retyped(table: pa.Table) -> pa.Table:
    return table.set_column(26, "permits", table.column("permits").cast(pa.int64()))


@pytest.mark.parametrize(
    "foreign",
    [
        retyped,
        lambda t: t.select(list(reversed(t.schema.names))),
        lambda t: t.drop_columns(["acknowledged_messages"]),
        lambda t: t.select(t.schema.names[: t.schema.names.index("raw")]),
        lambda t: t.append_column("permits", t.column("permits")),
        lambda t: newer(older(t)),
        lambda t: pa.table({"x": pa.array(range(t.num_rows))}),
    ],
)
def test_a_segment_of_another_program_is_refused(
    trace: Path, foreign: Callable[[pa.Table], pa.Table]
) -> None:
    rewrite(trace, 2, foreign)
    sentence = r"seg-000002.parquet is damaged: it does not have the columns of a trace"
    (problem,) = verify(trace).problems
    assert re.search(sentence, problem)
    for since_us in (None, START_US):
        with pytest.raises(TraceError, match=sentence):
            list(Trace(trace).rows(["permits"], since_us=since_us))


def test_segments_that_are_missing_changed_places_or_came_from_elsewhere(trace: Path) -> None:
    first, second = trace / "seg-000001.parquet", trace / "seg-000002.parquet"
    whole = second.read_bytes()
    second.unlink()
    assert "seg-000002.parquet is missing" in verify(trace).problems
    with pytest.raises(TraceError, match=r"seg-000002.parquet is missing"):
        list(open_trace(trace).rows())
    second.write_bytes(first.read_bytes())
    assert any("seg-000002.parquet" in said for said in verify(trace).problems)
    second.write_bytes(whole)
    (trace / "seg-000004.parquet").write_bytes(whole)
    (trace / "other.parquet").write_bytes(whole)
    assert [said.split(" is not in")[0] for said in verify(trace).problems] == [
        "other.parquet",
        "seg-000004.parquet",
    ]
    with pytest.raises(TraceError, match=r"seg-000004.parquet is not in _segments.jsonl"):
        open_trace(trace)


def test_a_list_that_is_damaged_or_lacks_a_part_is_found(trace: Path) -> None:
    index = trace / folder.INDEX
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(lines[0] + b"{]\n" + lines[2])
    with pytest.raises(TraceError, match=r"line 2 of .*_segments.jsonl is damaged"):
        open_trace(trace)
    assert "line 2 of" in verify(trace).problems[0]
    index.write_bytes(lines[0] + lines[2] + lines[1])
    assert "line 3 of" in verify(trace).problems[0]
    second = lines[1].replace(b'"last_seq": 42', b'"last_seq": 43')
    index.write_bytes(lines[0] + second + lines[2])
    assert "line 2 of" in verify(trace).problems[0]
    forged = json.loads(second)
    del forged["crc32"]
    unproved = json.dumps(forged).encode()
    index.write_bytes(lines[0] + unproved + b"\n" + lines[2])
    assert "line 2 of" in verify(trace).problems[0]
    proved = json.dumps({**forged, "crc32": zlib.crc32(unproved)}).encode()
    index.write_bytes(lines[0] + proved + b"\n" + lines[2])
    assert verify(trace).problems == ["seg-000002.parquet ends at row 42, not 43"]
    index.write_bytes(lines[0] + lines[2])
    problems = verify(trace).problems
    assert "seg-000002.parquet is not in _segments.jsonl: it is no part of this trace" in problems
    assert "nothing is there of what lay before part 3" in problems


def test_no_number_in_the_list_can_change_unnoticed(trace: Path) -> None:
    index = trace / folder.INDEX
    whole = index.read_bytes()
    digits = [at for at, byte in enumerate(whole) if chr(byte).isdigit()]
    for at in random.Random(20).sample(digits, 100):
        index.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(TraceError, match=r"_segments.jsonl is damaged"):
            read_index(trace)


def test_a_damaged_segment_is_said_in_one_sentence(trace: Path) -> None:
    (trace / "seg-000002.parquet").write_bytes(b"PAR1 this is not what it was PAR1")
    with pytest.raises(TraceError, match=r"seg-000002.parquet is damaged: ") as raised:
        list(open_trace(trace).rows())
    assert "\n" not in str(raised.value)
