"""A durable subscription has a backlog, and no consumer is attached to it.

You see: `consumers` is empty, `msgBacklog` grows, and `lastConsumedFlowTimestamp` is old.

A durable subscription keeps every message until somebody acknowledges it, so its backlog grows
until a quota or a retention limit is reached. It may be intended (a job that runs at night, a
forgotten subscription), or its application restarts: then it is a warning, with exit code 0. If its
application has to run, `--fail-on warning` gives 1.

It is a stall if the last consumer left in the window and none has come for `restart_wait`, or if
other partitions have consumers and this one has had none for `reconnect_wait`: a client with
autoUpdatePartitions(false) never learns of a partition that was added later, others within a
minute. If somebody was there within the last five minutes, the confidence is lower.

After an unload or a seek the broker closes all consumers, and they come back within moments. So for
`reconnect_wait` after them, or after the last sign of a consumer in one document (a FLOW, or
mark-delete moved), it is unknown. For `restart_wait` it is silent if who left was sent the oldest
message and did not acknowledge it: see `consumers-come-and-go`. No statistics report when the last
one left: it may have been idle for long after that sign. A window shows for how long nobody was
there. Readers, other non-durable subscriptions and the cursor of compaction are not judged. A
segment that waits for its sealed parents has another cause.

Source: PersistentSubscription.removeConsumer and getStats in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import (
    admin,
    checked,
    subscription_admin,
    watch,
)
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, NotReported, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.restart_laws import sent_in_vain
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.subscription import Alone, SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, fill, say

THRESHOLDS = (
    Threshold("reconnect_wait", 5.0, "seconds", "consumers that come back have come by then"),
    Threshold("restart_wait", 60.0, "seconds", "an application that is restarted is back by then"),
)
LONGEST_PAUSE = 300.0  # seconds: Kubernetes pauses no longer between two starts of a container
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Start the application that consumes this subscription; if nobody needs it any more, delete it "
    "(pulsar-admin topics unsubscribe), so that its backlog is not kept."
)
RETURNS = (
    "See whether the application comes back by itself, as one that ends again and again: a window "
    "shows whether consumers come and go (--window 60s). If none comes, start it."
)
MISSED = (
    "Find out why the application has no consumer on this partition: it may have been added later "
    "(autoUpdatePartitions(false)), or its consumer failed. A restart attaches to all partitions."
)
CHECK = "healthy, and the backlog falls"
SUMMARY = "{what}, with a backlog of {backlog}{seen}"
JUST_NOW = (
    "nobody is attached at this moment, and the last sign of a consumer is {} old: a window shows "
    "whether consumers come and go (--window 10s)"
)
LAST_SIGN = (
    "; the last sign of one (a FLOW, or mark-delete moved) is {} old: when it left is not reported"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for a durable subscription with a backlog and nobody attached."""
    backlog, alone = view.backlog, view.alone
    if view.attended or view.nothing_to_move or view.awaited or _is_there(view):
        return
    if alone is None:
        yield _attendance_not_reported(view)
    elif backlog is None or backlog.counter is None:
        yield Unknown("msg_backlog of the subscription is not reported")
    elif backlog.empty is None:
        yield Unknown(
            "its backlog is reported as 0, although not everything seems to be acknowledged"
        )
    elif _was_here_just_now(view, alone, limits["reconnect_wait"]):
        yield Unknown(say(JUST_NOW, alone.since_seen))
    elif sent_in_vain(view, limits["restart_wait"]) is not None:
        return  # consumers-come-and-go speaks of these
    elif _may_come_back(alone, limits["reconnect_wait"]):
        since = "the topic was reloaded" if alone.reloaded else "the last one left just now"
        yield Unknown(f"no consumer has connected since {since}; check again in a moment")
    else:
        yield _finding(view, alone, limits)


def _attendance_not_reported(view: SubscriptionView) -> NotReported | Unknown:
    if view.consumers:
        return NotReported(
            "the consumers of the trace have left; the broker's stats show who has connected since"
        )
    if view.read_armed:
        return NotReported(
            "a read of the cursor waits, so a consumer asked for messages; the consumers are not "
            "reported"
        )
    if view.sent_by_rate:
        return NotReported(
            "by the broker's rate, messages are sent; the consumers are not reported"
        )
    return Unknown("consumers of the subscription is not reported")


def _may_come_back(alone: Alone, reconnect_wait: float) -> bool:
    if alone.seconds is None:
        return alone.reloaded
    return alone.left and alone.seconds < reconnect_wait


def _was_here_just_now(view: SubscriptionView, alone: Alone, reconnect_wait: float) -> bool:
    """Whether one document alone shows that nobody is there, and somebody was a moment before."""
    seen = alone.since_seen
    return not view.watched and seen is not None and seen.exact and seen.seconds < reconnect_wait


def _is_there(view: SubscriptionView) -> bool:
    """Whether one document lists nobody, and somebody requested messages at that very moment."""
    return bool(not view.watched and view.alone and view.alone.requested_just_now)


def _missed(alone: Alone, reconnect_wait: float) -> bool:
    """Whether its application runs, and has not attached to this partition for so long."""
    return alone.elsewhere and alone.seconds is not None and alone.seconds >= reconnect_wait


def _may_return(alone: Alone, restart_wait: float) -> bool:
    """Whether somebody was there lately, so that a supervisor may pause before it restarts.

    Not where the window was so long that it would have shown that."""
    seen = alone.since_seen
    lately = alone.left or (seen is not None and seen.exact and seen.seconds < LONGEST_PAUSE)
    return lately and (alone.seconds or 0.0) < restart_wait


def _absent(alone: Alone) -> Sentence:
    """What is known of how long nobody has been there."""
    gone, last = alone.seconds, alone.since_seen
    least = say("; nobody was there for at least {}", duration(gone)) if gone else ""
    return say("{}{}", least, say(LAST_SIGN, last) if last else "")


def _finding(view: SubscriptionView, alone: Alone, limits: Limits) -> Finding:
    flow, gone = alone.since_flow, alone.seconds or 0.0
    left = alone.left and not alone.reloaded
    what, seen = "no consumer is attached", "" if left else _absent(alone)
    if left:
        long = say("left at least {} ago", duration(gone)) if gone else "has left"
        what = say("the last consumer {}", long)
    missed = _missed(alone, limits["reconnect_wait"])
    if missed:
        what = "no consumer is attached to this partition, while others of the topic have some"
    stalls = missed or (left and gone >= limits["restart_wait"])
    returns = not stalls and _may_return(alone, limits["restart_wait"])
    sure = 0.9 if view.durable else 0.6
    return Finding(
        severity="stalled" if stalls else "warning",
        confidence=0.5 if returns else sure,
        summary=fill(SUMMARY, view, what=what, seen=seen),
        evidence=(
            Measure("consumers", 0, "consumers"),
            backlog_measure(view),
            Measure("last_flow", None if flow is None else flow.seconds, "seconds ago"),
            Measure("nobody_for", alone.seconds, "seconds"),
        ),
        remedy=MISSED if missed else RETURNS if returns else REMEDY,
        actions=(_first(view, missed, returns), *(() if missed else _deletes(view))),
    )


def _first(view: SubscriptionView, missed: bool, returns: bool) -> Action:
    if returns:
        return Action(
            "now",
            RETURNS,
            check=checked(watch(view, 60), "whether consumers come and go"),
            brief="See whether the application comes back by itself; if not, start it",
        )
    return Action(
        "now", MISSED if missed else "Start the application that consumes this subscription."
    )


def _deletes(view: SubscriptionView) -> Iterator[Action]:
    yield Action(
        "later",
        "This deletes the subscription and its backlog for good: only if nobody needs it.",
        command=subscription_admin(view, "topics unsubscribe"),
        side_effect="its unconsumed messages are lost for this subscription; storage is freed",
        undo="none: a new subscription begins without that backlog",
        check=checked(admin(view, "topics subscriptions"), "the subscription is not in the list"),
    )


def _excluded(view: SubscriptionView) -> str | None:
    """Somebody is there, or nothing waits, or nobody may come yet."""
    if parents := view.awaited:
        return f"it waits for segment {parents[0].segment} to be drained"
    count = len(view.consumers or ())
    if view.attended and count:
        reported = sum(each.tells_something for each in view.consumers or ())
        short = "at least " if 0 < reported < count else ""  # of a list that is not whole
        count = reported if short else count
        return f"{short}{count} {'consumer is' if count == 1 else 'consumers are'} attached"
    if view.attended:
        return "the broker names an active consumer"
    if _is_there(view) and view.alone is not None:
        return f"messages were requested {view.alone.since_flow} ago, so somebody was there"
    by_broker = WIRE not in view.sources  # which forgets what was held when the last one leaves
    if by_broker and view.attended is None and (least(view.unacked) or 0) > 0:
        return f"somebody holds {view.unacked} messages"
    return "the backlog is empty" if view.backlog and view.backlog.empty else None


HYPOTHESIS = Hypothesis(
    "no consumer is attached, and a backlog waits",
    speaks_for=("undecided", "nobody", "waits", "rate_none", "unread"),
    against=("just_delivered", "rate_out", "rate_acks", "read_armed"),
    excluded=(_excluded,),
    missing=("consumers",),
    stalls=False,
    confirmed="if there is still no consumer, this is the cause",
)
