"""Each proven issue fits its own state, and no state that differs in one condition or version."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.causes import load as causes
from pulsar_doctor.diagnosis.known.issue import load
from pulsar_doctor.diagnosis.known.matching import matching, on_broker
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence.by_stats import subscription_view
from tests.known.fixture import RECORDED, Changes, Fixture
from tests.known.fixture import load as fixtures

FIXTURES = fixtures()
RULES = causes()
CHANGED = [
    (name, kind, at)
    for name, fixture in FIXTURES.items()
    for kind in ("green", "near")
    for at in range(len(getattr(fixture, kind)))
]


def grades(fixture: Fixture, changes: Changes | None = None) -> dict[str, str]:
    """The grade of every issue that fits, whatever the verdict is."""
    broker = str((changes or {}).get("broker", fixture.broker))
    found = on_broker(matching(subscription_view(fixture.observed(changes))), broker)
    return {each.issue.id: each.grade for each in found}


@pytest.mark.parametrize("name", FIXTURES)
def test_an_issue_fits_its_own_state_and_no_other_one_matches(name: str) -> None:
    fixture = FIXTURES[name]
    found = grades(fixture)
    assert found.get(fixture.issue, "none") == fixture.grade
    others = {issue for issue, grade in found.items() if grade == "matches"} - {fixture.issue}
    assert others == set(fixture.twins)


@pytest.mark.parametrize(("name", "kind", "at"), CHANGED)
def test_it_does_not_fit_a_fixed_version_or_with_one_thing_changed(
    name: str, kind: str, at: int
) -> None:
    fixture = FIXTURES[name]
    assert fixture.issue not in grades(fixture, getattr(fixture, kind)[at])


@pytest.mark.parametrize("name", FIXTURES)
def test_the_verdict_on_it_names_it_beside_what_it_finds(name: str) -> None:
    fixture = FIXTURES[name]
    verdict = diagnose(subscription_view(fixture.observed()), RULES, limits_of(RULES))
    named = [each.issue.id for each in on_broker(verdict.known_issues, fixture.broker)]
    expected = fixture.beside and fixture.grade != "none"
    assert (fixture.issue in named) == expected, (verdict.status, verdict.findings, named)


def test_every_proven_issue_has_a_fixture_with_a_near_miss() -> None:
    proven = {issue.id for issue in load() if issue.proof}
    shown = {each.issue for each in FIXTURES.values() if each.grade == "matches"}
    assert proven <= shown
    missed = {each.issue for each in FIXTURES.values() if each.green and each.near}
    assert proven <= missed


def test_no_recorded_file_is_left_over() -> None:
    used = {fixture.recorded for fixture in FIXTURES.values()}
    assert {path.name for path in RECORDED.iterdir()} <= used
