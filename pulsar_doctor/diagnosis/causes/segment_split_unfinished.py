"""A split or a merge of segments has begun and has not ended: producers may wait for its end.

You see: segments 10 and 11 exist for 9 s and are not in the topic's metadata, and `msgRateIn` is 0.

The broker makes the new segments, seals the old ones, and writes the topic's metadata last. If it
is interrupted in between, no broker resumes it. A sealed old segment takes no messages, and its
producers wait. No broker reports that it is sealed. A split takes a fraction of a second: it is a
warning if the new segments have been there for `ends_within` and the old one receives nothing.

Source: splitSegment, mergeSegments and initialize of ScalableTopicController, 5.0.0-M1.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import split
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.segments import AmongSegments
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (Threshold("ends_within", 5.0, "seconds", "a split or a merge takes less"),)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
CHECK = "this finding is gone"
SUMMARY = (
    "a {what} of this segment has not ended: {segments} {have_been} there for {seconds} or "
    "longer, and not in the topic's metadata; this segment receives nothing, and its producers "
    "wait if it is sealed"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for an active segment that receives nothing, beside children that are not listed."""
    place = view.place
    if place is None or not place.made or view.msg_rate_in or (view.backlog_change or 0) > 0:
        return
    seconds = min(each.seen_seconds or 0.0 for each in place.made)
    if view.msg_rate_in is None or seconds < limits["ends_within"]:
        yield Unknown("a split or a merge of this segment has begun, and may end at once")
        return
    yield _finding(view, place, seconds)


def _finding(view: SubscriptionView, place: AmongSegments, seconds: float) -> Finding:
    own, made = place.segment, [str(each.id) for each in place.made]
    within = all(
        own.hash_start <= each.hash_start and each.hash_end <= own.hash_end for each in place.made
    )
    what, line = ("split", split(view)) if within else ("merge", None)
    remedy = (
        f"Do the {what} again: the broker uses the new segments that are there, and writes the "
        "metadata. Producers and consumers follow by themselves."
    )
    action = Action("now", remedy, command=line)
    return Finding(
        severity="warning",
        confidence=0.8,
        summary=fill(
            SUMMARY,
            view,
            what=what,
            segments=say("segment{} {}", "s" if len(made) > 1 else "", listed(made)),
            have_been="have been" if len(made) > 1 else "has been",
            seconds=duration(seconds),
        ),
        evidence=(
            Measure("unlisted_segments", len(made), "segments"),
            Measure("seen_for", seconds, "seconds", "at least"),
        ),
        remedy=remedy,
        actions=(action,),
    )
