"""From random bytes on the wire to sealed Parquet, and back through every reader, for as long as
is wanted: each frame is a row, whatever its bytes, and no reader fails.

    pytest -m slow tests/trace/test_fuzz_to_readers.py -s
    PULSAR_DOCTOR_FUZZ_SECONDS   how long, 600 by default
    PULSAR_DOCTOR_FUZZ_SEED      what to begin with; a failure tells its own, to be tried alone
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.errors import FramingError
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.verifying import verify
from pulsar_doctor.wire.columns import SET_ASIDE, UNPARSED
from pulsar_doctor.wire.framing import Cutter
from pulsar_doctor.wire.journal import DIRECTIONS, pack_event
from tests.made.traces import values, write_trace
from tests.made.wire import MASK, Wire
from tests.trace.readers import ALL, FEW
from tests.trace.test_any_bytes import as_frame, fitting, strange_strings, subscribe
from tests.wire import fuzz_wire

pytestmark = pytest.mark.timeout(7200)
ANALYZED_TOGETHER = 25  # traces: Spark takes seconds for each question
SIMULATE = ("simulate", "-s", "billing", "--process-time", "1ms", "-o", "json", "--from-trace")
CODES = {0, 1, 2, 3, 4, 5, 6}  # 2: what nagios calls critical; else it comes with a sentence
Run = Callable[..., tuple[int, str, str]]


@dataclass
class Counted:
    """How far it came."""

    traces: int = 0
    wire_bytes: int = 0
    frames: int = 0
    rows: int = 0
    readings: int = 0
    analyzed: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)


def name_of(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 5, 30, 200, 1023, 1025, 5000)))


def stream_of(chance: random.Random) -> bytes:
    """Mostly what a client or broker could say; then with strings that are no text; or anything."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randrange(300))
    if kind == 1:
        return b"".join(
            as_frame(chance.choice(fuzz_wire.CODES) & 127, chance.randbytes(chance.randrange(60)))
            for _ in range(chance.randrange(1, 30))
        )
    if kind == 2:
        return subscribe(*(name_of(chance) for _ in range(3)))
    stream = fuzz_wire.stream_of(fuzz_wire.Tape(chance.randbytes(chance.randrange(50, 400))))
    return strange_strings(stream) if kind < 6 else stream


def speak(said: Wire, chance: random.Random, conn_id: int, counted: Counted) -> int:
    """One way of one connection, cut as a socket may cut it; how many rows it must make."""
    stream = stream_of(chance)
    pieces = fuzz_wire.pieces_of(fuzz_wire.Tape(chance.randbytes(12)), stream)
    direction = chance.choice(DIRECTIONS)
    cutter, broken = Cutter(fuzz_wire.HELD), False
    for piece in pieces:
        try:
            cutter.feed(piece)
        except FramingError as error:
            broken = True
            records = [
                *MASK.pack_all(cutter.frames),
                pack_event(UNPARSED, error_message=str(error)),
            ]
            said.say(direction, *records, conn_id=conn_id)
            break
        said.say(direction, *MASK.pack_all(cutter.frames), conn_id=conn_id)
    expected = fuzz_wire.cut_with_care(stream)
    assert expected.broken == broken
    counted.wire_bytes += len(stream)
    counted.frames += len(expected.frames)
    return len(expected.frames) + broken


def a_round(
    seed: int,
    path: Path,
    run: Run,
    counted: Counted,
    most: int = 200,
    readers: Any = (*ALL, SIMULATE),
) -> None:
    """A trace of 10 to `most` streams of one way each, and these readers of it."""
    chance = random.Random(seed)
    said = Wire().open().attached().flow(chance.choice((0, 1, 5, 1000)))
    said.pushed(range(3))
    expected = 8 + sum(
        speak(said, chance, at % 3, counted) for at in range(chance.randrange(10, most))
    )
    if chance.randrange(2):
        said.close()
        expected += 1
    write_trace(path, said.blocks, parts=chance.randrange(1, 4), trace_id=f"fuzz-{seed}")
    unsealed = list(Trace(path).rows())
    counted.unparsed.update(row.error_code or "" for row in unsealed if row.command == UNPARSED)
    before = fitting(unsealed)
    assert len(before) == expected, "each frame is a row"
    for reader in readers:
        code, out, err = run(*reader, path)
        assert code in CODES, reader
        assert "mistake" not in err, (reader, err)
        assert "damaged" not in err, (reader, err)
        assert out, reader
        assert all(line.isprintable() for line in f"{out}{err}".split("\n")), reader
        if "json" in reader:
            json.loads(out)
        counted.readings += 1
    lines = run("trace", "show", "-o", "jsonl", path)[1].splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(expected))
    assert values(Trace(path).rows()) == before, "the same rows, sealed and not"
    found = verify(path)
    assert (found.sealed_rows, found.problems) == (expected, [])
    counted.traces += 1
    counted.rows += expected


def analyzed(folder: Path, rows: int, run: Run) -> None:
    code, out, err = run("analyze", "-q", "-o", "json", folder)
    assert code in (0, 1, 3), err
    assert "mistake" not in err, err
    assert json.loads(out)["events"] == rows


@pytest.mark.parametrize("seed", [-1, -2, -3, -4])
def test_whatever_the_bytes_each_command_is_a_row_that_every_reader_reads(
    tmp_path: Path, run: Run, seed: int
) -> None:
    a_round(seed, tmp_path / "t.ptrace", run, Counted(), most=20, readers=FEW)


@pytest.mark.slow
def test_whatever_the_wire_says_is_a_row_that_every_reader_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Run, spark: Any
) -> None:
    seconds = float(os.environ.get("PULSAR_DOCTOR_FUZZ_SECONDS", "600"))
    seed = int(os.environ.get("PULSAR_DOCTOR_FUZZ_SEED", "1"))
    counted, together, until = Counted(), tmp_path / "together", time.monotonic() + seconds
    rows = 0
    while time.monotonic() < until:
        before = counted.rows
        try:
            a_round(seed, together / f"{seed}.ptrace", run, counted)
        except BaseException as error:
            error.add_note(f"PULSAR_DOCTOR_FUZZ_SEED={seed}")
            raise
        rows += counted.rows - before
        seed += 1
        if counted.traces % ANALYZED_TOGETHER == 0:
            analyzed(together, rows, run)
            shutil.rmtree(together)
            counted.analyzed, rows = counted.analyzed + rows, 0
    with capsys.disabled():
        print(f"\n{counted}", file=sys.stderr)
    assert counted.rows > counted.frames > 0
    assert SET_ASIDE not in counted.unparsed, "no command broke its reader"
