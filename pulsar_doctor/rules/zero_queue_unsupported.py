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
fits a queue of 1 with slow work. At 0 permits a queue of 1 may have the last message of the batch
in hand: that is unknown, however long it lasts.

Source: ZeroQueueConsumerImpl in the Java and C++ clients; CommandMessage's metadata,
num_messages_in_batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.evidence.answers import STATS, WIRE, Action, Answers, Finding, Measure, Unknown
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.thresholds import QUIET_AFTER, REFILL_WAIT, Limits
from pulsar_doctor.remedies.changes import SettingChange
from pulsar_doctor.remedies.consumers import restart
from pulsar_doctor.remedies.lines import check as check_line
from pulsar_doctor.remedies.settings import BATCHING_OFF, RECEIVER_QUEUE, setting_of_any

THRESHOLDS = (REFILL_WAIT, QUIET_AFTER)
NEEDS = frozenset({WIRE, STATS})
EXPLAINS = frozenset({"permits-exhausted", "negative-permits", "slow-but-progressing"})
ACKNOWLEDGED = "healthy, and messages are acknowledged"
QUEUE_OF_ONE = SettingChange(
    RECEIVER_QUEUE,
    1,
    "Use a receiver queue of 1 instead of 0, which takes batches",
    "one message waits in its queue while it works on another",
    ACKNOWLEDGED,
)
REMEDY = (
    "Use a receiver queue of 1 instead of 0, or let the producer send without batches "
    "(enableBatching=false); then close this consumer, and what it lost is delivered again."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where a zero queue met a batch; unknown where it may be a queue of 1."""
    if view.quiet_is_fine:
        return
    for consumer in view.consumers or ():
        if not consumer.batch_for_one or consumer.active is False or consumer.holds_nothing:
            continue
        if consumer.zero_queue:
            yield _finding(view, consumer, 0.95)
        elif consumer.closed_on_batch:
            yield _finding(view, consumer, 0.8)
        elif consumer.without_permits and not consumer.works:
            yield from _by_silence(view, consumer, limits)


def _by_silence(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Answers:
    quiet = consumer.quiet
    if quiet is None or (quiet.exact and quiet.seconds < limits["quiet_after"]):
        return
    if quiet.seconds >= limits["refill_wait"] and consumer.below_zero:
        yield _finding(view, consumer, 0.6)
    else:
        yield Unknown(
            f"{consumer.label} asks for one message at a time, was sent a batch and has been "
            f"quiet for {quiet}: a queue of 1 with slow work looks so too",
            consumer.label,
        )


def _finding(view: SubscriptionView, consumer: ConsumerView, confidence: float) -> Finding:
    batch = consumer.largest_batch
    of = "" if batch is None else f" of {batch}"
    held = "" if consumer.held is None else f", {consumer.held} messages delivered"
    return Finding(
        code="zero-queue-unsupported",
        severity="stalled",
        confidence=consumer.sure(confidence),
        consumer=consumer.label,
        summary=(
            f"{consumer.label} asks for one message at a time, and a client with such a zero queue "
            f"cannot hand out the rest of a batch: it was sent a batch{of}: "
            f"{consumer.permits} permits{held}, quiet for {consumer.quiet}"
        ),
        evidence=(Measure("largest_batch", batch, "messages"), *consumer.measures()),
        remedy=REMEDY,
        actions=tuple(_actions(view, consumer)),
    )


def _actions(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    yield restart(view, consumer)
    yield from QUEUE_OF_ONE.on(view, consumer.client)
    yield Action(
        "later",
        f"Or let producers send without batches: {setting_of_any(BATCHING_OFF)}.",
        side_effect="more requests and more entries for the same messages",
        undo="turn batches on again",
        check=check_line(view, ACKNOWLEDGED),
    )
