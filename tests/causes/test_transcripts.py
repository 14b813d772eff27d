"""Each transcript of tests/causes/<code>.yaml, and all that holds of what its rule answers.

tests/made/cases.py tells what a case has. Each is judged once by each source, and every law is
checked on that answer: it is what the case says, its actions can be taken, its sentences know their
values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from pulsar_doctor.diagnosis.actions.settings import likely_clients
from pulsar_doctor.diagnosis.answers import SEVERITIES, WHENS, Action, Finding
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.wording.sentences import values_in
from tests.causes.broker_script import told_by_broker
from tests.causes.stats_script import observed
from tests.diagnosis.shell import assert_taken, plain_words
from tests.made.cases import BY_BOTH, RULES, Answer, answers_to, each_case, judged, views_of

ANSWERS = {"finds", "silent", "unknown", "not_told"}
KEYS = ANSWERS | {"name", "stats", "wire", "broker", "at", "told", "set", "overall", "codes"}
KEYS |= {"weaker", "inside"}
TOLD_OF_CONSUMERS = (
    "consumer_name", "available_permits", "unacked_messages", "blocked_consumer_on_unacked_msgs",
    "msg_out_counter", "connected_since_ms", "last_acked_timestamp_ms",
    "last_consumed_timestamp_ms", "last_consumed_flow_timestamp_ms",
)  # fmt: skip
CLIENT = re.compile(r"\((Java|C\+\+|Python|Node\.js|Go|Rust|\.NET)\)")
PLACEHOLDER = re.compile(r"\b(None|PID|TOPIC|SUB|NAME|ADDRESS|FILE|N)\b|[<{]|…")
DESTROYS = re.compile(r"\b(skip|clear-backlog|unsubscribe|delete|expire-messages|reset-cursor)\b")


@pytest.mark.parametrize(("code", "case"), each_case())
def test_transcript(code: str, case: dict[str, Any]) -> None:
    assert set(case) <= KEYS, set(case) - KEYS
    assert len(ANSWERS & set(case)) == 1, f"a case has one of {sorted(ANSWERS)}"
    answers = list(answers_to(code, case))
    for answer in answers:
        for law in LAWS:
            law(answer)
    if "finds" in case:
        assert any(answer.found for answer in answers)
    assert_stats_are_those_of_the_broker(code, case)
    assert_nobody_else_hears_of_a_process(code, case)


def assert_stats_are_those_of_the_broker(code: str, case: dict[str, Any]) -> None:
    """Where stats are written beside a wire; that they differ is the point of permits-differ."""
    stats = case.get("stats", {})
    if "wire" not in case or not stats or code == "permits-differ":
        return
    if stats.get("consumers") == "not told":
        return
    worked_out = told_by_broker(case | {"broker": {"samples": stats["samples"]}})["stats"]
    for one, other in zip(observed(stats).consumers, worked_out.consumers, strict=True):
        for now, then in zip(one.values, other.values, strict=True):
            for name in TOLD_OF_CONSUMERS:
                assert getattr(now, name) == getattr(then, name), name


def assert_nobody_else_hears_of_a_process(code: str, case: dict[str, Any]) -> None:
    """Who did not look into it."""
    if "inside" in case and RULES[code].needs == {PROCESS}:
        for view in views_of({k: v for k, v in case.items() if k != "inside"}).values():
            alone = judged({}, view, [RULES[code]])
            assert (alone.status, alone.findings, alone.unknowns) == ("healthy", (), ())


# What the case says of it.


def is_what_the_case_says(answer: Answer) -> None:
    if answer.source in answer.case.get("weaker", {}):
        assert_weaker(answer, answer.case["weaker"][answer.source])
    elif "broker" in answer.case and answer.source in BY_BOTH.values():
        assert_answer(answer, bare(answer.case))
    else:
        assert_answer(answer, answer.case)


def bare(case: dict[str, Any]) -> dict[str, Any]:
    """Without the words and numbers that one source alone has, and what other rules answer."""
    rest = {key: value for key, value in case.items() if key not in ("overall", "codes")}
    if "finds" in case:
        rest["finds"] = {k: v for k, v in case["finds"].items() if k in ("severity", "consumer")}
    return rest | {key: True for key in ("unknown", "not_told") if key in case}


def assert_answer(answer: Answer, case: dict[str, Any]) -> None:
    alone = answer.alone
    if "finds" in case:
        assert_finds(answer.found, answer.code, case["finds"])
    else:
        assert alone.findings == ()
        assert alone.status == ("unknown" if "unknown" in case else "healthy"), alone.unknowns
        reasons = " ".join(alone.unknowns)
        assert bool(reasons) == ("silent" not in case), reasons
        for said in ("unknown", "not_told"):
            assert said not in case or case[said] is True or case[said] in reasons, reasons
    together = judged(case, answer.view, list(RULES.values()))
    codes = [finding.code for finding in together.findings]
    assert together.status == case.get("overall", together.status), codes
    assert codes == case.get("codes", codes)


def assert_weaker(answer: Answer, says: str) -> None:
    """One source alone tells less than the other: `unknown`, `not told` or a lesser severity."""
    case, alone = answer.case, answer.alone
    assert says not in SEVERITIES or is_lesser(says, case), f"{says} is no less than its answer"
    if says in ("unknown", "not told", "silent"):
        assert alone.findings == ()
        assert alone.status == ("unknown" if says == "unknown" else "healthy"), alone.unknowns
        assert bool(alone.unknowns) == (says != "silent")
    else:
        assert [finding.severity for finding in answer.found] == [says]


def is_lesser(says: str, case: dict[str, Any]) -> bool:
    return "finds" in case and SEVERITIES.index(says) > SEVERITIES.index(case["finds"]["severity"])


def assert_finds(findings: list[Finding], code: str, wanted: dict[str, Any]) -> None:
    assert len(findings) == 1, findings
    [finding] = findings
    assert finding.code == code
    assert finding.severity == wanted["severity"], finding.summary
    if "confidence" in wanted:
        assert finding.confidence == pytest.approx(wanted["confidence"])
    if "consumer" in wanted:
        assert finding.consumer == wanted["consumer"]
    assert wanted.get("says", "") in finding.summary
    assert wanted.get("remedy", "") in finding.remedy
    evidence = {measure.name: measure.value for measure in finding.evidence}
    for name, value in wanted.get("evidence", {}).items():
        assert evidence[name] == pytest.approx(value), f"{name} of {evidence}"


# What holds of whatever is found.


def says_what_to_do_and_how_to_see_that_it_worked(answer: Answer) -> None:
    for finding in answer.found:
        whens = [WHENS.index(action.when) for action in finding.actions]
        assert whens == sorted(whens), "what frees it comes first"
        assert any(action.check for action in finding.actions)
        for action in finding.actions:
            assert_sound(action)


def assert_sound(action: Action) -> None:
    assert action.text.endswith(".")
    assert action.text[0].isupper()
    for text in filter(None, (action.text, action.command, action.side_effect, action.undo)):
        assert not PLACEHOLDER.search(without_settings(text)), text
        assert "\n" not in text
    for line in filter(None, (action.command, action.check)):
        assert_line_is_taken(line)
    if action.check:
        assert "  # " in action.check, "what it prints then"
    if action.command and DESTROYS.search(action.command):
        assert action.when != "now"
        assert action.text.startswith("This deletes"), "its side effect is said first"
    assert not re.search(r"\bqueue of 0\b(?!,)", action.text.replace("instead of 0", ""))


@cache  # many say the same
def assert_line_is_taken(line: str) -> None:
    assert_taken(plain_words(line))


def without_settings(text: str) -> str:
    """Without the names of settings, which look as their client likes."""
    return re.sub(r"[\w.]*[(:=][^,;]*\((Java|C\+\+|Python|Node\.js|Go|Rust|\.NET)\)", "", text)


def names_settings_of_clients_that_are_there(answer: Answer) -> None:
    versions = [consumer.client_version for consumer in answer.view.consumers or ()]
    there = {each.name for version in versions for each in likely_clients(version)}
    for action in (action for finding in answer.found for action in finding.actions):
        if "producers send without batches" not in action.text:
            assert set(CLIENT.findall(action.text)) <= there, action.text


def has_sentences_that_know_each_of_their_numbers(answer: Answer) -> None:
    for finding in answer.alone.findings:
        for text in (finding.summary, finding.impact or ""):
            rest = text.replace("above 0 permits", "")
            for value in sorted(values_in(text) - {text}, key=len, reverse=True):
                rest = rest.replace(value, "")
            assert not re.search(r"\d", rest), text


LAWS: tuple[Callable[[Answer], None], ...] = (
    is_what_the_case_says,
    says_what_to_do_and_how_to_see_that_it_worked,
    names_settings_of_clients_that_are_there,
    has_sentences_that_know_each_of_their_numbers,
)
