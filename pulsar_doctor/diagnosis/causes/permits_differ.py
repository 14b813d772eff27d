"""Broker and wire report different permits for one consumer, although nothing moves.

What a trace of the wire shows and what the broker counts are two sides of one account: after each
FLOW and each message both have the same permits. Where a
consumer has been quiet for longer than both readings are apart, and for more than two seconds, its
permits can differ only if one of them has lost count: a FLOW that one side dropped (before the
SUBSCRIBE had succeeded, or after a close), a message that was debited and not sent, a trace that
does not have all of it, or two consumers of one name that the tool has taken for one.

It is checked only where both are there: `stall-check TOPIC --trace DIR`, `tap --compare-broker`.
The newer number is what all other checks go by. Where permits may have been set aside, by the limit
of unacknowledged messages, nothing is reported.

Source: Consumer.flowPermits and sendMessages in the broker; PERMITS in the trace's columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import admin
from pulsar_doctor.diagnosis.actions.consumers import restart
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.subscription import Disagreement, SubscriptionView
from pulsar_doctor.wording.sentences import fill

NEEDS = frozenset({STATS, WIRE})  # and clear where there is only one
SYMPTOM = "unknown"
REMEDY = (
    "Keep the trace and both stats, and report them: this is a fault of the client, of the broker "
    "or of this tool. A restart of the consumer makes both sides equal again."
)
CHECK = "with --trace too: it shows whether both sides still differ"
SUMMARY = (
    "two sources disagree about {consumer}: one reports {newer:available permits} and the other"
    " {older}, and nothing has moved in between"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each number that both sides tell exactly, and differently."""
    return (_finding(view, differ) for differ in view.disagreements)


def _finding(view: SubscriptionView, differ: Disagreement) -> Finding:
    return Finding(
        severity="warning",
        confidence=0.8,
        consumer=differ.consumer,
        summary=fill(SUMMARY, differ),
        evidence=(
            Measure("permits_newer", differ.newer, "permits"),
            Measure("permits_older", differ.older, "permits"),
        ),
        actions=tuple(_actions(view, differ)),
    )


def _actions(view: SubscriptionView, differ: Disagreement) -> Iterator[Action]:
    yield Action(
        "now",
        "Keep the trace and the broker's current statistics, and report them.",
        command=admin(view, "topics stats"),
    )
    for consumer in view.consumers or ():
        if consumer.label == differ.consumer:
            yield restart(view, consumer)
