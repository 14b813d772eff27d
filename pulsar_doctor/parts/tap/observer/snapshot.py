"""Every living consumer at one moment, as an observer sees them."""

from __future__ import annotations

from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.wire_pace import Outlook
from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.parts.tap.observer.events import LivingConsumer, NextFlow, Snapshot
from pulsar_doctor.parts.tap.verdicts import Verdicts


def snapshot(timeline: Timeline, verdicts: Verdicts, unread_bytes: int) -> Snapshot:
    """Every living consumer with its present numbers."""
    consumers = tuple(
        living(consumer, timeline.now_ns, verdicts.of(consumer)) for consumer in timeline.living
    )
    return Snapshot(timeline.now_us, consumers, unread_bytes)


def living(consumer: Consumer, now_ns: int, diagnosis: Diagnosis | None) -> LivingConsumer:
    """One consumer. What its commands do not tell for certain is None."""
    ledger = consumer.ledger
    topic, partition = split_partition(consumer.topic)
    certain = not (ledger.uncertain or ledger.likely)
    status, code = _verdict(consumer, diagnosis)
    return LivingConsumer(
        incarnation=consumer.incarnation,
        name=consumer.consumer_name,
        topic=topic,
        partition=partition,
        subscription=consumer.subscription,
        type=consumer.subscription_type,
        client_version=consumer.client_version,
        address=consumer.client_addr,
        receiver_queue_size=ledger.receiver_queue_size,
        refill_threshold=ledger.refill_threshold,
        available_permits=ledger.available_permits if certain else None,
        parked_permits=ledger.parked_permits if certain else None,
        unsent_permits_min=ledger.unsent_permits_min if certain else None,
        flows=ledger.flow_count if certain else None,
        msg_out_counter=ledger.messages if certain else None,
        acknowledged=ledger.acknowledged if certain else None,
        unacked_messages=ledger.unacked if certain else None,
        since_last_flow=_age(ledger.last_flow_ns, now_ns),
        next_flow=_next_flow(ledger, now_ns),
        certain=certain,
        status=status,
        code=code,
    )


def _age(moment_ns: int | None, now_ns: int) -> float | None:
    return None if moment_ns is None else round(max(0, now_ns - moment_ns) / 1e9, 3)


def _next_flow(ledger: Ledger, now_ns: int) -> NextFlow | None:
    if ledger.zero_queue or ledger.uncertain or ledger.likely:
        return None
    ahead = Outlook.of(ledger, now_ns).next_flow
    if ahead is None:
        return None
    seconds = None if ahead.seconds is None else round(ahead.seconds, 3)
    return NextFlow(ahead.messages, ahead.at_most, seconds)


def _verdict(consumer: Consumer, diagnosis: Diagnosis | None) -> tuple[Status | None, str | None]:
    """The subscription's status, and the code of the first finding that concerns the consumer."""
    if diagnosis is None or not diagnosis.judges(consumer):
        return None, None
    code = None
    if diagnosis.findings:
        concerned = (None, *consumer.labels)
        codes = (finding.code for finding in diagnosis.findings if finding.consumer in concerned)
        code = next(codes, None)
    return diagnosis.status_of(consumer), code
