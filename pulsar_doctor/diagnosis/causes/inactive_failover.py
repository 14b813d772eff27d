"""The active consumer of a Failover subscription is stuck or gone, and no standby takes over.

You see: `msgBacklog` 60, the active consumer has `availablePermits` 0, and a standby has permits.

The broker sends everything to the active consumer. A standby takes over only when that one
disconnects. So an application that hangs with its connection open stops the whole group.

It is a stall if the active consumer holds messages, has no permits left, and has shown no ack, FLOW
or delivery for `refill_wait`. From `quiet_after` on it is a warning. That needs no clock if its
queue is full and it has never acknowledged any, or if others have shown signs so much later. With
one message or batch in hand it is unknown: with a queue of 0 or 1, long work shows the same. It is
a stall, too, if the active consumer has not been connected for `switch_wait`, while messages wait
and others have permits: a switch takes 1 s by default (activeConsumerFailoverDelayTimeMillis). On
Failover the broker counts no unacknowledged messages; the read position shows what is held.

Source: AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer in the broker.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.diagnosis.actions.activity import verdict
from pulsar_doctor.diagnosis.actions.consumers import NO_MORE, treatment, unload
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Answers, Finding, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import Gone, SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact, least, most
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import joined, say

THRESHOLDS = (
    Threshold("refill_wait", 300.0, "seconds", "an active consumer silent for so long is stuck"),
    Threshold("quiet_after", 5.0, "seconds", "a shorter silence is not reported"),
    Threshold("switch_wait", 5.0, "seconds", "a switch to another consumer takes less than this"),
)
NEEDS = frozenset({STATS, WIRE})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset(
    {"permits-exhausted", "slow-but-progressing", "negative-permits", "broker-read-stuck"}
)
REMEDY_GONE = (
    "Unload the topic (pulsar-admin topics unload): all consumers come back and one of them is "
    "made active; report the broker's version if it happens again."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for the active consumer, or for the subscription where it is gone."""
    if view.type != "Failover" or view.durable is False or view.consumers == ():
        return
    if view.backlog is not None and view.backlog.empty:
        return
    if view.consumers is None:
        yield Unknown("consumers of the subscription is not reported")
    elif view.gone is None and len(view.consumers) == 1:
        return  # there is no standby
    elif view.backlog is not None and not view.backlog.is_known:
        yield Unknown("msg_backlog of the subscription is not reported")
    else:
        yield from _judge(view, view.consumers, limits)


def _judge(view: SubscriptionView, consumers: Sequence[ConsumerView], limits: Limits) -> Answers:
    patience = limits["refill_wait"]
    if any(each.delivered and not each.quiet_at_least(patience) for each in consumers):
        return
    if view.gone is not None:
        yield from _gone(view, view.gone, limits)
    elif view.active is None:
        yield Unknown("which consumer is the active one is not reported")
    else:
        yield from _stuck(view, consumers[view.active], limits)


def _gone(view: SubscriptionView, gone: Gone, limits: Limits) -> Answers:
    left, lasted = view.left, gone.seconds
    permits = [most(c.available_permits) for c in view.consumers or ()]
    known = [each for each in permits if each is not None]
    if (left is not None and left.most == 0) or (known and max(known) <= 0):
        return
    if lasted is None or lasted < limits["switch_wait"]:
        yield Unknown(
            "the active consumer is not connected, and a switch takes a moment: watch for longer"
        )
    elif left is None or not left.least:
        yield Unknown("the active consumer is not connected; whether messages wait is not reported")
    else:
        yield _gone_finding(view, gone, lasted, max(known, default=None))


def _stuck(view: SubscriptionView, active: ConsumerView, limits: Limits) -> Answers:
    long = active.quiet_at_least(limits["refill_wait"])
    quiet, works = active.quiet_for, (active.moved or active.works) and not long
    if active.available_permits is None and not works:
        yield Unknown(f"available_permits of {active.label} is not reported", active.label)
    if not active.without_permits or works or active.resting:
        return
    if most(active.unacked_entries or active.unacked_messages) == 0:
        return
    if quiet is None:
        yield Unknown(f"since when {active.label} is silent is not known", active.label)
    elif long:
        yield _silent_for_long(view, active)
    elif quiet.exact and quiet.seconds < limits["quiet_after"]:
        return
    elif quiet.seconds < limits["quiet_after"] and not active.never_gave_back:
        text = "{}, silent for {}: only several samples and a clock show whether it works"
        yield Unknown(say(text, worded("no_permits", active), quiet), active.label)
    elif not active.all_in_hand:
        yield _stuck_finding(view, active, "warning", 0.6 if active.watched else 0.4)


def _silent_for_long(view: SubscriptionView, active: ConsumerView) -> Finding | Unknown:
    """With no permits and no sign for refill_wait."""
    several = (least(active.unacked_entries) or 0) > 1
    never_acked = active.never_acked and (least(active.msg_out_counter) or 0) > 1
    # With a queue of 0 or 1 it may work on the first message of the one batch that it has.
    queued = not active.all_in_hand and (never_acked or active.below_zero)
    certain = several or queued
    if certain or not (active.all_in_hand or view.nothing_to_move):
        sure = 0.8 if certain else 0.6
        return _stuck_finding(view, active, "stalled", active.sure(sure))
    return Unknown(
        f"{active.label} has been silent for {active.quiet_for} and may be processing one "
        "message: the read position (--internal-stats) shows how many it holds",
        active.label,
    )


def _backlog(view: SubscriptionView) -> str:
    return "" if view.backlog is None else say(", with a backlog of {}", view.backlog)


def _stuck_finding(
    view: SubscriptionView, active: ConsumerView, severity: Severity, confidence: float
) -> Finding:
    others = [each.label for each in view.consumers or () if each.number != active.number]
    holds, quiet = exact(active.unacked_entries), active.quiet_for
    entries = "" if holds is None else say(" of the {:entries} that it holds", holds)
    silent = "" if quiet is None or quiet.says_nothing else say(" for {}", quiet)
    take = "takes" if len(others) == 1 else "take"
    standby = say("{} standby ({}) " + take, len(others), joined(", ", others[:3]))
    return Finding(
        severity=severity,
        confidence=confidence,
        consumer=active.label,
        summary=say(
            "the active consumer {} {}: {}; {} over only when it disconnects; {:permits}{}",
            *(active.label, worded("acked_nothing", active, since=joined("", (entries, silent)))),
            *(verdict(active), standby, active.available_permits, _backlog(view)),
        ),
        evidence=(
            Measure("active_consumer_name", active.label, ""),
            *active.measure("available_permits"),
            backlog_measure(view),
            measured("unacked_entries", holds),
            Measure("standbys", len(others), "consumers"),
            measured("quiet_for", quiet),
        ),
        remedy=remedy(view, active),
        actions=treatment(view, active),
    )


def _gone_finding(
    view: SubscriptionView, gone: Gone, lasted: float, permits: int | None
) -> Finding:
    others = len(view.consumers or ())
    return Finding(
        severity="stalled",
        confidence=0.8,
        summary=say(
            "the active consumer {} has not been connected for at least {}, and none of the {} "
            "others becomes active{}",
            *(gone.last or "none", duration(lasted), others, _backlog(view)),
        ),
        evidence=(
            Measure("active_consumer_name", gone.named, ""),
            Measure("consumers", others, "consumers"),
            measured("available_permits", permits),
            backlog_measure(view),
            Measure("left", least(view.left), "entries"),
            Measure("gone_for", lasted, "seconds"),
        ),
        remedy=REMEDY_GONE,
        actions=(unload(view, "Unload", NO_MORE),),
    )


def _excluded(view: SubscriptionView) -> str | None:
    """Excluded, as there is no standby elsewhere."""
    held = any(each.holds > 0 for each in view.consumers or ())
    if view.type is None and view.sources == {STATS} and held:
        return "unacknowledged messages are counted, as on Shared and Key_Shared alone"
    return None


HYPOTHESIS = Hypothesis(
    "{who} is the active consumer and does nothing, so no standby takes over",
    speaks_for=(
        "undecided", "standby", "active_gone", "no_permits", "below_zero", "never_acked_many",
        "flow_far", "rate_none", "quiet_long", "quiet_some", "unusual", "neighbour_later",
        "one_flow",
    ),
    against=("works", "acks_come", "flow_soon", "lively", "rate_out", "rate_acks"),
    excluded=("not_failover", _excluded),
    not_by=("no_standby", "active_ready"),
    missing=("quiet_for",),
)  # fmt: skip
