"""A trace that another program writes, from what TRACE(5) says alone."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace.sealing import open_trace
from tests.made.traces import write_trace
from tests.made.wire import slow_consumer


def line(values: dict[str, Any]) -> str:
    crc32 = zlib.crc32(json.dumps(values).encode())
    return json.dumps({**values, "crc32": crc32}) + "\n"


def written(folder: Path, rows: Any) -> None:
    folder.mkdir()
    meta = {"schema_version": 1, "trace_id": rows["trace_id"][0].as_py()}
    (folder / "_meta.json").write_text(json.dumps(meta))
    lines = []
    for number, part in enumerate((rows.slice(0, 10), rows.slice(10)), 1):
        name = f"seg-{number:06d}.parquet"
        pq.write_table(part, folder / name)
        content, last = (folder / name).read_bytes(), part.num_rows - 1
        lines.append(
            line(
                {
                    "number": number, "name": name, "rows": part.num_rows,
                    "first_seq": part["seq"][0].as_py(), "last_seq": part["seq"][last].as_py(),
                    "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(),
                    "until_us": part["ts"][last].value, "until_ns": part["mono_ns"][last].as_py(),
                }
            )
        )  # fmt: skip
    (folder / "_segments.jsonl").write_text("".join(lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ours = open_trace(write_trace(tmp_path / "ours", slow_consumer().blocks)).path
    written(tmp_path / "theirs", pq.read_table(ours / "seg-000001.parquet"))
    return tmp_path / "theirs"


def test_it_is_read_and_proved_as_ours_is(folder: Path, capsys: Any) -> None:
    ours, theirs = (list(open_trace(folder.parent / name).rows()) for name in ("ours", "theirs"))
    assert [(row.seq, row.command, row.starved_us) for row in theirs] == [
        (row.seq, row.command, row.starved_us) for row in ours
    ]
    assert run(["trace", "verify", str(folder)]) == 0, capsys.readouterr()


def test_a_line_that_was_changed_is_refused(folder: Path) -> None:
    listed = folder / "_segments.jsonl"
    listed.write_text(listed.read_text().replace('"rows": 10', '"rows": 11'))
    with pytest.raises(TraceError, match=r"line 1 of .* is damaged"):
        open_trace(folder)
