"""A consumer was paused by its application, and messages wait for it.

`Consumer.pause()` stops a client from asking: it sends no FLOW until `resume()`. What is in its
queue may still be taken. In the broker's numbers it resembles any consumer that hangs; only its
process tells.

The check examines the process: the client's own flag is set, and something is not consumed or
waits in its queue. A pause may be meant, so it is a warning, and as bad as what follows from it.

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
