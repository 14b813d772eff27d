"""A consumer works through a full queue slowly; its next FLOW is a while away, but in sight.

It has no permits left, so nothing new arrives, but the application goes on taking or acknowledging
messages in its usual rhythm. At its pace the broker may send again only after `slow_wait`; nearer
is healthy. Beyond the `refill_wait` of permits-exhausted that rule speaks instead, unless the queue
is of 1 and could not be smaller.

Nothing is wrong with the broker. Other consumers of the subscription may be idle meanwhile.
"""

from __future__ import annotations

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import (
    WIRE,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.waiting import (
    SLOW_WAIT,
    forecast,
    in_rhythm,
    outlook,
    waiting_measures,
    without_permits,
)

THRESHOLDS = (SLOW_WAIT,)
NEEDS = frozenset({WIRE})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "If this pace is what the work takes, give the consumer a smaller receiver queue or add "
    "consumers, so that messages do not wait behind it."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer that works and whose next permits are further away than slow_wait."""
    assert evidence.wire is not None
    now_ns = evidence.wire.now_ns
    return found(
        _finding(consumer, now_ns)
        for consumer in evidence.wire.consumers
        if _is_slow(consumer, now_ns, limits)
    )


def _is_slow(consumer: Consumer, now_ns: int, limits: Limits) -> bool:
    ledger = consumer.ledger
    ahead = forecast(ledger, now_ns)
    if ahead is None or not without_permits(ledger) or ledger.zero_queue:
        return False
    wait = ahead.seconds_until_positive
    return (
        ledger.unacked > 1
        and wait is not None
        and wait > limits["slow_wait"]
        and in_rhythm(ledger, now_ns)
    )


def _finding(consumer: Consumer, now_ns: int) -> Finding:
    ledger = consumer.ledger
    ahead = forecast(ledger, now_ns)
    assert ahead is not None
    assert ahead.pace is not None
    drain = ledger.unacked * ahead.pace.seconds
    return Finding(
        code="slow-but-progressing",
        severity="warning",
        confidence=0.8,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} works off {ledger.unacked} messages at one in "
            f"{duration(ahead.pace.seconds)}, all in about {duration(drain)}, "
            f"without permits meanwhile; {outlook(ahead)}"
        ),
        evidence=(
            *waiting_measures(consumer, now_ns),
            Measure("rate", 1 / ahead.pace.seconds, "messages/second"),
            Measure("time_to_drain", drain, "seconds"),
        ),
        remedy=REMEDY,
    )
