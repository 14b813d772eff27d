"""Most of the backlog is not due yet: a producer requested later delivery.

You see: `msgDelayed` 50 beside `msgBacklog` 50, `availablePermits` 10, and nothing is sent.

A message sent with deliverAfter or deliverAt stays in the backlog until it is due. The broker has
read it and keeps it in an index. Nothing is wrong with the broker or the consumers. It is
information if `share` or more of the backlog is not due; other checks judge the rest.

If all delays are the same, a broker that keeps them in memory (the default) reads no further once
it has 50,000 of them and none is due (delayedDeliveryFixedDelayDetectionLookahead). What was
published later waits until the first is due, delayed or not. That is by design, an unload changes
nothing, and it is reported however small the share is.

The broker counts delayed entries once it has read them for a consumer on Shared or Key_Shared.
Otherwise it reports 0. It does not see a delay in the client (a wait in the application, a delay of
negative acks or retries).

Source: SubscriptionStats.msgDelayed; InMemoryDelayedDeliveryTracker.shouldPauseAllDeliveries and
PersistentDispatcherMultipleConsumers.readMoreEntries.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import subscription_admin
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, NotReported, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (Threshold("share", 0.5, "of the backlog", "fewer delayed entries are not reported"),)
NEEDS = frozenset({STATS})
SYMPTOM = "wrong backlog"
REMEDY = (
    "Nothing to do if the delay is intended. Otherwise find the producer that sends with "
    "deliverAfter or deliverAt; `pulsar-admin topics peek-messages` shows the delivery times."
)
SUMMARY = "{delayed} of {backlog:entries} in the backlog are not due yet, {ending}"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where most of the backlog is not due yet."""
    delayed, backlog = exact(view.delayed), view.backlog.entries if view.backlog else None
    if delayed is None:
        yield NotReported("this source does not count delayed messages")
    elif delayed <= 0:
        return
    elif backlog is None:
        yield Unknown(f"{delayed} entries are not due yet; the backlog is not reported")
    elif delayed >= limits["share"] * backlog or view.delays_pause_reading:
        yield _finding(view, delayed, max(delayed, backlog))


def _finding(view: SubscriptionView, delayed: int, backlog: int) -> Finding:
    others = backlog - delayed
    rest = say("{} are", others) if others > 1 else "one is" if others else "nothing else is"
    ending = say("{} due", rest)
    if others and view.delays_pause_reading:
        ending = say("and the broker reads no further until some are: {} more wait", others)
    return Finding(
        severity="info",
        confidence=0.95,
        summary=fill(SUMMARY, view, delayed=delayed, backlog=backlog, ending=ending),
        evidence=(
            Measure("msg_delayed", delayed, "entries"),
            replace(backlog_measure(view), value=backlog),
            Measure("due_entries", others, "entries"),
        ),
        actions=(
            Action(
                "now",
                "If the delay may be a mistake, read the first of these messages. Otherwise there "
                "is nothing to do.",
                command=subscription_admin(view, "topics peek-messages", "-n", "1"),
                check=check_line(view, "fewer entries that are not due"),
            ),
            Action(
                "later",
                "If the delay is not intended, send without deliverAfter and deliverAt.",
                check=check_line(view, "no message is delayed any more"),
            ),
        ),
    )


HYPOTHESIS = Hypothesis(
    "the backlog is not due yet",
    speaks_for=("undecided", "delayed_most", "delayed_some", "somebody_ready"),
    excluded=("none_delayed",),
    missing=("msg_delayed",),
    stalls=False,
    found_at_once=True,
)
