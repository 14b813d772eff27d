"""A dispatch rate limit sets the pace, although consumers have permits and messages wait.

You see: `dispatchThrottledMsgEventsByTopicLimit` grew by 20 in the window, `availablePermits` is
above 0, and 1870 wait.

The subscription, the topic or the broker has a limit, in messages or in bytes. When it is used up,
the broker reads again a second later. It counts each read that it delays or reduces.

The count alone says little: a limit below the size of one read makes every read smaller, even at
one message an hour. So it is a warning if a counter grew in the window, a consumer had permits in
at least `ready` of the samples, and something is certainly left to send. If consumers seldom have
permits, they set the pace. One sample is not enough. Brokers before 4.0 do not count, and none
counts the limit of a resource group. Then it is unknown if in every step less was sent than
consumers had permits for, while as much waited.

Source: AbstractBaseDispatcher.updateMessagesToRead; SubscriptionStats.dispatchThrottled….
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.diagnosis.actions.limits import raised_rate
from pulsar_doctor.diagnosis.answers import Answers, Finding, NotReported, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.broker_counts import HeldBack, Throttling
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import fill, say

SETTINGS = {
    "subscription": "set-subscription-dispatch-rate of `pulsar-admin topicPolicies` or namespaces",
    "topic": "set-dispatch-rate of `pulsar-admin topicPolicies` or namespaces",
    "broker": "dispatchThrottlingRateInMsg and dispatchThrottlingRateInByte of broker.conf",
}
REMEDY = f"Raise the limit or accept its pace: {', or '.join(SETTINGS.values())}."

THRESHOLDS = (
    Threshold(
        "ready",
        0.5,
        "of the samples",
        "in which somebody could receive; with fewer, the clients set the pace",
    ),
)
NEEDS = frozenset({STATS})
SYMPTOM = "too slow"
SENT_LESS = (
    "in every step of the window the broker sent less than consumers could receive, and as much "
    "waited: a rate limit sets the pace, or a connection that takes no more"
)
PASSED_TIMES = 10  # a limit delays nothing for so much longer than it takes to send all
EXPLAINS = frozenset({"broker-read-stuck"})
SUMMARY = (
    "a limit sets the pace, not the consumers: the {names} dispatch rate limit delayed "
    "{reads:reads} in the window, while consumers could receive and at least {waits:entries} "
    "were left to send"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where a limit held reads back in the window while consumers could take more."""
    throttling = view.throttling
    if view.nothing_left:
        return
    slower = Unknown(SENT_LESS) if view.sent_less and not view.pauses_by_design else None
    if throttling is None:
        yield slower or NotReported("this source does not count throttled reads")
    elif not view.watched:
        yield from _of_one_sample(view, throttling)
    elif not throttling.lately or throttling.ready < limits["ready"]:
        yield from [slower] if slower else ()
    elif waits := least(view.left):
        yield _finding(view, throttling.lately, waits)
    else:
        yield Unknown(
            f"{_reads(throttling.lately)} reads were throttled, but whether anything is left to "
            "send is not reported: read the internal stats too (--internal-stats)"
        )


def _reads(lately: Sequence[HeldBack]) -> int:
    return sum(each.reads for each in lately)


def _of_one_sample(view: SubscriptionView, throttling: Throttling) -> Answers:
    asking = any(consumer.may_receive for consumer in view.consumers or ())
    if throttling.reads > 0 and asking and not view.just_delivered and least(view.left):
        yield Unknown(
            f"{throttling.reads} reads were throttled since the topic was loaded; only several "
            "samples show whether they still are"
        )


def _finding(view: SubscriptionView, lately: Sequence[HeldBack], waits: int) -> Finding:
    owners = list(dict.fromkeys(each.limit_of for each in lately))
    names = " and ".join(f"{each}'s" for each in owners)
    return Finding(
        severity="warning",
        confidence=0.9,
        summary=fill(SUMMARY, view, names=names, reads=_reads(lately), waits=waits),
        evidence=(
            *(Measure(each.counter, each.reads, "reads") for each in lately),
            Measure("left_entries_least", waits, "entries"),
            Measure("messages_delivered", view.delivered, "messages"),
        ),
        remedy=f"Raise the limit or accept its pace: {'; '.join(SETTINGS[w] for w in owners)}.",
        actions=tuple(action for each in owners for action in raised_rate(view, each)),
    )


def _would_have_passed(view: SubscriptionView) -> str | None:
    """The oldest waits for far longer than all of them take at the pace of the minute."""
    entries = view.backlog.entries if view.backlog else None
    rate, oldest = view.msg_rate_out, view.oldest_seconds
    if not entries or not rate or not oldest or PASSED_TIMES * entries / rate >= oldest:
        return None
    return say(
        "{} wait, {} messages a second are sent, and the oldest waits for {}",
        *(view.backlog, f"{rate:.3g}", duration(oldest)),
    )


HYPOTHESIS = Hypothesis(
    "a dispatch rate limit sets the pace",
    speaks_for=("undecided", "throttled", "throttled_once", "somebody_ready", "waits", "unread"),
    against=("nobody_ready", "delivered_long_ago", "read_asleep", "minute_none"),
    excluded=(
        "nothing_left",
        "waits_by_design",
        "never_throttled",
        "nobody",
        "nobody_served",
        _would_have_passed,
    ),
    missing=("throttled_reads",),
    stalls=False,
    confirmed="if the counters of throttled reads grow, this is the cause",
)
