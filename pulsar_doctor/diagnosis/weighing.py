"""Runs the check of every cause on a subscription, and combines the answers to a verdict.

A check answers with findings, with what it could not decide, with what this source never reports,
or with nothing. Root causes come before their consequences: a finding that another cause explains,
on the same consumer or on the subscription, is left out and lends its severity to the root. What a
source never reports is listed in `unknowns` and makes nothing unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    SEVERITIES,
    CauseAnswer,
    Finding,
    NotReported,
    ReaderRests,
    Rests,
    SilentHolder,
    Suspect,
    Unknown,
    Unreliable,
)
from pulsar_doctor.diagnosis.cause import Cause, Hypothesis
from pulsar_doctor.diagnosis.context import consumers_of, remedy_of, with_context
from pulsar_doctor.diagnosis.fitted import sure
from pulsar_doctor.diagnosis.healthy import HYPOTHESIS as HEALTHY_HYPOTHESIS
from pulsar_doctor.diagnosis.healthy import NOTHING_FOUND, PROBLEM_AT_MOST
from pulsar_doctor.diagnosis.holder_laws import moves
from pulsar_doctor.diagnosis.known.matching import known_issues
from pulsar_doctor.diagnosis.laws import resting
from pulsar_doctor.diagnosis.pace import pace_of
from pulsar_doctor.diagnosis.ranking import EVEN, FAR, odds_of, suspects_of
from pulsar_doctor.diagnosis.restart_laws import outlived
from pulsar_doctor.diagnosis.ruling_out import ruled_out
from pulsar_doctor.diagnosis.status import doubts_by_odds, status_of
from pulsar_doctor.diagnosis.thresholds import LONG_SECONDS, Limits
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.evidence.account import Account, Place, account_of
from pulsar_doctor.evidence.balance import LONGEST_BURST, balance_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.deadlines import deadlines_of
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.consumers import Subscription

SUMS = (
    "these numbers are sums over all partitions, and one of them may be stuck; "
    "`pulsar-admin topics partitioned-stats --per-partition` shows each"
)
CauseLimits = Mapping[str, Limits]  # by code; `limits.limits_of` makes it


@dataclass(frozen=True, slots=True)
class _Weighed:
    findings: list[tuple[Cause, Finding]] = field(default_factory=list)
    unknown: list[tuple[Cause, Unknown]] = field(default_factory=list)
    undecided: dict[str, list[Unknown]] = field(default_factory=dict)
    unknowns: list[str] = field(default_factory=list)

    def add(self, cause: Cause, answers: Sequence[CauseAnswer]) -> None:
        """What one check found; else the first thing unknown; else the first thing not reported."""
        findings = [(cause, answer) for answer in answers if isinstance(answer, Finding)]
        unknown = [(cause, answer) for answer in answers if isinstance(answer, Unknown)]
        reasons = [answer.reason for answer in answers if isinstance(answer, NotReported)]
        if findings:
            self.findings.extend(findings)
        elif unknown:
            self.unknown.append(unknown[0])
            self.undecided[cause.code] = [answer for _, answer in unknown]
        else:
            self.unknowns.append(f"{cause.code}: {reasons[0]}")

    def settle(self) -> None:
        """Leaves out what is undecided of a consumer if its process shows the cause."""
        inside = ((cause, found) for cause, found in self.findings if cause.needs == {PROCESS})
        known = {(code, found.consumer) for cause, found in inside for code in cause.explains}
        left = [each for each in self.unknown if (each[0].code, each[1].consumer) not in known]
        for code in {cause.code for cause, _ in self.unknown} - {cause.code for cause, _ in left}:
            del self.undecided[code]
        self.unknown[:] = left

    def decided(self, view: SubscriptionView) -> Iterator[Finding]:
        """The root causes, worst first. What may be the first minutes of a stall stays open."""
        by_silence = {cause.code: cause for cause, _ in self.findings if cause.by_silence}
        silent = {one.consumer for _, one in self.unknown if isinstance(one, SilentHolder)}
        for finding in sorted(_root_causes(self.findings), key=_worst_first):
            cause = by_silence.get(finding.code)
            rests = finding.consumer in silent or _may_stand(view, finding)
            if cause is None or finding.severity != "warning" or not rests:
                yield finding
                continue
            still = SilentHolder(finding.summary, finding.consumer)
            self.unknown.append((cause, still))
            self.undecided.setdefault(cause.code, []).append(still)


def _may_stand(view: SubscriptionView, finding: Finding) -> bool:
    """Whether nothing shows that the consumer of a warning moves, or any where it names none."""
    named = [each for each in view.served if finding.consumer in (None, each.label)]
    return bool(named) and not any(_moves(view, each) for each in named)


def _moves(view: SubscriptionView, consumer: ConsumerView) -> bool:
    """Whether it moves. What is sent to a consumer that owes acks does not show it."""
    if not view.waits_for_acks_of(consumer):
        return moves(consumer)
    return bool(consumer.works or consumer.resting)


def diagnose(
    view: SubscriptionView,
    causes: Sequence[Cause],
    limits: CauseLimits,
    places: Sequence[Place] | None = None,
) -> Diagnosis:
    """Runs the checks in their order, and weighs the answers.

    limits: from `limits_of`. places: where its messages are, if that is known already.
    """
    found = _judged(view, causes, limits, account_of(view, places))
    codes = {finding.code for finding in found.findings}
    if found.status != "healthy":
        codes |= {suspect.code for suspect in found.suspects}
    elif not codes:
        return found
    named = known_issues(view, codes, undecided=found.status == "unknown")
    return replace(found, known_issues=named)


def _judged(
    view: SubscriptionView, causes: Sequence[Cause], limits: CauseLimits, account: Account
) -> Diagnosis:
    """The verdict, without the known issues that it fits."""
    found, undecided = weighed_by(view, causes, limits, account)
    hypotheses = hypotheses_of(causes)
    if found.status == "healthy":
        return _earned(view, found, causes, limits)
    named = {each.code for each in found.findings if each.severity != "info"}
    whole = {each.code for each in found.findings if each.consumer is None} & named
    named |= {code for cause in causes if cause.code in whole for code in cause.explains}
    suspects: Sequence[Suspect] = ()
    if undecided or found.status == "unknown":
        well = well_at_most(view, found, tuple(resting(view, limits[HEALTHY])))
        suspects = suspects_of(view, hypotheses, undecided, named, well)
    return replace(
        found,
        findings=tuple(map(_measured, found.findings)),
        suspects=_advised(view, suspects, causes),
        ruled_out=tuple(each for each in ruled_out(view, hypotheses) if each.code not in named),
    )


def _earned(
    view: SubscriptionView, found: Diagnosis, causes: Sequence[Cause], limits: CauseLimits
) -> Diagnosis:
    """Where no check finds or misses anything: healthy, unless a law or the odds forbid it."""
    hypotheses, own = hypotheses_of(causes, view.sources), limits[HEALTHY]
    facts = tuple(resting(view, own))
    known, rest = {each.code for each in found.findings}, {each.consumer for each in facts}
    odds = odds_of(view, hypotheses, known, resting=rest)
    by_odds = doubts_by_odds(odds.problem, own[PROBLEM_AT_MOST.name], odds.culprit)
    doubts = (*facts, *by_odds)
    if not doubts:
        hidden = _advised(view, odds.hidden, causes)
        return replace(found, suspects=hidden) if hidden else found
    return replace(
        found,
        status=status_of(found.findings, doubts),
        unknown=doubts,
        unknowns=(*(f"{HEALTHY}: {doubt.reason}" for doubt in doubts), *found.unknowns),
        suspects=_advised(view, odds.suspects(well_at_most(view, found, facts)), causes),
        ruled_out=ruled_out(view, hypotheses),
    )


def well_at_most(view: SubscriptionView, found: Diagnosis, facts: Sequence[Unknown]) -> float:
    """The share of "nothing is wrong": limited where anything rests for too long, or cannot be.

    A reader may rest as long as it likes. facts: what rests, by the laws.
    """
    rests = any(type(each) is Rests for each in found.unknown)  # of sums over partitions, too
    if not (facts or rests or view.cannot_be):
        return 1.0
    who = {each.consumer for each in facts if not isinstance(each, ReaderRests)}
    concerned = [each for each in view.served if None in who or each.label in who]
    silent = {each.consumer for each in facts if isinstance(each, SilentHolder)}
    idle = (each.since_work for each in concerned if each.label in silent)
    far = any(each.quiet_at_least(LONG_SECONDS) for each in concerned)
    far = far or any(age is not None and age.seconds >= LONG_SECONDS for age in idle)
    return FAR if far or outlived(view, LONG_SECONDS, LONG_SECONDS) else EVEN


def hypotheses_of(
    causes: Iterable[Cause], sources: frozenset[str] | None = None
) -> tuple[Hypothesis, ...]:
    """What each of these causes is suspected by, and that nothing is wrong.

    Where no check finds or misses anything, that speaks against each cause with a check that could
    be made. A cause that these sources cannot check is a suspect as any other: what nobody can see
    may still be wrong. sources: of the view; None: all there are.
    """
    return _hypotheses(tuple(causes), sources)


@cache  # the same for each subscription of a cluster
def _hypotheses(
    causes: tuple[Cause, ...], sources: frozenset[str] | None
) -> tuple[Hypothesis, ...]:
    own = [
        replace(cause.hypothesis, against=(*cause.hypothesis.against, NOTHING_FOUND))
        if sources is None or cause.needs & sources
        else cause.hypothesis
        for cause in causes
        if cause.hypothesis is not None
    ]
    return (*own, HEALTHY_HYPOTHESIS)


def _advised(
    view: SubscriptionView, suspects: Sequence[Suspect], causes: Iterable[Cause]
) -> tuple[Suspect, ...]:
    """Each with what to do if it is that."""
    if not suspects:
        return ()
    remedies = {cause.code: cause.remedy for cause in causes}
    return tuple(
        replace(suspect, remedy=remedy_of(view, suspect, remedies[suspect.code]))
        if suspect.code in remedies
        else suspect
        for suspect in suspects
    )


def _measured(finding: Finding) -> Finding:
    """The finding as sure as such findings were right. Information keeps its certainty."""
    if finding.severity == "info":
        return finding
    return replace(finding, confidence=sure(finding.code, finding.confidence))


def weighed_by(
    view: SubscriptionView,
    causes: Sequence[Cause],
    limits: CauseLimits,
    account: Account | None = None,
) -> tuple[Diagnosis, dict[str, list[Unknown]]]:
    """The verdict with the rules' own grades, without suspects; and what is undecided, by code."""
    weighed = _answered(view, causes, limits)
    burst = limits.get("falls-behind", {}).get("longest_burst", LONGEST_BURST)
    balance = balance_of(view, burst)
    deadlines = deadlines_of(view, balance)
    findings = tuple(with_context(view, finding, deadlines) for finding in weighed.decided(view))
    not_decided = (f"{cause.code}: {unknown.reason}" for cause, unknown in weighed.unknown)
    of_a_sum = (Rests(SUMS),) if view.hides_partitions else ()
    not_known = filter(None, (_not_known(view),))
    reasons = (*map(Unreliable, view.cannot_be), *map(Unknown, not_known))
    unknown = (*of_a_sum, *reasons, *(unknown for _, unknown in weighed.unknown))
    found = Diagnosis(
        topic=view.topic,
        partition=view.partition,
        subscription=view.subscription,
        type=view.type,
        status=status_of(findings, unknown),
        findings=findings,
        unknowns=(
            *(each.reason for each in (*of_a_sum, *reasons)),
            *not_decided,
            *weighed.unknowns,
        ),
        unknown=unknown,
        incarnations=view.incarnations,
        backlog=view.backlog.entries if view.backlog else None,
        account=account,
        balance=balance,
        deadlines=deadlines,
        pace=pace_of(view, balance),
        oldest_seconds=view.oldest_seconds,
        flow_seconds=max(
            (of.flow_expected for of in view.served if of.flow_expected is not None), default=None
        ),
        ranges=view.ranges,
        consumers=consumers_of(view),
        segments=view.place.segments if view.place else None,
    )
    return found, weighed.undecided


def diagnose_wire(
    subscriptions: Iterable[Subscription],
    causes: Sequence[Cause],
    limits: CauseLimits,
    reported_by: ReportedBy = "trace",
) -> list[Diagnosis]:
    """The verdicts by what the wire has shown, in the same order. limits: from `limits_of`."""
    views = (by_wire.subscription_view(wire) for wire in subscriptions)
    return [replace(diagnose(view, causes, limits), sources=(reported_by,)) for view in views]


def _answered(view: SubscriptionView, causes: Iterable[Cause], limits: CauseLimits) -> _Weighed:
    """What each cause answers that these sources can check."""
    weighed, checks = _Weighed(), _not_known(view) is None
    for cause in causes:
        if not cause.needs.isdisjoint(view.sources):
            if checks and (answers := tuple(cause.check(view, limits[cause.code]))):
                weighed.add(cause, answers)
        elif cause.needs != {PROCESS}:  # of `examine` alone: not a line in every other verdict
            needs = f"needs {' or '.join(sorted(cause.needs))}"
            weighed.add(cause, [NotReported(needs)])
    weighed.settle()
    return weighed


def _not_known(view: SubscriptionView) -> str | None:
    """Why no check can be made; None: they can."""
    return view.refused or view.gap


def _root_causes(found: Sequence[tuple[Cause, Finding]]) -> Iterator[Finding]:
    """Findings that no other one explains, each as severe as the worst that it explains."""
    for cause, finding in found:
        if any(_explains(other, root, finding) for other, root in found):
            continue
        explained = [other for _, other in found if _explains(cause, finding, other)]
        worst = min((finding, *explained), key=_worst_first).severity
        yield replace(finding, severity=worst)


def _explains(cause: Cause, root: Finding, finding: Finding) -> bool:
    return (
        finding.code in cause.explains
        and finding.code != root.code
        and (None in (root.consumer, finding.consumer) or root.consumer == finding.consumer)
    )


def _worst_first(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), -finding.confidence
