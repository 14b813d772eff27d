"""The table of numbers: each is filled by the sources that it names, and by no other."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.evidence import by_process, by_wire, stats_consumer
from pulsar_doctor.evidence.measures import PROCESS, STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import NUMBERS, Facts, measured
from pulsar_doctor.evidence.values import Count, at_least, at_most, exactly
from pulsar_doctor.ledger.balance import Pace

FILLED_BY = {STATS: stats_consumer, WIRE: by_wire, PROCESS: by_process}


@pytest.mark.parametrize("source", FILLED_BY)
def test_a_source_fills_the_numbers_that_name_it(source: str) -> None:
    tree = ast.parse(Path(FILLED_BY[source].__file__).read_text("utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    [view] = (each for each in calls if getattr(each.func, "id", "") == "ConsumerView")
    named = {each.name for each in fields(Facts) if source in NUMBERS[each.name].sources}
    assert sorted(keyword.arg or "" for keyword in view.keywords) == sorted(named)


@pytest.mark.parametrize(
    ("name", "value", "is_told"),
    [
        ("available_permits", exactly(0), Measure("available_permits", 0, "permits")),
        ("queued", at_least(6), Measure("queued", 6, "messages", "at least")),
        ("next_flow_after", at_most(5), Measure("next_flow_after", 5, "messages", "at most")),
        ("unacked_entries", Count(2, 7), Measure("unacked_entries", 7, "entries", "at most")),
        ("quiet_for", Age(1500, False), Measure("quiet_for", 1.5, "seconds")),
        ("pace", Pace(0.0004, "measured"), Measure("pace", 0.0004, "seconds/message")),
        ("blocked_consumer_on_unacked_msgs", True,
         Measure("blocked_consumer_on_unacked_msgs", "true", "")),
        ("flows", None, Measure("flows", None, "commands")),
    ],
)  # fmt: skip
def test_a_finding_reports_a_number_by_its_row(name: str, value: object, is_told: Measure) -> None:
    assert measured(name, value) == is_told
