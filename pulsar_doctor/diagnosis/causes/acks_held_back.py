"""The application has acknowledged, but its client has not sent the acknowledgements.

You see: `unackedMessages` does not fall although the application's log shows that it works.

A client collects acknowledgements and sends them together, after 0.1 s by default. With a long
`acknowledgmentGroupTime`, or without a connection, it keeps them. The broker still counts the
messages as unacknowledged, and sends them again when the consumer leaves.

The check examines the process twice. It is a warning if acknowledgements waited in the client's
tracker both times, the broker received none in between, and either the client has no connection or
they have waited for `held_for`.

Source: PersistentAcknowledgmentsGroupingTracker in the Java client.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.process import GONE
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.inside import Inside
from pulsar_doctor.evidence.measures import PROCESS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (
    Threshold("held_for", 2.0, "seconds", "a client may hold acknowledgements back for this long"),
)
NEEDS = frozenset({PROCESS})
SYMPTOM = "wrong backlog"
EXPLAINS = frozenset({"not-acknowledging", "permits-exhausted", "ack-hole"})
REMEDY = (
    "Let the client send its acknowledgements sooner: acknowledgmentGroupTime(100, MILLISECONDS)."
)
RECONNECT = (
    "Find out why its client has no connection to the broker; restart it if it does not reconnect."
)
CHECK = GONE
SUMMARY = "{label} holds {acks_pending} acknowledgements back, for at least {seconds}: {why}"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer with acknowledgements that did not leave its client."""
    for consumer in view.consumers or ():
        own = consumer.inside
        if own is None or not own.acks_pending or _heard(consumer, own):
            continue
        lost = own.connected is False
        if not lost and own.seconds < limits["held_for"]:
            continue
        yield _finding(view, consumer, own, REMEDY if not lost else RECONNECT)


def _heard(consumer: ConsumerView, own: Inside) -> bool:
    """Whether the broker has had an ack of it since the first look."""
    since = consumer.since_last_ack
    return bool(consumer.acked) or (since is not None and since.seconds < own.seconds)


def _finding(view: SubscriptionView, consumer: ConsumerView, own: Inside, remedy: str) -> Finding:
    grouped = own.acks_grouped_seconds
    why = (
        "it has no connection to its broker"
        if own.connected is False
        else say(
            "its client may group them for {}",
            "a time that is not reported" if grouped is None else duration(grouped),
        )
    )
    return Finding(
        severity="warning",
        confidence=0.9 if own.connected is False or (grouped or 0) > own.seconds else 0.7,
        consumer=consumer.label,
        summary=fill(SUMMARY, own, label=consumer.label, seconds=duration(own.seconds), why=why),
        evidence=(
            Measure("acks_pending", own.acks_pending, "messages", "at least"),
            Measure("held_for", round(own.seconds, 1), "seconds", "at least"),
            Measure("acks_grouped_for", grouped, "seconds"),
            Measure("connected", None if own.connected is None else str(own.connected).lower(), ""),
        ),
        remedy=remedy,
        actions=(Action("today", remedy),),
    )
