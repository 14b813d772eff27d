"""Permits were taken and never given back: the client lost them, and no FLOW will return them.

For each message that the application takes, its client owes the broker one permit. It sends them as
one FLOW as soon as `refill threshold` many are owed. Where more are owed, and no FLOW has come, the
client has lost count: discarded, corrupt or chunked messages that were not credited do that. Each
loss makes the queue smaller for good, until no permit is left and nothing comes any more.

What is owed is proven by the trace: an acknowledged message was taken before, and all that came
before it, too; less the permits of all refills. The FLOW goes out when the message is taken and so
before its acknowledgement: what is missing once the acknowledgement is seen will not come. One more
than the threshold is needed, since a listener acknowledges a message before it is credited, and a
C++ listener that is paused just then keeps that many. Indexes that were skipped inside batches are
left out: not every client credits them. The last FLOW is `overdue` for this to be said.

A Java consumer that is paused sends no FLOW, whatever it owes. It, and a client that does not tell
its version, is unknown until this has lasted `paused_for`; then it is told with less confidence.

It is stalled when the consumer has no permits left and nothing has come or gone for so long, and a
warning while some are left: each loss brings it nearer. Queues of 0, and of 0 or 1, are not judged.

Source: ConsumerBase.increaseAvailablePermits and ConsumerImpl.pause in the Java client,
ConsumerImpl::increaseAvailablePermits in the C++ client; apache/pulsar issue 26675 (chunks).
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import (
    WIRE,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    Severity,
    Threshold,
    Unknown,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.ledger import Ledger
from pulsar_doctor.waiting import waiting_measures, without_permits

JAVA = "Pulsar-Java"

THRESHOLDS = (
    Threshold("overdue", 30.0, "seconds", "a FLOW that has not come for so long will not come"),
    Threshold("paused_for", 300.0, "seconds", "a Java consumer is not paused for longer"),
)
NEEDS = frozenset({WIRE})
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "negative-permits"})
REMEDY = (
    "Restart this consumer: it starts with a full queue's worth of permits. Update its client, and "
    "if it happens again, report the trace to that client's project; resume it if it is paused."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer that owes more than a FLOW's worth and sends none."""
    assert evidence.wire is not None
    now_ns, consumers = evidence.wire.now_ns, evidence.wire.consumers
    return found(answer for each in consumers for answer in _judge(each, now_ns, limits))


def _judge(consumer: Consumer, now_ns: int, limits: Limits) -> Iterator[Finding | Unknown]:
    ledger = consumer.ledger
    threshold, waited = ledger.refill_threshold, _since(now_ns, ledger.last_flow_ns)
    if threshold is None or missing(ledger) <= threshold or waited < limits["overdue"]:
        return
    if not _may_pause(consumer):
        yield _finding(consumer, now_ns, _severity(ledger, now_ns, limits), 0.85)
    elif waited >= limits["paused_for"]:
        yield _finding(consumer, now_ns, _severity(ledger, now_ns, limits), 0.6)
    else:
        yield Unknown(
            f"{consumer.label} owes {missing(ledger)} permits and has sent no FLOW for "
            f"{duration(waited)}: is it paused? A paused Java consumer looks the same",
            consumer.label,
        )


def missing(ledger: Ledger) -> int:
    """Permits of messages that were taken for sure, less what all refills gave back."""
    return max(0, ledger.unsent_permits_min - ledger.skipped)


def _may_pause(consumer: Consumer) -> bool:
    version = consumer.client_version
    return version is None or version.startswith(JAVA)


def _severity(ledger: Ledger, now_ns: int, limits: Limits) -> Severity:
    signs = (ledger.last_flow_ns, ledger.last_message_ns, ledger.last_work_ns)
    quiet = min(_since(now_ns, sign) for sign in signs)
    return "stalled" if without_permits(ledger) and quiet >= limits["overdue"] else "warning"


def _since(now_ns: int, moment_ns: int | None) -> float:
    return (now_ns - (moment_ns or 0)) / 1e9


def _finding(consumer: Consumer, now_ns: int, severity: Severity, confidence: float) -> Finding:
    ledger = consumer.ledger
    waited = _since(now_ns, ledger.last_flow_ns)
    return Finding(
        code="permit-leak",
        severity=severity,
        confidence=confidence,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} has taken {missing(ledger)} messages or more for which it gave no "
            f"permit back, a FLOW was due at {ledger.refill_threshold} and none has come for "
            f"{duration(waited)}; {ledger.available_permits} permits are left"
        ),
        evidence=(
            Measure("missing_permits_least", missing(ledger), "permits"),
            Measure("refill_threshold", ledger.refill_threshold, "permits"),
            Measure("permits_refilled", ledger.refilled, "permits"),
            Measure("last_flow_ago", round(waited, 3), "seconds"),
            *waiting_measures(consumer, now_ns),
        ),
        remedy=REMEDY,
    )
