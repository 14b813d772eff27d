"""What holds of all suspects, on incidents of which the cause is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from pulsar_doctor.diagnosis import fitted
from pulsar_doctor.diagnosis.answers import HEALTHY, NONE_OF_THESE
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.fitted import sure
from pulsar_doctor.diagnosis.ranking import limited, shares_of, suspects_of, total_of
from pulsar_doctor.diagnosis.ruling_out import ruled_out
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose, weighed_by
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.incidents.asking import CODES, HYPOTHESES, LIMITS, RULES, Samples, view
from tests.incidents.causes import causes, is_right
from tests.incidents.large import large
from tests.incidents.moments import Moment, incident
from tests.incidents.questions import ALL, BOTH_STATS, INTERNAL, STATS, WIRE

SEEDS = range(70)
ASKED = (
    (STATS, Samples((0,), clock=False)),
    (STATS, Samples((0,), clock=False, version="2.11.0")),
    (BOTH_STATS, Samples((0,), clock=False)),
    (STATS, Samples((60, 0), clock=False)),
    (BOTH_STATS, Samples((10, 5, 0))),
    (INTERNAL, Samples((0,))),
    (WIRE, Samples(())),
    (ALL, Samples()),
)
pytestmark = pytest.mark.pure


@cache
def moments() -> tuple[Moment, ...]:
    return tuple(moment for seed in SEEDS for moment in incident(seed).moments)


@cache
def views() -> tuple[tuple[Moment, SubscriptionView], ...]:
    return tuple(_views())


@cache
def diagnoses() -> tuple[Diagnosis, ...]:
    """Of each view, in their order."""
    return tuple(diagnose(seen, RULES, LIMITS) for _, seen in views())


def _views() -> Iterator[tuple[Moment, SubscriptionView]]:
    for moment in moments():
        there = {(moment.at_ns - taken.at_ns) // 10**9 for taken in moment.taken}
        for sources, samples in ASKED:
            if moment.incident.script.type == "key_shared" and samples.version != "4.0.8":
                continue
            cut = replace(samples, offsets=tuple(o for o in samples.offsets if o in there))
            seen = view(sources, moment, cut)
            if seen is not None:
                yield moment, seen


def test_nothing_that_is_true_is_ruled_out() -> None:
    seen_codes = set()
    for moment, seen in views():
        true = causes(moment)
        for excluded in ruled_out(seen, HYPOTHESES):
            seen_codes.add(excluded.code)
            told = f"{moment.incident.script.seed}: {excluded.because}"
            assert not is_right((excluded.code, None), true), told
    assert len(seen_codes) > 12


def test_unknown_is_never_bare_and_shares_sum_to_one() -> None:
    undecided = 0
    for said in diagnoses():
        assert bool(said.suspects) >= (said.status == "unknown")
        if not said.suspects:
            continue
        undecided += 1
        shares = [suspect.probability for suspect in said.suspects]
        assert sum(shares) == pytest.approx(1, abs=0.004)
        assert shares[:-1] == sorted(shares[:-1], reverse=True)
        assert said.suspects[-1].code == NONE_OF_THESE
        codes = [suspect.code for suspect in said.suspects]
        assert len(set(codes)) == len(codes)
        assert not set(codes) & {excluded.code for excluded in said.ruled_out}
        for suspect in said.suspects[:-1]:
            assert suspect.decide is not None
            assert suspect.decide.text
            assert "{" not in suspect.summary
    assert undecided > 100


def test_what_speaks_for_a_suspect_has_each_number_once() -> None:
    said = [each.summary for found in diagnoses() for each in found.suspects]
    assert sum(re.search(r"holds \d+ of \d+ messages?", text) is not None for text in said) > 5
    twice = [text for text in said if re.search(r"holds (\d+) messages?; .*holds \1 of", text)]
    assert twice == []


def test_more_for_a_suspect_makes_it_likelier() -> None:
    for hypothesis in HYPOTHESES:
        own = fitted.weights().get(hypothesis.code, {})
        assert all(weight >= 0 for key, weight in own.items() if key), hypothesis.code
    low, high = shares_of([-1.0, 0.5])[0], shares_of([0.0, 0.5])[0]
    assert low < high
    assert sum(shares_of([3.0, -2.0, 0.1])) == pytest.approx(1)


def test_every_rule_is_a_hypothesis_and_every_hypothesis_a_rule() -> None:
    told_by_themselves = {"lost-to-redeliver-race", "messages-dropped", "messages-expired"}
    told_by_themselves |= {"permits-differ", "backlog-quota-reached", "falls-behind"}
    told_by_themselves |= {
        "parent-not-drained",
        "segment-load-uneven",
        "segment-split-unfinished",
        "segment-without-consumer",
        "segment-queue-unbounded",
    }
    told_by_themselves |= {rule.code for rule in RULES if rule.needs == {PROCESS}}
    assert {each.code for each in HYPOTHESES} - {HEALTHY} == CODES - told_by_themselves


def test_grades_become_what_was_measured_and_never_certainty() -> None:
    assert all(0 < share < 1 for by in fitted.certainty().values() for share in by.values())
    for by in fitted.certainty().values():
        assert list(by.values()) == sorted(by.values()), "surer rules are not less often right"
    for (_, seen), said in zip(views(), diagnoses(), strict=True):
        found, _ = weighed_by(seen, RULES, LIMITS)
        for rule, shown in zip(found.findings, said.findings, strict=True):
            graded = rule.severity != "info"
            expected = sure(rule.code, rule.confidence) if graded else rule.confidence
            assert (shown.code, shown.confidence) == (rule.code, expected)


def test_a_cause_that_is_not_fitted_yet_is_ranked_by_its_prior() -> None:
    new = Hypothesis("something new", speaks_for=("waits",), code="new-cause")
    assert "new-cause" not in fitted.weights()
    expected = fitted.prior() + fitted.UNMEASURED
    assert total_of("new-cause", [("waits", 1)], fitted.weights()) == expected
    ranked = [suspects_of(seen, (*HYPOTHESES, new), {}) for _, seen in views()[::5]]
    assert any(suspect.code == "new-cause" for suspects in ranked for suspect in suspects)
    for suspects in filter(None, ranked):
        assert sum(each.probability for each in suspects) == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize("skipped", ["permits-exhausted", "not-acknowledging", "redelivery-storm"])
def test_a_skipped_cause_is_neither_suspected_nor_ruled_out(skipped: str) -> None:
    rest = [rule for rule in RULES if rule.code != skipped]
    for _, seen in views()[::5]:
        said = diagnose(seen, rest, LIMITS)
        assert skipped not in {each.code for each in (*said.suspects, *said.ruled_out)}
    assert any(skipped in {each.code for each in said.suspects} for said in diagnoses()[::5])


@pytest.mark.parametrize("totals", [[800.0], [0.0, 800.0]])
def test_what_a_suspect_of_all_may_not_have_is_with_no_known_cause(totals: list[float]) -> None:
    cut = limited(totals, [0.25] * len(totals))
    assert cut[totals.index(800.0)] == 0.25
    assert cut[-1] == 0.75
    assert sum(cut) == 1


def test_several_that_may_not_have_more_leave_the_rest_to_the_others() -> None:
    cut = limited([3.0, 2.5, 0.0], [0.5, 0.2, 1.0])
    assert cut == pytest.approx([0.5, 0.2, 0.15, 0.15])


@pytest.mark.parametrize(("seed", "most"), [(1021, 0.2), (1225, 0.5)])
def test_of_one_batch_in_hand_for_minutes_what_else_it_may_be_is_named(
    seed: int, most: float
) -> None:
    seen = view(STATS, large(seed).moment, Samples((0,)))
    assert seen is not None
    said = diagnose(seen, RULES, LIMITS)
    shares = {suspect.code: suspect.probability for suspect in said.suspects}
    assert (said.status, shares[HEALTHY]) == ("unknown", most)
    assert shares.keys() > {HEALTHY, NONE_OF_THESE}
    assert sum(shares.values()) == pytest.approx(1, abs=0.004)
