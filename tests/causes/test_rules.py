"""Every rule has transcripts on which it speaks, an explanation, and lines that can be pasted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.causes import RETIRED, named
from pulsar_doctor.errors import InputError
from tests.diagnosis.shell import plain_words
from tests.made.cases import CASES, RULES, answers_to, judged, views_of

# How many cases of a rule are told both ways, at least: such that find, and such that are silent.
BOTH_WAYS = {
    "ack-hole": (3, 4),
    "blocked-on-unacked-consumer": (4, 3),
    "exclusive-zombie": (5, 5),
    "handoff-unbounded": (3, 4),
    "inactive-failover": (5, 6),
    "negative-permits": (2, 8),
    "not-acknowledging": (5, 5),
    "permits-differ": (1, 3),
    "permits-exhausted": (21, 25),
    "prefetch-hogging": (9, 12),
    "redelivery-storm": (4, 10),
    "slow-but-progressing": (8, 7),
    "zero-queue-unsupported": (4, 7),
}


def is_told_both_ways(case: dict[str, Any]) -> bool:
    return "wire" in case and ("stats" in case or "broker" in case)


@pytest.mark.parametrize("code", [*RULES, *sorted(set(CASES) - set(RULES))])
def test_each_rule_has_transcripts_on_which_it_speaks_and_is_silent(code: str) -> None:
    assert code in RULES, f"tests/causes/{code}.yaml belongs to no rule"
    assert code in CASES, f"write tests/causes/{code}.yaml"
    assert any("finds" in case for case in CASES[code])
    assert any("silent" in case for case in CASES[code])


def test_a_retired_code_names_its_successor_and_is_not_used_again() -> None:
    assert not RETIRED.keys() & RULES.keys()
    assert set(RETIRED.values()) <= RULES.keys()
    with pytest.raises(InputError, match="'storm' is now called 'redelivery-storm'"):
        named(["storm"], {"storm": "redelivery-storm"})


@pytest.mark.parametrize("code", CASES)
def test_what_both_sources_can_tell_is_told_both_ways(code: str) -> None:
    both = [case for case in CASES[code] if is_told_both_ways(case)]
    finds, silent = BOTH_WAYS.get(code, (0, 0))
    assert sum("finds" in case for case in both) >= finds
    assert sum("silent" in case for case in both) >= silent


def test_what_a_rule_explains_is_a_rule_and_never_its_own_cause() -> None:
    for rule in RULES.values():
        assert rule.explains <= set(RULES)
        for code in rule.explains:
            assert rule.code not in RULES[code].explains


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_each_rule_can_be_explained(rule: Cause) -> None:
    first, rest = rule.text.strip().split("\n", 1)
    assert first.endswith(".")
    assert "Source: " in rest or "Nothing is wrong with the broker" in rest
    for threshold in rule.thresholds:
        assert f"`{threshold.name}`" in rule.text, f"the docstring does not speak of {threshold}"


@pytest.mark.parametrize("code", CASES)
def test_each_rule_has_a_line_that_can_be_pasted(code: str) -> None:
    lines = [
        line
        for case in CASES[code]
        if "finds" in case
        for answer in answers_to(code, case)
        for finding in answer.found
        for action in finding.actions
        for line in (action.command, action.check)
        if line
    ]
    assert any("orders" in "".join(plain_words(line)) for line in lines), "of its own topic"


def test_what_a_finding_does_not_say_its_cause_says() -> None:
    case = next(each for each in CASES["paused"] if "finds" in each)
    [answer] = [each for each in answers_to("paused", case) if each.source == "stats"]
    [finding] = answer.found
    [action] = finding.actions
    assert (finding.code, action.when, action.text) == ("paused", "now", RULES["paused"].remedy)
    assert (action.check or "").endswith("# this finding is gone")


def test_on_a_segment_no_pool_is_suspected() -> None:
    cases = [case for each in CASES.values() for case in each if "finds" in case]
    [case] = [each for each in cases if each["name"].endswith("finishes one in 20 s")]
    on_segment = "segment://public/default/orders/0000-7fff-0"
    for view in views_of(case).values():
        diagnosis = judged(case, replace(view, topic=on_segment), [RULES["handoff-unbounded"]])
        [finding] = diagnosis.findings
        assert finding.remedy.endswith("whatever the application does.")
        assert [each.text for each in finding.actions] == [finding.remedy]
