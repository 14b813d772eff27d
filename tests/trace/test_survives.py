"""What may happen to a trace on a disk: damage, in any file, at any place."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace import ring
from pulsar_doctor.trace.keeping import kept_in
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.trace.verifying import verify
from tests.made.damage import cut, flipped, swapped, twice, zeroed
from tests.made.traces import relay_alive, values, write_trace
from tests.made.wire import Wire, slow_consumer

SEED = 20261121
KINDS = (flipped, flipped, swapped, cut, zeroed, twice)


def said() -> Wire:
    """Two consumers, so that more than one has a ledger to lose."""
    wire = slow_consumer(100)
    wire.open(1).attached(5, "other", conn_id=1).flow(100, 5, conn_id=1)
    for first in range(0, 60, 3):
        wire.pushed(range(first, first + 3), 5, conn_id=1).acked([first], 5, conn_id=1).wait(0.3)
    return wire


BLOCKS = said().blocks


def whole_trace(path: Path) -> Path:
    write_trace(path, BLOCKS, parts=6)
    with relay_alive(path), Sealer(path) as sealer:
        for number in (1, 2, 3):
            list(sealer.sealing_steps(list(range(number, 7))))
    return path


def ring_trace(path: Path) -> Path:
    """A ring that has dropped a third, and has journals that are not sealed."""
    write_trace(path, BLOCKS, parts=9)
    ring.begin(path, RingLimits(ring_seconds=6))
    with relay_alive(path), Sealer(path) as sealer:
        for number in range(1, 8):
            list(sealer.sealing_steps(list(range(number, 10))))
        sealer.follow()
        kept = sealer.keep("a stall", 0)
    assert kept is not None
    assert Trace(path).expired().rows > 50
    assert len(Trace(path).parts()) > 2
    return path


def kept_trace(path: Path) -> Path:
    (kept,) = kept_in(ring_trace(path))
    return kept


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("damages", [25, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("made", [whole_trace, ring_trace, kept_trace])
def test_whatever_is_damaged_is_found_or_does_no_harm(
    tmp_path: Path, made: Callable[[Path], Path], damages: int
) -> None:
    path = made(tmp_path / "t")
    rows, ledgers = values(Trace(path).rows()), Trace(path).timeline().state()
    files = sorted(
        file for file in path.iterdir() if file.is_file() and file.stat().st_size and ours(file)
    )
    assert len({file.name[:4] for file in files}) >= 3
    newest = max((file for file in files if file.name.startswith(".journal")), default=None)
    chance = random.Random(SEED)
    outcomes: dict[str, int] = {}
    for number in range(damages):
        file = chance.choice(files)
        kind = chance.choice(KINDS)
        data = file.read_bytes()
        file.write_bytes(kind(chance, data))
        outcome = look(path, rows, ledgers, end=file == newest and kind is cut)
        assert outcome != "unnoticed", f"{number}: {kind.__name__} of {file.name}"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        file.write_bytes(data)
    assert look(path, rows, ledgers) == "harmless"
    assert outcomes["found"] > damages / 3


def ours(file: Path) -> bool:
    """Journals, segments, the list, the ledgers: _meta.json holds words that nothing confirms."""
    return file.name.startswith((".journal", "seg-", "_segments", ".state"))


def look(
    path: Path, rows: list[tuple[Any, ...]], ledgers: dict[str, Any], *, end: bool = False
) -> str:
    """What somebody finds who verifies the trace, and who reads it without that.

    end: the newest journal was cut short; between two blocks that is a relay that was killed then.
    """
    found = verify(path)
    try:
        read = values(Trace(path).rows())
        state = Trace(path).timeline().state()
    except TraceError:
        assert found.status == "damaged", found
        return "found"
    if found.status == "damaged":
        return "found"
    if (read, state) == (rows, ledgers):
        return "harmless"
    if found.status == "torn" and any("were cut off" in note for note in found.notes):
        assert is_sound(read, rows), "what is there is not what was written"
        return "torn"
    if end and found.status == "torn" and read == rows[: len(read)]:
        return "ended earlier"
    return "unnoticed"


def is_sound(read: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> bool:
    """Whether nothing but the end is missing, but for what a GAP says is not known."""
    same = next((at for at, (a, b) in enumerate(zip(read, rows, strict=False)) if a != b), None)
    return same is None or "GAP" in read[same]


@pytest.mark.parametrize("seed", range(6))
def test_segments_that_have_changed_places_are_found(tmp_path: Path, seed: int) -> None:
    path = whole_trace(tmp_path / "t")
    chance = random.Random(seed)
    pattern = chance.choice(["seg-*.parquet", ".journal-*.pdj"])
    first, second = chance.sample(sorted(path.glob(pattern)), 2)
    first.rename(path / "between")
    second.rename(first)
    (path / "between").rename(second)
    assert verify(path).status == "damaged"
    if pattern.startswith(".journal"):
        open_trace(path)
        assert verify(path).status == "damaged"


def test_opening_a_damaged_trace_destroys_nothing_more(tmp_path: Path) -> None:
    """What can still be read stays readable, however often it is opened."""
    chance = random.Random(SEED)
    for number in range(10):
        path = whole_trace(tmp_path / str(number))
        file = chance.choice(sorted(filter(ours, path.iterdir())))
        file.write_bytes(chance.choice(KINDS)(chance, file.read_bytes()))
        once = opened(path)
        assert opened(path) == once, f"{number}: {file.name}"
        shutil.rmtree(path)


def opened(path: Path) -> object:
    try:
        return values(open_trace(path).rows())
    except TraceError as error:
        return str(error)
