"""What is ruled out is not true: of incidents, by everything that may be asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.calibration.states import QUESTIONS
from pulsar_doctor.diagnosis.answers import HEALTHY
from pulsar_doctor.diagnosis.ruling_out import ruled_out
from tests.incidents.asking import HYPOTHESES, view
from tests.incidents.causes import FACTS, causes
from tests.incidents.moments import Incident, Moment, incident, played
from tests.incidents.more import made_more
from tests.incidents.script import SECOND
from tests.incidents.truth import SLOW_WAIT_NS


def untrue(of: Incident) -> Iterator[str]:
    """Each statement that is false, with the moment and how it was asked."""
    for moment in of.moments:
        true = causes(moment)
        young = (HEALTHY, None) in true or just_began(moment)  # it may be called anything
        codes = {code for code, _ in true if not young or code in FACTS}
        for asked, code, because in said(moment):
            if code in codes:
                yield f"{of.script.seed}: {moment.at_ns // SECOND} s: {asked}: {code}: {because}"


def just_began(moment: Moment) -> bool:
    """Whether somebody has hung or paused for less time than anybody would wait."""
    workers = moment.incident.script.workers
    since = [at for each in workers for at in (each.hangs_ns, each.paused_ns, each.dies_ns)]
    return any(at is not None and 0 < moment.at_ns - at < SLOW_WAIT_NS for at in since if at)


def said(moment: Moment) -> Iterator[tuple[str, str, str]]:
    there = {(moment.at_ns - taken.at_ns) // SECOND for taken in moment.taken}
    for asked, (sources, samples) in QUESTIONS.items():
        if samples.version != "4.0.8" and moment.incident.script.type == "key_shared":
            continue
        cut = replace(samples, offsets=tuple(o for o in samples.offsets if o in there))
        seen = view(sources, moment, cut)
        for each in ruled_out(seen, HYPOTHESES) if seen is not None else ():
            yield asked, each.code, each.because


@pytest.mark.parametrize("seeds", [range(at, at + 15) for at in range(0, 60, 15)], ids=str)
def test_nothing_true_is_ruled_out(seeds: range) -> None:
    assert [each for seed in seeds for each in untrue(incident(seed))] == []


@pytest.mark.parametrize(
    "seeds",
    [
        range(0, 15),
        range(15, 30),
        *(pytest.param(range(at, at + 15), marks=pytest.mark.slow) for at in range(30, 90, 15)),
    ],
    ids=str,
)
def test_nothing_true_is_ruled_out_of_further_troubles(seeds: range) -> None:
    assert [each for seed in seeds for each in untrue(played(made_more(seed)))] == []
