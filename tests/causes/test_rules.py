"""Each rule against its transcripts: tests/causes/<code>.yaml, written as the wire shows it.

A case has `wire` (see wire_script) and `at` (the moment of judgement), or `stats` (see
stats_script), and may have `told` and `set`. With both, or with `wire` and `broker`, whose stats
follow from the wire (see broker_script), it is one incident told both ways: by each alone, and by
both together, the answer is the same, but where `weaker` names a source with what it says alone:
`unknown`, `not told`, `silent`, or a severity. What follows from the wire is judged as `stats` and,
with the internal stats, as `internal`; the words and numbers of an answer are those of the wire.
`inside` is what the process of a consumer told, by the consumer's name: fields of `Inside`, its
`sits` as `thread: role, where, seconds`; every source is judged with it, and without it the rule is
silent. It says what the rule alone answers: `finds` (severity, confidence, consumer, says,
evidence), `silent: true`, or `unknown` or `not_told` (`true` or a part of the reason); and may say
what all rules together answer: `overall` (the status), `codes`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.diagnosis.answers import SEVERITIES, Finding
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import Diagnosis, weighed_by
from pulsar_doctor.evidence import by_stats, by_wire
from pulsar_doctor.evidence.by_process import looked_into
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.process_told import Pool, Sitting
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exactly
from tests.causes.broker_script import told_by_broker
from tests.causes.stats_script import observed
from tests.causes.wire_script import played
from tests.support import yaml_files

FOLDER = Path(__file__).parent
RULES = {rule.code: rule for rule in load()}
CASES = {path.stem: yaml_files.read(path) for path in sorted(FOLDER.glob("*.yaml"))}
ANSWERS = {"finds", "silent", "unknown", "not_told"}
KEYS = ANSWERS | {"name", "stats", "wire", "broker", "at", "told", "set", "overall", "codes"}
KEYS |= {"weaker", "inside"}
VIEWS: dict[str, dict[str, SubscriptionView]] = {}  # of a case, as JSON
BY_BOTH = {"both": "stats", "all": "internal"}  # the wire, and which of the broker's
# How many cases of a rule are told both ways, at least: such that find, and such that are silent.
BOTH_WAYS = {
    "ack-hole": (3, 4),
    "blocked-on-unacked-consumer": (4, 3),
    "exclusive-zombie": (5, 5),
    "handoff-unbounded": (3, 4),
    "inactive-failover": (5, 6),
    "negative-permits": (2, 8),
    "not-acknowledging": (5, 5),
    "permits-differ": (1, 3),
    "permits-exhausted": (21, 25),
    "prefetch-hogging": (9, 12),
    "redelivery-storm": (4, 10),
    "slow-but-progressing": (8, 7),
    "zero-queue-unsupported": (4, 7),
}
TOLD_OF_CONSUMERS = (
    "consumer_name", "available_permits", "unacked_messages", "blocked_consumer_on_unacked_msgs",
    "msg_out_counter", "connected_since_ms", "last_acked_timestamp_ms",
    "last_consumed_timestamp_ms", "last_consumed_flow_timestamp_ms",
)  # fmt: skip


def each_case() -> list[Any]:
    return [
        pytest.param(code, case, id=f"{code}: {case['name']}")
        for code, cases in CASES.items()
        for case in cases
    ]


def judged(case: dict[str, Any], view: SubscriptionView, rules: list[Cause]) -> Diagnosis:
    return weighed_by(view, rules, limits_of([*RULES.values()], case.get("set", ())))[0]


def is_told_both_ways(case: dict[str, Any]) -> bool:
    return "wire" in case and ("stats" in case or "broker" in case)


def views_of(case: dict[str, Any]) -> dict[str, SubscriptionView]:
    """By each source, and by the wire with each of the others; each transcript is played once."""
    key = json.dumps(case, sort_keys=True, default=str)
    if key not in VIEWS:
        VIEWS[key] = _views_of(case)
    return dict(VIEWS[key])


def _views_of(case: dict[str, Any]) -> dict[str, SubscriptionView]:
    views = {}
    if "stats" in case:
        views["stats"] = by_stats.subscription_view(observed(case["stats"]))
    if "broker" in case:
        for source, told in told_by_broker(case).items():
            views[source] = by_stats.subscription_view(told)
    if "wire" in case:
        [wire] = played(case["wire"], case["at"], case.get("told")).subscriptions()
        views["wire"] = by_wire.subscription_view(wire)
        views |= {
            both: merged(views[source], views["wire"])
            for both, source in BY_BOTH.items()
            if source in views
        }
    if "inside" in case:
        views = {source: with_process(view, case["inside"]) for source, view in views.items()}
    return views


def inside_of(fields: dict[str, Any]) -> Inside:
    """What a case tells of one consumer's process."""
    sits = []
    for thread, words in (fields.get("sits") or {}).items():
        role, where, seconds = words.split(", ")
        asleep = None if seconds == "-" else float(seconds)
        sits.append(Sitting(thread, role, "TIMED_WAITING", where, where, (where,), None, asleep))
    lists = {"sits": tuple(sits), "deadlock": tuple(fields.get("deadlock", ()))}
    lists["pools"] = tuple(
        Pool(**{**each, "threads": tuple(each["threads"])}) for each in fields.get("pools", ())
    )
    lists["pool_places"] = (
        tuple(replace(each, id=at) for at, each in enumerate(sits, 1)) if lists["pools"] else ()
    )
    rest = {name: value for name, value in fields.items() if name != "address"}
    return Inside(**({"seconds": 5.0} | rest | lists))


def with_process(view: SubscriptionView, told: dict[str, dict[str, Any]]) -> SubscriptionView:
    consumers = tuple(
        ConsumerView(
            label=name,
            name=name,
            address=fields.get("address"),
            receiver_queue_size=exactly(inside.queue_size),
            refill_threshold=inside.refills_at,
            one_by_one=inside.queue_size in (0, 1),
            next_flow_after=exactly(inside.until_flow),
            inside=inside,
        )
        for name, fields in told.items()
        for inside in [inside_of(fields)]
    )
    return looked_into(view, replace(view, consumers=consumers, sources=frozenset({PROCESS})))


@pytest.mark.parametrize(
    ("code", "case"), [each for each in each_case() if "inside" in each.values[1]]
)
def test_nobody_who_did_not_look_into_a_process_hears_of_it(
    code: str, case: dict[str, Any]
) -> None:
    if RULES[code].needs == {PROCESS}:
        for view in views_of({k: v for k, v in case.items() if k != "inside"}).values():
            alone = judged({}, view, [RULES[code]])
            assert (alone.status, alone.findings, alone.not_told) == ("healthy", (), ())


@pytest.mark.parametrize("code", [*RULES, *sorted(set(CASES) - set(RULES))])
def test_each_rule_has_transcripts_on_which_it_speaks_and_is_silent(code: str) -> None:
    assert code in RULES, f"tests/causes/{code}.yaml belongs to no rule"
    assert code in CASES, f"write tests/causes/{code}.yaml"
    assert any("finds" in case for case in CASES[code])
    assert any("silent" in case for case in CASES[code])


@pytest.mark.parametrize("code", CASES)
def test_what_both_sources_can_tell_is_told_both_ways(code: str) -> None:
    both = [case for case in CASES[code] if is_told_both_ways(case)]
    finds, silent = BOTH_WAYS.get(code, (0, 0))
    assert sum("finds" in case for case in both) >= finds
    assert sum("silent" in case for case in both) >= silent


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["name"])
        for code, cases in CASES.items()
        for case in cases
        if {"wire", "stats"} <= set(case)
        and code != "permits-differ"  # of which that is the point
        and case["stats"].get("consumers") != "not told"
    ],
)
def test_stats_beside_a_wire_are_those_of_its_broker(case: dict[str, Any]) -> None:
    written = observed(case["stats"])
    broker = {"samples": case["stats"]["samples"]}
    worked_out = told_by_broker(case | {"broker": broker})["stats"]
    for one, other in zip(written.consumers, worked_out.consumers, strict=True):
        for now, then in zip(one.values, other.values, strict=True):
            for name in TOLD_OF_CONSUMERS:
                assert getattr(now, name) == getattr(then, name), name


@pytest.mark.parametrize(("code", "case"), each_case())
def test_transcript(code: str, case: dict[str, Any]) -> None:
    assert set(case) <= KEYS, set(case) - KEYS
    assert len(ANSWERS & set(case)) == 1, f"a case has one of {sorted(ANSWERS)}"
    for source, view in views_of(case).items():
        if source in case.get("weaker", {}):
            assert_weaker(code, case, view, case["weaker"][source])
        elif "broker" in case and source in BY_BOTH.values():
            assert_answer(code, bare(case), view)
        else:
            assert_answer(code, case, view)


def bare(case: dict[str, Any]) -> dict[str, Any]:
    """Without the words and numbers that one source alone has, and what other rules answer."""
    rest = {key: value for key, value in case.items() if key not in ("overall", "codes")}
    if "finds" in case:
        rest["finds"] = {k: v for k, v in case["finds"].items() if k in ("severity", "consumer")}
    return rest | {key: True for key in ("unknown", "not_told") if key in case}


def assert_answer(code: str, case: dict[str, Any], view: SubscriptionView) -> None:
    alone = judged(case, view, [RULES[code]])
    if "finds" in case:
        assert_finds(found(code, case, view), code, case["finds"])
    else:
        assert alone.findings == ()
        assert alone.status == ("unknown" if "unknown" in case else "healthy"), alone.not_told
        reasons = " ".join(alone.not_told)
        assert bool(reasons) == ("silent" not in case), reasons
        for answer in ("unknown", "not_told"):
            assert answer not in case or case[answer] is True or case[answer] in reasons, reasons
    together = judged(case, view, list(RULES.values()))
    if "overall" in case:
        assert together.status == case["overall"], [f.code for f in together.findings]
    if "codes" in case:
        assert [finding.code for finding in together.findings] == case["codes"]


def assert_weaker(code: str, case: dict[str, Any], view: SubscriptionView, says: str) -> None:
    """One source alone tells less than the other: `unknown`, `not told` or a lesser severity."""
    assert says not in SEVERITIES or is_lesser(says, case), f"{says} is no less than its answer"
    alone = judged(case, view, [RULES[code]])
    if says in ("unknown", "not told", "silent"):
        assert alone.findings == ()
        assert alone.status == ("unknown" if says == "unknown" else "healthy"), alone.not_told
        assert bool(alone.not_told) == (says != "silent")
    else:
        assert [finding.severity for finding in found(code, case, view)] == [says]


def is_lesser(says: str, case: dict[str, Any]) -> bool:
    return "finds" in case and SEVERITIES.index(says) > SEVERITIES.index(case["finds"]["severity"])


def found(code: str, case: dict[str, Any], view: SubscriptionView) -> list[Finding]:
    """What the check finds, also where the status leaves it open."""
    rule = RULES[code]
    answers = rule.check(view, limits_of([rule], case.get("set", []))[code])
    return [each for each in answers if isinstance(each, Finding)]


def assert_finds(findings: list[Finding], code: str, wanted: dict[str, Any]) -> None:
    assert len(findings) == 1, findings
    [finding] = findings
    assert finding.code == code
    assert finding.severity == wanted["severity"], finding.summary
    if "confidence" in wanted:
        assert finding.confidence == pytest.approx(wanted["confidence"])
    if "consumer" in wanted:
        assert finding.consumer == wanted["consumer"]
    assert wanted.get("says", "") in finding.summary
    assert wanted.get("remedy", "") in finding.remedy
    evidence = {measure.name: measure.value for measure in finding.evidence}
    for name, value in wanted.get("evidence", {}).items():
        assert evidence[name] == pytest.approx(value), f"{name} of {evidence}"


def test_what_a_rule_explains_is_a_rule_and_never_its_own_cause() -> None:
    for rule in RULES.values():
        assert rule.explains <= set(RULES)
        for code in rule.explains:
            assert rule.code not in RULES[code].explains


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_each_rule_can_be_explained(rule: Cause) -> None:
    first, rest = rule.text.strip().split("\n", 1)
    assert first.endswith(".")
    assert "Source: " in rest or "Nothing is wrong with the broker" in rest
    for threshold in rule.thresholds:
        assert f"`{threshold.name}`" in rule.text, f"the docstring does not speak of {threshold}"
