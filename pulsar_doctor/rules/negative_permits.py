"""Permits are below zero and nothing that the client holds can bring them back.

The broker reads whole batches, so permits below zero are ordinary: after batches of 100 a healthy
consumer may stand at -1360. Each message that it then takes from its queue gives one permit back.
They are a cause only when there is nothing left to take: everything that was delivered has been
taken or acknowledged, permits are still below zero, and neither a message nor a FLOW has come for
`refill_wait`. Then the two sides have counted differently, and only a new start evens them out.

By the broker's stats that shows on Shared and Key_Shared, where unacknowledged messages are
counted: also where some are held, but fewer than are missing, so that taking them all leaves
permits below zero. On Exclusive and Failover it shows where the internal stats tell how far the
broker has read and all of that is consumed. It is only told while a backlog waits.

Source: PersistentDispatcherMultipleConsumers debits by messages and reads by entries unless
preciseDispatcherFlowControl is on.
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
    Unknown,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import standings
from pulsar_doctor.starvation import Starving, starving
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.waiting import (
    REFILL_WAIT,
    waiting_measures,
)

THRESHOLDS = (REFILL_WAIT,)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing"})
REMEDY = (
    "Restart this consumer: its next SUBSCRIBE starts from a full queue's worth of permits. Note "
    "its client version; if it happens again, report the trace to that client's project."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer below zero with nothing left to give back."""
    if evidence.wire is None:
        assert evidence.stats is not None
        return found(_by_stats(evidence.stats, limits))
    now_ns = evidence.wire.now_ns
    return found(
        _finding(consumer, now_ns)
        for consumer in evidence.wire.consumers
        if _nothing_can_help(consumer, now_ns, limits)
    )


def _nothing_can_help(consumer: Consumer, now_ns: int, limits: Limits) -> bool:
    ledger = consumer.ledger
    if ledger.available_permits >= 0 or ledger.zero_queue or ledger.one_by_one:
        return False
    nothing_held = ledger.unacked == 0 or (
        ledger.taken is not None and ledger.taken >= ledger.messages
    )
    return nothing_held and _silent_seconds(consumer, now_ns) >= limits["refill_wait"]


def _silent_seconds(consumer: Consumer, now_ns: int) -> float:
    ledger = consumer.ledger
    last = max(ledger.last_message_ns or 0, ledger.last_flow_ns or 0, ledger.last_work_ns or 0)
    return (now_ns - last) / 1e9


def _finding(consumer: Consumer, now_ns: int) -> Finding:
    ledger = consumer.ledger
    silent = _silent_seconds(consumer, now_ns)
    return Finding(
        code="negative-permits",
        severity="stalled",
        confidence=0.8,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} stands at {ledger.available_permits} permits and has nothing left "
            f"to take; no FLOW and no message for {duration(silent)}: it was granted "
            f"{ledger.granted} and spent {ledger.spent}"
        ),
        evidence=(
            *waiting_measures(consumer, now_ns),
            Measure("permits_granted", ledger.granted, "permits"),
            Measure("permits_spent", ledger.spent, "permits"),
            Measure("silent_for", round(silent, 3), "seconds"),
        ),
        remedy=REMEDY,
    )


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    left = observed.left
    if left is None or left.least == 0:
        return
    for standing in standings(observed):
        consumer = starving(standing)
        if consumer is None or consumer.permits >= 0 or not _beyond_help(consumer):
            continue
        quiet = consumer.quiet
        if standing.moved or quiet is None:
            continue
        if quiet.ms >= limits["refill_wait"] * 1000:
            yield _stats_finding(consumer, quiet.ms / 1000, left.least)
        elif not quiet.exact:
            yield Unknown(
                f"{standing.label} stands at {consumer.permits} permits and holds too little to "
                "bring them back; for how long needs the broker's clock (see --at)",
                standing.label,
            )


def _beyond_help(consumer: Starving) -> bool:
    """Whether permits stay below zero when all that it holds is taken.

    Permits, queued and unsent messages together are the receiver queue size, so that permits and
    unacknowledged messages are never below zero together unless the two sides counted differently
    (or FLOWs are set aside, while it is blocked on unacknowledged messages).
    """
    unacked = consumer.standing.unacked
    if consumer.holds_nothing:
        return True
    if unacked is None or consumer.standing.now.blocked_consumer_on_unacked_msgs:
        return False
    return unacked + consumer.permits < 0


def _stats_finding(consumer: Starving, silent: float, left: int) -> Finding:
    label = consumer.standing.label
    return Finding(
        code="negative-permits",
        severity="stalled",
        confidence=consumer.sure(0.8),
        consumer=label,
        summary=(
            f"{label} stands at {consumer.permits} permits and {_holds(consumer)}; "
            f"no FLOW and no message for {duration(silent)}, while at least {left} entries wait"
        ),
        evidence=(*consumer.measures(), Measure("left_entries_least", left, "entries")),
        remedy=REMEDY,
    )


def _holds(consumer: Starving) -> str:
    if consumer.holds_nothing:
        return "holds nothing that it could take"
    return f"holds {consumer.standing.unacked} messages, too few to bring them back"
