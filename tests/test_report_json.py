"""The JSON of stall-check, and what holds for every format."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from checkups import any_verdict, checkup, verdict, written
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.cli import stall_check
from pulsar_doctor.diagnosis import Diagnosis
from pulsar_doctor.report.checkup import Tally
from pulsar_doctor.report.folding import Folded
from pulsar_doctor.report.formats import FORMATS, write


def test_a_whole_document() -> None:
    run = checkup(
        [verdict("stalled", partition=3), verdict("unknown", "audit", backlog=None)],
        not_loaded=["persistent://a/b/quiet"],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    text = written("json", run)
    assert len(text.splitlines()) == 4
    assert json.loads(text) == {
        "schema": "pulsar-doctor/stall-check/1",
        "checked_at": "2026-05-01T12:00:00.250Z",
        "source": "broker",
        "window_seconds": 10.0,
        "samples": 11,
        "subscriptions": [
            {
                "topic": "persistent://public/default/orders",
                "partition": 3,
                "subscription": "billing",
                "type": "Shared",
                "status": "stalled",
                "backlog": 498,
                "findings": [
                    {
                        "code": "permits-exhausted",
                        "severity": "stalled",
                        "confidence": 0.9,
                        "consumer": "worker-3",
                        "summary": "worker-3 holds 500 messages and has 0 permits",
                        "evidence": [
                            {"name": "available_permits", "value": 0, "unit": "permits"},
                            {"name": "last_ack", "value": 720, "unit": "seconds"},
                        ],
                        "remedy": "Give this consumer a smaller receiver queue.",
                        "explain": "pulsar-doctor explain permits-exhausted",
                    }
                ],
                "not_told": [],
            },
            {
                "topic": "persistent://public/default/orders",
                "partition": None,
                "subscription": "audit",
                "type": "Shared",
                "status": "unknown",
                "backlog": None,
                "findings": [],
                "not_told": ["broker-read-stuck: one sample does not show whether it moves"],
            },
        ],
        "not_loaded": ["persistent://a/b/quiet"],
        "unreachable": [{"topic": "persistent://a/b/gone", "reason": "404: no such topic"}],
        "notes": [],
    }


def test_nothing_examined_is_a_document_too() -> None:
    assert json.loads(written("json", checkup([])))["subscriptions"] == []


def test_each_subscription_is_written_before_the_next_is_asked_for() -> None:
    out = io.StringIO()
    seen = []

    def coming() -> Iterator[Diagnosis]:
        for number in range(4):
            seen.append(out.getvalue().count('"subscription": '))
            yield verdict(subscription=f"s{number}")

    write("json", checkup(coming()), out)
    assert seen == [0, 1, 2, 3]


def test_what_goes_wrong_while_the_verdicts_come_is_in_the_document() -> None:
    run = checkup([])

    def coming() -> Iterator[Diagnosis]:
        yield verdict()
        run.unreachable.append(("persistent://a/b/deleted", "404"))
        run.samples = 3

    run.diagnoses = coming()
    found = json.loads(written("json", run))
    assert found["samples"] == 3
    assert found["unreachable"] == [{"topic": "persistent://a/b/deleted", "reason": "404"}]


@settings(deadline=None)
@given(st.lists(any_verdict(), max_size=4))
def test_any_name_comes_back(diagnoses: list[Diagnosis]) -> None:
    found = json.loads(written("json", checkup(diagnoses)))["subscriptions"]
    assert [(one["topic"], one["subscription"], one["backlog"]) for one in found] == [
        (one.topic, one.subscription, one.backlog) for one in diagnoses
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_counts_what_went_by(name: str) -> None:
    run = checkup(
        [verdict("stalled"), verdict("unknown"), verdict(), verdict(partition=1)],
        not_loaded=["persistent://a/b/c"],
        unreachable=[("persistent://a/b/d", "no")],
    )
    tally = write(name, run, io.StringIO())
    counts = {"stalled": 1, "unknown": 1, "warning": 0, "healthy": 2}
    assert tally == Tally(counts, unreachable=1, not_loaded=1)  # type: ignore[arg-type]
    assert tally.subscriptions == 4


def living() -> int:
    """How many verdicts, or parts of them, are in memory."""
    return sum(isinstance(one, Diagnosis | Folded) for one in gc.get_objects())


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_keeps_the_verdicts_that_are_healthy(name: str) -> None:
    kept = []

    def coming() -> Iterator[Diagnosis]:
        for number in range(200):
            yield verdict(subscription=f"s{number}")
            yield verdict(subscription="one", partition=number)
        kept.append(living())

    gc.collect()
    before = living()
    write(name, checkup(coming()), io.StringIO())
    assert kept[0] - before < 20


NAME = "zw\u00f6lf \u732b \ufffd"
ESCAPED = {  # formats that have characters of their own for what is not ASCII
    "json": r"zw\u00f6lf \u732b \ud800",
    "jsonl": r"zw\u00f6lf \u732b \ud800",
    "junit": "zw&#246;lf &#29483; &#65533;",
}


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
@pytest.mark.parametrize("name", FORMATS)
def test_no_encoding_of_stdout_breaks_a_report(name: str, encoding: str) -> None:
    program = (
        "import sys\n"
        "from checkups import checkup, verdict\n"
        "from pulsar_doctor.report.formats import write\n"
        "odd = [verdict('stalled', 'zw\\u00f6lf \\u732b \\ud800'), verdict('unknown', 'last')]\n"
        f"write({name!r}, checkup(odd), sys.stdout)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONIOENCODING": encoding, "PYTHONPATH": ":".join(sys.path)},
        check=True,
        capture_output=True,
    )
    if name == "prometheus":
        encoding = "utf-8"  # whatever stdout is: its format knows no other
    shown = ESCAPED.get(name, NAME).encode(encoding, "backslashreplace").decode(encoding)
    text = ran.stdout.decode(encoding)
    assert shown in text
    assert text.index(shown) < text.rindex("last"), "it goes on behind it"
    assert ran.stderr == b""


def test_the_command_line_reads_the_one_list_of_formats() -> None:
    [output] = [each for each in stall_check.command.params if each.name == "output"]
    assert isinstance(output.type, click.Choice)
    assert list(output.type.choices) == list(FORMATS)
    assert stall_check.FORMATS is FORMATS
