"""Ranges of hashes that no consumer of a Key_Shared subscription has, where consumers choose them.

Source: HashRangeExclusiveStickyKeyConsumerSelector; `keyHashRangeArrays` of each consumer.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.broker.stats.values import HashRange
from pulsar_doctor.diagnosis.answers import Answers, Finding, Unknown
from pulsar_doctor.diagnosis.key_waits import kept_for_keys, kept_long, may_receive
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.keys import KeyOrder
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

UNCOVERED = (
    "Start the consumers of the missing ranges, so that all hashes from 0 to 65,535 have one, or "
    "let the broker split the ranges (KeySharedPolicy.autoSplitHashRange)."
)


def by_ranges(view: SubscriptionView, keys: KeyOrder, limits: Limits) -> Answers:
    """A finding where all consumers could receive in every sample, and nobody has the keys."""
    replay, gaps = kept_for_keys(view), keys.unowned
    if not replay or gaps == () or not may_receive(view):
        return
    by_choice = "consumers choose their ranges of keys themselves (STICKY)"
    left_out = f"nobody has {_named(gaps)}" if gaps else "leave some out"
    summary = say(
        "{:entries} wait for keys that no consumer has: {}, and {}; all of them could receive",
        *(replay, by_choice, left_out),
    )
    proven = bool(gaps) and kept_long(view, limits["just_now"])
    if not proven and (view.watched_seconds or 0) < limits["just_now"]:
        yield Unknown(say("{}: check again, for longer", summary))
        return
    yield Finding(
        severity="stalled",
        confidence=0.85,
        summary=summary,
        evidence=(Measure("msg_in_replay", replay, "entries"), backlog_measure(view)),
        remedy=UNCOVERED,
    )


def _named(gaps: Sequence[HashRange]) -> str:
    """`hashes 21845 to 43689`."""
    each = [f"{first} to {last}" if first < last else str(first) for first, last in gaps]
    return f"hashes {listed(each)}"
