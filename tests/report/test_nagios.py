"""Nagios: one status line with performance data, details below it, the plug-in's exit codes."""

from __future__ import annotations

import re

import pytest

from pulsar_doctor.checkup.result import Tally
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.report.stall_check.formats.nagios import exit_code
from pulsar_doctor.report.stall_check.wanted import Wanted
from tests.report.checkups import caused, checkup, verdict, written

PERFORMANCE = re.compile(
    r"[a-z_]+=\d+;[\d]*;[\d]*;\d*(;\d+)?( [a-z_]+=\d+;[\d]*;[\d]*;\d*(;\d+)?)*"
)


def held(name: str) -> str:
    return name.replace("|", "/")


def read(text: str) -> str:
    """One status line with the only bar, performance data behind it, details below."""
    first, *details = text.split("\n")
    said, performance = first.split("|")
    assert PERFORMANCE.fullmatch(performance)
    assert "|" not in "".join(details)
    return "\n".join([said, *details])


def test_a_whole_answer() -> None:
    run = checkup(
        [verdict("warning", "mail"), verdict("stalled"), verdict("healthy", "search")],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    assert written("nagios", run).splitlines() == [
        "PULSAR STALL-CHECK CRITICAL - 1 of 3 subscriptions stalled: billing on"
        " public/default/orders: permits-exhausted of worker-3; 1 topic unreachable"
        "|stalled=1;;0;0;3 warning=1;0;;0;3 unknown=0;;;0;3 healthy=1;;;0;3"
        " unreachable=1;;;0 not_loaded=0;;;0",
        "STALLED billing on public/default/orders: permits-exhausted of worker-3",
        "WARNING mail on public/default/orders: permits-exhausted of worker-3",
        "UNREACHABLE persistent://a/b/gone: 404: no such topic",
    ]


@pytest.mark.parametrize(
    ("statuses", "unreachable", "code", "says"),
    [
        ([], 0, 3, "UNKNOWN - no subscription was judged"),
        (["healthy", "healthy"], 0, 0, "OK - 2 subscriptions, 2 healthy"),
        (["warning", "healthy"], 0, 1, "WARNING - 1 of 2 subscriptions warning: billing on"),
        (["warning", "unknown"], 0, 3, "UNKNOWN - 1 of 2 subscriptions unknown: billing on"),
        (["healthy"], 2, 3, "UNKNOWN - 2 topics unreachable: persistent://a/b/0: 404"),
        (["warning"], 1, 3, "UNKNOWN - 1 of 1 subscription warning: billing on"),
        (["stalled", "unknown"], 2, 2, "CRITICAL - 1 of 2 subscriptions stalled: billing on"),
    ],
)
def test_the_state_and_the_code(
    statuses: list[Status], unreachable: int, code: int, says: str
) -> None:
    run = checkup(
        [verdict(status) for status in statuses],
        unreachable=[(f"persistent://a/b/{number}", "404") for number in range(unreachable)],
    )
    assert written("nagios", run).startswith(f"PULSAR STALL-CHECK {says}")
    assert exit_code(run.tally, Wanted()) == code


def test_what_is_not_loaded_alarms_nobody() -> None:
    counts: dict[Status, int] = {"stalled": 0, "unknown": 0, "warning": 0, "healthy": 1}
    assert exit_code(Tally(counts, not_loaded=7), Wanted()) == 0


def test_many_are_cut_and_the_rest_is_counted() -> None:
    stalled = [caused(number) for number in range(14)]
    lines = written("nagios", checkup(stalled)).splitlines()
    assert len(lines) == 8
    assert sum(line.startswith("STALLED") for line in lines) == 6
    assert lines[-1] == "and 8 more: -o json lists them all"


def test_many_with_one_cause_are_one_entry() -> None:
    dead = [verdict("stalled", f"s{number}", backlog=10) for number in range(48)]
    first, *details = written("nagios", checkup([*dead, caused(1, backlog=5)])).splitlines()
    told = "48 subscriptions: s0, s1, s2 and 45 more on public/default/orders: "
    assert f"49 of 49 subscriptions stalled: {told}permits-exhausted, backlog 480 in all|" in first
    heads = [line for line in details if line.startswith("STALLED")]
    assert heads == [
        f"STALLED {told}permits-exhausted, backlog 480 in all",
        "STALLED s1 on public/default/orders: cause-1 of worker-3",
    ]
    assert len(details) < 8
