"""A consumer's message listener does not return, and messages wait behind it.

You see, in its process: the listener's thread is in com.acme.Billing.charge (Billing.java:88) for
41 s. In the broker's numbers `availablePermits` falls to 0, as for any consumer that hangs.

A thread of the client calls the listener with one message after the other. While the listener is in
a call that does not end (a socket without a time limit, a lock), no listener of that thread gets
another message. One thread may serve several consumers.

The check examines the process twice. It is found if messages wait, none was taken in between, and
the thread has been in the listener for `stuck_for`; from `refill_wait` on it is a stall. The kernel
or the broker's last sign of the consumer shows for how long, otherwise the time between the
samples. A listener that works in its rhythm is not found.

Source: ConsumerBase.triggerListener and callMessageListener in the Java client.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.consumers import SET_BACK, in_order
from pulsar_doctor.diagnosis.actions.process import (
    GONE,
    STUCK_FOR,
    both_ledgers,
    lasted,
    numbers,
    resting,
    sitting,
    unstuck,
)
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES
from pulsar_doctor.diagnosis.actions.settings import setting
from pulsar_doctor.diagnosis.actions.threads import NAMED_MOST, all_have_sat
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import REFILL_WAIT, Limits
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.clients import LISTENER_THREADS
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (STUCK_FOR, REFILL_WAIT)
NEEDS = frozenset({PROCESS})
SYMPTOM = "nothing comes"
EXPLAINS = CONSEQUENCES
REMEDY = (
    "Restart the process. Set a time limit on the call that blocks its listener, or on the call "
    "of the thread that holds its lock."
)
CHECK = GONE
SUMMARY = "{label} hangs{shares}: {threads}; {ledgers}"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer with a listener that is where it was."""
    for consumer in view.consumers or ():
        own = consumer.inside
        if own is None or not own.listener or not own.sits or consumer.works:
            continue
        stood = 0.0 if own.deadlock or not own.nothing_taken else lasted(consumer, own)
        if stood < limits["stuck_for"]:
            continue
        yield Finding(
            severity="stalled" if stood >= limits["refill_wait"] else "warning",
            confidence=0.95 if len(own.sits) == 1 and own.sits[0].seconds else 0.8,
            consumer=consumer.label,
            summary=fill(
                SUMMARY,
                consumer,
                shares=_shares(own),
                threads=all_have_sat(own.sits, "listener thread"),
                ledgers=both_ledgers(consumer, own),
            ),
            evidence=(*numbers(consumer, own), *sitting(consumer, own)),
            actions=in_order(
                (*unstuck(view, consumer, resting(own)), *_more_threads(view, consumer, own))
            ),
        )


def _shares(own: Inside) -> str:
    """Whom else this thread keeps waiting: nothing shows which message it works on."""
    if not own.shares:
        return ""
    others = listed(own.shares, NAMED_MOST)
    return say(", as one thread calls its listener and that of {}", others)


def _more_threads(view: SubscriptionView, consumer: ConsumerView, own: Inside) -> Iterator[Action]:
    name = setting(consumer.client, LISTENER_THREADS, len(own.shares) + 1) if own.shares else None
    if name is not None:
        yield Action(
            "today",
            f"Give its client a listener thread for each listener: {name}.",
            side_effect="a listener that hangs no longer holds up the others",
            undo=SET_BACK,
        )
