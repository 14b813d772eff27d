"""One consumer's receiver queue holds messages that idle neighbours could be working on.

On a Shared subscription a message that was pushed to a consumer waits in its queue, whatever the
others do. A slow consumer with a large queue can so hold everything there is: its neighbours have
permits, the broker has nothing left to send, and nothing moves faster than the slow one.

The rule looks for a consumer that holds at least `share` of all unacknowledged messages, with some
of them certainly still in its queue, while a neighbour with permits has had nothing to do for
`idle_after`. It is a stall when the queued messages will take longer than `refill_wait` at that
consumer's pace, or, where no pace is known, when this has lasted so long; shorter it is a warning,
and below `slow_wait` it is healthy. A queue of 1 is a warning at most. Key_Shared is not judged:
there the keys bind the messages.

Source: PersistentDispatcherMultipleConsumers sends to whoever has permits; nothing takes a queued
message back but closing the consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.waiting import (
    REFILL_WAIT,
    SLOW_WAIT,
    asks_singly,
    forecast,
    in_rhythm,
    outlook,
    pace,
    queued_min,
    waiting_measures,
)

THRESHOLDS = (
    REFILL_WAIT,
    SLOW_WAIT,
    Threshold("idle_after", 2.0, "seconds", "a neighbour without messages for so long is idle"),
    Threshold("share", 0.5, "of all unacknowledged", "a consumer that holds less is no hog"),
)
NEEDS = frozenset({WIRE})
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing"})
REMEDY = (
    "Give the slow consumer a receiver queue of 0 or 1, so that it takes a message only when it "
    "can work on it; to free what it holds now, close it: its messages go to the others at once."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the consumer that hoards; clear where nobody is idle or nobody hoards."""
    wire = evidence.wire
    assert wire is not None
    if wire.type != "Shared":
        return found(())
    idle = [c for c in wire.consumers if _idle_seconds(c, wire.now_ns) >= limits["idle_after"]]
    return found(_judge(wire.consumers, idle, wire.now_ns, limits) if idle else ())


def _idle_seconds(consumer: Consumer, now_ns: int) -> float:
    """How long it has had permits and nothing to work on; 0 where it has."""
    ledger = consumer.ledger
    if ledger.available_permits <= 0 or ledger.unacked > 0 or ledger.ready_ns is None:
        return 0.0
    last = max(ledger.ready_ns, ledger.last_message_ns or 0, ledger.last_work_ns or 0)
    return (now_ns - last) / 1e9


def _judge(
    consumers: Sequence[Consumer], idle: Sequence[Consumer], now_ns: int, limits: Limits
) -> Iterator[Finding]:
    total = sum(consumer.ledger.unacked for consumer in consumers)
    for consumer in consumers:
        ledger = consumer.ledger
        if not queued_min(ledger) or ledger.unacked < limits["share"] * total:
            continue
        severity = _severity(consumer, idle, now_ns, limits)
        if severity is not None:
            yield _finding(consumer, idle, total, now_ns, severity)


def _severity(
    hog: Consumer, idle: Sequence[Consumer], now_ns: int, limits: Limits
) -> Severity | None:
    ledger = hog.ledger
    worst: Severity = "warning" if asks_singly(ledger) else "stalled"
    now = pace(ledger, now_ns)
    if now is not None and in_rhythm(ledger, now_ns):
        wait = queued_min(ledger) * now.seconds
        if wait <= limits["slow_wait"]:
            return None
        return worst if wait > limits["refill_wait"] else "warning"
    began = max(ledger.last_message_ns or 0, ledger.last_work_ns or 0)
    lasted = min((now_ns - began) / 1e9, max(_idle_seconds(c, now_ns) for c in idle))
    if lasted < limits["idle_after"]:
        return None
    return worst if lasted >= limits["refill_wait"] else "warning"


def _finding(
    hog: Consumer, idle: Sequence[Consumer], total: int, now_ns: int, severity: Severity
) -> Finding:
    ledger = hog.ledger
    names = ", ".join(consumer.label for consumer in idle[:3])
    more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
    permits = sum(consumer.ledger.available_permits for consumer in idle)
    longest = max(_idle_seconds(consumer, now_ns) for consumer in idle)
    return Finding(
        code="prefetch-hogging",
        severity=severity,
        confidence=0.9 if pace(ledger, now_ns) is not None else 0.7,
        consumer=hog.label,
        summary=(
            f"{hog.label} holds {ledger.unacked} of the {total} unacknowledged messages, at least "
            f"{queued_min(ledger)} of them untouched in its queue, while {names}{more} has had "
            f"nothing to do for {duration(longest)} with {permits} permits; "
            f"{outlook(forecast(ledger, now_ns))}"
        ),
        evidence=(
            *waiting_measures(hog, now_ns),
            Measure("subscription_unacked", total, "messages"),
            Measure("idle_consumers", len(idle), "consumers"),
            Measure("idle_permits", permits, "permits"),
            Measure("idle_for", round(longest, 3), "seconds"),
        ),
        remedy=REMEDY,
    )
