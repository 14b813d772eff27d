"""Healthy has to be earned: how probable a problem may be, and what is told beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.diagnosis import fitted, ranking
from pulsar_doctor.diagnosis.answers import HEALTHY, NONE_OF_THESE
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.ranking import odds_of, suspects_of
from pulsar_doctor.diagnosis.verdict import Diagnosis, exit_code
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.report.words import cause
from tests.causes.stats_script import observed
from tests.incidents.asking import HYPOTHESES, RULES

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


def judged(odds: float, monkeypatch: pytest.MonkeyPatch, *changes: str) -> Diagnosis:
    fixed = weights(odds)
    monkeypatch.setattr(ranking.fitted, "weights", lambda: fixed)
    return diagnose(storm(), RULES, limits_of(RULES, changes))


def test_the_odds_of_a_problem_are_all_but_that_nothing_is_wrong() -> None:
    odds = odds_of(storm(), HYPOTHESES, (), weights(1))
    assert [each.code for each in odds.suspects()][:2] == [HEALTHY, STORM]
    assert odds.problem == pytest.approx(1 - odds.suspects()[0].probability, abs=0.001)
    assert sum(each.probability for each in odds.suspects()) == pytest.approx(1, abs=0.002)


def test_what_is_told_as_information_is_no_problem_any_more() -> None:
    odds = odds_of(storm(), HYPOTHESES, (STORM,), weights(1))
    assert STORM not in [each.code for each in odds.suspects()]


def test_what_is_hardly_possible_leaves_it_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fixed := weights(-9), HEALTHY, fixed[HEALTHY] | {"": 9.0})
    monkeypatch.setattr(ranking.fitted, "weights", lambda: fixed)
    said = diagnose(storm(), RULES, limits_of(RULES))
    assert (said.status, said.suspects, exit_code([said])) == ("healthy", (), 0)


def test_a_probable_problem_forbids_healthy_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = judged(1, monkeypatch)
    assert (said.status, exit_code([said])) == ("unknown", 3)
    assert exit_code([said], accept="all") == 0
    assert [each.code for each in said.suspects][:2] == [HEALTHY, STORM]
    [doubt] = said.unknown
    assert doubt.reason.endswith("%, and healthy allows 10%")
    assert said.unknowns[0] == f"healthy: {doubt.reason}"


def test_how_probable_it_may_be_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    said = judged(1, monkeypatch, "healthy.problem_at_most=60%")
    assert (said.status, exit_code([said])) == ("healthy", 0)
    assert [each.code for each in said.suspects] == [STORM, NONE_OF_THESE]


@pytest.mark.parametrize(
    ("connected", "early"), [("2ms", True), ("4900ms", True), ("5100ms", False), ("40s", False)]
)
def test_a_consumer_that_has_only_just_connected_is_no_likely_suspect(
    connected: str, early: bool
) -> None:
    """Its first messages fill a small queue at once, whatever its application does with them."""
    consumer = {"availablePermits": 0, "unackedMessages": 10, "msgOutCounter": 10}
    moments = dict.fromkeys(("connectedSince", "lastConsumedFlowTimestamp"), f"{connected} ago")
    document = {
        "samples": ["0s"],
        "subscription": {"msgBacklog": 3000, "unackedMessages": 10, "msgOutCounter": 10},
        "consumers": {"w": consumer | moments | {"lastConsumedTimestamp": f"{connected} ago"}},
    }
    suspects = suspects_of(by_stats.subscription_view(observed(document)), HYPOTHESES, {})
    assert suspects[0].code == "permits-exhausted"
    assert (suspects[0].probability <= ranking.EVEN) == early
    assert sum(each.probability for each in suspects) == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize(("connected", "early"), [("900ms", True), ("6s", False)])
def test_a_broker_is_no_likely_suspect_while_all_have_only_just_connected(
    connected: str, early: bool
) -> None:
    """A Failover subscription sends nothing in the first second of a consumer."""
    moments = dict.fromkeys(("connectedSince", "lastConsumedFlowTimestamp"), f"{connected} ago")
    document = {
        "samples": ["0s"],
        "type": "Failover",
        "subscription": {"msgBacklog": 568},
        "consumers": {"w": {"availablePermits": 100, **moments}},
    }
    wrong = [each for each in HYPOTHESES if each.code != HEALTHY]
    first = suspects_of(by_stats.subscription_view(observed(document)), wrong, {})[0]
    assert first.code == "broker-read-stuck"
    assert (first.probability <= ranking.EVEN) == early


@pytest.mark.parametrize("connected", ["200ms", "20s"])
def test_one_restart_is_no_likely_crash_loop(connected: str) -> None:
    """Who is there was sent the oldest message, as others were before, and has just begun."""
    moments = dict.fromkeys(("connectedSince", "lastConsumedFlowTimestamp"), f"{connected} ago")
    moments["lastConsumedTimestamp"] = f"{connected} ago"
    sent = {"msgBacklog": 270, "msgOutCounter": 560, "lastMarkDeleteAdvancedTimestamp": "30s ago"}
    document = {
        "samples": ["0s"],
        "type": "Exclusive",
        "topic": {"msgInCounter": 310},
        "subscription": {**sent, "lastConsumedTimestamp": f"{connected} ago"},
        "consumers": {"w": {"availablePermits": 730, "msgOutCounter": 270, **moments}},
    }
    said = diagnose(by_stats.subscription_view(observed(document)), RULES, limits_of(RULES))
    [share] = [s.probability for s in said.suspects if s.code == "consumers-come-and-go"]
    assert 0.3 < share <= ranking.EVEN


def test_of_two_that_ask_for_one_message_the_one_that_hangs_with_it_is_named() -> None:
    """None can be in its queue, and no check speaks of its silence: a law does."""
    often = dict.fromkeys(("lastConsumedTimestamp", "lastAckedTimestamp"), "0s ago")
    often["lastConsumedFlowTimestamp"] = "0s ago"
    once = dict.fromkeys(often, "69s ago")
    document = {
        "samples": ["0s"],
        "subscription": {"msgBacklog": 1, "unackedMessages": 1, "msgOutCounter": 464, **often},
        "consumers": {
            "w0": {"availablePermits": 0, "unackedMessages": 1, "msgOutCounter": 160, **once},
            "w1": {"availablePermits": 1, "msgOutCounter": 304, "messageAckRate": 2.0, **often},
        },
    }
    said = diagnose(by_stats.subscription_view(observed(document)), RULES, limits_of(RULES))
    named = [each for each in said.suspects if each.code != HEALTHY]
    assert (named[0].code, named[0].consumer, said.status) == ("permits-exhausted", "w0", "unknown")
    assert named[0].probability > named[-1].probability, "more likely than no known cause"
    assert "prefetch-hogging" in {each.code for each in said.ruled_out}


@pytest.mark.parametrize("silent", [61, 240, 299, 301, 329])
def test_a_hang_is_suspected_of_the_same_until_it_is_certain(silent: int) -> None:
    """Its queue filled up half a minute after its last sign, so that the check decides later."""
    counts = {"unackedMessages": 10, "msgOutCounter": 85}
    moments = {"connectedSince": silent + 20, "lastConsumedTimestamp": silent - 30}
    moments |= {"lastAckedTimestamp": silent, "lastConsumedFlowTimestamp": silent}
    ago = {name: f"{seconds}s ago" for name, seconds in moments.items()}
    moved = {"msgBacklog": 1500, "lastMarkDeleteAdvancedTimestamp": f"{silent}s ago"}
    document = {
        "samples": ["0s"],
        "subscription": {**counts, **moved},
        "consumers": {"w": {**counts, **ago, "availablePermits": 0, "avgMessagesPerEntry": 1}},
    }
    found = diagnose(by_stats.subscription_view(observed(document)), RULES, limits_of(RULES))
    assert (found.status, found.suspects[0].code) == ("unknown", "permits-exhausted")


@pytest.mark.parametrize(("sent", "suspected"), [(0, False), (40, True)])
def test_who_never_asked_has_lost_no_permits(sent: int, suspected: bool) -> None:
    counts = [9000, 9200, 9400]
    working = {"availablePermits": 400, "msgOutCounter": counts, "unackedMessages": 3}
    idle = {"availablePermits": 0, "msgOutCounter": sent, "unackedMessages": 0}
    told = {"msgBacklog": 40, "msgOutCounter": [count + sent for count in counts]}
    document = {"subscription": told, "consumers": {"works": working, "idle": idle}}
    odds = odds_of(by_stats.subscription_view(observed(document)), HYPOTHESES)
    assert (("permit-leak", "idle") in {(e.code, e.consumer) for e in odds.suspects()}) is suspected


@pytest.mark.parametrize(
    ("version", "alike"),
    [("Pulsar-Java-v4.0.8", "paused"), ("Pulsar-CPP-v4.2.0", "nobody-receives")],
)
def test_who_asks_for_nothing_looks_like_one_that_lost_its_permits(
    version: str, alike: str
) -> None:
    ago = dict.fromkeys(("lastAckedTimestamp", "lastConsumedTimestamp"), "10m ago")
    consumer = {"availablePermits": 0, "msgOutCounter": 100, "clientVersion": version}
    consumer |= ago | {"lastConsumedFlowTimestamp": "10m ago"}
    document = {"subscription": {"msgBacklog": 170}, "consumers": {"w": consumer}}
    view = by_stats.subscription_view(observed(document))
    found = diagnose(view, RULES, limits_of(RULES))
    first = found.suspects[0]
    assert (found.status, first.code, first.alike) == ("unknown", "permit-leak", alike)
    assert f"likely {alike} or permit-leak of w (" in cause(found)
    assert first.decide is not None
    assert first.decide.text.startswith("Find out at 10.0.0.1:50000 whether the consumer is paused")


def test_without_an_active_consumer_no_limit_sets_the_pace() -> None:
    consumer = {"availablePermits": 1000, "unackedMessages": 0, "msgOutCounter": 500}
    told = {"msgBacklog": 300, "activeConsumerName": ""}
    document = {"type": "Failover", "subscription": told, "consumers": {"a": consumer}}
    found = diagnose(by_stats.subscription_view(observed(document)), RULES, limits_of(RULES))
    limits = {"dispatch-throttled", "blocked-on-unacked-subscription"}
    assert found.status == "unknown"
    assert limits <= {each.code for each in found.ruled_out}


def test_sums_over_partitions_are_decided_by_reading_each() -> None:
    consumer = {"availablePermits": 2900, "unackedMessages": 1000, "msgOutCounter": 5000}
    document = {"subscription": {"msgBacklog": 51000}, "consumers": {"a": consumer}}
    view = replace(by_stats.subscription_view(observed(document)), hides_partitions=True)
    for suspect in diagnose(view, RULES, limits_of(RULES)).suspects[:-1]:
        assert suspect.decide is not None
        assert suspect.decide.text.startswith("Read each partition")


# Its application has hung for 160 s, and its queue of 1000 is full since a moment ago.
HUNG = {
    "availablePermits": [10, 0, 0],
    "msgOutCounter": [990, 1000, 1000],
    "msgRateOut": 6.0,
    "messageAckRate": 0.0,
    "connectedSince": "174s ago",
    "lastAckedTimestamp": "159s ago",
    "lastConsumedTimestamp": "8s ago",
    "lastConsumedFlowTimestamp": "174s ago",
}
FILLED = {
    "type": "Exclusive",
    "topic": {"msgInCounter": [990, 1020, 1050], "msgRateIn": 6.0},
    "subscription": {"msgBacklog": [901, 931, 961], "lastMarkDeleteAdvancedTimestamp": "159s ago"},
    "consumers": {"w": HUNG},
}


def test_a_warning_by_silence_is_the_first_suspect_where_its_consumer_is_silent() -> None:
    said = diagnose(by_stats.subscription_view(observed(FILLED)), RULES, limits_of(RULES))
    assert (said.status, said.findings) == ("unknown", ())
    first = said.suspects[0]
    assert (first.code, first.consumer) == ("permits-exhausted", "w")
    assert cause(said).startswith("likely permits-exhausted of w")


def test_that_its_queue_has_just_become_full_does_not_make_it_healthy() -> None:
    last = {name: value[1] if isinstance(value, list) else value for name, value in HUNG.items()}
    once = {
        **FILLED,
        "samples": ["0s"],
        "topic": {"msgInCounter": 1020, "msgRateIn": 6.0},
        "subscription": {"msgBacklog": 931, "lastMarkDeleteAdvancedTimestamp": "159s ago"},
        "consumers": {"w": {**last, "lastConsumedTimestamp": "3s ago"}},
    }
    said = diagnose(by_stats.subscription_view(observed(once)), RULES, limits_of(RULES))
    assert said.status == "unknown"
    assert said.suspects[0].code == "permits-exhausted"
