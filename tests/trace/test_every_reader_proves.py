"""No reader speaks for segments that are not as they were sealed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_doctor import cli
from pulsar_doctor.trace.sealing import open_trace
from tests.made.traces import write_trace
from tests.made.wire import slow_consumer
from tests.trace.readers import FEW

SEGMENT = "seg-000001.parquet"
READERS = (
    *FEW, ("trace", "show", "--since", "1s"), ("stall-check", "--trace"), ("holes", "--trace"),
    ("simulate", "--from-trace"),
)  # fmt: skip


def flip(segment: Path, at: int) -> None:
    content = bytearray(segment.read_bytes())
    content[at % len(content)] ^= 1
    segment.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit of a page": lambda segment: flip(segment, 200),
    "a bit of the footer": lambda segment: flip(segment, -40),
    "half of it": lambda segment: segment.write_bytes(segment.read_bytes()[:2000]),
    "deleted": lambda segment: segment.unlink(),
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Its ledgers are saved, so that no row need be read to know how it ended."""
    blocks = slow_consumer().blocks
    path = open_trace(write_trace(tmp_path / "t.ptrace", blocks)).path
    assert (path / ".state-000001").exists()
    return path


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_damage_is_never_judged(
    trace: Path, capsys: pytest.CaptureFixture[str], reader: tuple[str, ...], damage: str
) -> None:
    assert_refused(trace, capsys, reader, damage)


@pytest.mark.usefixtures("outside")  # its Java is on its way by then
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_never_analyzed(
    trace: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    assert_refused(trace, capsys, ("analyze", "-q"), damage)


def assert_refused(
    trace: Path, capsys: pytest.CaptureFixture[str], reader: tuple[str, ...], damage: str
) -> None:
    DAMAGES[damage](trace / SEGMENT)
    code = cli.run([*reader, str(trace)])
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert told.err.count("\n") == 1
    assert f"{SEGMENT} is {'missing' if damage == 'deleted' else 'damaged'}" in told.err
