"""What an observer tells of a living tap as JSON values: consumers, verdicts that changed, gaps."""

from __future__ import annotations

from typing import Any

from pulsar_doctor import waiting
from pulsar_doctor.columns import Row
from pulsar_doctor.consumers import Consumer, split_partition
from pulsar_doctor.diagnosis import Diagnosis, verdict_of
from pulsar_doctor.ledger import Forecast, Ledger
from pulsar_doctor.report.document import diagnosis_json
from pulsar_doctor.report.rows import iso
from pulsar_doctor.timeline import Timeline
from pulsar_doctor.verdicts import Change, Verdicts

LEDGER = (  # of a consumer whose commands are all known; null otherwise
    "available_permits",
    "parked_permits",
    "unsent_permits_min",
    "flow_count",
    "messages",
    "acknowledged",
)


def snapshot(timeline: Timeline, verdicts: Verdicts) -> dict[str, Any]:
    """All living consumers as they stand."""
    consumers = [
        consumer_json(consumer, timeline.now_ns, verdicts.of(consumer))
        for consumer in timeline.living
    ]
    return {"event": "snapshot", "at": iso(timeline.now_us), "consumers": consumers}


def consumer_json(consumer: Consumer, now_ns: int, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """One consumer. Numbers that are not known are null; ages and waits in seconds."""
    ledger = consumer.ledger
    topic, partition = split_partition(consumer.topic)
    known = {name: None if ledger.uncertain else getattr(ledger, name) for name in LEDGER}
    return {
        "incarnation": consumer.incarnation,
        "consumer_name": consumer.consumer_name,
        "topic": topic,
        "partition": partition,
        "subscription": consumer.subscription,
        "type": consumer.subscription_type,
        "client_version": consumer.client_version,
        "client_addr": consumer.client_addr,
        "receiver_queue_size": ledger.receiver_queue_size,
        "refill_threshold": ledger.refill_threshold,
        **known,
        "unacked_messages": None if ledger.uncertain else ledger.unacked,
        "last_flow_seconds": _age(ledger.last_flow_ns, now_ns),
        "next_flow": _next_flow(ledger, now_ns),
        "certain": not ledger.uncertain,
        **_verdict(consumer, diagnosis),
    }


def _age(moment_ns: int | None, now_ns: int) -> float | None:
    return None if moment_ns is None else round(max(0, now_ns - moment_ns) / 1e9, 3)


def _next_flow(ledger: Ledger, now_ns: int) -> dict[str, Any] | None:
    ahead: Forecast | None = None
    if not ledger.zero_queue and not ledger.uncertain:
        ahead = waiting.forecast(ledger, now_ns)
    if ahead is None:
        return None
    seconds = None if ahead.seconds is None else round(ahead.seconds, 3)
    return {"messages": ahead.messages, "at_most": ahead.at_most, "seconds": seconds}


def _verdict(consumer: Consumer, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """status: null before the first verdict. code: of the first finding that concerns it."""
    if diagnosis is None or not diagnosis.judges(consumer):
        return {"status": None, "code": None}
    concerned = (None, consumer.label)
    codes = (finding.code for finding in diagnosis.findings if finding.consumer in concerned)
    return {"status": verdict_of(diagnosis, consumer), "code": next(codes, None)}


def change_json(change: Change, now_us: int) -> dict[str, Any]:
    """A verdict that changed: as in the document of stall-check, with what it was before."""
    return {
        "event": "verdict",
        "at": iso(now_us),
        "before": change.before,
        **diagnosis_json(change.diagnosis),
    }


def gap_json(row: Row) -> dict[str, Any]:
    """A GAP of the trace. dropped: null where nobody knows how many commands it hides."""
    return {"event": "gap", "at": iso(row.ts), "seq": row.seq, "dropped": row.dropped}
