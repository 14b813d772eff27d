"""A consumer with a zero queue was sent a batch, which its client cannot handle.

You see: `availablePermits` -18 and `unackedMessages` 20 after one batch of 20, and nothing moves.

With a receiver queue of 0 the client requests one message with each receive. The broker sends the
whole batch and debits all its messages. The C++, Python and Node.js clients hand out the first
message and lose the rest until it is delivered again. The next receive hangs, and permits climb by
one with each call. The Java client closes the consumer. `consume --engine wire` takes it.

It is certain if the queue size is known, or if a Java client closes its consumer within a second of
a batch. Otherwise a queue of 1 shows the same, and copes with batches: it is unknown from
`quiet_after` on, and found after `refill_wait` with permits below zero, with low confidence. The
statistics show it by what was ever granted (1 or 2 permits) or by what is held beyond the permits.
At 0 permits the last message of the batch may be in hand: that stays unknown.

Source: ZeroQueueConsumerImpl in the Java and C++ clients; num_messages_in_batch of a message.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.consumers import SettingChange, restart
from pulsar_doctor.diagnosis.actions.settings import setting_of_any
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import QUIET_AFTER, REFILL_WAIT, Limits
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.clients import BATCHING_OFF, RECEIVER_QUEUE
from pulsar_doctor.wording.sentences import fill

THRESHOLDS = (REFILL_WAIT, QUIET_AFTER)
NEEDS = frozenset({WIRE, STATS})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"permits-exhausted", "negative-permits", "slow-but-progressing"})
CHECK = "healthy, and messages are acknowledged"
QUEUE_OF_ONE = SettingChange(
    RECEIVER_QUEUE,
    1,
    "Use a receiver queue of 1 instead of 0, which takes batches",
    "one message waits in its queue while it works on another",
    CHECK,
)
REMEDY = (
    "Use a receiver queue of 1 instead of 0, or let the producer send without batches "
    "(enableBatching=false); then close this consumer: the messages that it lost are delivered "
    "again."
)
SUMMARY = (
    "{label} asks for one message at a time, and a client with such a zero queue cannot hand out "
    "the rest of a batch: it was sent a batch[ of {largest_batch}]: {available_permits:permits}[,"
    " {unacked_messages:messages} delivered], quiet for {quiet_for}"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where a zero queue met a batch; unknown where it may be a queue of 1."""
    if view.nothing_to_move:
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
    quiet = consumer.quiet_for
    if quiet is None or (quiet.exact and quiet.seconds < limits["quiet_after"]):
        return
    if quiet.seconds >= limits["refill_wait"] and consumer.below_zero:
        yield _finding(view, consumer, 0.6)
    else:
        yield Unknown(
            f"{consumer.label} asks for one message at a time, was sent a batch and has been "
            f"quiet for {quiet}: a queue of 1 with slow work looks the same",
            consumer.label,
        )


def _finding(view: SubscriptionView, consumer: ConsumerView, confidence: float) -> Finding:
    return Finding(
        severity="stalled",
        confidence=consumer.sure(confidence),
        consumer=consumer.label,
        summary=fill(SUMMARY, consumer),
        evidence=(*consumer.measure("largest_batch"), *consumer.measures()),
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
    )


HYPOTHESIS = Hypothesis(
    "{who} has a zero queue, and with that its client cannot take a batch",
    speaks_for=("undecided", "batch_for_one", "quiet_some", "below_zero"),
    against=("works", "lively", "acks_come"),
    not_by=("queues_several", "several_permits", "no_batch_for_one"),
    missing=("receiver_queue_size",),
)
