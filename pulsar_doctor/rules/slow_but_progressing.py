"""A consumer works through a full queue slowly; its next FLOW is a while away, but in sight.

It has no permits left, so nothing new arrives, but the application goes on taking or acknowledging
messages in its usual rhythm. At that pace the FLOW that lets the broker send again comes within
`refill_wait` (beyond it is permits-exhausted), and later than `slow_wait` (nearer is healthy).

Nothing is wrong with the broker. Other consumers of the subscription may be idle meanwhile.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis import (
    REFILL_WAIT,
    SLOW_WAIT,
    WIRE,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    duration,
    found,
    next_flow,
    waiting_measures,
)
from pulsar_doctor.timeline import Consumer

THRESHOLDS = (SLOW_WAIT, REFILL_WAIT)
NEEDS = frozenset({WIRE})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "If this pace is what the work takes, give the consumer a smaller receiver queue or add "
    "consumers, so that messages do not wait behind it."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer whose next permits are between slow_wait and refill_wait away."""
    assert evidence.wire is not None
    now_ns = evidence.wire.now_ns
    return found(
        _finding(consumer, now_ns)
        for consumer in evidence.wire.consumers
        if _is_slow(consumer, now_ns, limits)
    )


def _is_slow(consumer: Consumer, now_ns: int, limits: Limits) -> bool:
    ledger = consumer.ledger
    forecast = ledger.forecast()
    if forecast is None or ledger.starved_since_ns is None or ledger.zero_queue:
        return False
    wait = forecast.seconds_until_positive
    return (
        ledger.unacked > 1
        and wait is not None
        and limits["slow_wait"] < wait <= limits["refill_wait"]
        and ledger.in_rhythm(now_ns, limits["refill_wait"])
    )


def _finding(consumer: Consumer, now_ns: int) -> Finding:
    ledger = consumer.ledger
    forecast = ledger.forecast()
    assert forecast is not None
    assert forecast.pace is not None
    drain = ledger.unacked * forecast.pace.seconds
    return Finding(
        code="slow-but-progressing",
        severity="warning",
        confidence=0.8,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} works off {ledger.unacked} messages at one in "
            f"{duration(forecast.pace.seconds)}, all in about {duration(drain)}, "
            f"without permits meanwhile; {next_flow(forecast)}"
        ),
        evidence=(
            *waiting_measures(consumer, now_ns),
            Measure("rate", 1 / forecast.pace.seconds, "messages/second"),
            Measure("time_to_drain", drain, "seconds"),
        ),
        remedy=REMEDY,
    )
