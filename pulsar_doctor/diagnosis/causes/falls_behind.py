"""Messages are published faster than they are sent: at this pace the subscription never catches up.

You see: `msgRateIn` 120, `msgRateOut` 40, and `msgBacklog` 640,000 grows by 4800 a minute.

Nothing is stuck. But the backlog grows until a quota stops the producers, messages expire unread,
or the disk is full. The work is too slow, or something limits it: a hot key, a dispatch limit,
double work.

A burst shows the same numbers while it lasts. So it is a warning only if the backlog would take
longer than `longest_burst` to gather at the present pace, or a window of that length shows it. The
check counts what comes in less what is sent for the first time. A sink that acknowledges at
checkpoints keeps up. If messages are delayed or rejected by an entry filter, or chance explains the
difference, a longer `--window` decides. If half of what is sent was sent before, that is the
problem.

Source: PersistentTopic.updateRates (rates are of the last full minute), BacklogQuotaManager.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.balance import LONGEST_BURST, Balance, FlowRate, balance_of
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.durations import rate
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold(
        "longest_burst",
        LONGEST_BURST,
        "seconds",
        "what gathers in less, at the pace of now, may be a burst",
    ),
)
NEEDS = frozenset({STATS})
SYMPTOM = "too slow"
REMEDY = (
    "Add consumers, or make the work on a message faster: more has to go out than comes in. If "
    "that brings nothing, check for a hot key, a dispatch limit, or messages that are sent again."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where it is certain and consumers work: otherwise it is stuck."""
    nothing = view.backlog is not None and view.backlog.empty
    if nothing or not (view.msg_rate_in or view.published):
        return
    balance = balance_of(view, limits["longest_burst"])
    works = any(each.works for each in view.served)
    if balance.pace != "falls-behind" or not works or view.own is not None or view.keeps_nothing:
        return
    if balance.mostly_again:
        return
    yield Finding(
        severity="warning",
        confidence=0.9,
        summary=_summary(view, balance),
        evidence=tuple(_measures(view, balance)),
        actions=(Action("today", REMEDY, check=check_line(view, "it catches up")),),
    )


def _summary(view: SubscriptionView, of: Balance) -> str:
    came, sent, growth = of.comes_in, of.sent_out, of.growth
    assert came is not None and sent is not None and growth is not None  # noqa: PT018
    acked = of.acknowledged if of.acknowledged and of.acknowledged.most is not None else None
    same = acked and rate(acked.about) == rate(sent.about)
    done = " and acknowledged" if same else f", {rate(acked.about)} acknowledged" if acked else ""
    return say(
        "{} messages a second come in, {} are sent{}: {:entries} wait, {:messages} more each "
        "minute, and it never catches up at this pace; to keep up it has to be {} times as fast",
        *(
            rate(came.about),
            rate(sent.about),
            done,
            view.backlog.entries if view.backlog else of.waits,
        ),
        *(round(growth.about * MINUTE), rate(came.about / max(came.about - growth.about, 0.001))),
    )


def _measures(view: SubscriptionView, of: Balance) -> list[Measure]:
    flows = {
        "comes_in": of.comes_in,
        "sent_out": of.sent_out,
        "acknowledged": of.acknowledged,
        "redelivered": of.redelivered,
        "growth": of.growth,
    }
    found = [_measure(name, flow) for name, flow in flows.items() if flow is not None]
    return [backlog_measure(view), *found]


def _measure(name: str, flow: FlowRate) -> Measure:
    about = round(flow.about, 3)
    return Measure(name, about, "messages/second", "at least" if flow.most is None else None)
