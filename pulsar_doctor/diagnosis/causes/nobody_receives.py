"""Messages wait in a consumer's queue, and nobody calls receive.

You see, in its process: 13 messages in the receiver queue, and the thread `main` in
com.acme.Billing.charge (Billing.java:88) for 41 s. In the broker's numbers `availablePermits` is 0.

A consumer without a listener gives a message to whoever calls `receive`. If that thread has ended,
waits for a lock or does something else, the queue stays full, and the client sends no FLOW.

The check examines the process twice. It is found if messages are in the queue (with a zero queue:
nobody requests one), no thread is in a receive call of the client, and nothing was taken for
`stuck_for`; from `refill_wait` on it is a stall. Stacks do not show which thread should receive:
the finding names those that rest, and the pool that has its messages. Thread dumps do not show
virtual threads (Java 21). A consumer that works in its rhythm is not found.

Source: ConsumerBase.receive and ConsumerImpl.internalReceive in the Java client.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.process import (
    STUCK_FOR,
    both_ledgers,
    lasted,
    numbers,
    resting,
    sitting,
    unstuck,
)
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES
from pulsar_doctor.diagnosis.actions.threads import all_have_sat, in_pool
from pulsar_doctor.diagnosis.answers import Answers, Finding
from pulsar_doctor.diagnosis.thresholds import REFILL_WAIT, Limits
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (STUCK_FOR, REFILL_WAIT)
NEEDS = frozenset({PROCESS})
SYMPTOM = "nothing comes"
EXPLAINS = CONSEQUENCES
REMEDY = "Find out why the thread that should receive does not return, and restart the process."
SUMMARY = "nobody calls receive on {label}[ while {waits} wait in its queue]: {ledgers}; {where}"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer with a queue that nobody empties."""
    for consumer in view.consumers or ():
        own = consumer.inside
        if own is None or own.listener is not False or own.asked is not False or consumer.works:
            continue
        stood = 0.0 if own.deadlock or not own.nothing_taken else lasted(consumer, own)
        if stood < limits["stuck_for"]:
            continue
        waits = "messages" if own.waiting is None else say("{:messages}", own.waiting)
        yield Finding(
            severity="stalled" if stood >= limits["refill_wait"] else "warning",
            confidence=0.9 if len(own.sits) == 1 else 0.7,
            consumer=consumer.label,
            summary=fill(
                SUMMARY,
                consumer,
                waits=None if own.zero_queue else waits,
                ledgers=both_ledgers(consumer, own),
                where=_where(own),
            ),
            evidence=(*numbers(consumer, own), *sitting(consumer, own)),
            actions=unstuck(view, consumer, resting(own)),
        )


def _where(own: Inside) -> str:
    """Where the threads are that could; those of a pool with its messages come after these."""
    pool = in_pool(own)
    sits = [each for each in own.sits if not (pool and each in own.pool_places)]
    if sits:
        where = all_have_sat(sits, "thread")
    elif own.virtual_threads:
        some = many(own.virtual_threads, "virtual thread")
        where = f"its process has {some}, which thread dumps do not show"
    else:
        where = "no thread of its application is left to do it"
    return f"{where}; {pool}" if pool else where
