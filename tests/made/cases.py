"""The causes' transcripts, tests/causes/<code>.yaml, and what each source shows of them.

A case is written as the wire shows it: it has `wire` (see wire_script) and `at` (the moment of
judgement), or `stats` (see stats_script), and may have `told` and `set`. With both, or with `wire`
and `broker`, whose stats follow from the wire (see broker_script), it is one incident told both
ways: by each alone, and by both together, the answer is the same, but where `weaker` names a source
with what it says alone: `unknown`, `not told`, `silent`, or a severity. What follows from the wire
is judged as `stats` and, with the internal stats, as `internal`; the words and numbers of an answer
are those of the wire. `inside` is what the process of a consumer told, by the consumer's name:
fields of `Inside`, its `sits` as `thread: role, where, seconds`; every source is judged with it,
and without it the rule is silent. It says what the rule alone answers: `finds` (severity,
confidence, consumer, says, evidence), `silent: true`, or `unknown` or `not_told` (`true` or a part
of the reason); and may say what all rules together answer: `overall` (the status), `codes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import weighed_by
from pulsar_doctor.evidence import by_stats, by_wire
from pulsar_doctor.evidence.by_process import looked_into
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.process_report import Pool, Sitting
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exactly
from tests.causes.broker_script import told_by_broker
from tests.causes.stats_script import observed
from tests.causes.wire_script import played
from tests.support import yaml_files

FOLDER = Path(__file__).parents[1] / "causes"
RULES = {rule.code: rule for rule in load()}
CASES = {path.stem: yaml_files.read(path) for path in sorted(FOLDER.glob("*.yaml"))}
VIEWS: dict[str, dict[str, SubscriptionView]] = {}  # of a case, as JSON
BY_BOTH = {"both": "stats", "all": "internal"}  # the wire, and which of the broker's


@dataclass(frozen=True, slots=True)
class Answer:
    """What one rule says of a case by one source. found: also where the status leaves it open."""

    code: str
    case: dict[str, Any]
    source: str
    view: SubscriptionView
    alone: Diagnosis
    found: list[Finding]


def answers_to(code: str, case: dict[str, Any]) -> Iterator[Answer]:
    for source, view in views_of(case).items():
        alone = judged(case, view, [RULES[code]])
        yield Answer(code, case, source, view, alone, found(code, case, view))


def each_case() -> list[Any]:
    return [
        pytest.param(code, case, id=f"{code}: {case['name']}")
        for code, cases in CASES.items()
        for case in cases
    ]


def judged(case: dict[str, Any], view: SubscriptionView, rules: list[Cause]) -> Diagnosis:
    return weighed_by(view, rules, limits_of([*RULES.values()], case.get("set", ())))[0]


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


def found(code: str, case: dict[str, Any], view: SubscriptionView) -> list[Finding]:
    rule = RULES[code]
    answers = rule.check(view, limits_of([rule], case.get("set", []))[code])
    return [each for each in answers if isinstance(each, Finding)]
