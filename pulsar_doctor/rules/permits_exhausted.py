"""A consumer holds messages, has no permits left, and its next FLOW is far away or not in sight.

The broker may push only as many messages as the client has asked for with FLOW. The client asks
again only when the application has taken about half of its receiver queue. With a large queue and
a slow application that takes hours, during which nothing arrives, nothing fails and nothing is
logged. An application that has stopped taking messages, or a paused one, looks the same.

The rule looks at a consumer that holds messages and has no permits. It is stalled when nothing has
shown for `refill_wait` that the application works, or when it does work and the FLOW that lets the
broker send again is further away than `refill_wait` at its pace. A shorter silence that is no part
of its rhythm is a warning from `quiet_after` on.

A zero queue asks when the application does and is never judged here. A queue of 1 asks after each
message: as long as it works in its rhythm, no smaller queue could do better, however long one
message takes. From the wire alone a queue of 0 and one of 1 look the same, and with one message in
hand so do long work and a hang: that is unknown.

Source: Consumer.flowPermits in the broker; ConsumerBase's refill threshold in the clients.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import (
    CLEAR,
    WIRE,
    Evidence,
    Finding,
    Limits,
    Outcome,
    Severity,
    Unknown,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.ledger import Ledger
from pulsar_doctor.waiting import (
    QUIET_AFTER,
    REFILL_WAIT,
    asks_singly,
    forecast,
    in_rhythm,
    outlook,
    quiet_seconds,
    waiting_measures,
    without_permits,
    zero_or_one,
)

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
        f"for {duration(quiet_seconds(unsure.ledger, now_ns))}: working and hanging look the same",
        unsure.label,
    )


def _may_be_working(consumer: Consumer, now_ns: int, limits: Limits) -> bool:
    return (
        _cannot_tell(consumer.ledger)
        and quiet_seconds(consumer.ledger, now_ns) >= limits["refill_wait"]
        and not in_rhythm(consumer.ledger, now_ns)
    )


def _cannot_tell(ledger: Ledger) -> bool:
    """Whether all it holds may be in hand: one message, or several before it ever finished two."""
    return zero_or_one(ledger) and (ledger.unacked == 1 or ledger.pace() is None)


def _judge(consumer: Consumer, now_ns: int, limits: Limits) -> Iterator[tuple[Severity, float]]:
    ledger = consumer.ledger
    ahead = forecast(ledger, now_ns)
    if ahead is None or not without_permits(ledger) or ledger.zero_queue:
        return
    if ledger.unacked == 0 or _cannot_tell(ledger):
        return
    patience, quiet = limits["refill_wait"], quiet_seconds(ledger, now_ns)
    working = in_rhythm(ledger, now_ns)
    if working and asks_singly(ledger):
        return
    if working and (ahead.seconds_until_positive or 0) > patience:
        yield "stalled", 0.8 if ahead.at_most else 0.95
    elif quiet >= patience:
        yield "stalled", 0.8
    elif not working and quiet >= limits["quiet_after"]:
        yield "warning", 0.6


def _finding(consumer: Consumer, now_ns: int, severity: Severity, confidence: float) -> Finding:
    ledger = consumer.ledger
    return Finding(
        code="permits-exhausted",
        severity=severity,
        confidence=confidence,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} has {ledger.available_permits} permits, holds {ledger.unacked} "
            "unacknowledged messages and has been quiet for "
            f"{duration(quiet_seconds(ledger, now_ns))}; {outlook(forecast(ledger, now_ns))}"
        ),
        evidence=waiting_measures(consumer, now_ns),
        remedy=REMEDY,
    )
