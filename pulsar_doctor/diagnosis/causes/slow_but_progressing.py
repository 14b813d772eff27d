"""A consumer works slowly through a full queue, and its next FLOW will come.

You see: `availablePermits` 0, and `unackedMessages` 390 falls by one each second.

The application takes or acknowledges messages in its usual rhythm, and its client requests more
when half of the queue is taken. It is a warning if it is without permits for more than `slow_wait`
each time. Beyond the `refill_wait` of permits-exhausted that cause is found instead, unless the
queue is of 1. Plain stats of Exclusive and Failover do not show what a consumer holds: there the
time so far counts. The queue size is not in the stats; set `receiver_queue_size` if you know it.

Nothing is wrong with the broker. Other consumers of the subscription may be idle meanwhile.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.consumers import slow
from pulsar_doctor.diagnosis.answers import Answers, Finding
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.restart_laws import sent_in_vain
from pulsar_doctor.diagnosis.starving import starving
from pulsar_doctor.diagnosis.thresholds import (
    FIRST_ACK_WITHIN,
    RECEIVER_QUEUE_SIZE,
    SLOW_WAIT,
    Limits,
)
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (SLOW_WAIT, RECEIVER_QUEUE_SIZE)
NEEDS = frozenset({WIRE, STATS})
SYMPTOM = "too slow"
REMEDY = (
    "If the work really takes this long, set a smaller receiver queue or add consumers, so that "
    "messages do not wait behind it."
)
SUMMARY = (
    "{label} is processing {holds}[ at {each} each][, about {drain} in all,] and receives nothing"
    " meanwhile ({available_permits:permits}); {outlook}"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that works and with its next permits further away than slow_wait.

    A client also asks for more as chunks of a message arrive: its FLOWs alone show no work. One
    that may be the next of many lives shows no pace yet.
    """
    one_of_many = sent_in_vain(view, FIRST_ACK_WITHIN.default) is not None
    for consumer in () if one_of_many else starving(view, limits):
        works = consumer.works and not (consumer.resting or consumer.pace_has_ended)
        if works and _is_slow(consumer, limits["slow_wait"]):
            yield _finding(view, consumer)


def _is_slow(consumer: ConsumerView, slow_wait: float) -> bool:
    if consumer.holds_nothing or consumer.zero_queue or consumer.all_in_hand:
        return False
    if consumer.unacked_messages is not None and consumer.unacked_messages.most == 1:
        return False
    wait, sent = consumer.seconds_of_waiting, consumer.since_last_delivery
    request = consumer.last_request
    if wait is None and consumer.seconds_of_waiting_over > slow_wait:
        return True
    if request is not None and (
        wait is None or (consumer.below_zero and request.seconds < slow_wait)
    ):
        return False
    if wait is not None:
        return wait > slow_wait
    since_flow = consumer.since_last_flow
    without = sent is None or sent.seconds > slow_wait  # permits ran out at the last delivery
    return without and since_flow is not None and since_flow.seconds > slow_wait


def _finding(view: SubscriptionView, consumer: ConsumerView) -> Finding:
    pace, held = consumer.pace, consumer.unacked_messages
    each = None if pace is None else pace.seconds
    drain = None if each is None or held is None or held.most is None else held.most * each
    exact = None if held is None else held.exact
    holds = "messages" if exact is None else say("{:messages}", exact)
    sure = 0.5 if each is None else 0.7 if consumer.sending_after is None else 0.8
    return Finding(
        severity="warning",
        confidence=consumer.sure(sure),
        consumer=consumer.label,
        summary=fill(
            SUMMARY,
            consumer,
            holds=holds,
            each=None if each is None else duration(each),
            drain=None if drain is None else duration(drain),
        ),
        evidence=(
            *consumer.measures(),
            Measure("rate", 1 / each if each else None, "messages/second"),
            Measure("time_to_drain", drain, "seconds"),
        ),
        actions=tuple(slow(view, consumer)),
    )


HYPOTHESIS = Hypothesis(
    "{who} is working, slowly, and asks for more only after half of its queue",
    speaks_for=(
        "undecided", "no_permits", "holds_many", "flow_later", "flow_may_be_far", "acks_come",
        "works", "rate_acks",
    ),
    against=(
        "never_acked", "never_acked_many", "quiet_long", "unusual", "flow_soon",
        "asks_singly", "flag_blocked", "asks",
    ),
    not_by=("holds_nothing", "has_permits"),
    missing=("pace", "receiver_queue_size"),
    stalls=False,
    confirmed="if its acknowledgements arrive, this is the cause; if nothing moves, it hangs",
)  # fmt: skip
