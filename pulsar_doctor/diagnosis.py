"""Gathers what is known of a subscription, asks the rules, and weighs their answers.

A rule says found, clear or unknown. Root causes come before their consequences: a rule may name
other codes that it explains, and what it explains on the same consumer (or on the subscription) is
left out. What a source can never tell is said in `not_told` and makes nothing unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pulsar_doctor.errors import InputError
from pulsar_doctor.permits import Forecast
from pulsar_doctor.timeline import Consumer, Subscription

Severity = Literal["stalled", "warning", "info"]
Status = Literal["stalled", "warning", "healthy", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("stalled", "warning", "info")
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

WIRE = "a trace of the wire"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that a finding rests on."""

    name: str
    value: int | float | str | None
    unit: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One root cause, with its numbers and what to do. confidence: from 0 to 1."""

    code: str
    severity: Severity
    confidence: float
    consumer: str | None
    summary: str
    evidence: tuple[Measure, ...]
    remedy: str

    @property
    def explain(self) -> str:
        """The command that prints more about it."""
        return f"pulsar-doctor explain {self.code}"


@dataclass(frozen=True, slots=True)
class Found:
    """The rule's cause is there."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """The rule's cause is not there."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The evidence does not decide, and why."""

    reason: str


Outcome = Found | Clear | Unknown
CLEAR = Clear()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one subscription. Any part may be missing."""

    wire: Subscription | None = None

    @property
    def parts(self) -> frozenset[str]:
        """Which sources there are, in the words of a rule's `needs`."""
        return frozenset({WIRE} if self.wire is not None else ())


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule turns on; `--set rule.name=value` changes it. unit: as it is shown."""

    name: str
    default: float
    unit: str
    meaning: str


Limits = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Rule:
    """One file of rules/. needs: any one of these parts of the evidence. explains: other codes."""

    code: str
    text: str
    check: Callable[[Evidence, Limits], Outcome]
    needs: frozenset[str]
    thresholds: tuple[Threshold, ...] = ()
    explains: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict on one subscription, worst finding first. backlog: entries, None: not told."""

    topic: str
    partition: int | None
    subscription: str
    type: str | None
    status: Status
    findings: tuple[Finding, ...]
    not_told: tuple[str, ...]
    backlog: int | None = None


# Rules that speak of the same waiting share these names, each with a value of its own.
REFILL_WAIT = Threshold(
    "refill_wait", 300.0, "seconds", "a next FLOW further away than this is a stall"
)
SLOW_WAIT = Threshold("slow_wait", 30.0, "seconds", "a next FLOW nearer than this is healthy")
QUIET_AFTER = Threshold(
    "quiet_after", 5.0, "seconds", "below this age a standstill is not spoken of"
)

RuleLimits = Mapping[str, Limits]


@dataclass(frozen=True, slots=True)
class _Weighed:
    findings: list[tuple[Rule, Finding]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    not_told: list[str] = field(default_factory=list)


def diagnose(evidence: Evidence, rules: Sequence[Rule], limits: RuleLimits) -> Diagnosis:
    """Asks the rules, in their order, and weighs what they say. limits: from `limits_of`."""
    weighed = _Weighed()
    for rule in rules:
        if not rule.needs & evidence.parts:
            weighed.not_told.append(f"{rule.code}: needs {' or '.join(sorted(rule.needs))}")
            continue
        outcome = _ask(rule, evidence, limits[rule.code])
        if isinstance(outcome, Found):
            weighed.findings.extend((rule, finding) for finding in outcome.findings)
        elif isinstance(outcome, Unknown):
            weighed.unknown.append(f"{rule.code}: {outcome.reason}")
    findings = tuple(sorted(_root_causes(weighed.findings), key=_worst_first))
    named = evidence.wire
    assert named is not None
    return Diagnosis(
        topic=named.topic,
        partition=named.partition,
        subscription=named.subscription,
        type=named.type,
        status=_status(findings, weighed.unknown),
        findings=findings,
        not_told=(*weighed.unknown, *weighed.not_told),
    )


def _ask(rule: Rule, evidence: Evidence, limits: Limits) -> Outcome:
    wire = evidence.wire
    if wire is not None and any(consumer.ledger.uncertain for consumer in wire.consumers):
        return Unknown("commands are missing from the trace (GAP), so its ledger is not known")
    return rule.check(evidence, limits)


def _root_causes(found: Sequence[tuple[Rule, Finding]]) -> Iterable[Finding]:
    for _, finding in found:
        if not any(
            finding.code in rule.explains
            and other.code != finding.code
            and other.consumer in (None, finding.consumer)
            for rule, other in found
        ):
            yield finding


def _worst_first(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), -finding.confidence


def _status(findings: Sequence[Finding], unknown: Sequence[str]) -> Status:
    worst = findings[0].severity if findings else "info"
    if worst != "info":
        return worst
    return "unknown" if unknown else "healthy"


def found(findings: Iterable[Finding]) -> Outcome:
    """Found where there is a finding, clear otherwise."""
    collected = tuple(findings)
    return Found(collected) if collected else CLEAR


def limits_of(rules: Sequence[Rule], changes: Iterable[str] = ()) -> dict[str, dict[str, float]]:
    """The thresholds of the rules. changes: texts `rule.threshold=value`, durations with a unit.

    Raises InputError where a change names no rule or threshold, or its value is no number.
    """
    limits = {rule.code: {t.name: t.default for t in rule.thresholds} for rule in rules}
    for change in changes:
        name, equals, value = change.partition("=")
        code, _, threshold = name.strip().partition(".")
        if not equals or threshold not in limits.get(code, {}):
            known = ", ".join(f"{code}.{name}" for code, names in limits.items() for name in names)
            raise InputError(f"--set takes rule.threshold=value, not {change!r}; known: {known}")
        limits[code][threshold] = _number(value.strip(), change)
    return limits


def _number(text: str, change: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text)
    if not match:
        raise InputError(f"--set {change}: the value is no number and no duration such as 5s or 2m")
    return float(match[1]) * UNIT_SECONDS.get(match[2] or "s", 1.0)


def next_flow(forecast: Forecast) -> str:
    """When the next FLOW comes, as a person says it."""
    at_most = "at most " if forecast.at_most else ""
    text = f"next FLOW after {at_most}{forecast.messages} more"
    if forecast.pace is None or forecast.seconds is None:
        return text
    each = f"{duration(forecast.pace.seconds)} each"
    told = ", as told" if forecast.pace.source == "as told" else ""
    return f"{text}, in about {duration(forecast.seconds)} at {each}{told}"


def waiting_measures(consumer: Consumer, now_ns: int) -> tuple[Measure, ...]:
    """The numbers of a consumer that waits for its next FLOW."""
    ledger = consumer.ledger
    forecast = ledger.forecast()
    pace = ledger.pace()
    size = "0 or 1" if ledger.one_by_one else ledger.receiver_queue_size
    return (
        Measure("available_permits", ledger.available_permits, "permits"),
        Measure("unacked_messages", ledger.unacked, "messages"),
        Measure("queued_min", ledger.queued_min, "messages"),
        Measure("receiver_queue_size", size, "messages"),
        Measure("flows", ledger.flow_count, "commands"),
        Measure("next_flow_after", forecast.messages if forecast else None, "messages"),
        Measure("next_flow_in", forecast.seconds if forecast else None, "seconds"),
        Measure("pace", pace.seconds if pace else None, "seconds/message"),
        Measure("pace_source", pace.source if pace else "cannot tell", ""),
        Measure("quiet_for", round(ledger.quiet_seconds(now_ns), 3), "seconds"),
    )


def duration(seconds: float) -> str:
    """A length of time as a person says it: 250 ms, 12 s, 5 min, 83 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for size, unit in ((172800, "d"), (7200, "h"), (120, "min")):
        if seconds >= size:
            number = seconds / {"d": 86400, "h": 3600, "min": 60}[unit]
            return f"{number:.3g} {unit}"
    return f"{seconds:.3g} s"
