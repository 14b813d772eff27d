"""What a healthy verdict may hide is told with it."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis import fitted, weighing
from pulsar_doctor.diagnosis.answers import HEALTHY, NONE_OF_THESE
from pulsar_doctor.diagnosis.ranking import LIKELY, POSSIBLE, hidden_by_health
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.stats_script import observed
from tests.incidents.asking import HYPOTHESES, LIMITS, RULES

STORM = "redelivery-storm"


def storm() -> SubscriptionView:
    """Lively, and no rule finds anything; what comes back tells of a storm."""
    sent = [9000, 9200, 9400]
    told = {"msgBacklog": 500, "msgOutCounter": sent, "msgRateRedeliver": 39.0}
    consumers = {"w": {"availablePermits": 400, "msgOutCounter": sent}}
    return by_stats.subscription_view(observed({"subscription": told, "consumers": consumers}))


def weights(odds: float) -> dict[str, dict[str, float]]:
    """Of a storm, in logarithms, beside health with 2."""
    bare = {code: {"": -9.0, **dict.fromkeys(own, 0.0)} for code, own in fitted.weights().items()}
    bare[STORM][""], bare[HEALTHY][""] = odds, 2.0
    return bare


def test_what_is_hardly_possible_is_not_told() -> None:
    assert hidden_by_health(storm(), HYPOTHESES, (), weights(-1)) == ()


def test_what_is_possible_is_told_and_the_rest_is_that_nothing_is_wrong() -> None:
    first, none = hidden_by_health(storm(), HYPOTHESES, (), weights(1))
    assert (first.code, none.code) == (STORM, NONE_OF_THESE)
    assert POSSIBLE <= first.probability < LIKELY
    assert first.probability + none.probability == pytest.approx(1)


def test_what_is_told_as_information_is_not_told_again() -> None:
    assert hidden_by_health(storm(), HYPOTHESES, (STORM,), weights(1)) == ()


@pytest.mark.parametrize("odds", [-1, 1, 4])
def test_a_healthy_verdict_stays_healthy(odds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(view: SubscriptionView, hypotheses: object, known: set[str]) -> object:
        return hidden_by_health(view, HYPOTHESES, known, weights(odds))

    monkeypatch.setattr(weighing, "hidden_by_health", hidden)
    said = weighing.diagnose(storm(), RULES, LIMITS)
    assert said.status == "healthy"
    assert [each.code for each in said.suspects] == ([STORM, NONE_OF_THESE] if odds > 0 else [])
    assert weighing.exit_code([said]) == 0
    assert weighing.exit_code([said], "suspect") == 0  # a storm would be no stall
