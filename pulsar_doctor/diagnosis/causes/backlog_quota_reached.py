"""The backlog of a topic has reached its quota, so no new messages come, or the oldest are lost.

You see: `backlogSize` 4690 beside `backlogQuotaLimitSize` 1000, or `oldestBacklogMessageAgeSeconds`
7200 beside `backlogQuotaLimitTime` 3600. Producers fail with ProducerBlockedQuotaExceeded.

The quota counts for the topic: one subscription that nobody reads stops the producers of all. With
`producer_request_hold`, the default policy, or `producer_exception` the broker disconnects
producers and refuses new ones. With `consumer_backlog_eviction` it drops the oldest messages of the
subscription that is furthest behind. Statistics do not report the policy. The broker checks every
60 s (backlogQuotaCheckIntervalInSeconds), so producers may continue for so long. It is a warning
for a subscription that fills the quota, and information for the others.

Source: BacklogQuotaManager.handleExceededBacklogQuota, PersistentTopic.checkBacklogQuotaExceeded.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import namespace_admin, policy_admin
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.policies import QuotaReached
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import Sentence, say
from pulsar_doctor.wording.sizes import in_words

NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Have the subscription that fills the quota consumed, or delete it if nobody needs it. Raise "
    "the quota only if that much may wait."
)
CHECK = "this finding is gone, and its producers are connected again within a minute"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where the topic's backlog has reached its quota."""
    quota = view.quota
    if quota is None:
        return
    fills = view.subscription in quota.filled_by
    yield Finding(
        severity="warning" if fills else "info",
        confidence=0.95,
        summary=_summary(view, quota, fills=fills),
        evidence=(
            Measure("backlog_waits", quota.waits, "seconds" if quota.by_age else "bytes"),
            Measure("backlog_quota", quota.limit, "seconds" if quota.by_age else "bytes"),
            Measure("producers", quota.producers, "producers"),
        ),
        actions=tuple(_actions(view, quota, fills=fills)),
    )


def _summary(view: SubscriptionView, quota: QuotaReached, *, fills: bool) -> Sentence:
    unit = duration if quota.by_age else in_words
    who = "it" if fills else listed(quota.filled_by)
    why = say(
        "{} fills the backlog quota of the topic ({} of {}{})",
        *(who, unit(quota.waits), unit(quota.limit), " old" if quota.by_age else ""),
    )
    if quota.producers == 0 and not view.published:
        return say("no new messages come: {}, and the broker refuses producers", why)
    return say("{}: the broker disconnects producers, or drops the oldest messages", why)


def _actions(view: SubscriptionView, quota: QuotaReached, *, fills: bool) -> Iterator[Action]:
    who = "this subscription" if fills else listed(quota.filled_by)
    text = f"Have {who} consumed: when its backlog is below the quota, producers may connect."
    yield Action("now", text)
    yield Action(
        "today",
        "Check the quota of the topic and its policy, and raise it only if that much may wait.",
        command=policy_admin(view, "get-backlog-quota", "-ap")
        or namespace_admin(view, "get-backlog-quotas"),
    )
