"""A stream consumer cannot keep up with its segments, while another one has nothing to do.

You see: one segment has a backlog of 2000 that grows by 1200 a minute, and receives 20 of the 22
messages a second of both active segments. Another consumer has no backlog.

A stream consumer is alone on each segment that the broker assigns to it, so nobody helps it.
- The broker deals segments out in order of hashes and of names, and counts drained sealed ones
  until it deletes them, within a minute after their retention. So after a split one consumer may
  have both children, and another one only the sealed parent.
- Or one segment receives at least `hot_times` of what active segments receive on average. The
  broker splits by itself only above 10,000 messages a second
  (scalableTopicSplitMsgRateInThreshold), and a split divides hashes, never one key.

It is a warning if `waiting_least` entries or more wait, and more than arrive in `behind_for`, the
backlog does not fall, the consumer acknowledges, and at most `idle_most` of that waits for the
other one. A segment younger than `settled_after` is not judged, nor are queue consumers.

Source: computeAssignment of the broker's SubscriptionCoordinator, pruneAllAsync of
ScalableTopicController, and AutoScalePolicyEvaluator, 5.0.0-M1.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.diagnosis.actions.commands import split
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import HANGS_AFTER_SECONDS, Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.segments import AmongSegments, OnSegment
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.printable import listed, many
from pulsar_doctor.wording.sentences import Sentence, fill, say

THRESHOLDS = (
    Threshold("behind_for", 60.0, "seconds", "more waits than arrives in this time"),
    Threshold("waiting_least", 100.0, "entries", "fewer are little traffic"),
    Threshold("settled_after", 180.0, "seconds", "a segment that is younger is not judged"),
    Threshold("hot_times", 1.5, "times", "what a segment receives on average"),
    Threshold("idle_most", 0.1, "of the backlog", "that waits for the consumer without work"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "too slow"
CHECK = "the backlog of this segment falls"
SUMMARY = "{consumer} does not keep up with this segment, with a backlog of {backlog}, {why}"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where an active segment's backlog does not fall, beside a consumer without work."""
    place = view.place
    own = place.own if place else None
    if place is None or own is None or not _is_behind(view, place, own, limits):
        return
    of_each = place.by_application.items()
    mine = next(each for _, each in of_each if own in each)
    for name, theirs in of_each:
        if not _are_idle(theirs, (own.backlog or 0) * limits["idle_most"]):
            continue
        if not place.active_of(theirs):
            if len(place.active_of(mine)) > 1 and all(each.drained for each in theirs):
                yield _dealt_out(view, name, theirs)
                return
        elif _is_hot(own, place, limits["hot_times"]):
            yield _hot(view, name)
            return


def _are_idle(segments: Sequence[OnSegment], most: float) -> bool:
    waiting = [each.backlog for each in segments if each.backlog is not None]
    return len(waiting) == len(segments) and sum(waiting) <= most


def _is_behind(
    view: SubscriptionView, place: AmongSegments, own: OnSegment, limits: Limits
) -> bool:
    waits, rate, quiet = own.backlog, own.msg_rate_in, own.quiet_seconds
    if not (place.segment.active and own.ordered and own.consumer and rate and waits):
        return False
    if (place.age_seconds(view.moment_ms) or 0.0) < limits["settled_after"]:
        return False
    works = quiet is not None and quiet < HANGS_AFTER_SECONDS
    falls = view.backlog_change is None or view.backlog_change < 0
    return (
        works and not falls and waits >= max(limits["waiting_least"], rate * limits["behind_for"])
    )


def _is_hot(own: OnSegment, place: AmongSegments, times: float) -> bool:
    rates = place.active_rates
    return bool(rates) and (own.msg_rate_in or 0.0) >= times * sum(rates) / len(rates)


def _dealt_out(view: SubscriptionView, idle: str, sealed: Sequence[OnSegment]) -> Finding:
    numbers = [str(each.segment) for each in sealed]
    names = say("segment{} {}", "s" if len(numbers) > 1 else "", listed(numbers))
    count = len(view.place.segments) if view.place else 0
    why = say("while the broker has given {} only what is sealed and drained ({})", idle, names)
    remedy = (
        f"Run as many stream consumers as the topic has segments, sealed ones too: {count}. Or "
        "wait until the broker deletes what is sealed: it does within a minute after the end of "
        "the namespace's retention."
    )
    return _finding(view, why, Action("now", remedy))


def _hot(view: SubscriptionView, idle: str) -> Finding:
    rates = view.place.active_rates if view.place else ()
    count = len(view.place.segments) + 2 if view.place else 0
    remedy = (
        "Split this segment if its messages have many keys; those of one key stay on one segment. "
        f"Run {count} stream consumers, one for each segment that there is then, the sealed one "
        "too: with fewer, both children may go to the same."
    )
    why = say(
        "which receives {} of the {} messages a second of all {}, while {} has nothing to do",
        *(f"{view.msg_rate_in or 0.0:.1f}", f"{sum(rates):.1f}"),
        *(many(len(rates), "active segment"), idle),
    )
    action = Action(
        "today", remedy, command=split(view),
        side_effect="nobody gets the children before all messages of this segment are acknowledged",
        undo="merge both children, with pulsar-admin scalable-topics merge-segments",
    )  # fmt: skip
    return _finding(view, why, action)


def _finding(view: SubscriptionView, why: Sentence, action: Action) -> Finding:
    own = view.place.own if view.place else None
    consumer = own.consumer if own else None
    return Finding(
        severity="warning",
        confidence=0.75,
        consumer=consumer,
        summary=fill(SUMMARY, view, consumer=consumer, why=why),
        evidence=(
            Measure("msg_rate_in", view.msg_rate_in, "messages/second"),
            Measure("backlog_change", view.backlog_change, "entries"),
            backlog_measure(view),
        ),
        remedy=action.text,
        actions=(action,),
    )
