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

By the broker's stats also nothing may be left to send: otherwise the neighbours wait for the
broker. Without permits more than half of a queue is queued. With permits left the stats do not tell
a full queue from a pool of workers with all of it in hand: more than `in_hand` messages are taken
to be queued, with less confidence; so many or fewer are unknown once they have taken `refill_wait`.

Source: PersistentDispatcherMultipleConsumers sends to whoever has permits; nothing takes a queued
message back but closing the consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsar_doctor.consumers import Consumer, Subscription
from pulsar_doctor.diagnosis import (
    STATS,
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
from pulsar_doctor.hoarding import Hoard, hoards
from pulsar_doctor.standing import Standing
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.waiting import (
    REFILL_WAIT,
    SLOW_WAIT,
    asks_singly,
    forecast,
    in_rhythm,
    outlook,
    pace,
    queued_min,
    resting,
    waiting_measures,
)

THRESHOLDS = (
    REFILL_WAIT,
    SLOW_WAIT,
    Threshold("idle_after", 2.0, "seconds", "a neighbour without messages for so long is idle"),
    Threshold("share", 0.5, "of all unacknowledged", "a consumer that holds less is no hog"),
    Threshold("in_hand", 16.0, "messages", "workers may have so many in hand, none queued"),
)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "not-acknowledging", "ack-hole"})
REMEDY = (
    "Give the slow consumer a receiver queue of 0 or 1, so that it takes a message only when it "
    "can work on it; to free what it holds now, close it: its messages go to the others at once."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for the consumer that hoards; clear where nobody is idle or nobody hoards."""
    if evidence.wire is not None:
        return found(_by_wire(evidence.wire, limits))
    assert evidence.stats is not None
    return found(_by_stats(evidence.stats, limits))


def _by_wire(wire: Subscription, limits: Limits) -> Iterator[Finding]:
    if wire.type != "Shared":
        return
    idle = [c for c in wire.consumers if _idle_seconds(c, wire.now_ns) >= limits["idle_after"]]
    if idle:
        yield from _judge(wire.consumers, idle, wire.now_ns, limits)


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
        if resting(ledger, now_ns):
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
    permits = sum(consumer.ledger.available_permits for consumer in idle)
    longest = max(_idle_seconds(consumer, now_ns) for consumer in idle)
    return Finding(
        code="prefetch-hogging",
        severity=severity,
        confidence=0.9 if pace(ledger, now_ns) is not None else 0.7,
        consumer=hog.label,
        summary=(
            f"{hog.label} holds {ledger.unacked} of the {total} unacknowledged messages, at least "
            f"{queued_min(ledger)} of them untouched in its queue, while {_names(idle)} has had "
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


def _names(idle: Sequence[Consumer | Standing]) -> str:
    names = ", ".join(consumer.label for consumer in idle[:3])
    return f"{names} and {len(idle) - 3} more" if len(idle) > 3 else names


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    if observed.type != "Shared":
        return
    for hoard in hoards(observed, share=limits["share"], idle_after=limits["idle_after"]):
        wait = _wait(hoard, limits)
        left = observed.left
        if wait is None or (left is not None and left.least > 0):
            continue
        if isinstance(wait, str):
            yield Unknown(f"{hoard.hog.label} holds {hoard.held} messages, {wait}", hoard.hog.label)
        elif left is None or left.most > 0:
            most = "it is not told how many" if left is None else f"0 to {left.most}"
            yield Unknown(
                f"{hoard.hog.label} holds {hoard.held} messages beside idle neighbours, but {most} "
                "entries are left for the broker to send; the internal stats tell which",
                hoard.hog.label,
            )
        elif hoard.queued or hoard.held > limits["in_hand"]:
            yield _stats_finding(hoard, wait, limits)
        elif wait >= limits["refill_wait"]:
            yield Unknown(
                f"{hoard.hog.label} holds {hoard.held} messages with {hoard.hog.permits} permits "
                "left: workers may have all of them in hand; a trace of its connection tells",
                hoard.hog.label,
            )


def _wait(hoard: Hoard, limits: Limits) -> float | str | None:
    """Seconds until it has done all, or for which it has stood still; why that is not known.

    None where others have no reason to wait: it is fast, or it has only just begun.
    """
    drain, life = hoard.drain_seconds, hoard.drain_seconds_by_life
    quiet, silence = hoard.quiet, hoard.hog.silence
    if drain is not None:
        return drain if drain > limits["slow_wait"] else None
    if life is not None and life > limits["slow_wait"]:
        return life
    if quiet is None or silence is None:
        return "and nothing tells since when"
    just_now = silence.exact and silence.ms < limits["idle_after"] * 1000
    if hoard.hog.acked or (hoard.hog.acked is None and just_now):
        unsure = hoard.idle_for.ms / 1000 >= limits["slow_wait"]
        return "and its pace is not known: take a longer window" if unsure else None
    seconds = quiet.ms / 1000
    # At one message in each such silence it would be done before anybody need wait.
    if seconds < limits["idle_after"] or seconds * hoard.held <= limits["slow_wait"]:
        return None if quiet.exact else "and when these stats were taken is not told: give --at"
    return seconds


def _stats_finding(hoard: Hoard, wait: float, limits: Limits) -> Finding:
    worst: Severity = "stalled" if hoard.held > 2 else "warning"
    hog, permits = hoard.hog, sum(neighbour.permits or 0 for neighbour in hoard.idle)
    confidence = 0.9 if hoard.queued else 0.7
    confidence -= (0.1 if hoard.drain_seconds is None else 0) + (0.1 if hog.acked is None else 0)
    stands_still = hoard.quiet is not None and wait == hoard.quiet.ms / 1000
    lasts = (
        f"has done nothing for {hoard.quiet}"
        if stands_still
        else (f"needs at least {duration(wait)} for them")
    )
    return Finding(
        code="prefetch-hogging",
        severity=worst if wait >= limits["refill_wait"] else "warning",
        confidence=round(confidence, 2),
        consumer=hog.label,
        summary=(
            f"{hog.label} holds {hoard.held} of the {hoard.total} unacknowledged messages with "
            f"{hog.permits} permits and {lasts}, while "
            f"{_names(hoard.idle)} has had nothing to do for {hoard.idle_for} with {permits} "
            "permits and nothing is left to send"
        ),
        evidence=_stats_measures(hoard, permits),
        remedy=REMEDY,
    )


def _stats_measures(hoard: Hoard, idle_permits: int) -> tuple[Measure, ...]:
    quiet, drain = hoard.quiet, hoard.drain_seconds or hoard.drain_seconds_by_life
    return (
        Measure("available_permits", hoard.hog.permits, "permits"),
        Measure("unacked_messages", hoard.held, "messages"),
        Measure("subscription_unacked", hoard.total, "messages"),
        Measure("acknowledged", hoard.done, "messages"),
        Measure("time_to_drain", None if drain is None else round(drain, 3), "seconds"),
        Measure("quiet_for", quiet.ms / 1000 if quiet else None, "seconds"),
        Measure("idle_consumers", len(hoard.idle), "consumers"),
        Measure("idle_permits", idle_permits, "permits"),
        Measure("idle_for", hoard.idle_for.ms / 1000, "seconds"),
    )
