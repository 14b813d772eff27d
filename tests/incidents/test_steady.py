"""A slow consumer with a large queue beside one with nothing to do: one verdict, at every second.

As users met it: RQS 1000, 30 s a message. What was said of it went from warning to stalled and back
with the moment at which it was asked, and so did the forecast.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.model.scenario import ProducedEntry
from tests.incidents.asking import Samples
from tests.incidents.counting import count, count_rhythms
from tests.incidents.moments import Incident, played
from tests.incidents.questions import BOTH_STATS, STATS, answer
from tests.incidents.script import SECOND, Script, Worker
from tests.incidents.test_laws import not_known

SLOW = Worker("slow", "java", 1000, 30 * SECOND)
IDLE = replace(SLOW, name="idle", attach_ns=SECOND)
ASKED = [
    (sources, Samples(offsets))
    for sources in (STATS, BOTH_STATS)
    for offsets in ((0,), (10, 5, 0), (30, 0))
]


def hogging(messages: int) -> Incident:
    """Asked at each seventh second, from the second ack on."""
    entries = tuple(ProducedEntry(n, 0, 0, n, 1, 0) for n in range(messages))
    moments = tuple((65 + 7 * n) * SECOND + 137_111 for n in range(60))
    return played(Script(0, "shared", (SLOW, IDLE), entries, moments), (30, 10, 5, 0))


@pytest.mark.parametrize(
    ("messages", "code"), [(900, "prefetch-hogging"), (1000, "prefetch-hogging")]
)
def test_a_slow_hog_is_judged_the_same_at_every_second(messages: int, code: str) -> None:
    said = [
        asked.said
        for moment in hogging(messages).moments
        for sources, samples in ASKED
        if (asked := answer(sources, moment, samples)) is not None
    ]
    assert {each.status for each in said} == {"stalled"}
    assert {each.findings[0].code for each in said} == {"prefetch-hogging"}
    drains = [number(each.findings[0], "time_to_drain") for each in said]
    assert messages * 30 / 1.5 < min(drains) <= max(drains) < messages * 30 * 1.5


def number(finding: Finding, name: str) -> float:
    [value] = [each.value for each in finding.evidence if each.name == name]
    assert isinstance(value, int | float)
    return value


@pytest.mark.parametrize("seed", [12])
def test_a_rhythm_that_was_judged_in_opposite_ways(seed: int) -> None:
    assert not_known(count_rhythms([seed])) == []


def test_without_a_clock_what_is_over_is_not_added_to_what_is_left() -> None:
    assert not_known(count([1064])) == []
