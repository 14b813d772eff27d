"""What holds for every format of stall-check's report, whatever others have called their things.

Each format has a test file beside this one, `test_NAME.py`, whose `read(text)` is that
format's own reader. It fails where the text is not one whole report, and gives what the report
carries: of a format for programs a list, for each subscription what it is told of it, then for
each topic that could not be read; of one for people the text, with its escapes undone. `held(name)`
is a name as far as the format can hold it, where it cannot hold every one; `ordered(diagnoses)`
their order in the report, where that is not the order in which they come;
`says_that_it_is_cut(text)`: names may be missing, and the report says so.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import click
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_doctor.checkup.result import REST, Cluster, Tally
from pulsar_doctor.cli import stall_check
from pulsar_doctor.diagnosis.answers import Severity, Suspect
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.stall_check.document import as_json
from pulsar_doctor.report.stall_check.formats import FORMATS, write
from pulsar_doctor.report.stall_check.tree import JudgedSubscription
from pulsar_doctor.wording.printable import printable
from tests.report.checkups import (
    HOSTILE,
    STATUSES,
    actions_on,
    any_verdict,
    checkup,
    finding,
    names,
    texts,
    verdict,
    written,
)

WIDTHS = (60, 80, 120, 200)  # of a terminal
IN_DETAIL_MOST = 5  # of more than these, what people read names some beside each other
Unread = list[tuple[str, str]]


# The formats' own test files, found by their presence. They have @given of their own.
READERS = {name: importlib.import_module(__name__.replace("formats", name)) for name in FORMATS}


def its(name: str) -> Any:
    return READERS[name]


def facts(of: Diagnosis) -> dict[str, Any]:
    return {
        "topic": of.topic,
        "partition": of.partition,
        "full_topic": of.full_topic,
        "subscription": of.subscription,
        "status": of.status,
        "backlog": of.backlog,
        "consumers": [finding.consumer for finding in of.findings],
        "summaries": [finding.summary for finding in of.findings],
        "not_told": list(of.unknowns),
        "known_issues": as_json(of.known_issues),
    }


def unread_facts(topic: str, reason: str) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("partition", "subscription", "backlog"))
    nothing |= {"consumers": [], "summaries": [], "status": "unknown", "known_issues": []}
    return nothing | {"topic": topic, "full_topic": topic, "not_told": [reason]}


def as_held(value: Any, held: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [as_held(each, held) for each in value]
    return held(value) if isinstance(value, str) else value


def squeezed(text: str) -> str:
    """Without what a line's end may have taken away."""
    return "".join(text.split())


different = st.lists(  # a broker has no two of one name, nor does a format that spells two alike
    any_verdict(),
    max_size=9,
    unique_by=lambda of: (printable(of.topic), of.partition, printable(of.subscription)),
)
not_read = st.lists(st.tuples(names, texts), max_size=2)
EVIL = "".join(HOSTILE)


def evil(status: Status, which: str) -> Diagnosis:
    severity: Severity = "warning" if status == "warning" else "stalled"
    actions = actions_on(EVIL)
    found = (finding(severity=severity, consumer=EVIL, summary=EVIL, actions=actions),)
    ill = status in ("stalled", "warning")
    return verdict(status, which, EVIL, findings=found if ill else (), unknowns=(EVIL,))


ONE_OF_EACH = [evil(status, f"{EVIL}{number}") for number, status in enumerate(STATUSES)]
# Its last line is as wide as the narrowest terminal if what prints nothing has no width.
CODED = verdict("unknown", suspects=(Suspect("0000000X\x10\u732b\u732b", None, 0.0, ""),))
MANY = [evil("stalled", f"{number}{EVIL}") for number in range(9)]


@settings(deadline=None, max_examples=50)
@given(diagnoses=different, unread=not_read, width=st.sampled_from(WIDTHS))
@example(diagnoses=ONE_OF_EACH, unread=[(EVIL, EVIL)], width=WIDTHS[-1])
@example(diagnoses=[], unread=[(EVIL, EVIL)], width=WIDTHS[-1])
@example(diagnoses=[], unread=[("0", ""), ("00", "")], width=WIDTHS[0])
@example(diagnoses=[CODED], unread=[], width=WIDTHS[0])
@example(diagnoses=MANY, unread=[], width=WIDTHS[0])
@example(diagnoses=MANY, unread=[], width=WIDTHS[-1])
def test_no_name_breaks_a_report_and_each_is_told(
    diagnoses: list[Diagnosis], unread: Unread, width: int
) -> None:
    """Of all formats in one: to draw the names takes longer than to write and read them."""
    with patch.dict(os.environ, {"COLUMNS": str(width)}):
        for name in FORMATS:
            try:
                assert_each_is_told(name, diagnoses, unread)
            except Exception as error:
                error.add_note(f"by the format {name!r}")
                raise


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_that_a_document_is_cut_off(name: str) -> None:
    why = "a.json is cut off within its subscriptions"
    text = written(name, checkup([verdict("healthy")], unreachable=[(REST, why)]))
    first = text.partition("\n")[0]
    assert ('topics_unreachable{cluster=""} 1' if name == "prometheus" else why) in text
    assert name != "nagios" or why in first.partition("|")[0]
    assert "topic could not be read" not in text
    assert "topic unreachable" not in text


def assert_each_is_told(name: str, diagnoses: list[Diagnosis], unread: Unread) -> None:
    run = checkup(
        diagnoses,
        unreachable=unread,
        not_loaded=[topic for topic, _ in unread],
        notes=unread,
    )
    run.cluster, run.files = Cluster(EVIL, EVIL, EVIL), (EVIL,)
    text = written(name, run, header=True, consumers=True)
    assert all(line.isprintable() for line in text.split("\n")), "nothing acts on a terminal"
    told = its(name).read(text)
    held = getattr(its(name), "held", str)
    diagnoses = getattr(its(name), "ordered", list)(diagnoses)
    if isinstance(told, str):
        assert text.endswith("\n")
        if getattr(its(name), "says_that_it_is_cut", lambda _: False)(text):
            return
        shown = [topic for topic, _ in unread]
        if len(diagnoses) <= IN_DETAIL_MOST:
            shown += [one.subscription for one in diagnoses if one.status != "healthy"]
        for each in shown:
            assert squeezed(held(printable(each))) in squeezed(told)
        return
    known = [facts(one) for one in diagnoses] + [unread_facts(*each) for each in unread]
    nothing = name == "junit" and not known  # an error of its own
    assert len(told) in (len(diagnoses), len(known) + nothing)
    for row, fact in zip(told, known, strict=False):
        assert {"full_topic", "topic"} & row.keys()
        assert "subscription" in row
        for field in ("account", "balance", "pace"):  # which no verdict here has
            row.pop(field, None)
        assert row == {key: as_held(fact[key], held) for key in row}


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
    return sum(type(one) in (Diagnosis, JudgedSubscription) for one in gc.get_objects())


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


ODD = "zw\u00f6lf \u732b \ud800"


# One Python for all formats: to import takes longer than to write. A fork for each, since one may
# change the encoding of stdout.
WRITES_EACH = f"""\
import os, sys
from {checkup.__module__} import checkup, verdict
from {write.__module__} import FORMATS, write
odd = [verdict('stalled', {ODD!a}), verdict('unknown', 'last')]
for name in FORMATS:
    if os.fork() == 0:
        write(name, checkup(odd), sys.stdout)
        sys.exit()
    if os.wait()[1] != 0:
        sys.exit(name)
    os.write(1, b"\\0")
"""


@cache
def in_encoding(encoding: str) -> dict[str, bytes]:
    """What each format writes to a stdout of this encoding."""
    ran = subprocess.run(
        [sys.executable, "-c", WRITES_EACH],
        env={"PYTHONIOENCODING": encoding, "PYTHONPATH": ":".join(sys.path)},
        check=False,
        capture_output=True,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    return dict(zip(FORMATS, ran.stdout.split(b"\0"), strict=False))


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
@pytest.mark.parametrize("name", FORMATS)
def test_no_encoding_of_stdout_breaks_a_report(name: str, encoding: str) -> None:
    written_there = in_encoding(encoding)[name]
    module = importlib.import_module(f"{write.__module__}.{name}")
    encoding = getattr(module, "ENCODING", encoding)
    text = written_there.decode(encoding)
    told = its(name).read(text)
    held = getattr(its(name), "held", str)
    if isinstance(told, str):
        shown = printable(ODD).encode(encoding, "backslashreplace").decode(encoding)
        text = text if shown in text else told  # whose escapes are undone
        shown = shown if shown in text else held(printable(ODD))
        assert text.index(shown) < text.rindex("last"), "it goes on behind it"
    else:
        assert [row["subscription"] for row in told] == [held(ODD), "last"]


def test_the_command_line_reads_the_one_list_of_formats() -> None:
    [output] = [each for each in stall_check.command.params if each.name == "output"]
    assert isinstance(output.type, click.Choice)
    assert list(output.type.choices) == list(FORMATS)
    assert stall_check.FORMATS is FORMATS
