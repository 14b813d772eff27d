"""Commands that are as large as a broker lets them be cost their own room, and no reader much."""

from __future__ import annotations

import resource
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pulsar_doctor.trace import segments
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import SET_ASIDE, TO_BROKER, TO_CLIENT, UNPARSED
from pulsar_doctor.wire.commands import ACK_SET_WORDS_MOST, IDS_MOST
from pulsar_doctor.wire.text import TEXT_BYTES_MOST, text_of
from tests.made.traces import write_trace
from tests.made.wire import TOPIC, Wire, record
from tests.trace.readers import FEW
from tests.trace.test_any_bytes import Run

pytestmark = pytest.mark.timeout(300)
MIB = 1 << 20
LONG = "n" * 5 * MIB
READERS = (
    *FEW,
    ("trace", "verify"),
    ("stall-check", "-o", "table", "--trace"),
    ("holes", "--trace"),
)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_name_of_5_mib_is_short_in_a_trace_and_on_a_screen(tmp_path: Path, run: Run) -> None:
    said = Wire().open().attached(1, LONG, subscription=LONG, topic=f"{TOPIC}{LONG}")
    said.flow(2000).pushed(range(1500)).wait(400)
    path = open_trace(write_trace(tmp_path / "t.ptrace", said.blocks)).path
    assert sum(file.stat().st_size for file in path.iterdir()) < MIB
    rows = list(open_trace(path).rows(["consumer_name", "subscription", "topic"]))
    assert {row.consumer_name for row in rows[2:]} == {text_of(LONG)}
    for reader in READERS:
        code, out, err = run(*reader, path)
        assert (code in (0, 1), err) == (True, ""), reader
        assert max(map(len, out.splitlines())) < 20_000, reader
    assert run("trace", "show", path, "--consumer", text_of(LONG), "-n", 3)[0] == 0


@pytest.mark.parametrize("text", ["x" * 1025, "é" * 600, "\ufffdAB" * 400, "x" * MIB])
def test_a_long_text_keeps_its_beginning_and_stays_another(text: str) -> None:
    short = text_of(text)
    assert len(short.encode()) <= TEXT_BYTES_MOST
    assert short.startswith(text_of(text[:100])[:100])
    assert f"({len(text.encode())} bytes" in short
    assert text_of(short) == short or "\ufffd" in short
    assert text_of(f"{text}y") != short
    assert text_of("x" * TEXT_BYTES_MOST) == "x" * TEXT_BYTES_MOST


def test_ack_sets_of_5_mib_are_bounded_and_the_segment_is_read(tmp_path: Path, run: Run) -> None:
    said = Wire().open().attached().flow(1000)
    words = [-1] * (5 * MIB // 10)  # as the wire has -1: ten bytes
    for entry in range(30):
        known = wire.MessageId(ledger_id=7, entry_id=entry, ack_set=words)
        said.say(TO_BROKER, record("ACK", consumer_id=1, ack_type=0, message_id=[known]))
    said.pushed([1, 2]).close()
    path = open_trace(write_trace(tmp_path / "t.ptrace", said.blocks)).path
    acks = [row for row in open_trace(path).rows() if row.command == "ACK"]
    assert [len(row.ack_set or b"") for row in acks] == [8 * ACK_SET_WORDS_MOST] * 30
    for reader in READERS:
        assert run(*reader, path)[:2] != (3, ""), reader
        assert run(*reader, path)[0] in (0, 1, 3), reader
    assert verify(path).problems == []


@pytest.mark.slow
def test_more_ids_than_anybody_acknowledges_at_once_are_set_aside(tmp_path: Path, run: Run) -> None:
    said = Wire().open().attached().flow(1000).pushed(range(10))
    for count in (1000, IDS_MOST, IDS_MOST + 1, 1_000_000):
        ids = [wire.MessageId(ledger_id=7, entry_id=at) for at in range(count)]
        said.say(TO_BROKER, record("ACK", consumer_id=1, ack_type=0, message_id=ids))
    said.pushed(range(10, 20)).close()
    path = open_trace(write_trace(tmp_path / "t.ptrace", said.blocks)).path
    rows = list(open_trace(path).rows())
    acks = [len(row.message_ids or ()) for row in rows if row.command == "ACK"]
    assert acks == [1000, IDS_MOST]
    aside = [row for row in rows if row.command == UNPARSED]
    assert [row.error_code for row in aside] == [SET_ASIDE] * 2
    assert [row.command for row in rows].count("MESSAGE") == 20
    for reader in READERS:
        assert run(*reader, path)[0] in (0, 1, 3, 6), reader
    assert verify(path).problems == []


@pytest.mark.slow
def test_groups_of_a_segment_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    said = Wire().open().attached().flow(100_000)
    for entry in range(1500):
        words = [entry * 2**32 + at for at in range(ACK_SET_WORDS_MOST)]
        known = wire.MessageId(ledger_id=7, entry_id=entry, ack_set=words)
        said.say(TO_CLIENT, record("ACK", consumer_id=1, ack_type=0, message_id=[known]))
    before = peak_mib()
    path = open_trace(write_trace(tmp_path / "t.ptrace", said.blocks)).path
    file = pq.ParquetFile(path / "seg-000001.parquet")
    groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
    assert len(groups) > 1
    assert max(group.total_byte_size for group in groups) < segments.GROUP_BYTES_MOST
    assert verify(path).problems == []
    assert peak_mib() - before < 1024
