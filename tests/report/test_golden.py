"""The JSON of schema 2 has the names and numbers that it always had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.report.golden import golden, of_a_tap, of_a_trace, of_states

# Sentences, and what is fitted to incidents, may become better: their names are compared only.
WORDS = frozenset(
    {"actions", "because", "checked_at", "confidence", "impact", "not_told", "notes", "remedy",
     "summary"}
)  # fmt: skip
LISTS = frozenset({"suspects", "ruled_out"})


def comparable(value: Any, name: str = "") -> Any:
    """The names, and the values that do not depend on wording and fitting."""
    if name in WORDS:
        return name
    if name in LISTS:
        return sorted({key for each in value for key in each})
    if isinstance(value, dict):
        return {key: comparable(each, key) for key, each in value.items()}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def assert_same(now: Iterable[tuple[str, Any]]) -> None:
    before, names = golden(), []
    for name, printed in now:
        names.append(name)
        assert comparable(printed) == comparable(before[name]), name
    assert names


def test_recorded_states_are_written_as_before() -> None:
    assert_same(of_states())


def test_a_trace_is_written_as_before() -> None:
    assert_same(of_a_trace())


def test_events_of_a_tap_are_written_as_before() -> None:
    assert_same(of_a_tap())
