"""No known issue matches a generated incident, but those whose broker has that very defect.

A few in every run; with -m slow 2,000. The broker of each is taken for one of several versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from pulsar_doctor.diagnosis.known.matching import matching, on_broker
from tests.incidents.asking import Samples, view
from tests.incidents.making import made
from tests.incidents.moments import played
from tests.incidents.more import made_more
from tests.incidents.questions import ALL, BOTH_STATS, WIRE

BROKERS = ("2.11.0", "3.3.5", "4.0.8", "4.0.13", "4.2.0", "5.0.0")
QUESTIONS = ((BOTH_STATS, Samples(told=True)), (WIRE, Samples((), told=True)), (ALL, Samples()))
# `more` has brokers that lose a read of their own or miscount, which is what these issues are.
DEFECTS = {
    "read stuck": {"apache/pulsar#26454", "apache/pulsar#26174"},
    "miscounts": {"apache/pulsar#24938"},
}


def matches(seeds: Iterable[int]) -> Counter[tuple[str, str, str]]:
    """How often which issue matches, by trouble, issue and version of the broker."""
    found: Counter[tuple[str, str, str]] = Counter()
    for seed in seeds:
        for script in (made(seed), made_more(seed)):
            for moment in played(script).moments:
                for sources, samples in QUESTIONS:
                    seen = view(sources, moment, samples)
                    fitting = () if seen is None else matching(seen)
                    for version in BROKERS:
                        for each in on_broker(fitting, version):
                            if each.grade == "matches":
                                found[script.trouble, each.issue.id, version] += 1
    return found


def untrue(found: Counter[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [each for each in found if each[1] not in DEFECTS.get(each[0], ())]


def test_none_matches() -> None:
    assert untrue(matches(range(20))) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_none_matches_in_two_thousand() -> None:
    assert untrue(matches(range(1000))) == []  # each is the seed of two
