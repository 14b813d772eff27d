"""What `consume` ends with, as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import Diagnosis, verdict_of
from pulsar_doctor.report.document import finding_json

SCHEMA = "pulsar-doctor/consume/1"


def document(
    topic: str, subscription: str, consumers: Sequence[Consumer], diagnoses: Sequence[Diagnosis]
) -> dict[str, Any]:
    """The consumers with their ledgers, findings and verdicts; numbers are messages and permits."""
    return {
        "schema": SCHEMA,
        "topic": topic,
        "subscription": subscription,
        "consumers": [_consumer(consumer, diagnoses) for consumer in consumers],
    }


def _consumer(consumer: Consumer, diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    ledger = consumer.ledger
    judged = next((d for d in diagnoses if d.judges(consumer)), None)
    findings = judged.findings if judged else ()
    return {
        "name": consumer.label,
        "topic": consumer.topic,
        "receiver_queue_size": ledger.receiver_queue_size,
        "refill_threshold": ledger.refill_threshold,
        "flows": ledger.flows,
        "permits_granted": ledger.granted,
        "permits_spent": ledger.spent,
        "available_permits": ledger.available_permits,
        "unsent_permits": ledger.unsent_permits_min,
        "messages": ledger.messages,
        "acknowledged": ledger.acknowledged,
        "verdict": verdict_of(judged, consumer) if judged else "unknown",
        "findings": [finding_json(f) for f in findings if f.consumer in (None, consumer.label)],
    }
