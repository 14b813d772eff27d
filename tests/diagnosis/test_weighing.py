"""How the answers of rules become one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    NONE_OF_THESE,
    Answers,
    CauseAnswer,
    Finding,
    NotReported,
    ReaderRests,
    Severity,
    Suspect,
    TooProbable,
    Unknown,
    Unreliable,
)
from pulsar_doctor.diagnosis.cause import Cause, Hypothesis
from pulsar_doctor.diagnosis.causes import load, named
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.status import FailOn, Status
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.diagnosis.verdict import Diagnosis, exit_code
from pulsar_doctor.diagnosis.weighing import diagnose, hypotheses_of
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.measures import WIRE
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.balance import Forecast, Pace
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.wording.durations import duration
from tests.causes.wire_script import played
from tests.made.cases import CASES

STATS = "samples of the broker's stats"
WORKING = ("0s subscribe a Shared; subscribe b Shared", "0s flow a 10; flow b 10")


def finding(code: str, severity: Severity, consumer: str | None, sure: float = 0.8) -> Finding:
    return Finding(
        code=code, severity=severity, confidence=sure, consumer=consumer, evidence=(),
        summary=f"{code} of {consumer}", remedy="wait",
    )  # fmt: skip


def rule(code: str, said: Sequence[CauseAnswer], *explains: str, **more: Any) -> Cause:
    values = {"needs": frozenset({WIRE}), "symptom": "nothing comes"}
    values |= {"explains": frozenset(explains), **more}
    return Cause(code, code, lambda evidence, limits: iter(said), **values)


def wire(*lines: str, at: str = "1s") -> Subscription:
    [subscription] = played(lines or WORKING, at).subscriptions()
    return subscription


def judge(*rules: Cause, subscription: Subscription | None = None) -> Diagnosis:
    return diagnose(by_wire.subscription_view(subscription or wire()), rules, limits_of(rules))


def of(status: Status) -> Diagnosis:
    return Diagnosis("t", None, "s", "Shared", status, (), ())


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ([], "healthy"),
        ([[]], "healthy"),
        ([[finding("x", "info", None)]], "healthy"),
        ([[finding("x", "warning", None)]], "warning"),
        ([[finding("x", "stalled", None)], []], "stalled"),
        ([[Unknown("hidden")], []], "unknown"),
        ([[Unknown("hidden")], [finding("x", "info", None)]], "unknown"),
        ([[Unknown("hidden")], [finding("x", "warning", None)]], "warning"),
    ],
)
def test_the_status_is_the_worst_severity_or_unknown(
    said: list[list[CauseAnswer]], status: Status
) -> None:
    rules = [rule(f"rule-{number}", answers) for number, answers in enumerate(said)]
    assert judge(*rules).status == status


def test_what_no_source_can_tell_is_said_and_leaves_the_subscription_healthy() -> None:
    blind = rule("broker-read-stuck", [Unknown("never asked")], needs=frozenset({STATS}))
    verdict = judge(blind)
    assert verdict.status == "healthy"
    assert verdict.unknowns == (f"broker-read-stuck: needs {STATS}",)
    assert verdict.unknown == ()


def test_what_was_asked_and_not_decided_is_said_and_makes_it_unknown() -> None:
    verdict = judge(rule("x", [Unknown("too short a time", "a")]))
    assert verdict.status == "unknown"
    assert verdict.unknowns == ("x: too short a time",)


def test_a_root_cause_hides_its_consequence_on_the_same_consumer_only() -> None:
    cause = rule("cause", [finding("cause", "stalled", "a")], "effect")
    effects = finding("effect", "stalled", "a"), finding("effect", "stalled", "b")
    verdict = judge(cause, rule("effect", effects))
    assert [(f.code, f.consumer) for f in verdict.findings] == [("cause", "a"), ("effect", "b")]


def test_a_root_cause_of_the_subscription_hides_its_consequences_on_all_consumers() -> None:
    cause = rule("cause", [finding("cause", "stalled", None)], "effect")
    effects = finding("effect", "stalled", "a"), finding("effect", "stalled", "b")
    assert [f.code for f in judge(cause, rule("effect", effects)).findings] == ["cause"]


def test_a_cause_on_one_consumer_explains_what_it_does_to_the_subscription() -> None:
    cause = rule("cause", [finding("cause", "stalled", "a")], "effect")
    effect = rule("effect", [finding("effect", "stalled", None)])
    assert [f.code for f in judge(cause, effect).findings] == ["cause"]
    elsewhere = rule("effect", [finding("effect", "stalled", "b")])
    assert len(judge(cause, elsewhere).findings) == 2


def test_a_root_cause_is_as_severe_as_what_it_explains() -> None:
    cause = rule("cause", [finding("cause", "warning", "a")], "effect")
    verdict = judge(cause, rule("effect", [finding("effect", "stalled", "a")]))
    assert verdict.status == "stalled"
    assert [(f.code, f.severity) for f in verdict.findings] == [("cause", "stalled")]


def test_what_is_found_is_not_ruled_out_too() -> None:
    excluded = [
        Hypothesis("it leaks", excluded=(lambda view: "a has permits",), code=code) for code in "xy"
    ]
    found = rule("x", [finding("x", "warning", "a")], hypothesis=excluded[0])
    said = judge(found, rule("y", [], hypothesis=excluded[1]))
    assert [each.code for each in said.ruled_out] == ["y"]


def test_findings_come_worst_first_and_then_the_surest() -> None:
    rules = [
        rule("w", [finding("w", "warning", "a", 1.0)]),
        rule("s", [finding("s", "stalled", "a", 0.6), finding("t", "stalled", "b", 0.9)]),
        rule("i", [finding("i", "info", None)]),
    ]
    assert [f.code for f in judge(*rules).findings] == ["t", "s", "w", "i"]


def test_a_rule_is_not_asked_where_commands_are_missing_or_nobody_was_accepted() -> None:
    clear = rule("x", [])
    gap = judge(clear, rule("y", []), subscription=wire(*WORKING, "1s gap"))
    assert (gap.status, gap.unknowns) == ("unknown", (by_wire.GAP,))
    assert judge(clear, subscription=wire("0s refused w Exclusive")).status == "unknown"
    accepted = wire("0s subscribe a Shared", "0s refused b Shared")
    assert judge(clear, subscription=accepted).status == "healthy"


def test_the_verdict_on_a_consumer_is_by_its_own_findings_and_the_subscriptions() -> None:
    both = wire()
    a, b = both.consumers
    own = judge(rule("x", [finding("x", "stalled", "a")]), subscription=both)
    assert (own.status_of(a), own.status_of(b)) == ("stalled", "healthy")
    shared = judge(rule("x", [finding("x", "warning", None)]), subscription=both)
    assert (shared.status_of(a), shared.status_of(b)) == ("warning", "warning")
    unsure = judge(
        rule("x", [finding("x", "stalled", "a")]),
        rule("y", [Unknown("hidden", "b")]),
        subscription=both,
    )
    assert (unsure.status_of(a), unsure.status_of(b)) == ("stalled", "unknown")


def test_a_diagnosis_judges_the_incarnations_that_were_there() -> None:
    timeline = played(["0s subscribe w Shared", "1s lose w", "2s subscribe w Shared"], "3s")
    [subscription] = timeline.subscriptions()
    verdict = judge(subscription=subscription)
    assert [verdict.judges(consumer) for consumer in timeline.consumers] == [False, True]


@pytest.mark.parametrize(
    ("statuses", "fail_on", "code"),
    [
        ([], "stalled", 3),
        ([], "never", 3),
        (["healthy", "warning"], "stalled", 0),
        (["healthy", "warning"], "warning", 1),
        (["healthy", "stalled"], "stalled", 1),
        (["stalled"], "warning", 1),
        (["stalled", "warning"], "never", 0),
        (["unknown", "healthy"], "stalled", 3),
        (["unknown", "warning"], "stalled", 3),
        (["unknown", "warning"], "warning", 1),
        (["unknown", "stalled"], "stalled", 1),
        (["unknown", "stalled"], "never", 3),
    ],
)
def test_exit_code(statuses: list[Status], fail_on: FailOn, code: int) -> None:
    judged = [of(status) for status in statuses]
    assert exit_code(judged, fail_on) == code
    assert exit_code(judged, fail_on, accept="all") == (0 if code == 3 else code)


@pytest.mark.parametrize(
    ("status", "code", "probability", "fail_on", "exits"),
    [
        ("unknown", "permits-exhausted", 0.6, "suspect", 1),
        ("unknown", "permits-exhausted", 0.59, "suspect", 3),
        ("unknown", "permits-exhausted", 0.9, "stalled", 3),
        ("unknown", "permits-exhausted", 0.9, "warning", 3),
        ("unknown", "permits-exhausted", 0.9, "never", 3),
        ("unknown", "no-consumer", 0.9, "suspect", 3),
        ("unknown", HEALTHY, 0.9, "suspect", 3),
        ("unknown", NONE_OF_THESE, 0.9, "suspect", 3),
        ("warning", "permits-exhausted", 0.7, "suspect", 1),
        ("warning", "ack-hole", 0.7, "suspect", 0),
        ("stalled", "ack-hole", 0.7, "suspect", 1),
    ],
)
def test_a_likely_stall_fails_where_a_suspicion_is_to_fail(
    status: Status, code: str, probability: float, fail_on: FailOn, exits: int
) -> None:
    stalls = {each.code for each in hypotheses_of(load()) if each.stalls}
    suspects = (
        Suspect(code, "w", probability, "", stalls=code in stalls),
        Suspect("x", None, 1 - probability, ""),
    )
    judged = replace(of(status), suspects=suspects)
    assert exit_code([of("healthy"), judged], fail_on) == exits
    checkup = Checkup("broker", [of("healthy"), judged])
    assert len(list(checkup.examined())) == 2
    assert checkup.tally.exit_code(fail_on) == exits


def test_what_is_no_stall_is_a_rule_of_which_no_case_finds_one() -> None:
    stalling = {
        code
        for code, cases in CASES.items()
        if any(case.get("finds", {}).get("severity") == "stalled" for case in cases)
    }
    never = {each.code for each in hypotheses_of(load()) if not each.stalls} - {HEALTHY}
    suspected = {each.code for each in hypotheses_of(load())}
    # That the last consumer has left is seen as a stall, and never suspected.
    assert suspected - stalling - {HEALTHY} == never - {"no-consumer"}


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("permits-exhausted.refill_wait=5s", 5),
        ("permits-exhausted.refill_wait=250ms", 0.25),
        ("permits-exhausted.refill_wait=2m", 120),
        ("permits-exhausted.refill_wait=1.5h", 5400),
        ("permits-exhausted.refill_wait=1d", 86400),
        ("permits-exhausted.refill_wait=7", 7),
        (" permits-exhausted.refill_wait = 8s ", 8),
        ("redelivery-storm.least=100", 100),
        ("redelivery-storm.share=0.9", 0.9),
    ],
)
def test_set_changes_one_threshold_and_no_other(change: str, value: float) -> None:
    name = change.partition("=")[0].strip()
    code, _, threshold = name.partition(".")
    limits = limits_of(load(), [change])
    assert limits[code][threshold] == value
    limits[code][threshold] = limits_of(load())[code][threshold]
    assert limits == limits_of(load())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("permits-exhausted.refill_wait", "CODE.THRESHOLD=VALUE"),
        ("permits-exhausted.refill_wait=", "CODE.THRESHOLD=VALUE"),
        ("permits-exhausted.refil_wait=5s", "did you mean permits-exhausted.refill_wait"),
        ("permits_exhausted.refill_wait=5s", "did you mean permits-exhausted.refill_wait"),
        ("refill_wait=5s", "blocked-on-unacked-consumer.refill_wait, "),
        ("permits-exhausted.foo=5s", "permits-exhausted.refill_wait"),
        ("nonsense.bar=5s", "(`pulsar-doctor explain -v` lists all); there are ack-hole."),
        ("nonsense.bar=5s", ", ack-hole.passed_by and "),
        ("zzz=1", "there are ack-hole.given_back_within, "),
        ("permits-exhausted.refill_wait=soon", "not a duration"),
        ("permits-exhausted.refill_wait=-5s", "not a duration"),
        ("permits-exhausted.refill_wait=5 s", "not a duration"),
        ("permits-exhausted.refill_wait=5w", "not a duration"),
        ("redelivery-storm.least=5m", "not a number (messages)"),
        ("permits-exhausted.receiver_queue_size=5000000000", "a broker counts (2147483647)"),
    ],
)
def test_set_that_cannot_be_is_wrong_usage(change: str, says: str) -> None:
    with pytest.raises(InputError, match="--set") as raised:
        limits_of(load(), [change])
    assert says in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_rule_gets_its_own_thresholds() -> None:
    seen: list[Limits] = []

    def check(view: SubscriptionView, limits: Limits) -> Answers:
        seen.append(limits)
        return iter(())

    waits = Threshold("wait", 5.0, "seconds", "how long")
    rules = [Cause("x", "x", check, frozenset({WIRE}), "nothing comes", (waits,))]
    diagnose(by_wire.subscription_view(wire()), rules, limits_of(rules, ["x.wait=9s"]))
    assert seen == [{"wait": 9.0}]


def test_a_code_that_is_unknown_brings_those_that_are_written_alike() -> None:
    assert [rule.code for rule in named(["prefetch-hogging"])] == ["prefetch-hogging"]
    with pytest.raises(InputError, match="did you mean permits-exhausted"):
        named(["permit-exhausted"])


@pytest.mark.parametrize(
    ("ahead", "text"),
    [
        (Forecast(499, False, 499, None), "next FLOW after 499 more messages, cannot tell when"),
        (
            Forecast(500, True, 500, None),
            "next FLOW after at most 500 more messages, cannot tell when",
        ),
        (Forecast(1, True, 1, None), "next FLOW after 1 more message, cannot tell when"),
        (
            Forecast(499, False, 499, Pace(600, "as told")),
            "next FLOW after 499 more messages, in about 83 h at 10 min each, as given",
        ),
        (
            Forecast(5, False, 5, Pace(0.2, "measured")),
            "next FLOW after 5 more messages, in about 1 s at 200 ms each",
        ),
    ],
)
def test_next_flow_as_a_person_says_it(ahead: Forecast, text: str) -> None:
    assert str(ahead) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250 ms"),
        (12, "12 s"),
        (300, "5 min"),
        (299400, "83 h"),
        (777600, "9 d"),
        (36000, "10 h"),
    ],
)
def test_a_length_of_time_as_a_person_says_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_a_source_can_never_tell_makes_nothing_unknown() -> None:
    verdict = judge(rule("rule", [NotReported("this broker does not write it")]))
    assert verdict.status == "healthy"
    assert verdict.unknowns == ("rule: this broker does not write it",)


def test_of_many_answers_a_finding_counts_first_then_doubt_then_what_is_not_told() -> None:
    cause = finding("cause", "stalled", None)
    doubt, silence = Unknown("doubt"), NotReported("silence")
    verdict = judge(rule("x", [silence, doubt, cause]))
    assert (verdict.findings, verdict.unknowns) == ((cause,), ())
    assert judge(rule("x", [silence, doubt, doubt])).unknowns == ("x: doubt",)
    assert judge(rule("x", [silence, silence])).unknowns == ("x: silence",)
    assert judge(rule("x", [])).unknowns == ()


@pytest.mark.parametrize(("at", "says"), [("59s", ""), ("70s", "a has had no permits for 69 s")])
def test_who_has_no_permits_on_a_non_persistent_topic_loses_what_comes(at: str, says: str) -> None:
    """It has acknowledged, as clients do there too, and holds nothing that anybody waits for."""
    lines = ("0s subscribe a Shared", "0s flow a 10", "1s message a 10 singles", "1s ack a 10")
    seen = wire(*lines, at=at)
    lost = judge(rule("x", []), subscription=replace(seen, topic="non-persistent://a/b/c"))
    kept = judge(rule("x", []), subscription=seen)
    assert any(says in doubt.reason for doubt in lost.unknown) == bool(says)
    assert not any("no permits for" in doubt.reason for doubt in kept.unknown)


@pytest.mark.parametrize(
    ("unknown", "rests"),
    [
        ((), False),
        ((ReaderRests("stands still"),), True),
        ((TooProbable("a problem is probable"),), False),
        ((ReaderRests("stands still"), TooProbable("a problem is probable")), False),
        ((ReaderRests("stands still"), Unreliable("a counter is wrong")), False),
    ],
)
def test_a_reader_is_accepted_where_its_standstill_is_all(
    unknown: tuple[Unknown, ...], rests: bool
) -> None:
    judged = replace(of("unknown"), unknown=unknown)
    assert exit_code([judged], accept="readers") == (0 if rests else 3)
    assert exit_code([judged, of("unknown")], accept="readers") == 3
    assert exit_code([judged, of("stalled")], accept="readers") == 1
    assert exit_code([], accept="readers") == 3
