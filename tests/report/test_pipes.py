"""What is piped: whole lines, without spaces at their ends, to be searched and cut."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.report.paper import Unpadded, console_on
from pulsar_doctor.report.stall_check.formats import write
from tests.made.traces import write_trace
from tests.made.wire import TOPIC, Wire, slow_consumer
from tests.report.checkups import checkup, finding, verdict
from tests.support.command_line import environment

LONGER_THAN_ANY_SCREEN = "persistent://public/default/" + "a-topic-with-a-long-name-" * 8


def piped(*arguments: str, **more: str) -> list[str]:
    """The lines of the program's stdout in a pipe, without COLUMNS unless that is given."""
    told = {name: value for name, value in environment().items() if name != "COLUMNS"} | more
    ran = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", *arguments],
        env=told, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr
    return ran.stdout.splitlines()


def ends_plainly(lines: list[str]) -> bool:
    return bool(lines) and not [line for line in lines if line != line.rstrip()]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Consumers that hold messages, some of them acknowledged out of order, on a long name."""
    said = Wire().open()
    for number, topic in enumerate((TOPIC, LONGER_THAN_ANY_SCREEN), 1):
        said.attached(number, f"worker-{number}", topic=topic).flow(10, number)
        said.pushed(range(10), number).acked([3, 5], number)
    return str(write_trace(tmp_path / "incident.ptrace", said.wait(600).blocks))


def test_verdicts(trace: str) -> None:
    lines = piped("stall-check", "--trace", trace)
    assert ends_plainly(lines)
    short = LONGER_THAN_ANY_SCREEN.removeprefix("persistent://public/default/")
    assert [line for line in lines if f" on {short}; cause: permit-leak of worker-2" in line]
    sentences = [line for line in lines if short not in line and not line.startswith("  check ")]
    assert 80 < max(map(len, sentences)) <= 100
    assert [line for line in lines if line.startswith("  check ") and f"{short} -s" in line]


def test_very_many_verdicts_are_a_row_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    causes = [(finding(f"cause-{n}"),) for n in range(9)]
    told = (verdict("stalled", topic=LONGER_THAN_ANY_SCREEN, findings=each) for each in causes)
    write("table", checkup(told), out)
    lines = out.getvalue().splitlines()
    assert ends_plainly(lines)
    assert (
        len(
            [line for line in lines if LONGER_THAN_ANY_SCREEN.removeprefix("persistent://") in line]
        )
        == 9
    )


def test_holes(trace: str) -> None:
    lines = piped("holes", "--trace", trace)
    assert ends_plainly(lines)
    assert [line for line in lines if LONGER_THAN_ANY_SCREEN in line]
    assert 80 < max(len(line) for line in lines if line.startswith("  note ")) <= 100


def test_a_heading_of_holes_does_not_run_into_its_text(tmp_path: Path) -> None:
    said = Wire().open().attached().flow(10).pushed(range(3)).acked([0, 1, 2]).wait(5)
    line, ask = piped("holes", "--trace", str(write_trace(tmp_path / "t", said.blocks)))
    assert f"on {TOPIC}, Shared: no holes" in line
    assert ask == f"  is it stalled?  pulsar-doctor stall-check {TOPIC} -s billing"


def test_a_simulation() -> None:
    asked = ("simulate", "--backlog", "100", "--process-time", "1s")
    lines = piped(*asked)
    assert ends_plainly(lines)
    assert max(map(len, lines)) <= 100
    [titles] = [line for line in piped(*asked, COLUMNS="140") if "most queued" in line]
    assert "FLOW after" in titles  # one of the first columns to be left out for want of room


def test_explanations() -> None:
    assert ends_plainly(piped("explain"))
    for rule in load()[:2]:
        assert ends_plainly(piped("explain", rule.code)), rule.code


def test_columns_in_the_environment_are_a_wish(trace: str) -> None:
    lines = piped("stall-check", "--trace", trace, COLUMNS="60")
    folded = [line for line in lines if not line.startswith(("  run ", "  check "))]
    assert max(len(line) for line in folded if max(map(len, line.split()), default=0) < 40) <= 60
    assert ends_plainly(lines)


def test_a_terminal_keeps_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = os.openpty()
    with open(theirs, "w") as out:  # noqa: PTH123 - no path
        assert console_on(out).width < 1000
        assert console_on(out).is_terminal
    os.close(ours)


def test_a_trace_is_neither_padded_nor_folded(tmp_path: Path) -> None:
    topic = "persistent://public/default/" + "a-long-name-" * 20 + "in-the-end"
    said = slow_consumer()
    said.attached(2, "quick", topic=topic).flow(1000, 2)
    trace = write_trace(tmp_path / "t.ptrace", said.wait(1).close().blocks)
    for command in ("summary", "show", "verify"):
        lines = piped("trace", command, str(trace))
        assert lines
        assert [line for line in lines if line != line.rstrip() or not line] == []
        if command == "summary":
            assert sum(topic.removeprefix("persistent://") in line for line in lines) == 1


@pytest.mark.timeout(20)
def test_wide_gaps_between_columns_cost_no_more_than_their_room() -> None:
    out = io.StringIO()
    line = f"a{' ' * 100_000}b{' ' * 100_000}\n"
    Unpadded(out).write(line * 3)
    assert out.getvalue() == f"a{' ' * 100_000}b\n" * 3
