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

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.consumers import SettingChange, restart
from pulsar_doctor.diagnosis.actions.settings import setting_of_any
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observations import said
from pulsar_doctor.diagnosis.thresholds import QUIET_AFTER, REFILL_WAIT, Limits
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, told
from pulsar_doctor.ledger.clients import BATCHING_OFF, RECEIVER_QUEUE
from pulsar_doctor.wording.sentences import say

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
    "(enableBatching=false); then close this consumer: the messages that it lost are delivered "
    "again."
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
    batch = consumer.largest_batch
    of = "" if batch is None else say(" of {}", batch)
    held = (
        ""
        if consumer.unacked_messages is None
        else say(", {:messages} delivered", consumer.unacked_messages)
    )
    return Finding(
        severity="stalled",
        confidence=consumer.sure(confidence),
        consumer=consumer.label,
        summary=say(
            "{} asks for one message at a time, and a client with such a zero queue cannot hand out"
            " the rest of a batch: it was sent a batch{}: {:permits}{}, quiet for {}",
            *(consumer.label, of, consumer.available_permits, held, consumer.quiet_for),
        ),
        evidence=(measured("largest_batch", batch), *consumer.measures()),
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


def _not_by(view: SubscriptionView, each: ConsumerView) -> str | None:
    """A queue that is larger, or a life in which no batch came for one permit."""
    size = least(each.receiver_queue_size)
    if size is not None and size > 1:
        return f"{each.label} has a receiver queue of {each.receiver_queue_size}"
    granted = told(each.permits_granted)
    permits = told(each.available_permits)
    if permits is not None and permits > 1:
        return said("has_permits", each)
    if each.batch_for_one or granted is None or each.unacked_messages is None:
        return None
    return f"{each.label} was sent no batch for one permit" if not each.one_by_one else None


HYPOTHESIS = Hypothesis(
    "{who} has a zero queue, and with that its client cannot take a batch",
    speaks_for=("undecided", "batch_for_one", "quiet_long", "quiet_some", "below_zero"),
    against=("works", "lively", "acks_come"),
    not_by=(_not_by,),
    missing=("receiver_queue_size",),
)
