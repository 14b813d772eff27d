"""A consumer with a zero queue was sent a batch, which its client cannot handle.

With a receiver queue of 0 the client asks for one message with each receive. The broker cannot
split a batch: it sends the whole of it and debits all its messages. The C++, Python and Node.js
clients hand out the first message and lose the rest until they are delivered again, the next
receive hangs, and permits climb by only one with each call. The Java client closes the consumer.
Our own (`consume --engine wire`) hands out all of it, and is not meant.

Where the queue size is told this is certain. From the wire alone a queue of 1 looks the same, and
copes with batches: there it takes `refill_wait` of silence, and the confidence is low; from
`quiet_after` on it is unknown. A Java client that closes its consumer within a second of a batch,
having taken nothing, says so itself.

By the broker's stats it shows where no more than one message would fit into the receiver queue, the
permits are below zero, and a batch is out: all that was ever granted is 1, or 2 when the next
receive hangs, or what it holds is one or two more than it was sent beyond its permits. That too
fits a queue of 1 with slow work.

Source: ZeroQueueConsumerImpl in the Java and C++ clients; CommandMessage's metadata,
num_messages_in_batch.
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
    Measure,
    Outcome,
    Unknown,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.starvation import Starving, starving
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.waiting import (
    QUIET_AFTER,
    REFILL_WAIT,
    in_rhythm,
    quiet_seconds,
    waiting_measures,
)

JAVA, OURS = "Pulsar-Java", "pulsar-doctor"
CLOSES_WITHIN_NS = 1_000_000_000  # seen: 20 ms after the batch (4.0.8)

THRESHOLDS = (REFILL_WAIT, QUIET_AFTER)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS = frozenset({"permits-exhausted", "negative-permits", "slow-but-progressing"})
REMEDY = (
    "Use a receiver queue of 1 instead of 0, or let the producer send without batches "
    "(enableBatching=false); then close this consumer, and what it lost is delivered again."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found where a zero queue met a batch; unknown where it may be a queue of 1."""
    if evidence.wire is not None:
        return _by_wire(evidence.wire, limits)
    assert evidence.stats is not None
    return found(_by_stats(evidence.stats, limits))


def _by_wire(wire: Subscription, limits: Limits) -> Outcome:
    now_ns, consumers = wire.now_ns, wire.consumers
    outcome = found(
        _finding(consumer, now_ns, confidence)
        for consumer in consumers
        for confidence in _judge(consumer, now_ns, limits)
    )
    unsure = next((c for c in consumers if _may_be_slow(c, now_ns, limits)), None)
    if unsure is None or outcome is not CLEAR:
        return outcome
    return Unknown(
        f"{unsure.label} asks for one message at a time, was sent a batch and has been silent "
        f"for {duration(quiet_seconds(unsure.ledger, now_ns))}: a queue of 1 with slow work "
        "looks so too",
        unsure.label,
    )


def _judge(consumer: Consumer, now_ns: int, limits: Limits) -> Iterator[float]:
    ledger = consumer.ledger
    if ledger.largest_batch < 2 or ledger.unacked == 0 or _hands_out_all(consumer):
        return
    if ledger.zero_queue:
        yield 0.95
    elif _java_closed_it(consumer):
        yield 0.8
    elif _silent_below_zero(consumer, now_ns, limits["refill_wait"]):
        yield 0.6


def _hands_out_all(consumer: Consumer) -> bool:
    """Whether it is ours (`consume --engine wire`): all of a batch before it asks again."""
    return (consumer.client_version or "").startswith(OURS)


def _java_closed_it(consumer: Consumer) -> bool:
    """Whether a Java client closed its consumer as soon as the batch came, with nothing taken."""
    ledger = consumer.ledger
    came_ns = ledger.last_message_ns
    if not (ledger.one_by_one and consumer.closing and consumer.closed_ns and came_ns):
        return False
    return (
        (consumer.client_version or "").startswith(JAVA)
        and max(ledger.last_flow_ns or 0, ledger.last_work_ns or 0) <= came_ns
        and consumer.closed_ns - came_ns <= CLOSES_WITHIN_NS
    )


def _may_be_slow(consumer: Consumer, now_ns: int, limits: Limits) -> bool:
    batch = consumer.ledger.largest_batch >= 2
    return batch and _silent_below_zero(consumer, now_ns, limits["quiet_after"])


def _silent_below_zero(consumer: Consumer, now_ns: int, seconds: float) -> bool:
    ledger = consumer.ledger
    return (
        ledger.one_by_one
        and ledger.available_permits < 0
        and quiet_seconds(ledger, now_ns) >= seconds
        and not in_rhythm(ledger, now_ns)
    )


def _finding(consumer: Consumer, now_ns: int, confidence: float) -> Finding:
    ledger = consumer.ledger
    return Finding(
        code="zero-queue-unsupported",
        severity="stalled",
        confidence=confidence,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} asks for one message at a time and was sent a batch of "
            f"{ledger.largest_batch}: {ledger.available_permits} permits, {ledger.unacked} "
            "messages delivered that its client cannot hand out"
        ),
        evidence=(
            Measure("largest_batch", ledger.largest_batch, "messages"),
            *waiting_measures(consumer, now_ns),
        ),
        remedy=REMEDY,
    )


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown]:
    for standing in standings(observed):
        consumer = starving(standing)
        if consumer is None or not _batch_for_one(consumer) or consumer.working:
            continue
        quiet = consumer.quiet
        if quiet is None or (quiet.exact and quiet.ms < limits["quiet_after"] * 1000):
            continue
        if quiet.ms >= limits["refill_wait"] * 1000:
            yield _stats_finding(consumer)
        else:
            yield Unknown(
                f"{standing.label} asks for one message at a time, was sent a batch and has been "
                f"quiet for {quiet}: a queue of 1 with slow work looks so too",
                standing.label,
            )


def _batch_for_one(consumer: Starving) -> bool:
    """Whether a batch went to a queue of 0 or 1: all permits ever granted are one for a receive."""
    standing = consumer.standing
    if consumer.permits >= 0 or consumer.holds_nothing:
        return False
    if standing.unacked is not None:
        return 0 <= standing.unacked + consumer.permits <= 2
    sent = standing.now.msg_out_counter
    granted = None if sent is None else sent + consumer.permits
    return granted == 1 or (granted == 2 and _asked_after_the_batch(standing))


def _asked_after_the_batch(standing: Standing) -> bool:
    """Whether its last FLOW came after what it was sent; RQS 2 asks for both at once, before."""
    flow, sent = standing.last_flow_ms, standing.now.last_consumed_timestamp_ms
    return flow is not None and sent is not None and flow > sent


def _stats_finding(consumer: Starving) -> Finding:
    standing = consumer.standing
    return Finding(
        code="zero-queue-unsupported",
        severity="stalled",
        confidence=consumer.sure(0.6),
        consumer=standing.label,
        summary=(
            f"{standing.label} asks for one message at a time and was sent a batch: "
            f"{consumer.permits} permits, quiet for {consumer.quiet}; a client with a zero queue "
            "cannot hand out the rest of it"
        ),
        evidence=consumer.measures(),
        remedy=REMEDY,
    )
