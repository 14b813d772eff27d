"""A durable subscription has a backlog, and no consumer is attached to it.

A durable subscription keeps every message until somebody acknowledges it. With nobody attached its
backlog grows until a quota or a retention limit is reached. It is a warning, since it may be meant
so (a job that runs at night, a subscription that was forgotten), and a stall when the last consumer
left within the window.

When a topic is unloaded the broker closes all consumers, and they come back within moments: where
the topic was loaded anew in the window, and nobody has been there for less than `reconnect_wait`,
it is unknown. Readers and other non-durable subscriptions, and the cursor of compaction, keep
nothing that anybody waits for.

Source: PersistentSubscription.removeConsumer and getStats in the broker.
"""

from __future__ import annotations

from pulsar_doctor.evidence.answers import (
    STATS,
    Action,
    Answers,
    Finding,
    Measure,
    NotTold,
    Unknown,
)
from pulsar_doctor.evidence.subscription import Alone, SubscriptionView, backlog_measure
from pulsar_doctor.evidence.thresholds import Limits, Threshold
from pulsar_doctor.remedies.lines import admin, checked, subscription_admin
from pulsar_doctor.remedies.lines import check as check_line
from pulsar_doctor.wording.durations import duration

THRESHOLDS = (
    Threshold("reconnect_wait", 5.0, "seconds", "after a load consumers are back by then"),
)
NEEDS = frozenset({STATS})
REMEDY = (
    "Start the application that consumes this subscription; if nobody needs it any more, delete it "
    "(pulsar-admin topics unsubscribe), so that its backlog is not kept."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for a durable subscription with a backlog and nobody attached."""
    if view.attended or view.quiet_is_fine:
        return
    backlog, alone = view.backlog, view.alone
    if alone is None:
        yield _not_told(view)
    elif backlog is None or backlog.counter is None:
        yield Unknown("msg_backlog of the subscription is not told")
    elif backlog.empty is None:
        yield Unknown("its backlog is told to be 0, and not everything seems to be acknowledged")
    elif _may_come_back(alone, limits["reconnect_wait"]):
        yield Unknown("nobody is attached since the topic was loaded anew; look again in a moment")
    else:
        yield _finding(view, alone)


def _not_told(view: SubscriptionView) -> NotTold | Unknown:
    if view.consumers:
        return NotTold("those of the trace have left; who came since the broker's stats tell")
    if view.read_armed:
        return NotTold("a read of the cursor waits, so somebody asked; who is attached is not told")
    if view.sent_by_rate:
        return NotTold("messages go out by the broker's rate; who is attached is not told")
    return Unknown("consumers of the subscription is not told")


def _may_come_back(alone: Alone, reconnect_wait: float) -> bool:
    lately = alone.seconds is None or alone.seconds < reconnect_wait
    return alone.reloaded and lately


def _finding(view: SubscriptionView, alone: Alone) -> Finding:
    last, left = alone.since_flow, alone.left and not alone.reloaded
    what, seen = "nobody is attached", ""
    if left:
        when = f"left at least {duration(alone.seconds)} ago" if alone.seconds else "has left"
        what = f"the last consumer {when}"
    elif last is not None:
        seen = f"; the last request for messages came {last} ago"
    sure = 0.9 if view.durable else 0.6
    return Finding(
        code="no-consumer",
        severity="stalled" if left else "warning",
        confidence=sure,
        consumer=None,
        summary=f"{what}, with a backlog of {view.backlog}{seen}",
        evidence=(
            Measure("consumers", 0, "consumers"),
            backlog_measure(view),
            Measure("last_flow", None if last is None else last.seconds, "seconds ago"),
            Measure("nobody_for", alone.seconds, "seconds"),
        ),
        remedy=REMEDY,
        actions=(
            Action(
                "now",
                "Start the application that consumes this subscription.",
                check=check_line(view, "healthy, and the backlog falls"),
            ),
            Action(
                "later",
                "This deletes the subscription and its backlog for good: only if nobody needs it.",
                command=subscription_admin(view, "topics unsubscribe"),
                side_effect="what it has not consumed is gone for it; storage is freed",
                undo="none: a new subscription begins without that backlog",
                check=checked(admin(view, "topics subscriptions"), "it is not in the list"),
            ),
        ),
    )
