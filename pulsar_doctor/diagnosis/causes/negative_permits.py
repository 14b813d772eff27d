"""Permits are below zero and nothing that the client holds can bring them back.

You see: `availablePermits` -37, `unackedMessages` 0, and neither a message nor a FLOW comes.

The broker reads whole batches, so permits below zero are normal: after batches of 100 messages a
healthy consumer may be at -1360. It gives one permit back for each message that it takes from its
queue. If nothing is left to take, or too little (10 messages at -37), broker and client have
counted differently. Only a new subscribe makes both start from the same number.

It is a stall after `refill_wait` without a message or a FLOW. On Exclusive and Failover the
statistics show it only if internal stats report that everything up to the read position is
acknowledged. A subscription that is known to have no backlog is not reported.

Source: PersistentDispatcherMultipleConsumers debits by messages and reads by entries unless
preciseDispatcherFlowControl is on.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.consumers import anew
from pulsar_doctor.diagnosis.answers import Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.starving import starving
from pulsar_doctor.diagnosis.thresholds import REFILL_WAIT, Limits
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (REFILL_WAIT,)
NEEDS = frozenset({WIRE, STATS})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing"})
REMEDY = (
    "Restart this consumer: its next SUBSCRIBE starts from a full queue's worth of permits. Note "
    "its client version; if it happens again, report the trace to that client's project."
)
SUMMARY = (
    "{label} was sent more than it asked for, and what it holds is too little to bring its "
    "permits back: it is at {available_permits:permits} and {holds}; no FLOW and no message for "
    "{silence}[, while at least {left:entries} wait][: it was granted {permits_granted} and spent"
    " {spent}]"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer below zero with nothing left to give back."""
    if view.nothing_to_send_for_sure or (view.left is None and view.backlog is not None):
        return
    for consumer in starving(view, limits):
        quiet = consumer.quiet_for
        if not consumer.beyond_help or quiet is None:
            continue
        if quiet.seconds >= limits["refill_wait"]:
            yield _finding(view, consumer, quiet.seconds)
        elif not quiet.exact and not consumer.moved:
            yield Unknown(
                f"{consumer.label} is at {consumer.available_permits} permits and holds too "
                "little to bring them back; only the broker's clock shows for how long (see --at)",
                consumer.label,
            )


def _finding(view: SubscriptionView, consumer: ConsumerView, silent: float) -> Finding:
    left, spent = least(view.left), _spent(consumer)
    return Finding(
        severity="stalled",
        confidence=consumer.sure(0.8),
        consumer=consumer.label,
        summary=fill(
            SUMMARY,
            consumer,
            holds=_holds(consumer),
            silence=duration(silent),
            left=left,
            spent=spent,
        ),
        evidence=(
            *consumer.measures(),
            measured("permits_granted", exact(consumer.permits_granted)),
            Measure("permits_spent", spent, "permits"),
            Measure("left_entries_least", left, "entries"),
        ),
        actions=anew(view, consumer),
    )


def _spent(consumer: ConsumerView) -> int | None:
    granted, left = exact(consumer.permits_granted), exact(consumer.available_permits)
    return None if granted is None or left is None else granted - left


def _holds(consumer: ConsumerView) -> str:
    if consumer.holds_nothing:
        return "holds nothing that it could take"
    if consumer.queued.most == 0:
        return "has nothing left to take"
    return say("holds {:messages}, too few to bring them back", consumer.unacked_messages)


HYPOTHESIS = Hypothesis(
    "{who} was sent far more than it asked for, in batches, and must process that first",
    speaks_for=("undecided", "below_zero", "batches", "flow_far"),
    against=("works", "acks_come", "flow_soon", "asks_singly"),
    not_by=("not_below_zero",),
    missing=("largest_batch",),
)
