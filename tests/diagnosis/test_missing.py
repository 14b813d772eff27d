"""Messages to be missing was not told, and each name is known."""

from __future__ import annotations

from pulsar_doctor.diagnosis.probes import OF_SUBSCRIPTION, missing_of
from pulsar_doctor.diagnosis.ranking import suspects_of
from pulsar_doctor.evidence.numbers import NUMBERS
from tests.diagnosis.test_rates import view_of
from tests.incidents.asking import HYPOTHESES


def test_each_number_that_would_tell_can_be_asked_for() -> None:
    assert {name for each in HYPOTHESES for name in each.missing} <= {
        *NUMBERS,
        *OF_SUBSCRIPTION,
    }


def test_what_is_told_is_not_missing() -> None:
    flag = "blocked_consumer_on_unacked_msgs"
    for told, missing in ((True, ()), (None, (flag,))):
        view = view_of({}, consumers={"w": {"blockedConsumerOnUnackedMsgs": told}})
        assert missing_of([flag], view, (view.consumers or ())[0]) == missing


def test_without_consumers_they_are_what_is_missing() -> None:
    view = view_of({"msgRateOut": 0.0})
    suspects = suspects_of(view, HYPOTHESES, {})
    [stuck] = [each for each in suspects if each.code == "permits-exhausted"]
    assert stuck.missing == ("consumers",)
