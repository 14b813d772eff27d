"""After a REDELIVER on Exclusive or Failover, entries were skipped and never sent again.

You see: the client does not get entry 1:2, while 1:3 and later ones come as if nothing were wrong.
Permits are there, and `msgBacklog` does not get to 0.

A Java client that gives messages back (a negative acknowledgement, an ack timeout,
redeliverUnacknowledgedMessages) requests everything that is not acknowledged. It counts these
requests, the consumer epoch, and drops what is sent in an older one. The broker rewinds its cursor.
But a read in progress brings its entries in the old epoch, and then moves the cursor behind them.
The client has dropped these entries and waits for them, and the broker takes them as sent. A
cumulative acknowledgement of a later one acknowledges them unseen. Only a REDELIVER or a new
connection helps.

It is a stall if an entry came only in an older epoch than that of the last REDELIVER, something of
an older epoch came after that REDELIVER, an entry behind it has come in the present epoch, and
nobody has acknowledged it. None of that may have changed for `settle`. The check knows the newest
1000 such entries. An entry that has expired or was skipped by hand shows the same on the wire. C++
and Python clients send no epoch and lose nothing.

Source: PersistentDispatcherSingleActiveConsumer.internalRedeliverUnacknowledgedMessages and
OpReadEntry.updateReadPosition in the broker, ConsumerBase.isValidConsumerEpoch in the Java client
(PIP-84); near apache/pulsar#23345.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.consumers import NO_MORE, restart, unload
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import WIRE, Measure
from pulsar_doctor.evidence.passed_over import PassedOver
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (Threshold("settle", 5.0, "seconds", "more recent changes may still be in progress"),)
NEEDS = frozenset({WIRE})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"ack-hole"})
REMEDY = (
    "Restart this consumer, or unload the topic (pulsar-admin topics unload): after it "
    "reconnects, everything that is not acknowledged is delivered again, including what the "
    "application is working on. Until then do not acknowledge cumulatively. It happens to Java "
    "clients on Exclusive and Failover; on Shared, messages are given back one by one, without "
    "this race."
)
CHECK = NO_MORE
SUMMARY = (
    "{unsent} not sent to {label} any more: {entries} from {first} on were sent before its last"
    " REDELIVER took effect and not again, while {behind} has been sent since"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that waits for what will not come."""
    for consumer in view.consumers or ():
        passed = consumer.passed_over
        if passed is not None and passed.settled_seconds >= limits["settle"]:
            yield _finding(view, consumer, passed)


def _finding(view: SubscriptionView, consumer: ConsumerView, passed: PassedOver) -> Finding:
    entries = say("{:entries}", passed.entries)
    unsent = say("{:message} is" if passed.messages == 1 else "{:messages} are", passed.messages)
    return Finding(
        severity="stalled",
        confidence=0.9,
        consumer=consumer.label,
        summary=fill(SUMMARY, passed, unsent=unsent, label=consumer.label, entries=entries),
        evidence=(
            Measure("passed_entries", passed.entries, "entries"),
            Measure("passed_messages", passed.messages, "messages"),
            Measure("first_passed", passed.first, ""),
            Measure("highest_since", passed.behind, ""),
            Measure("consumer_epoch", passed.epoch, ""),
            Measure("late_entries", passed.late_entries, "entries"),
        ),
        actions=(
            restart(view, consumer),
            unload(view),
            Action(
                "later",
                "Use Shared if the order does not matter: there, messages are given back one by "
                "one. Or do not acknowledge cumulatively.",
            ),
        ),
    )
