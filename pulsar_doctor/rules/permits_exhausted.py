"""A consumer holds messages, has no permits left, and its next FLOW is far away or not in sight.

The broker may push only as many messages as the client has asked for with FLOW. The client asks
again only when the application has taken about half of its receiver queue. With a large queue and
a slow application that takes hours, during which nothing arrives, nothing fails and nothing is
logged. An application that has stopped taking messages, or a paused one, looks the same.

The rule looks at a consumer that holds messages and has no permits. It is stalled when nothing has
shown for `refill_wait` that the application works, or when it does work and the FLOW that lets the
broker send again is further away than `refill_wait` at its pace. A shorter silence that is no part
of its rhythm is a warning from `quiet_after` on.

By the broker's stats the same, with less to go by: the receiver queue size is not in them, so the
next FLOW is known as "after at most" (`receiver_queue_size` tells it, of all consumers that are
checked), and silence is the age of the last ack, FLOW and delivery. A consumer that has never asked
for anything while a backlog waits is stalled after `refill_wait` too. Readers, other non-durable
subscriptions and standbys are not judged: there quiet is not stalled.

A zero queue asks when the application does and is never judged here. A queue of 1 asks after each
message: as long as it works in its rhythm, no smaller queue could do better, however long one
message takes. From the wire alone a queue of 0 and one of 1 look the same, and with one message in
hand so do long work and a hang: that is unknown.

Source: Consumer.flowPermits in the broker; ConsumerBase's refill threshold in the clients.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.consumers import Consumer, Subscription
from pulsar_doctor.diagnosis import (
    CLEAR,
    STATS,
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
from pulsar_doctor.standing import standings
from pulsar_doctor.starvation import (
    JUST_NOW_MS,
    RECEIVER_QUEUE_SIZE,
    Starving,
    quiet_is_fine,
    starving,
)
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.waiting import (
    QUIET_AFTER,
    REFILL_WAIT,
    asks_singly,
    forecast,
    in_rhythm,
    outlook,
    quiet_seconds,
    resting,
    waiting_measures,
    without_permits,
    zero_or_one,
)

THRESHOLDS = (REFILL_WAIT, QUIET_AFTER, RECEIVER_QUEUE_SIZE)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS = frozenset({"slow-but-progressing", "ack-hole"})
REMEDY = (
    "Give this consumer a smaller receiver queue (0 or 1 for slow work), so that it asks for more "
    "after each message; if it takes nothing at all, see whether it hangs or is paused."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer that waits too long; unknown where a queue of 0 looks the same."""
    if evidence.wire is not None:
        return _by_wire(evidence.wire, limits)
    assert evidence.stats is not None
    return found(_by_stats(evidence.stats, limits))


def _by_wire(wire: Subscription, limits: Limits) -> Outcome:
    now_ns, consumers = wire.now_ns, wire.consumers
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
    if ledger.unacked == 0 or _cannot_tell(ledger) or resting(ledger, now_ns):
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


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    if quiet_is_fine(observed):
        return
    if observed.now.consumers is None:
        yield Unknown("the subscription's consumers are not told")
    for standing in standings(observed):
        if standing.permits is None and standing.active and not standing.moved:
            yield Unknown(f"available_permits of {standing.label} is not told", standing.label)
        consumer = starving(standing, limits)
        if consumer is None or (consumer.asked and _recent(consumer, limits)):
            continue
        answer = _idle(consumer, limits) if consumer.holds_nothing else _waiting(consumer, limits)
        if answer is not None:
            yield answer


def _recent(consumer: Starving, limits: Limits) -> bool:
    """Whether the last FLOW is no further away than the next one may be."""
    starved = consumer.standing.starved
    return starved is None or starved.ms < limits["refill_wait"] * 1000


def _waiting(consumer: Starving, limits: Limits) -> Finding | Unknown | None:
    """Of a consumer that may hold messages."""
    wait, quiet, patience = consumer.wait, consumer.quiet, limits["refill_wait"]
    if not _quiet(consumer, patience):
        far = wait is not None and wait.seconds > patience and not consumer.one_by_one
        if far or consumer.working:
            return _stats_finding(consumer, "stalled", 0.7) if far else None
    if quiet is None:
        return _cannot_tell_stats(consumer, "one sample without moments does not show movement")
    if consumer.one_by_one:
        return _one_by_one(consumer, patience)
    if _quiet(consumer, patience):
        return _stats_finding(consumer, "stalled", 0.8 if consumer.certainly_holds else 0.6)
    if not quiet.exact:
        unseen = "its last FLOW is not told, only that of all consumers together"
        clock = "the broker's clock is not told (see --at)"
        return _cannot_tell_stats(consumer, unseen if consumer.standing.flow_unseen else clock)
    if quiet.ms >= limits["quiet_after"] * 1000:
        return _stats_finding(consumer, "warning", 0.6)
    return None


def _quiet(consumer: Starving, seconds: float) -> bool:
    return consumer.quiet is not None and consumer.quiet.ms >= seconds * 1000


def _one_by_one(consumer: Starving, patience: float) -> Unknown | None:
    if consumer.quiet is not None and consumer.quiet.exact and not _quiet(consumer, patience):
        return None
    return _cannot_tell_stats(
        consumer, "it asks for one message at a time: working and hanging look the same"
    )


def _idle(consumer: Starving, limits: Limits) -> Finding | Unknown | None:
    """Of a consumer that holds nothing and asks for nothing, while messages wait for it alone."""
    observed = consumer.standing.observed
    others = any((other.permits or 0) > 0 for other in standings(observed))
    left = observed.left
    if others or consumer.permits < 0 or (left is not None and left.most == 0):
        return None
    if not _quiet(consumer, limits["refill_wait"]):
        return None
    if consumer.never_asked and left is not None and left.least > 0:
        return _stats_finding(consumer, "stalled", 0.7)
    return _cannot_tell_stats(
        consumer, "it asks for nothing and holds nothing, as a zero queue does between receives"
    )


def _cannot_tell_stats(consumer: Starving, why: str) -> Unknown:
    quiet = consumer.quiet
    since = "" if quiet is None else f", quiet for {quiet}"
    label = consumer.standing.label
    return Unknown(f"{label} has {consumer.permits} permits{since}: {why}", label)


def _stats_finding(consumer: Starving, severity: Severity, confidence: float) -> Finding:
    standing = consumer.standing
    held = standing.unacked
    holds = "" if held is None else f", holds {held} unacknowledged messages"
    if consumer.never_asked:
        holds = ", has never asked for a message"
    quiet = consumer.quiet
    since = "" if quiet is None else f" and has been quiet for {quiet}"
    if consumer.working and not _quiet(consumer, JUST_NOW_MS / 1000):
        since = " and works on slowly"
    return Finding(
        code="permits-exhausted",
        severity=severity,
        confidence=consumer.sure(confidence),
        consumer=standing.label,
        summary=(
            f"{standing.label} has {consumer.permits} permits{holds}{since}; {consumer.outlook}"
        ),
        evidence=consumer.measures(),
        remedy=REMEDY,
    )
