"""The JSON of version 2 has the names and numbers that it always had, and its own schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pulsar_doctor.report.json_versions import VARIABLE
from tests.report.golden import golden, of_a_tap, of_a_trace, of_states
from tests.support import schemas

# Sentences, and what is fitted to incidents, may become better: their names are compared only.
WORDS = frozenset(
    {"actions", "because", "checked_at", "confidence", "impact", "not_told", "notes", "remedy",
     "summary"}
)  # fmt: skip
LISTS = frozenset({"suspects", "ruled_out"})
# 15 s old, with the facts of a healthy consumer. They are healthy now, as on 4.0.8 before.
YOUNG = {f"{version}/all-delivered-none-acknowledged" for version in ("2.11.0", "3.3.5")}
# Its consumer is below zero permits and holds nothing, so it never asks again. It is unknown now,
# as on 3.3.5 and 4.0.8 before.
MISCOUNTED = {"2.11.0/negative-permits"}
# The broker sends less than it could in every step. They are unknown now; they were healthy.
THROTTLED = {
    f"{version}/dispatch-throttled-{whose}"
    for version in ("2.11.0", "3.3.5")
    for whose in ("subscription", "topic")
}

# Its queue is 0, and two permits were taken for a queue of 2. It is at most 2 now.
TWO_FLOWS = {f"{version}/zero-queue-and-batch" for version in ("2.11.0", "3.3.5", "4.0.8")}

# A stall, of which this broker shows a warning and that nothing is sent. It is unknown now.
HIDDEN = {"3.3.5/exclusive-zombie-key-shared"}

CHANGED = YOUNG | MISCOUNTED | THROTTLED | TWO_FLOWS | HIDDEN


def comparable(value: Any, name: str = "") -> Any:
    """The names, and the values that do not depend on wording and fitting."""
    if name in WORDS:
        return name
    if name in LISTS:
        return sorted({key for each in value for key in each})
    if name == "evidence":
        return sorted(value, key=lambda each: str(each["name"]))
    if isinstance(value, dict):
        return {key: comparable(each, key) for key, each in value.items()}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def assert_kept(before: Any, now: Any, where: str) -> None:
    """Every name and number is there. What was null may be reported, and names may be added."""
    if isinstance(before, dict):
        assert before.keys() <= now.keys(), where
        for key, value in before.items():
            assert_kept(value, now[key], f"{where}/{key}")
    elif isinstance(before, list):
        assert len(before) == len(now), where
        for at, (one, other) in enumerate(zip(before, now, strict=True)):
            assert_kept(one, other, f"{where}/{at}")
    else:
        assert before is None or before == now, where


def assert_same(now: Iterable[tuple[str, Any]]) -> None:
    before, names = golden(), []
    for name, printed in now:
        names.append(name)
        for document in printed:
            schemas.check(document)
        if name.partition(" ")[0] in CHANGED:
            continue
        assert_kept(comparable(before[name]), comparable(printed), name)
    assert names


@pytest.fixture(params=["option", "environment"])
def version_2(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Both ways to ask for it, which leave nothing behind."""
    by_option = request.param == "option"
    monkeypatch.setenv(VARIABLE, "3" if by_option else "2")
    return ("--json-version", "2") if by_option else ()


def test_recorded_states_are_written_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    assert_same(of_states())


def test_a_trace_is_written_as_before(version_2: tuple[str, ...]) -> None:
    assert_same(of_a_trace(*version_2))


def test_events_of_a_tap_are_written_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    assert_same(of_a_tap())


def test_names_are_the_new_ones_unless_old_ones_are_asked_for() -> None:
    for _, printed in of_a_trace():
        assert comparable(printed) != comparable(golden()["a trace json"])
        [document, *_] = printed
        assert document["schema"] in ("pulsar-doctor/stall-check/3", "pulsar-doctor/verdict/3")
