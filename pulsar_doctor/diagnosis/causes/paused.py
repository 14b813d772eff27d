"""A consumer was paused by its application, and messages wait for it.

You see: `availablePermits` 0 and no FLOW, as for any consumer that hangs. Its process shows why.

After `Consumer.pause()` a client sends no FLOW until `resume()`. The application may still take
what is in the queue. It is a warning if the client's own flag is set and messages wait in its queue
or in the backlog: a pause may be intended.

Source: ConsumerImpl.pause and increaseAvailablePermits in the Java client.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.process import GONE, both_ledgers, numbers
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES
from pulsar_doctor.diagnosis.answers import Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.measures import PROCESS
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import fill

NEEDS = frozenset({PROCESS})
SYMPTOM = "nothing comes"
EXPLAINS = CONSEQUENCES
REMEDY = "Call resume() on it in its application, or find out why that does not happen."
CHECK = GONE
SUMMARY = (
    "{label} was paused by its application and requests no messages until it is resumed: {ledgers}"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that is paused while something waits."""
    if view.nothing_to_move:
        return
    for consumer in view.consumers or ():
        own = consumer.inside
        if own is None or not own.paused or (view.backlog is None and not own.waiting):
            continue
        yield Finding(
            severity="warning",
            confidence=0.95,
            consumer=consumer.label,
            summary=fill(SUMMARY, consumer, ledgers=both_ledgers(consumer, own)),
            evidence=numbers(consumer, own),
        )
