"""A dispatch rate limit sets the pace: messages wait and consumers ask, and the broker holds back.

A limit may be set for the subscription, the topic or the broker, in messages or in bytes. When its
share of the moment is used up, the broker reads again a second later. Nothing is lost, and the
backlog shrinks at the limit's rate or grows.

The broker counts each read that it held back or made smaller. Such a count alone says little: a
limit below the size of one read makes every read smaller, even with one message an hour. So the
rule speaks where a counter grew within the window, a consumer had permits in at least `ready` of
the samples, and something is left to send for sure. Where consumers seldom have permits, they set
the pace, not the limit. A single sample tells only that it happened since the topic was loaded.

The limit of a resource group is not counted by the broker, and brokers before 4.0 count none.

Source: AbstractBaseDispatcher.updateMessagesToRead; SubscriptionStats.dispatchThrottled….
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter

from pulsar_doctor.diagnosis import (
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Threshold,
    Unknown,
    found,
)
from pulsar_doctor.standing import standings
from pulsar_doctor.stats.observed import SINGLE_ACTIVE, Observed
from pulsar_doctor.stats.sample import CLOCK_SLACK_MS
from pulsar_doctor.stats.window import consumers_of

SETTINGS = {
    "subscription": "set-subscription-dispatch-rate of `pulsar-admin topicPolicies` or namespaces",
    "topic": "set-dispatch-rate of `pulsar-admin topicPolicies` or namespaces",
    "broker": "dispatchThrottlingRateInMsg and dispatchThrottlingRateInByte of broker.conf",
}
COUNTERS = tuple(
    (whose, f"dispatch_throttled_{what}_events_by_{whose}_limit")
    for whose in SETTINGS
    for what in ("msg", "bytes")
)

THRESHOLDS = (
    Threshold("ready", 0.5, "of the samples", "with permits; fewer: clients set the pace"),
)
NEEDS = frozenset({STATS})
EXPLAINS = frozenset({"broker-read-stuck"})


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found where a limit held reads back in the window while consumers could take more."""
    assert evidence.stats is not None
    return found(_answers(evidence.stats, limits))


def _answers(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown | NotTold]:
    left = observed.left
    told = {name: getattr(observed.now, name) for _, name in COUNTERS}
    if left is not None and left.most == 0:
        return
    if all(count is None for count in told.values()):
        yield NotTold("this source does not count throttled reads")
        return
    grown = _grown(observed)
    if observed.one_sample:
        yield from _of_one_sample(observed, told)
    elif not grown or _ready(observed) < limits["ready"]:
        return
    elif (least := _left_least(observed)) > 0:
        yield _finding(observed, grown, least)
    else:
        yield Unknown(
            f"{sum(grown.values())} reads were throttled, but whether anything is left to send "
            "is not told: read the internal stats too (--internal-stats)"
        )


def _grown(observed: Observed) -> dict[str, int]:
    grown = {name: observed.course.growth(attrgetter(name)) for _, name in COUNTERS}
    return {name: count for name, count in grown.items() if count}


def _ready(observed: Observed) -> float:
    """In which share of the samples a consumer had permits."""
    listed = [consumers_of(sample, observed.subscription) for sample in observed.window.samples]
    with_permits = [
        any((c.available_permits or 0) > 0 and not c.blocked_consumer_on_unacked_msgs for c in each)
        for each in listed
        if each
    ]
    return sum(with_permits) / len(with_permits) if with_permits else 0.0


def _left_least(observed: Observed) -> int:
    """Entries left to send, at least: on Exclusive no more is held than the one was ever sent."""
    least = observed.left.least if observed.left is not None else 0
    sent = [standing.now.msg_out_counter for standing in standings(observed)]
    if observed.type in SINGLE_ACTIVE and observed.unread is None and None not in sent:
        most_held = sum(count for count in sent if count is not None)
        return max(least, (observed.backlog.entries or 0) - most_held)
    return least


def _of_one_sample(observed: Observed, told: Mapping[str, int | None]) -> Iterator[Unknown]:
    last = observed.window.last.age(observed.now.last_consumed_timestamp_ms)
    moving = last is not None and last.exact and last.ms <= CLOCK_SLACK_MS
    asking = any((standing.permits or 0) > 0 for standing in standings(observed))
    events = sum(count or 0 for count in told.values())
    if events > 0 and asking and not moving and _left_least(observed) > 0:
        yield Unknown(
            f"{events} reads were throttled since the topic was loaded; whether that holds now "
            "needs several samples"
        )


def _finding(observed: Observed, grown: Mapping[str, int], least: int) -> Finding:
    whose = list(dict.fromkeys(whose for whose, name in COUNTERS if name in grown))
    sent = observed.course.growth(attrgetter("msg_out_counter"))
    names = " and ".join(f"{each}'s" for each in whose)
    return Finding(
        code="dispatch-throttled",
        severity="warning",
        confidence=0.9,
        consumer=None,
        summary=(
            f"the {names} dispatch rate limit held back {sum(grown.values())} reads in the window, "
            f"with consumers ready and at least {least} entries left to send"
        ),
        evidence=(
            *(Measure(name, count, "reads") for name, count in grown.items()),
            Measure("left_entries_least", least, "entries"),
            Measure("messages_delivered", sent, "messages"),
        ),
        remedy=f"Raise the limit or accept its pace: {'; '.join(SETTINGS[w] for w in whose)}.",
    )
