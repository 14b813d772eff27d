"""A consumer of a V5 client holds what it does not process, on segments where others are idle.

You see: `unackedMessages` 523 on one segment and 484 on others, `availablePermits` 77, and no
delivery or ack for 7 min, while another consumer has permits and holds nothing.

The V5 client takes every message out of its receiver queues at once, and keeps all in one list
without a limit until the application calls receive(). So permits return at once,
`receiverQueueSize` limits nothing, and a slow consumer gathers messages up to the limit of
unacknowledged messages on each segment.

With `hoard_least` messages or more and permits left it is a warning, if nothing was delivered or
acknowledged on the segment for `idle_for` beside an idle consumer; after `stalled_after` a stall.

Source: startReceiveLoop of ScalableQueueConsumer and ScalableStreamConsumer, 5.0.0-M1.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import namespace_admin
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill

THRESHOLDS = (
    Threshold("hoard_least", 50.0, "messages", "fewer may be what it works on"),
    Threshold("idle_for", 60.0, "seconds", "without a delivery or an ack while another is idle"),
    Threshold("stalled_after", 300.0, "seconds", "it is called stalled, and not a warning"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "too slow"
EXPLAINS = frozenset({"prefetch-hogging", "not-acknowledging"})
REMEDY = (
    "Restart its process, or close this consumer: its messages go to the other consumers at once. "
    "receiverQueueSize does not limit what a V5 consumer (5.0.0-M1) holds; a limit of "
    "unacknowledged messages does, for each segment."
)
LIMIT = "1000"
SUMMARY = (
    "{label} holds {held:messages} of this segment[, and {more:messages} on other segments], and "
    "{permits}; nothing was delivered or acknowledged here for {seconds}, while {idle} has "
    "nothing to do"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that holds much on a segment and does nothing, beside an idle one."""
    own = view.place.own if view.place else None
    if own is None or view.type not in SHARING or own.quiet_seconds is None:
        return
    sent = view.since_delivery
    if sent is None or min(own.quiet_seconds, sent.seconds) < limits["idle_for"]:
        return
    idle = [each for each in view.consumers or () if _is_idle(each)]
    for consumer in view.consumers or ():
        held = least(consumer.unacked_messages) or 0
        if idle and held >= limits["hoard_least"] and (least(consumer.available_permits) or 0) > 0:
            yield _finding(view, consumer, idle[0], min(own.quiet_seconds, sent.seconds), limits)


def _is_idle(consumer: ConsumerView) -> bool:
    held, permits = consumer.unacked_messages, consumer.available_permits
    return held is not None and held.exact == 0 and (least(permits) or 0) > 0


def _finding(
    view: SubscriptionView, consumer: ConsumerView, idle: ConsumerView, quiet: float, limits: Limits
) -> Finding:
    held = least(consumer.unacked_messages) or 0
    more = view.place.held_elsewhere(consumer.name) if view.place else 0
    return Finding(
        severity="stalled" if quiet >= limits["stalled_after"] else "warning",
        confidence=0.85,
        consumer=consumer.label,
        summary=fill(
            SUMMARY,
            consumer,
            held=held,
            more=more or None,
            permits=worded("has_permits", consumer, label="it"),
            seconds=duration(quiet),
            idle=idle.label,
        ),
        evidence=(
            Measure("unacked_messages", held, "messages"),
            Measure("unacked_on_other_segments", more, "messages"),
            Measure("quiet_for", quiet, "seconds"),
        ),
        actions=(
            Action("now", REMEDY, check=check_line(view, "this finding is gone")),
            Action(
                "today",
                "Limit what each consumer may hold unacknowledged on each segment.",
                command=namespace_admin(view, "set-max-unacked-messages-per-consumer", "-c", LIMIT),
                side_effect="it holds for all consumers in the namespace: whoever works on more at "
                "once has to wait",
                check=check_line(view, "no consumer holds more"),
            ),
        ),
    )
