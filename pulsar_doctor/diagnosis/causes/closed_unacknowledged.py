"""A consumer was closed while it held messages, and had never acknowledged any.

You see, in a trace: 200 messages sent to a consumer, no ACK, and its end 5 s later.

The broker delivers these messages again, so their work is done twice, or by nobody, and nothing has
failed anywhere. The application forgets to acknowledge, closes before its acknowledgements are
sent, or hung until it was ended.

A client prefetches messages, and it is normal to close it with a full queue. Only a FLOW after the
first, or a message that was given back singly, proves that the application took some. It is a
warning with that proof, or if the application closed a consumer that had had messages for
`took_within`. It is unknown if it was closed sooner, or only its connection ended, as when a
process is stopped. Once another consumer has acknowledged, it is information with the proof and
silent without. Not judged: consumers that return under their name, unsubscribe or are closed by the
broker, and readers.

Source: Consumer.close and disconnect in the broker; ConsumerImpl.increaseAvailablePermits in Java.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.processes import place
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import ClosedConsumer, SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold(
        "took_within",
        2.0,
        "seconds",
        "an application that receives takes a message within this time",
    ),
)
NEEDS = frozenset({WIRE})
SYMPTOM = "again and again"
READERS = ("reader-", "multiTopicsReader-")  # of Java, C++ with Python and Node.js, and Go
REMEDY = (
    "Check that the application acknowledges each message when its work is done, and closes its "
    "consumer only after that."
)
CHECK = "the backlog falls, and a consumer has acknowledged"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that was closed with messages and never acknowledged any."""
    if view.durable is False or view.subscription.startswith(READERS):
        return
    for closed in view.closed or ():
        severity = _severity(closed, limits["took_within"])
        if severity is not None:
            yield _finding(view, closed, severity)
        elif not closed.acked_since:
            yield Unknown(_undecided(closed), closed.consumer.label)


def _severity(closed: ClosedConsumer, took_within: float) -> Severity | None:
    """None where the application may have taken none of it."""
    if closed.acked_since:
        return "info" if closed.taken else None
    waited = closed.by_command and (closed.had_seconds or 0) >= took_within
    return "warning" if closed.taken or waited else None


def _undecided(closed: ClosedConsumer) -> str:
    key = "closed_holding" if closed.by_command else "ended_holding"
    ended = worded(key, closed.consumer, held=closed.held, after=None)
    return say("{}; whether the application had taken any is not visible on the wire", ended)


def _finding(view: SubscriptionView, closed: ClosedConsumer, severity: Severity) -> Finding:
    consumer, had = closed.consumer, closed.had_seconds
    return Finding(
        severity=severity,
        confidence=0.9 if closed.taken else 0.7,
        consumer=consumer.label,
        summary=_summary(closed, severity),
        evidence=(
            *consumer.measure("address"),
            measured("unacked_messages", closed.held),
            Measure("acknowledged", 0, "messages"),
            Measure("taken_least", closed.taken, "messages", "at least"),
            Measure("held_for", None if had is None else round(had, 3), "seconds"),
        ),
        actions=tuple(_actions(view, closed)),
    )


def _summary(closed: ClosedConsumer, severity: Severity) -> str:
    """What it did, what that means, and what became of the messages."""
    after = None if closed.had_seconds is None else duration(closed.had_seconds)
    why = (
        say("its application took {} or more of them", closed.taken)
        if closed.taken
        else "its application took none of them, or forgets to acknowledge"
    )
    then = (
        "they were delivered again, and others have acknowledged since"
        if severity == "info"
        else "they are delivered again, and nobody has acknowledged since"
    )
    ended = worded("closed_holding", closed.consumer, held=closed.held, after=after)
    return say("{}: {}; {}", ended, why, then)


def _actions(view: SubscriptionView, closed: ClosedConsumer) -> Iterator[Action]:
    yield Action(
        "now",
        f"Check that the application {place(closed.consumer)} acknowledges each message when its "
        "work is done, and check its log for failed acks: none has arrived.",
    )
    yield Action(
        "later",
        "Close the consumer last: first wait for the work in progress and its acknowledgements.",
    )


HYPOTHESIS = Hypothesis(
    "a consumer ended, and all the messages that it had taken come again",
    speaks_for=("undecided", "ended_holding"),
    against=("somebody_acks",),
    stalls=False,
    found_at_once=True,
    if_undecided=True,
    confirmed="if the next consumer takes messages and ends in the same way, this is the cause",
)
