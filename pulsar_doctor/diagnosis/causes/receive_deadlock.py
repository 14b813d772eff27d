"""Threads of a consumer's process are deadlocked, as its JVM reports.

You see, in its process: the threads `left` and `right` wait for each other. A deadlock never ends,
and the messages of these threads wait until the process is restarted.

It is a stall if the JVM's thread dump names a cycle of threads and locks with a thread of the
application in it, and the consumer has taken nothing between two samples.

Source: HotSpot's own search for cycles (`jcmd PID Thread.print`).
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.process import both_ledgers, numbers, unstuck
from pulsar_doctor.diagnosis.actions.processes import CONSEQUENCES
from pulsar_doctor.diagnosis.answers import Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.measures import PROCESS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import fill, say

NEEDS = frozenset({PROCESS})
SYMPTOM = "nothing comes"
EXPLAINS = CONSEQUENCES | {"listener-stuck", "nobody-receives"}
REMEDY = (
    "Restart the process. Then change the code to take the locks that the dump names in the same "
    "order everywhere."
)
SUMMARY = (
    "{label} will not take any more messages: its threads {names} wait for each other[; {at}]; "
    "{ledgers}"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that takes nothing in a process with a deadlock."""
    for consumer in view.consumers or ():
        own = consumer.inside
        if own is None or not own.deadlock or not own.nothing_taken:
            continue
        names = " and ".join(own.deadlock)
        sits = next((each for each in own.sits if each.thread in own.deadlock), None)
        at = None if sits is None else say("{} is in {}", sits.thread, sits.where)
        yield Finding(
            severity="stalled",
            confidence=0.95 if sits is not None else 0.7,
            consumer=consumer.label,
            summary=fill(
                SUMMARY, consumer, names=names, at=at, ledgers=both_ledgers(consumer, own)
            ),
            evidence=(*numbers(consumer, own), Measure("deadlock", names, "threads")),
            actions=unstuck(view, consumer, () if sits is None else (sits,)),
        )
