"""A case gives the verdicts again that it was made of: the same document to the byte."""

from __future__ import annotations

import gzip
import io
import json
import time
from base64 import b64encode
from dataclasses import MISSING, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.case import SavedCase, case_from, case_of, document_of, for_page, of_case
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.recorded import of_files
from pulsar_doctor.checkup.result import Checkup, Cluster
from pulsar_doctor.checkup.timelines.timeline import Timelines
from pulsar_doctor.diagnosis.answers import DecideStep
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.followup import After, ConsumerAfter, Shift
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.report.stall_check.formats import write
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.typed_json import FORMS, form_of
from tests.cli.checked import Check, check
from tests.made.cases import CASES, views_of
from tests.made.states import FOLDER, RECORDED, VERSIONS
from tests.parts.examine.test_by_process import ONE, looked

__all__ = ["check"]  # a fixture

RULES = load()


def judge(*changes: str, keep_views: bool = True) -> Judge:
    return Judge(RULES, limits_of(RULES, changes), keep_views=keep_views)


def document(checkup: Checkup, format_name: str = "json") -> str:
    """What is printed of it."""
    out = io.StringIO()
    write(
        format_name, replace(checkup), out, wanted=Wanted("stalled", verbose=True, consumers=True)
    )
    return out.getvalue()


def sent(checkup: Checkup, *changes: str) -> SavedCase:
    """The case of a checkup, as it comes out of a file."""
    text = json.dumps(document_of(case_of(checkup, changes)), allow_nan=False)
    return case_from(json.loads(text), "incident.json")


def again(case: SavedCase) -> Checkup:
    time.sleep(0.002)  # so that the time of this call is another one
    return of_case(case, judge(*case.changes, keep_views=False), (), "incident.json")


def made_again(checkup: Checkup, *changes: str) -> Checkup:
    """By way of its case; without a broker the time of the call is another one."""
    made = again(sent(checkup, *changes))
    return made if checkup.cluster else replace(made, checked_at=checkup.checked_at)


def assert_same(checkup: Checkup, *changes: str) -> None:
    assert document(made_again(checkup, *changes)) == document(checkup)


def recorded(version: str, name: str) -> Checkup:
    file = FOLDER / version / f"{name}.jsonl.gz"
    return of_files(SampleFiles([str(file)]), judge(), print)


def assert_same_of_written(case: dict[str, Any]) -> None:
    changes = case.get("set", ())
    made = judge(*changes)
    diagnoses = [made.diagnosed(view, ("stats",)) for view in views_of(case).values()]
    assert_same(Checkup("files", diagnoses), *changes)


@pytest.mark.parametrize(("version", "name"), RECORDED[::20])
def test_a_recorded_state_is_judged_the_same_by_way_of_its_case(version: str, name: str) -> None:
    assert_same(recorded(version, name))


@pytest.mark.parametrize("code", CASES)
def test_a_written_case_is_judged_the_same_by_way_of_its_case(code: str) -> None:
    assert_same_of_written(CASES[code][0])


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_so_is_every_recorded_state(version: str) -> None:
    for name in [name for at, name in RECORDED if at == version]:
        assert_same(recorded(version, name))


@pytest.mark.slow
@pytest.mark.parametrize("code", CASES)
def test_so_is_every_written_case(code: str) -> None:
    for case in CASES[code]:
        assert_same_of_written(case)


def test_what_stands_beside_the_verdicts_is_kept() -> None:
    checkup = recorded(*RECORDED[-1])
    (one,) = checkup.diagnoses
    shifts = (Shift("backlog", None, 5),)
    after = After("not yet", "still so", "stalled", 1.5, shifts, (ConsumerAfter("w", "new"),))
    checkup.diagnoses = [
        replace(one, decide_steps=(DecideStep("s", 1.5, "unknown", "stalled"),), after=after)
    ]
    checkup.cluster = Cluster("standalone", "http://broker:8080", "4.0.8", "here")
    checkup.process = looked([ONE], unknowns=("why not",))
    checkup.notes += [("a/b/c", "a note")]
    checkup.unreachable += [("a/b/d", "refused")]
    checkup.not_loaded += ["a/b/e"]
    checkup.trace_notes, checkup.stopped, checkup.read_once = ("a gap",), True, 3
    assert_same(checkup)
    assert document(made_again(checkup), "table") == document(checkup, "table")
    assert made_again(checkup).checked_at == checkup.checked_at


def test_a_field_that_is_left_out_reads_as_not_reported() -> None:
    form_of(SavedCase)
    form_of(Timelines)  # of a page, which redacting rewrites
    for kind in FORMS:
        hints = get_type_hints(kind)
        for field in fields(kind):
            nullable = NoneType in get_args(hints[field.name])
            assert not nullable or field.default in (None, MISSING), (kind, field.name)


def incident(tmp_path: Path, *, page: bool = False) -> str:
    case = case_of(recorded(VERSIONS[-1], "redelivery-storm"))
    path = tmp_path / "incident"
    path.write_text(PAGE.format(for_page(case)) if page else json.dumps(document_of(case)))
    return str(path)


PAGE = '<!doctype html><script type="application/gzip" id="pulsar-doctor-case">{}</script><p>'


@pytest.mark.parametrize("page", [False, True])
def test_the_command_reads_a_case_and_a_page(check: Check, tmp_path: Path, *, page: bool) -> None:
    state = str(FOLDER / VERSIONS[-1] / "redelivery-storm.jsonl.gz")
    before = check(None, "--stats", state, "-o", "json", credentials=())
    now = check(None, "--case", incident(tmp_path, page=page), "-o", "json", credentials=())
    assert now.code == before.code
    assert now.document | {"checked_at": 0} == before.document | {"checked_at": 0}
    skipped = check(
        None, "--case", incident(tmp_path), "--skip", "redelivery-storm", credentials=()
    )
    assert "skipped: redelivery-storm" in skipped.out


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "is not a case: it is empty; expected is a page of `report`"),
        ("a text", "is not a case: it is plain text of 6 bytes; expected is a page of `report`"),
        ("\0\1", "is not a case: it is not text: a file of 2 bytes; expected is"),
        ('{"a": ', "is not readable JSON: it ends too early, or is wrong, at line 1, column 7"),
        ("[1]", "is not a case; expected is"),
        ('{"schema": "pulsar-doctor/samples/2"}\n{}', "pulsar-doctor/samples/2; expected is"),
        ('{"schema": "pulsar-doctor/case/2"}', "use a newer pulsar-doctor"),
        ('{"schema": "pulsar-doctor/case/1", "head": {}}', "damaged case: it has no"),
        ("[" * 100_000, "not readable JSON"),
        ("<html>", "a page without a case"),
        (PAGE.format("H4sIAA=="), "has a damaged case"),
        (PAGE.format("a"), "has a damaged case"),
        (
            PAGE.format(b64encode(gzip.compress(bytes(2_000), mtime=0)).decode()),
            "longer than any case",
        ),
    ],
)
def test_what_is_no_case_is_refused_in_a_sentence(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, why: str
) -> None:
    if "longer" in why:
        monkeypatch.setattr("pulsar_doctor.checkup.case.CASE_BYTES", 1_000)
    path = tmp_path / "incident"
    path.write_text(content)
    refused = check(None, "--case", str(path), credentials=())
    assert refused.code == 2
    assert why in refused.sentence()


@pytest.mark.parametrize(
    "change",
    [("checked_at", "noon"), ("checked_at", ""), ("samples", "many"), ("source", "x")],
)
def test_a_damaged_head_is_refused(change: tuple[str, Any]) -> None:
    document = document_of(case_of(Checkup("files", [])))
    part = document if change[0] == "checked_at" else document["head"]
    part |= dict([change])
    with pytest.raises(InputError, match="damaged case"):
        case_from(document, "incident.json")


def test_numbers_that_contradict_each_other_are_refused() -> None:
    (view,) = [views_of(case)["stats"] for case in CASES["inactive-failover"][:1]]
    document = document_of(case_of(Checkup("files", [judge().diagnosed(view, ("stats",))])))
    document["subscriptions"][0]["view"]["active"] = 99
    with pytest.raises(InputError, match="its numbers contradict each other"):
        again(case_from(document, "incident.json"))


def test_a_topic_that_it_does_not_have_is_refused(check: Check, tmp_path: Path) -> None:
    refused = check(None, "other", "--case", incident(tmp_path), credentials=())
    assert refused.code == DoctorError.exit_code
    assert "has no such subscription; it has" in refused.sentence()


@pytest.mark.parametrize("option", ["--stats=a", "--trace=a", "--after=a", "--all"])
def test_a_case_stands_alone(check: Check, option: str) -> None:
    assert check(None, "--case", "a", option, credentials=()).code == InputError.exit_code
