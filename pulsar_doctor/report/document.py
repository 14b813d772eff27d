"""The verdicts for a program: one JSON document, written as the verdicts come."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO

from pulsar_doctor.diagnosis import Diagnosis, Finding
from pulsar_doctor.ledger import Starvation
from pulsar_doctor.report.checkup import Checkup, Wanted

SCHEMA = "pulsar-doctor/stall-check/1"


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The document, a line for each subscription; what is known last comes last."""
    text = json.dumps(_head(checkup))
    out.write(f'{text[:-1]}, "subscriptions": [')
    for number, diagnosis in enumerate(checkup.examined()):
        out.write(",\n" if number else "\n")
        out.write(json.dumps(diagnosis_json(diagnosis)))
    out.write(f"\n], {json.dumps(_tail(checkup))[1:]}\n")


def _head(checkup: Checkup) -> dict[str, Any]:
    return {"schema": SCHEMA, "checked_at": moment_json(checkup), "source": checkup.source}


def moment_json(checkup: Checkup) -> str:
    """When it was checked: ISO 8601 in UTC, with milliseconds."""
    return checkup.checked_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _tail(checkup: Checkup) -> dict[str, Any]:
    unreachable = [{"topic": topic, "reason": reason} for topic, reason in checkup.unreachable]
    return {
        "window_seconds": round(checkup.window_seconds, 3),
        "samples": checkup.samples,
        "not_loaded": checkup.not_loaded,
        "unreachable": unreachable,
        "notes": [{"topic": topic, "note": note} for topic, note in checkup.notes],
    }


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
        "evidence": [asdict(measure) for measure in finding.evidence],
        "remedy": finding.remedy,
        "explain": finding.explain,
    }


def without_permits_json(starvation: Starvation) -> dict[str, float | None]:
    """Times without permits as every document has them: their sum, the longest, their share."""
    return {
        "without_permits_seconds": starvation.total_ns / 1e9,
        "longest_without_permits_seconds": starvation.longest_ns / 1e9,
        "without_permits_share": starvation.share,
    }
