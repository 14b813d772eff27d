"""A verdict in a few words."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.answers import Suspect
from pulsar_doctor.diagnosis.short_form import in_short, place, suspected
from tests.report.checkups import ORDERS, verdict


def test_whose_it_is() -> None:
    one = verdict("stalled", "s\n", partition=3)
    assert one.key == (f"{ORDERS}-partition-3", "s\n")
    assert place(one.key) == "s\N{REPLACEMENT CHARACTER} on public/default/orders-partition-3"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("stalled", "stalled permits-exhausted of worker-3"),
        ("healthy", "healthy"),
        ("unknown", "unknown"),
    ],
)
def test_what_it_came_to(status: str, words: str) -> None:
    assert in_short(verdict(status)) == words  # type: ignore[arg-type]


def test_what_is_suspected_where_it_came_to_nothing() -> None:
    suspects = (
        Suspect("not-acknowledging", "worker-1", 0.7, "it has never acknowledged"),
        Suspect("healthy", None, 0.3, "nothing is wrong"),
    )
    told = suspected(verdict("unknown", suspects=suspects))
    assert told == "; most likely not-acknowledging of worker-1 (70%)"
    assert suspected(verdict("unknown", suspects=suspects[1:])) == "; most likely healthy (30%)"
    assert suspected(verdict("unknown")) == ""
