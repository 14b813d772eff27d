"""The topic's compaction fails, or is far behind.

You see: `lastCompactionFailedTimestamp` is later than `lastCompactionSucceedTimestamp`, or the
cursor `__compaction` has a backlog above 100,000.

Compaction writes the newest message of each key to a ledger of its own. Its cursor moves only when
a compaction is complete. Until then every ledger from there on stays on disk, and readers of the
compacted view get everything since then, with old messages of each key.

It is a warning if the last compaction failed, or if `behind` entries or more are not compacted and
none has succeeded within `compacted_within`. The broker knows of compactions since it loaded the
topic only. If you compact by hand or on a schedule, raise these numbers.

Source: TwoPhaseCompactor, CompactionRecord and PersistentTopic.checkCompaction in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.cursors import COMPACTION
from pulsar_doctor.diagnosis.actions.commands import admin, checked, policy_admin
from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.broker_counts import OwnCursor
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import joined, say

THRESHOLDS = (
    Threshold("behind", 100_000, "entries", "fewer entries that are not compacted are normal"),
    Threshold("compacted_within", 86_400.0, "seconds", "a more recent compaction is good enough"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "wrong backlog"
REMEDY = (
    "Find out from the broker's log why compaction fails, and compact again. Set a compaction "
    "threshold on the topic; or, if nobody reads the compacted view, remove the threshold and "
    "unsubscribe __compaction."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where compaction fails, or is far behind."""
    own = view.own
    if own is None or own.kind != COMPACTION:
        return
    behind = own.waiting is not None and own.waiting >= limits["behind"]
    lately = own.succeeded is not None and own.succeeded.seconds < limits["compacted_within"]
    if _failed_last(own):
        yield _finding(view, own, 0.9)
    elif behind and not lately and not own.moved:
        yield _finding(view, own, 0.6)
    elif own.waiting is None:
        yield Unknown("how far compaction is behind is not reported: give the stats of the topic")


def _failed_last(own: OwnCursor) -> bool:
    if own.failed is None:
        return False
    return own.succeeded is None or own.failed.ms < own.succeeded.ms


def _finding(view: SubscriptionView, own: OwnCursor, confidence: float) -> Finding:
    failed, succeeded = own.failed, own.succeeded
    return Finding(
        severity="warning",
        confidence=confidence,
        summary=_summary(own),
        evidence=(
            Measure("msg_backlog", own.waiting, "entries"),
            Measure("last_failed", None if failed is None else failed.seconds, "seconds ago"),
            Measure(
                "last_succeeded", None if succeeded is None else succeeded.seconds, "seconds ago"
            ),
            Measure("mark_delete_position", own.position, ""),
        ),
        actions=tuple(_actions(view)),
    )


def _summary(own: OwnCursor) -> str:
    """What is known of its last runs, then how far it is behind."""
    last = "no compaction is known since the broker loaded the topic"
    if own.succeeded is not None:
        last = say("the last compaction succeeded{}", _ago(own.succeeded))
    if _failed_last(own) and own.failed is not None:
        last = say("the last compaction failed{}, and none has succeeded since", _ago(own.failed))
    behind = "" if own.waiting is None else say("; {:entries} are not compacted", own.waiting)
    keeps = own.position and say(", and all ledgers from {} on stay on disk", own.position)
    return joined("", (last, behind, keeps or ""))


def _ago(age: Age) -> str:
    return "" if age.says_nothing else say(" {} ago", age)


def _actions(view: SubscriptionView) -> Iterator[Action]:
    status = checked(admin(view, "topics compaction-status"), "a compaction was successful")
    yield Action(
        "now",
        "Compact the topic, and check whether it succeeds. If it fails, the log of its broker "
        "says why.",
        command=admin(view, "topics compact"),
        side_effect="the broker reads the whole topic from its last compaction on, twice",
        check=status,
    )
    yield Action(
        "today",
        "Check whether the topic has a compaction threshold, so that the broker compacts it by "
        "itself.",
        command=policy_admin(view, "get-compaction-threshold"),
        check=check_line(view, "healthy"),
    )


HYPOTHESIS = Hypothesis(
    "compaction fails, or is far behind",
    speaks_for=("undecided",),
    stalls=False,
    found_at_once=True,
    if_undecided=True,
    confirmed="if many entries are behind its mark-delete position and it does not move, this is "
    "the cause",
)
