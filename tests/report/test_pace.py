"""What sets the pace and what would help, on the screen, with -v, on the page and in JSON."""

from __future__ import annotations

import io

import pytest

from pulsar_doctor.model.levers import Lever
from pulsar_doctor.report.pace import lever_rows
from pulsar_doctor.report.stall_check.details import print_healthy
from pulsar_doctor.report.stall_check.document import as_json
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.tree import JudgedSubscription
from pulsar_doctor.wording.consoles import GatedConsole
from tests.made.states import judged, recorded
from tests.report.test_block import drawn

SLOW = "slow-but-progressing"


def test_three_rows_are_below_a_warning_of_a_slow_consumer() -> None:
    lines = drawn(judged(SLOW, recorded("4.0.8", SLOW)), width=200)
    assert [line[2:8].strip() for line in lines[-3:]] == ["pace", "helps", "no use"]
    assert lines[-3].endswith("the application sets the pace: 1.02 s for each message (slow)")
    assert "2 consumers: 1.97/s, catches up in 17 min" in lines[-2]


@pytest.mark.parametrize("name", ["healthy-idle", "no-consumer", "prefetch-hogging"])
def test_where_nothing_is_slow_or_all_stands_still_there_are_none(name: str) -> None:
    lines = drawn(judged(name, recorded("4.0.8", name)))
    assert not any(line.startswith("  pace ") for line in lines)


def test_a_healthy_one_says_it_with_v() -> None:
    name = "healthy-slow-and-often-without-permits"
    diagnosis = judged(name, recorded("4.0.8", name))
    folded = JudgedSubscription.of(diagnosis)
    for verbose in (True, False):
        out = io.StringIO()
        print_healthy(Pen(GatedConsole(file=out, width=100), verbose, tells_backlog=True), folded)
        assert ("the application sets the pace" in out.getvalue()) is verbose


def test_json_has_each_limit_and_each_lever() -> None:
    shown = as_json(judged(SLOW, recorded("4.0.8", SLOW)).pace)
    assert [each["limit"] for each in shown["limits"]] == [
        "application", "queue", "acknowledgements", "dispatch", "redeliveries",
    ]  # fmt: skip
    assert shown["levers"][0] == {
        "lever": "consumers", "value": 2, "rate": 1.9695, "gain": 2.0,
        "catch_up_seconds": 1010.4, "why": None,
    }  # fmt: skip
    assert "work" not in shown
    assert as_json(None) is None


def test_levers_that_bring_nothing_are_named_once_with_their_reason() -> None:
    nothing = [Lever("consumers", 2, 1.0, 1.0, None, "one key has 90% of the messages")] * 2
    helps = Lever("dispatch rate", 100.0, float("inf"), 2.0, None, None)
    assert [*lever_rows((helps, *nothing))] == [
        ("helps", "a dispatch rate of 100/s: no limit is known then"),
        ("no use", "2 consumers: one key has 90% of the messages"),
    ]
