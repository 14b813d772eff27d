"""A segment of a scalable topic has a backlog and no consumer, while other segments have one.

You see: 84 entries wait on the segment, and its `consumers` is empty. Messages with keys in its
range of hashes wait, and all others flow, so that the application seems healthy.

When the connection of a stream consumer breaks, the broker keeps its segments for it for 60 s. So
it is a stall if nobody was there for longer than `taken_within`, and unknown before. A stream
consumer does not try again if a segment refuses it (seen on 5.0.0-M1): after a split as long as it
has no schema yet (IncompatibleSchemaException), or while the earlier consumer has not left
(ConsumerBusyException). Only the broker's log shows it.

Source: SubscriptionCoordinator (grace period) and ConsumerSession in the broker.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import Answers, Finding, Unknown
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.segments import OnSegment
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (
    Threshold("taken_within", 75.0, "seconds", "a segment is given to another consumer by then"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"no-consumer"})
REMEDY = (
    "Restart the consumers of this subscription one after the other: each attaches to the segments "
    "that it is given. Read in their logs why one could not attach to this segment."
)
CHECK = "a consumer is attached, and the backlog falls"
SUMMARY = (
    "nobody is attached to this segment, with a backlog of {backlog}, while {others} other "
    "{have} a consumer[ ({names})]; {last} {seconds} ago"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for a segment with a backlog, nobody attached, and nothing that holds it back."""
    if view.attended is not False or view.backlog is None or view.backlog.empty is not False:
        return
    others = [each for each in view.place.others if each.attended] if view.place else []
    if not others or view.awaited:
        return
    seconds = _nobody_for(view)
    if seconds is None or seconds < limits["taken_within"]:
        long = say(" for {}", duration(seconds)) if seconds is not None else ""
        yield Unknown(say("nobody is attached to this segment{}, and may come yet", long))
        return
    yield _finding(view, others, seconds)


def _nobody_for(view: SubscriptionView) -> float | None:
    """Since the last sign of a consumer here, or since the segment was made; at most."""
    seconds = _last_sign(view)
    if seconds is not None or view.place is None:
        return seconds
    return view.place.age_seconds(view.moment_ms)


def _last_sign(view: SubscriptionView) -> float | None:
    seen = view.alone.since_seen if view.alone is not None else None
    return None if seen is None else seen.seconds


def _finding(view: SubscriptionView, others: list[OnSegment], seconds: float) -> Finding:
    names = [each.consumer for each in others if each.consumer]
    known = _last_sign(view) is not None
    last = "the last sign of one here came" if known else "the segment was made"
    return Finding(
        severity="stalled",
        confidence=0.9,
        summary=fill(
            SUMMARY,
            view,
            others=len(others),
            have="segments have" if len(others) > 1 else "segment has",
            names=listed(names) or None,
            last=last,
            seconds=duration(seconds),
        ),
        evidence=(
            Measure("consumers", 0, "consumers"),
            Measure("segments_with_consumer", len(others), "segments"),
            Measure("nobody_for", seconds, "seconds"),
            backlog_measure(view),
        ),
    )
