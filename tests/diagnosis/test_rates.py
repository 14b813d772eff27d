"""The rates of a subscription, where nothing tells of its consumers."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.diagnosis.ranking import cases_of, suspects_of
from pulsar_doctor.diagnosis.subscription_clues import of_subscription
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.causes.stats_script import observed
from tests.incidents.asking import HYPOTHESES

NOBODY_TOLD = {"samples": ["0s"], "clock": "not told", "consumers": "not told"}


def view_of(subscription: dict[str, Any], **more: Any) -> SubscriptionView:
    told = {"msgBacklog": 5000, "lastConsumedTimestamp": None, **subscription}
    return by_stats.subscription_view(observed({**NOBODY_TOLD, **more, "subscription": told}))


@pytest.mark.parametrize(
    ("rates", "keys"),
    [
        ({"msgRateOut": 1200.0}, {"rate_out"}),
        ({"msgRateOut": 3.0, "messageAckRate": 2.5}, {"rate_out", "rate_acks"}),
        ({"msgRateOut": 40.0, "msgRateRedeliver": 900.0}, {"rate_out", "rate_redeliver"}),
        ({"msgRateOut": 40.0, "msgRateRedeliver": 1.0}, {"rate_out"}),
        ({"msgRateOut": 0.0, "msgRateRedeliver": 5.0}, {"rate_none"}),  # nothing was sent again
        ({"msgRateOut": 0.0, "messageAckRate": 0.0, "msgRateRedeliver": 0.0}, {"rate_none"}),
        ({"msgRateOut": 0.0, "msgBacklog": 0}, set()),
        ({}, set()),
    ],
)
def test_a_rate_is_a_clue(rates: dict[str, float], keys: set[str]) -> None:
    seen = {key for key in of_subscription(view_of(rates)) if key.startswith("rate_")}
    assert seen == keys


@pytest.mark.parametrize(
    "newer",
    [
        {"clock": "told"},  # which tells of the last delivery
        {"samples": ["0s", "10s"]},
    ],
)
def test_a_minute_without_deliveries_says_nothing_where_something_newer_is_told(
    newer: dict[str, Any],
) -> None:
    rates = {"msgRateOut": 0.0, "msgOutCounter": 9, "lastConsumedTimestamp": "20s ago"}
    assert {"minute_none", "rate_none"} <= of_subscription(view_of(rates)).keys()
    seen = of_subscription(view_of(rates, **newer))
    assert "rate_none" not in seen
    assert "minute_none" in seen  # a limit that sets the pace lets some through in any minute


YOUNG = {"connectedSince": "20s ago", "availablePermits": 60, "unackedMessages": 0}
ATTACHED = {"clock": "told", "consumers": {"quick": YOUNG}, "type": "Shared"}


@pytest.mark.parametrize(
    ("consumer", "speaks"),
    [
        ({}, False),  # nobody was attached in that minute
        ({"connectedSince": "1h ago"}, True),
        ({"unackedMessages": 3}, True),  # it sets the pace
        ({"availablePermits": 5001}, True),  # fewer wait than may be sent
        ({"availablePermits": 0}, True),
    ],
)
def test_what_was_sent_after_the_minute_may_be_held_back(
    consumer: dict[str, Any], speaks: bool
) -> None:
    rates = {"msgRateOut": 0.0, "msgOutCounter": 9, "lastConsumedTimestamp": "0s ago"}
    view = view_of(rates, **{**ATTACHED, "consumers": {"quick": {**YOUNG, **consumer}}})
    assert ("minute_none" in of_subscription(view)) is speaks


def test_so_may_what_was_sent_between_two_documents() -> None:
    rates = {"msgRateOut": 0.0, "msgOutCounter": [9, 19]}
    two = {"samples": ["0s", "10s"], "type": "Shared"}
    held_back = {"quick": {**YOUNG, "connectedSince": None, "msgOutCounter": [9, 19]}}
    assert "minute_none" not in of_subscription(view_of(rates, consumers=held_back, **two))
    still = {"quick": {**held_back["quick"], "msgOutCounter": 9}}
    view = view_of({**rates, "msgOutCounter": 9}, consumers=still, **two)
    assert "minute_none" in of_subscription(view)


def test_where_several_tell_their_own_the_sum_says_nothing() -> None:
    busy = {"busy": {"msgRateOut": 3.0}, "stuck": {"availablePermits": 0}}
    view = view_of({"msgRateOut": 3.0, "messageAckRate": 3.0}, consumers=busy)
    assert not {"rate_out", "rate_acks"} & of_subscription(view).keys()
    alone = view_of({"msgRateOut": 3.0}, consumers={"busy": {"msgRateOut": 3.0}})
    assert "rate_out" in of_subscription(alone)


def test_on_failover_all_goes_to_the_active_one() -> None:
    both = {"busy": {"msgRateOut": 3.0}, "waits": {"msgRateOut": 0.0}}
    rates = {"msgRateOut": 3.0, "messageAckRate": 3.0, "activeConsumerName": "busy"}
    view = view_of(rates, consumers=both, type="Failover")
    assert {"rate_out", "rate_acks"} <= of_subscription(view).keys()


def shares(view: SubscriptionView) -> dict[str, float]:
    return {each.code: each.probability for each in suspects_of(view, HYPOTHESES, {})}


def test_messages_that_go_out_speak_for_health_and_what_comes_back_for_a_storm() -> None:
    still, moving = shares(view_of({"msgRateOut": 0.0})), shares(view_of({"msgRateOut": 1200.0}))
    assert moving["healthy"] > still["healthy"]
    assert moving.get("broker-read-stuck", 0) <= still.get("broker-read-stuck", 0)
    storm = shares(view_of({"msgRateOut": 40.0, "msgRateRedeliver": 900.0}))
    assert storm["redelivery-storm"] > 3 * moving.get("redelivery-storm", 0)


def test_a_clue_that_was_not_measured_yet_has_the_weight_1() -> None:
    view = view_of({"msgRateOut": 1200.0})
    for case in (case for group in cases_of(view, HYPOTHESES, {}) for case in group):
        bare = {case.of.code: {"": -0.5}}
        assert case.total(bare) == pytest.approx(-0.5 + sum(sign for _, sign in case.signs))


@pytest.mark.parametrize(
    ("rate_in", "rates", "keys"),
    [
        (30.0, {"msgRateOut": 12.0}, {"backlog_grows"}),
        (30.0, {"msgRateOut": 0.0}, {"backlog_grows"}),
        (12.0, {"msgRateOut": 30.0}, {"backlog_falls"}),
        (12.0, {"msgRateOut": 30.0, "msgRateRedeliver": 29.0}, {"backlog_grows"}),  # of old ones
        (12.0, {"msgRateOut": 12.5}, {"keeps_up"}),  # about the same
        (0.0, {"msgRateOut": 0.0}, set()),
        (None, {"msgRateOut": 12.0}, set()),
        (30.0, {}, set()),
        (30.0, {"msgRateOut": 12.0, "msgBacklog": 0}, set()),
    ],
)
def test_the_rate_of_what_comes_tells_whether_the_backlog_grows(
    rate_in: float | None, rates: dict[str, float], keys: set[str]
) -> None:
    view = view_of(rates, topic={"msgRateIn": rate_in})
    tells = {"backlog_grows", "backlog_falls", "keeps_up"}
    assert of_subscription(view).keys() & tells == keys


def test_earlier_samples_tell_that_better_than_a_rate() -> None:
    grown = {"msgRateOut": 12.0, "msgBacklog": [5000, 4000]}
    view = view_of(grown, samples=["0s", "5s"], clock="told", topic={"msgRateIn": 30.0})
    assert of_subscription(view).keys() & {"backlog_grows", "backlog_falls"} == {"backlog_falls"}
