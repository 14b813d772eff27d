"""A consumer holds messages, has no permits left, and its next FLOW is far away or not in sight.

The broker may push only as many messages as the client has asked for with FLOW. The client asks
again only when the application has taken about half of its receiver queue. With a large queue and
a slow application that takes hours, during which nothing arrives, nothing fails and nothing is
logged. An application that has stopped taking messages, or a paused one, looks the same.

The rule looks at a consumer without permits. Where its pace is known and holds, it is stalled when
the FLOW that lets the broker send again is further away than `refill_wait`. Where no pace is known
or its rhythm has broken off, the age of the standstill decides: a warning from `quiet_after` on, a
stall from `refill_wait` on. A zero queue asks when the application does and is never judged here.

Source: Consumer.flowPermits in the broker; ConsumerBase's refill threshold in the clients.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis import (
    CLEAR,
    QUIET_AFTER,
    REFILL_WAIT,
    WIRE,
    Evidence,
    Finding,
    Limits,
    Outcome,
    Severity,
    Unknown,
    duration,
    found,
    next_flow,
    waiting_measures,
)
from pulsar_doctor.timeline import Consumer

THRESHOLDS = (REFILL_WAIT, QUIET_AFTER)
NEEDS = frozenset({WIRE})
EXPLAINS = frozenset({"slow-but-progressing"})
REMEDY = (
    "Give this consumer a smaller receiver queue (0 or 1 for slow work), so that it asks for more "
    "after each message; if it takes nothing at all, see whether it hangs or is paused."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer that waits too long; unknown where a queue of 0 looks the same."""
    assert evidence.wire is not None
    now_ns, consumers = evidence.wire.now_ns, evidence.wire.consumers
    outcome = found(
        _finding(consumer, now_ns, severity, confidence)
        for consumer in consumers
        for severity, confidence in _judge(consumer, now_ns, limits)
    )
    unsure = next((c for c in consumers if _may_be_working(c, now_ns, limits)), None)
    if unsure is None or outcome is not CLEAR:
        return outcome
    return Unknown(
        f"{unsure.label} asks for one message at a time and has been silent with one in hand "
        f"for {duration(unsure.ledger.quiet_seconds(now_ns))}: working and hanging look the same"
    )


def _may_be_working(consumer: Consumer, now_ns: int, limits: Limits) -> bool:
    ledger = consumer.ledger
    patience = limits["refill_wait"]
    return (
        ledger.one_by_one
        and ledger.unacked == 1
        and ledger.quiet_seconds(now_ns) >= patience
        and not ledger.in_rhythm(now_ns, patience)
    )


def _judge(consumer: Consumer, now_ns: int, limits: Limits) -> Iterator[tuple[Severity, float]]:
    ledger = consumer.ledger
    forecast = ledger.forecast()
    if forecast is None or ledger.starved_since_ns is None or ledger.zero_queue:
        return
    if ledger.unacked == 0 or (ledger.one_by_one and ledger.unacked == 1):
        return
    patience = limits["refill_wait"]
    quiet = ledger.quiet_seconds(now_ns)
    if ledger.in_rhythm(now_ns, patience):
        if (forecast.seconds_until_positive or 0) > patience:
            yield "stalled", 0.8 if forecast.at_most else 0.95
    elif quiet >= patience:
        yield "stalled", 0.8
    elif quiet >= limits["quiet_after"]:
        yield "warning", 0.6


def _finding(consumer: Consumer, now_ns: int, severity: Severity, confidence: float) -> Finding:
    ledger = consumer.ledger
    forecast = ledger.forecast()
    assert forecast is not None
    return Finding(
        code="permits-exhausted",
        severity=severity,
        confidence=confidence,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} has {ledger.available_permits} permits, holds {ledger.unacked} "
            "unacknowledged messages and has been quiet for "
            f"{duration(ledger.quiet_seconds(now_ns))}; {next_flow(forecast)}"
        ),
        evidence=waiting_measures(consumer, now_ns),
        remedy=REMEDY,
    )
