"""Whatever a rule finds, it says what to do: in order, filled in, with how to see it worked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.diagnosis.actions.settings import clients_of
from pulsar_doctor.diagnosis.answers import WHENS, Action, Finding
from tests.causes.test_rules import CASES, RULES, each_case, found, judged, views_of
from tests.diagnosis.shell import assert_taken, plain_words

CLIENT = re.compile(r"\((Java|C\+\+|Python|Node\.js|Go|Rust|\.NET)\)")
PLACEHOLDER = re.compile(r"\b(None|PID|TOPIC|SUB|NAME|ADDRESS|FILE|N)\b|[<{]|…")
DESTROYS = re.compile(r"\b(skip|clear-backlog|unsubscribe|delete|expire-messages|reset-cursor)\b")


def findings(code: str, case: dict[str, Any]) -> Iterator[Finding]:
    for view in views_of(case).values():
        yield from found(code, case, view)


FINDING = [param for param in each_case() if "finds" in param.values[1]]


@pytest.mark.parametrize(("code", "case"), FINDING)
def test_each_finding_says_what_to_do_and_how_to_see_that_it_worked(
    code: str, case: dict[str, Any]
) -> None:
    found = list(findings(code, case))
    assert found
    for finding in found:
        whens = [WHENS.index(action.when) for action in finding.actions]
        assert whens == sorted(whens), "what frees it comes first"
        assert any(action.check for action in finding.actions)
        for action in finding.actions:
            assert_sound(action)


def assert_sound(action: Action) -> None:
    assert action.text.endswith(".")
    assert action.text[0].isupper()
    for text in filter(None, (action.text, action.command, action.side_effect, action.undo)):
        assert not PLACEHOLDER.search(bare(text)), text
        assert "\n" not in text
    for line in filter(None, (action.command, action.check)):
        assert_taken(plain_words(line))
    if action.check:
        assert "  # " in action.check, "what it prints then"
    if action.command and DESTROYS.search(action.command):
        assert action.when != "now"
        assert action.text.startswith("This deletes"), "its side effect is said first"
    assert not re.search(r"\bqueue of 0\b(?!,)", action.text.replace("instead of 0", ""))


def bare(text: str) -> str:
    """Without the names of settings, which look as their client likes."""
    return re.sub(r"[\w.]*[(:=][^,;]*\((Java|C\+\+|Python|Node\.js|Go|Rust|\.NET)\)", "", text)


@pytest.mark.parametrize("code", CASES)
def test_each_rule_has_a_line_that_can_be_pasted(code: str) -> None:
    cases = [case for case in CASES[code] if "finds" in case]
    lines = [
        line
        for case in cases
        for finding in findings(code, case)
        for action in finding.actions
        for line in (action.command, action.check)
        if line
    ]
    assert any("orders" in "".join(plain_words(line)) for line in lines), "of its own topic"


@pytest.mark.parametrize(("code", "case"), FINDING)
def test_only_settings_of_clients_that_are_there_are_named(code: str, case: dict[str, Any]) -> None:
    for view in views_of(case).values():
        versions = [consumer.client_version for consumer in view.consumers or ()]
        there = {client for version in versions for client in clients_of(version)}
        for finding in found(code, case, view):
            for action in finding.actions:
                named = set(CLIENT.findall(action.text))
                if "producers send without batches" not in action.text:
                    assert named <= there, action.text


def test_on_a_segment_no_pool_is_suspected() -> None:
    [case] = [
        each.values[1]
        for each in FINDING
        if each.values[1]["name"].endswith("finishes one in 20 s")
    ]
    on_segment = "segment://public/default/orders/0000-7fff-0"
    for view in views_of(case).values():
        diagnosis = judged(case, replace(view, topic=on_segment), [RULES["handoff-unbounded"]])
        [finding] = diagnosis.findings
        assert finding.remedy.endswith("whatever the application does.")
        assert [each.text for each in finding.actions] == [finding.remedy]
