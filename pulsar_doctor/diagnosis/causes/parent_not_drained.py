"""A segment of a scalable topic waits until its sealed parents are drained.

You see: 57 entries wait on a segment without a consumer, and its sealed parent still has 103.

A split or a merge seals segments and makes children of them. To keep the order of each key, the
broker assigns a child to a stream consumer only when the subscription has acknowledged everything
on its parents. Until then all messages of the child wait. It is a stall if nobody is attached to a
parent, or nothing was acknowledged there for `parent_quiet`; before, it is information.

The broker checks after 2 s whether the parents are drained, then at ever longer intervals of up to
15 minutes. So a child may wait although its parents are drained: a warning after `assigned_within`.
A consumer that joins makes the broker check within 2 s. Queue consumers do not wait.

Source: isAssignable and pollDrainStatus of the broker's SubscriptionCoordinator, 5.0.0-M1.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import Answers, Finding, Severity, Unknown
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.segments import OnSegment
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (
    Threshold("parent_quiet", 300.0, "seconds", "without an ack on a sealed parent is a stall"),
    Threshold("assigned_within", 30.0, "seconds", "after its parents are drained"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"no-consumer"})
REMEDY = (
    "Find out why the sealed parent is not drained: its own verdict names the consumer. Once all "
    "its messages are acknowledged, the broker assigns this segment by itself."
)
JOIN = (
    "Restart one stream consumer of the subscription, or add one with another name: the broker "
    "then checks at once, and not up to 15 minutes later."
)
CHECK = "this segment has a consumer, and its backlog falls"
SUMMARY = (
    "the broker assigns this segment to no consumer before its sealed parent, segment {segment}, "
    "is drained, which has {entries:entries} {who}[; nothing was acknowledged there for {since}]"
)
SUMMARY_DRAINED = (
    "all sealed parents were drained at least {seconds} ago, and the broker has not checked "
    "since: it does so at ever longer intervals"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for a segment with a backlog and nobody attached while its parents are not drained."""
    parents = view.awaited
    if not parents or view.backlog is None or view.backlog.empty is not False:
        return
    open_ = [each for each in parents if not each.drained]
    if open_:
        yield _waits(view, max(open_, key=_entries), limits)
        return
    drained = [each.quiet_seconds for each in parents if each.quiet_seconds is not None]
    if len(drained) == len(parents) and min(drained) >= limits["assigned_within"]:
        seconds = min(drained)
        yield Finding(
            severity="warning",
            confidence=0.8,
            summary=fill(SUMMARY_DRAINED, view, seconds=duration(seconds)),
            evidence=(Measure("parents_drained_for", seconds, "seconds"), backlog_measure(view)),
            remedy=JOIN,
        )


def _entries(parent: OnSegment) -> int:
    return parent.backlog or 0


def _waits(view: SubscriptionView, parent: OnSegment, limits: Limits) -> Finding | Unknown:
    quiet = parent.quiet_seconds
    if quiet is None and parent.attended is not False:
        why = "since when nothing was acknowledged on its sealed parent, segment {}, is not known"
        return Unknown(say(why, parent.segment))
    stuck = parent.attended is False or (quiet is not None and quiet >= limits["parent_quiet"])
    severity: Severity = "stalled" if stuck else "info"
    since = duration(quiet) if quiet else None
    return Finding(
        severity=severity,
        confidence=0.9,
        summary=fill(SUMMARY, parent, entries=_entries(parent), who=_who(parent), since=since),
        evidence=(
            Measure("parent_segment", parent.segment, "segment"),
            Measure("parent_backlog", _entries(parent), "entries"),
            Measure("parent_quiet_for", quiet, "seconds"),
            backlog_measure(view),
        ),
    )


def _who(parent: OnSegment) -> str:
    if parent.attended is False:
        return "and no consumer"
    if parent.consumer is None:
        return "to acknowledge"
    at = f" at {parent.address.lstrip('/')}" if parent.address else ""
    return f"for {parent.consumer}{at} to acknowledge"
