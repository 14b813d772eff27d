"""A verdict, its findings and its times, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.cause import page_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.account import Account, Rest
from pulsar_doctor.evidence.balance import RATES, FlowRate
from pulsar_doctor.evidence.numbers import REPORTED
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.ledger.balance import Starvation
from pulsar_doctor.report.pace import pace_json


def cluster_json(checkup: Checkup) -> dict[str, str | None] | None:
    """Which cluster was read; None where none was."""
    return None if checkup.cluster is None else asdict(checkup.cluster)


def moment_json(checkup: Checkup) -> str:
    """When it was checked: ISO 8601 in UTC, with milliseconds."""
    return checkup.checked_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """One of the document's subscriptions."""
    return {
        "topic": diagnosis.topic,
        "partition": diagnosis.partition,
        "subscription": diagnosis.subscription,
        "type": diagnosis.type,
        "status": diagnosis.status,
        "backlog": diagnosis.backlog,
        "account": messages_json(diagnosis.account),
        "balance": _balance(diagnosis),
        "pace": pace_json(diagnosis.pace),
        "findings": [finding_json(finding) for finding in diagnosis.findings],
        "suspects": [suspect.document() for suspect in diagnosis.suspects],
        "ruled_out": [asdict(excluded) for excluded in diagnosis.ruled_out],
        "not_told": list(diagnosis.unknowns),
        "known_issues": [known.document() for known in diagnosis.known_issues],
        "consumers": _consumers(diagnosis),
    }


def checked_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The same with what was requested of stall-check beside the verdict, where it was."""
    more: dict[str, Any] = {}
    if diagnosis.decide_steps is not None:
        more["decided"] = [look.document() for look in diagnosis.decide_steps]
    if diagnosis.after is not None:
        more["after"] = diagnosis.after.document()
    if diagnosis.steady is not None:
        more["steady"] = {"status": diagnosis.steady.status, "before": diagnosis.steady.before}
    if diagnosis.suppressed is not None:
        more["suppressed"] = diagnosis.suppressed.document()
    if diagnosis.usual is not None:
        more["usual"] = diagnosis.usual.document()
    return diagnosis_json(diagnosis) | more


def finding_json(finding: Finding) -> dict[str, Any]:
    """One of a subscription's findings."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "consumer": finding.consumer,
        "summary": finding.summary,
        "evidence": [measure.document() for measure in finding.evidence],
        "since": finding.since,
        "where": finding.where and finding.where.document(),
        "impact": finding.impact,
        "remedy": finding.remedy,
        "actions": [action.document() for action in finding.actions],
        "explain": finding.explain,
        "page": page_of(finding.code),
    }


def messages_json(account: Account | None) -> dict[str, Any] | None:
    """Where its entries are, and what moved; seconds of rest to a millisecond."""
    if account is None:
        return None
    places = [
        {
            "place": each.name,
            "entries": _number(each.entries),
            "messages": _number(each.messages),
            "consumer": each.consumer,
            "rest": _number(each.rest),
            "older": each.older,
            "partly": each.partly,
        }
        for each in account.places
    ]
    return {
        "total": _number(account.total),
        "places": places,
        "flows": [
            {"name": each.name, "count": _number(each.count), "unit": each.unit}
            for each in account.flows
        ],
        "contradiction": account.contradiction,
    }


def _balance(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Whether it keeps up; rates to a thousandth."""
    balance = diagnosis.balance
    if balance is None:
        return None
    return {
        "pace": balance.pace,
        "seconds": balance.seconds and round(balance.seconds, 3),
        **{name: _rate(getattr(balance, name)) for name in RATES},
        "waits": _number(balance.waits),
        "waits_messages": _number(balance.waits_messages),
        "delayed": _number(balance.delayed),
        "deadlines": [
            {"limit": each.limit, "seconds": round(each.seconds, 3), "effect": each.effect}
            for each in diagnosis.deadlines
        ],
    }


def _rate(rate: FlowRate | None) -> dict[str, float | None] | None:
    """What is measured, and between which bounds it is."""
    if rate is None:
        return None
    return {
        "about": round(rate.about, 3),
        "least": rate.least and round(rate.least, 3),
        "most": rate.most and round(rate.most, 3),
        "seconds": round(rate.seconds, 3),
    }


def _consumers(diagnosis: Diagnosis) -> list[dict[str, Any]] | None:
    """Everybody; ages in seconds."""
    if diagnosis.consumers is None:
        return None
    return [
        {row.name: _number(getattr(each, row.name)) for row in REPORTED}
        for each in diagnosis.consumers
    ]


def _number(value: Any) -> Any:
    """A number where it is exact; otherwise its bounds, of which None is one that is not known."""
    if isinstance(value, Count):
        exact, least, most = value.exact, value.least, value.most
        return {"least": least, "most": most} if exact is None else exact
    if isinstance(value, Rest):
        fewest, longest = round(value.least, 3), value.most and round(value.most, 3)
        return fewest if fewest == longest else {"least": fewest, "most": longest}
    if isinstance(value, Age):
        return value.seconds if value.exact else {"least": value.seconds, "most": None}
    return value


def without_permits_json(starvation: Starvation) -> dict[str, float | None]:
    """Times without permits as every document has them: their sum, the longest, their share."""
    return {
        "without_permits_seconds": starvation.total_ns / 1e9,
        "longest_without_permits_seconds": starvation.longest_ns / 1e9,
        "without_permits_share": starvation.share,
    }
