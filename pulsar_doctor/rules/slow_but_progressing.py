"""A consumer works through a full queue slowly; its next FLOW is a while away, but in sight.

It has no permits left, so nothing new arrives, but the application goes on taking or acknowledging
messages in its usual rhythm. At its pace the broker may send again only after `slow_wait`; nearer
is healthy. Beyond the `refill_wait` of permits-exhausted that rule speaks instead, unless the queue
is of 1 and could not be smaller.

By the broker's stats: it has acknowledged within the window, no FLOW came in it or for `slow_wait`,
and the next one is further away than `slow_wait` at the window's pace; or, where no pace can be
told, none has come for so long. The receiver queue size is not in them; `receiver_queue_size` tells
it.

Nothing is wrong with the broker. Other consumers of the subscription may be idle meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.consumers import Consumer
from pulsar_doctor.diagnosis import (
    STATS,
    WIRE,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import standings
from pulsar_doctor.starvation import RECEIVER_QUEUE_SIZE, Starving, starving
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.waiting import (
    SLOW_WAIT,
    forecast,
    in_rhythm,
    outlook,
    resting,
    waiting_measures,
    without_permits,
)

THRESHOLDS = (SLOW_WAIT, RECEIVER_QUEUE_SIZE)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "If this pace is what the work takes, give the consumer a smaller receiver queue or add "
    "consumers, so that messages do not wait behind it."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer that works and whose next permits are further away than slow_wait."""
    if evidence.wire is None:
        assert evidence.stats is not None
        return found(_by_stats(evidence.stats, limits))
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
    if resting(ledger, now_ns):
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


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding]:
    for standing in standings(observed):
        consumer = starving(standing, limits)
        if consumer is not None and _is_slow_by_stats(consumer, limits):
            yield _stats_finding(consumer)


def _is_slow_by_stats(consumer: Starving, limits: Limits) -> bool:
    if not consumer.working or consumer.one_by_one or consumer.holds_nothing:
        return False
    wait, starved = consumer.wait, consumer.standing.starved
    recent = starved is None or starved.ms < limits["slow_wait"] * 1000
    if consumer.asked and (recent or wait is None):
        return False
    if wait is not None:
        return wait.seconds > limits["slow_wait"]
    return starved is not None and starved.ms > limits["slow_wait"] * 1000


def _stats_finding(consumer: Starving) -> Finding:
    standing, wait, held = consumer.standing, consumer.wait, consumer.held
    drain = held.most * wait.pace_seconds if held and wait else None
    holds = "messages" if standing.unacked is None else f"{standing.unacked} messages"
    alone = "" if drain is None else f", all in about {duration(drain)},"
    return Finding(
        code="slow-but-progressing",
        severity="warning",
        confidence=consumer.sure(0.7 if wait else 0.5),
        consumer=standing.label,
        summary=(
            f"{standing.label} works off {holds}{alone} without permits meanwhile; "
            f"{consumer.outlook}"
        ),
        evidence=(
            *consumer.measures(),
            Measure("rate", 1 / wait.pace_seconds if wait else None, "messages/second"),
            Measure("time_to_drain", drain, "seconds"),
        ),
        remedy=REMEDY,
    )
