"""What a person reads of a process that was looked into."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest

from pulsar_doctor.evidence.process_report import ProcessReport, Sitting
from pulsar_doctor.parts.examine import report as screen

SLEEPS = Sitting(
    "pool-1", "application", "TIMED_WAITING", "java.lang.Thread.sleep (Native Method)",
    "com.acme.A.b (A.java:7)", id=1, seconds=9.0, inside=("java.lang.Thread.sleep",),
)  # fmt: skip
WHERE = "java.lang.Thread.sleep under com.acme.A.b (A.java:7)"


def threads(*sittings: Sitting, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines below `threads`."""
    monkeypatch.setitem(os.environ, "COLUMNS", "200")
    out = io.StringIO()
    screen.write(ProcessReport(1, "java", "jvm", threads=sittings, has_threads=True), out)
    lines = [line.strip() for line in out.getvalue().splitlines() if line.strip()]
    return lines[lines.index("threads") + 1 :]


def test_threads_that_are_at_the_same_place_are_one_line_with_the_least_of_their_times(monkeypatch):
    others = [replace(SLEEPS, thread=f"pool-{at}", id=at, seconds=8.0) for at in range(2, 3001)]
    ear = replace(SLEEPS, thread="ear", role="listens")
    assert threads(SLEEPS, *others, ear, monkeypatch=monkeypatch) == [
        f"ear (listens): {WHERE}, for 9 s or longer",
        f"pool-1 and 2999 more (application): {WHERE}, for 8 s or longer",
    ]


def test_places_beyond_those_that_are_listed_are_counted_by_their_threads(monkeypatch):
    lines = [
        replace(SLEEPS, line=f"com.acme.A.b (A.java:{at})", thread=f"t{at}-{each}")
        for at in range(screen.LISTED_MOST + 2)
        for each in range(3)
    ]
    assert threads(*lines, monkeypatch=monkeypatch)[-1] == "and 6 more"


@pytest.mark.parametrize(
    ("sitting", "says"),
    [
        (SLEEPS, ", for 9 s or longer"),
        (replace(SLEEPS, since_look=True), ", for 9 s or longer; longer was not measured"),
        (replace(SLEEPS, seconds=None), ""),
    ],
)
def test_for_how_long_is_a_bound_that_says_what_was_measured(sitting, says, monkeypatch):
    (line,) = threads(sitting, monkeypatch=monkeypatch)
    assert line == f"pool-1 (application): {WHERE}{says}"
