"""A consumer holds messages and acknowledges nothing, though it has permits left.

Its receiver queue is not full, so permits are not what is missing: the broker has sent all there
is, and the application neither acknowledges nor asks for more. It hangs, forgets to acknowledge, or
works longer on one message than `silent_for`; from outside these look the same, so it is a warning.
Producers go on, and nothing fails until the queue is full.

The rule looks for a consumer with permits that holds messages, while nothing is left to send, and
of which neither an ack nor a FLOW nor a delivery has come for `silent_for`. Readers, other
non-durable subscriptions and standbys are not judged. By the stats alone, what is held on Exclusive
and Failover is known from the internal stats only. A trace does not tell what is left to send; but
nothing is, or the broker does not read, where a consumer with permits is sent nothing for so long.

Source: Consumer.messageAcked and flowPermits in the broker.
"""

from __future__ import annotations

from pulsar_doctor.evidence.answers import STATS, WIRE, Answers, Finding, Measure, Unknown
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.thresholds import Limits, Threshold
from pulsar_doctor.evidence.values import least
from pulsar_doctor.wording.durations import duration

THRESHOLDS = (Threshold("silent_for", 300.0, "seconds", "a shorter silence of a consumer is work"),)
NEEDS = frozenset({STATS, WIRE})
EXPLAINS = frozenset({"ack-hole"})
REMEDY = (
    "See whether this application hangs (a thread dump) or does not acknowledge what it has "
    "finished; closing it gives its messages to another consumer."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that holds messages in silence."""
    if view.quiet_is_fine or not _nothing_left(view):
        return
    for consumer in view.consumers or ():
        if not _holds_with_permits(consumer):
            continue
        if consumer.quiet_for(limits["silent_for"]):
            yield _finding(consumer)
        elif consumer.never_acked and consumer.quiet is not None and not consumer.quiet.exact:
            yield Unknown(
                f"{consumer.label} holds {consumer.held} messages and has never acknowledged any; "
                f"since when is not told: {consumer.unseen or 'take a longer window'}",
                consumer.label,
            )


def _nothing_left(view: SubscriptionView) -> bool:
    """Whether nothing is left to send, as far as anybody tells."""
    if view.left is None:
        return view.backlog is None
    return view.left.most is not None and view.left.most <= 0


def _holds_with_permits(consumer: ConsumerView) -> bool:
    permits, held = least(consumer.permits), least(consumer.held)
    if not held or permits is None or permits <= 0 or consumer.active is False:
        return False
    return not (consumer.moved or consumer.works or consumer.resting)


def _finding(consumer: ConsumerView) -> Finding:
    silent = consumer.quiet.seconds if consumer.quiet else 0.0
    held, permits = least(consumer.held), least(consumer.permits)
    return Finding(
        code="not-acknowledging",
        severity="warning",
        confidence=0.6,
        consumer=consumer.label,
        summary=(
            f"{consumer.label} holds {held} messages or more and has acknowledged nothing for "
            f"{duration(silent)}; {permits} permits are left, and nothing is left to send"
        ),
        evidence=(
            Measure("available_permits", permits, "permits"),
            Measure("held_least", held, "messages"),
            Measure("silent_for", round(silent, 3), "seconds"),
        ),
        remedy=REMEDY,
    )
