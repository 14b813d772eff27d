"""The broker drops messages of a non-persistent topic, because no consumer has permits for them.

You see: `msgDropRate` 40, `msgRateOut` 0, `availablePermits` 0, and no backlog.

A non-persistent topic keeps nothing. If no consumer has permits when a message arrives, the
subscription loses it. So a consumer that hangs, or is too slow for its receiver queue, leaves none.

It is a stall if the broker dropped some in its last full minute, sent none in that minute or in the
window, and no consumer has permits. Otherwise it is a warning: consumers are too slow, or one of
several hangs and, on Key_Shared, its keys are lost. A consumer without permits for `quiet`, while
nothing is published, is unknown.

Source: NonPersistentDispatcherMultipleConsumers.sendMessages and that of …SingleActiveConsumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pulsar_doctor.diagnosis.actions.consumers import dump_threads, more_workers
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView, since_last_delivery
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import Sentence, fill, say

THRESHOLDS = (
    Threshold("quiet", 60.0, "seconds", "if nothing is published, and nobody can receive"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Find out why its application does not receive, or add consumers; what was dropped is lost. A "
    "topic that must not lose messages has to be persistent."
)
CHECK = "this finding is gone, a minute after consumers can receive again"
DROPS = "the broker drops what is published until it asks again"
SUMMARY = (
    "in its last full minute the broker dropped {rate} messages a second[, and sent {sent}]: "
    "{why}; a non-persistent topic keeps nothing"
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where messages were dropped; unknown where the next ones will be."""
    dropped = view.msg_drop_rate
    if dropped is None:
        return
    waiting = [each for each in view.served if each.without_permits]
    # A standby of Failover has permits that nobody uses, and who is active is not reported here.
    nobody_may = bool(waiting) and (len(waiting) == len(view.served) or view.type == "Failover")
    if dropped:
        sent = (view.msg_rate_out, view.delivered)
        none_sent = 0 in sent and not any(sent)
        yield _finding(view, dropped, waiting, stalled=nobody_may and none_sent)
        return
    since = since_last_delivery(waiting) if nobody_may else None
    if since is not None and since.seconds >= limits["quiet"]:
        who = waiting[0].label
        yield Unknown(
            say("{}: {}", worded("no_permits_for", waiting[0], since=since), DROPS),
            who,
        )


def _finding(
    view: SubscriptionView, dropped: float, waiting: Sequence[ConsumerView], *, stalled: bool
) -> Finding:
    who = waiting[0] if waiting else None
    sent = None if stalled else view.msg_rate_out
    return Finding(
        severity="stalled" if stalled else "warning",
        confidence=0.95,
        consumer=who.label if who else None,
        summary=fill(
            SUMMARY,
            view,
            rate=f"all {dropped:.3g}" if stalled else f"{dropped:.3g}",
            sent=None if sent is None else f"{sent:.3g}",
            why=_why(view, waiting),
        ),
        evidence=(
            Measure("msg_drop_rate", dropped, "messages/second"),
            Measure("msg_rate_out", view.msg_rate_out, "messages/second"),
            *(who.measures() if who else ()),
        ),
        actions=tuple(_actions(view, who)),
    )


def _why(view: SubscriptionView, waiting: Sequence[ConsumerView]) -> Sentence:
    if view.consumers is None:
        return say("its consumers are not reported")
    if not view.served:
        return worded("nobody", view)
    if not waiting:
        return say("its consumers cannot receive at times")
    if len(waiting) == 1:
        return worded("no_permits", waiting[0])
    return say("{} cannot receive", listed([each.label for each in waiting]))


def _actions(view: SubscriptionView, who: ConsumerView | None) -> Iterator[Action]:
    if who is not None:
        yield dump_threads(view, who)
    yield replace(more_workers(view), check=None)
    text = "Make the topic persistent, if its messages must not be lost."
    yield Action("later", text)
