"""Broker and wire report different permits for one consumer, although nothing moves.

You see: `availablePermits` 0 from one of the two, and 5 from the other.

A trace and the broker count the same FLOWs and messages. If a consumer has been quiet for more than
two seconds, and for longer than both readings are apart, its permits differ only if one side has
lost count: it dropped a FLOW (before the SUBSCRIBE had succeeded, or after a close), debited a
message and did not send it, or the trace is incomplete or mixes two consumers of one name.

It is found, as a warning, where both are read: `stall-check --trace DIR` beside statistics, or `tap
--compare-broker`. All other checks use the newer number. Nothing is reported if a limit of
unacknowledged messages may apply.

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
