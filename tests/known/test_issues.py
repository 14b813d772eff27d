"""The shipped data: every entry is complete, and says nothing that does not exist."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from pulsar_doctor.diagnosis.causes import load as causes
from pulsar_doctor.diagnosis.known.expressions import names_in
from pulsar_doctor.diagnosis.known.issue import LOWER_BOUNDS, Issue, issue_of, load
from pulsar_doctor.diagnosis.known.matching import is_affected
from pulsar_doctor.diagnosis.known.numbers import NAMES, VIEW
from pulsar_doctor.diagnosis.known.versions import version_of
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView

ISSUES = load()
CODES = {cause.code for cause in causes()}
PAGE = Path(__file__).parents[2] / "docs" / "known-issues.md"
HARMFUL = ("unload", "skip", "clear the backlog", "reset", "restart the broker")


def test_each_id_is_there_once() -> None:
    assert [each for each, count in Counter(i.id for i in ISSUES).items() if count > 1] == []
    assert len(ISSUES) > 100


def test_forty_fingerprints_and_more_can_be_evaluated_as_a_whole() -> None:
    assert sum(bool(issue.when) and not issue.by_hand for issue in ISSUES) >= 40


@pytest.mark.parametrize("issue", ISSUES, ids=lambda issue: issue.id)
def test_an_entry_is_complete_and_does_not_contradict_itself(issue: Issue) -> None:
    assert issue.title
    assert not issue.title.endswith(".")
    assert issue.symptom.endswith(".")
    assert issue.workaround.endswith(".")
    assert issue.affects
    assert issue.lower_bound in LOWER_BOUNDS
    assert issue.confidence in ("high", "medium", "low")
    assert issue.references
    assert all(each.startswith("https://github.com/") for each in issue.references)
    assert set(issue.codes) <= CODES
    assert issue.codes
    assert issue.when or issue.by_hand
    assert not (issue.proof and issue.by_hand)  # what has to be looked up is not proven by numbers
    assert issue.proof.partition(" ")[0] in ("", "reproduced", "published")
    for text in issue.fixed_in:
        fix = version_of(text)
        assert fix is not None
        assert not is_affected(issue, fix), "no version is both affected and fixed"
    if any(word in issue.workaround.lower() for word in HARMFUL):
        assert issue.warning, "what can do harm carries a warning"
        assert "Warning: " in issue.what_to_do


def test_every_name_stands_for_something() -> None:
    for name, path in VIEW.items():
        of = ConsumerView if name.startswith("con.") else SubscriptionView
        assert path.split(".")[0] in {field.name for field in fields(of)}, name
    used = {name for issue in ISSUES for tree in issue.conditions for name in names_in(tree)}
    assert used <= NAMES


def test_the_page_lists_every_name_that_a_condition_may_use() -> None:
    page = PAGE.read_text("utf-8")
    assert [name for name in sorted(NAMES) if f"`{name}`" not in page] == []


ENTRY = {
    "id": "apache/pulsar#1",
    "title": "t",
    "symptom": "s.",
    "affects": [">=4.0.0,<4.0.8"],
    "lower_bound": "proven",
    "workaround": "w.",
    "references": ["https://github.com/apache/pulsar/issues/1"],
}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"affects": ["4.0.x"]}, "is not a range"),
        ({"when": ["sub.bcklog > 0"]}, "there is no number sub.bcklog"),
        ({"when": ["sub.backlog >"]}, "is not a condition"),
        ({"severity": "high"}, "there is no field severity"),
    ],
)
def test_a_wrong_entry_is_named_with_what_is_wrong(change: dict[str, object], error: str) -> None:
    assert issue_of("broker", ENTRY).id == "apache/pulsar#1"
    with pytest.raises(InputError, match=f"apache/pulsar#1.*{error}"):
        issue_of("broker", ENTRY | change)
