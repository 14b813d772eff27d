"""Captures as tcpdump, dumpcap and the tools around them write them: all of one conversation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.parts.capture.talks import is_part_of
from tests.support.command_line import answered

RECORDED = Path(__file__).parent / "recorded"
PORT = "46557"
FILES = sorted(path.name for path in RECORDED.glob("*.gz"))
CUT = "tcpdump-cut.pcap.gz"
ROWS = 104


def rows_in(folder: Path, file: Path) -> tuple[list[Row], dict[str, dict[str, int]]]:
    ran = answered("capture", str(file), "--port", PORT, "--trace", str(folder), "-o", "json")
    assert ran.returncode == 0, ran.stderr
    assert answered("trace", "verify", str(folder)).returncode in (0, 6)
    return list(open_trace(folder).rows()), json.loads(ran.stdout)


def said(rows: list[Row]) -> list[tuple[object, ...]]:
    return [
        (
            row.direction,
            row.command,
            row.consumer_name,
            row.ledger_id,
            row.entry_id,
            row.frame_bytes,
        )
        for row in rows
    ]


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return rows_in(tmp_path_factory.mktemp("truth") / "t", RECORDED / "tcpdump-lo.pcap.gz")[0]


def test_the_conversation_is_all_there(truth):
    assert len(truth) == ROWS
    commands = [row.command for row in truth]
    assert (commands.count("MESSAGE"), commands.count("ACK")) == (24, 2)
    assert {row.consumer_name for row in truth if row.command == "FLOW"} == {"number 0", "number 1"}


@pytest.mark.parametrize("name", [name for name in FILES if name != CUT])
def test_whoever_wrote_it_its_rows_are_the_same(truth, tmp_path, name):
    rows, told = rows_in(tmp_path / "t", RECORDED / name)
    assert said(rows) == said(truth)
    assert [row.available_permits for row in rows] == [row.available_permits for row in truth]
    assert told["bytes"]["seen"] == told["bytes"]["used"]
    assert told["packets"]["dropped_by_kernel"] == 0


def test_it_may_be_packed_or_not(truth, tmp_path):
    file = tmp_path / "plain.pcapng"
    file.write_bytes(gzip.decompress((RECORDED / "dumpcap-two-interfaces.pcapng.gz").read_bytes()))
    assert said(rows_in(tmp_path / "t", file)[0]) == said(truth)


def test_of_packets_that_were_cut_nothing_is_invented(truth, tmp_path):
    rows, told = rows_in(tmp_path / "t", RECORDED / CUT)
    counted = told["bytes"]
    lost = counted["cut_off"] + counted["missing"]
    assert lost > 100_000
    assert counted["seen"] == counted["used"] + counted["skipped"] + lost
    for way in ("to_broker", "to_client"):
        spoken = [
            each[1:2] + each[3:] for each in said(rows) if each[0] == way and each[1] != "UNPARSED"
        ]
        whole = [each[1:2] + each[3:] for each in said(truth) if each[0] == way]
        assert is_part_of([each for each in spoken if each[0] != "CLOSE"], whole)
