"""A verdict, its findings and its times as every JSON of ours has them."""

from __future__ import annotations

from typing import Any

from pulsar_doctor.diagnosis.checkup import Checkup
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.answers import Finding
from pulsar_doctor.ledger.balance import Starvation


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
        "findings": [finding_json(finding) for finding in diagnosis.findings],
        "not_told": list(diagnosis.not_told),
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """One of a subscription's findings."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "consumer": finding.consumer,
        "summary": finding.summary,
        "evidence": [measure.document() for measure in finding.evidence],
        "remedy": finding.remedy,
        "actions": [action.document() for action in finding.actions],
        "explain": finding.explain,
    }


def without_permits_json(starvation: Starvation) -> dict[str, float | None]:
    """Times without permits as every document has them: their sum, the longest, their share."""
    return {
        "without_permits_seconds": starvation.total_ns / 1e9,
        "longest_without_permits_seconds": starvation.longest_ns / 1e9,
        "without_permits_share": starvation.share,
    }
