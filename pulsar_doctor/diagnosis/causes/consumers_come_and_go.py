"""A consumer connects, is closed, and connects again, all the time.

An application that seeks, closes and subscribes again, crashes and is started anew, or fails after
each first message loses its place in the middle of the work: what it was sent is sent again, and a
single document of the broker lists it or nobody, as chance has it. So this is never "no consumer".

The check counts how often a consumer of the same name and host has connected within the window, and
how often messages were requested or sent between two samples that both list nobody. It is found
from `times` on. A restart of each instance, one after the other, connects each of them once.

A client reconnects by itself when its connection breaks or its topic is unloaded; a load of the
topic within the window is not counted.

Source: ConsumerImpl.seekAsync (the broker disconnects every consumer of the subscription first),
PersistentSubscription.resetCursor and removeConsumer in the broker.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold("times", 2.0, "connects", "one that connects again so often comes and goes"),
)
NEEDS = frozenset({STATS})
EXPLAINS = frozenset({"no-consumer", "redelivery-storm", "closed-unacknowledged"})
REMEDY = (
    "Look into the log of the application for what it does before each new connection: a seek, a "
    "close, an exception, a restart by its supervisor."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where consumers of one name keep coming back."""
    turnover = view.turnover
    if turnover is None or turnover.times < limits["times"]:
        return
    within = say(" within {}", duration(turnover.seconds)) if turnover.seconds else ""
    sent = say(", and was sent {:messages} meanwhile", view.delivered) if view.delivered else ""
    yield Finding(
        code="consumers-come-and-go",
        severity="warning",
        confidence=0.9,
        consumer=None,
        summary=say(
            "a consumer connected again at least {:times}{}{}", turnover.times, within, sent
        ),
        evidence=(
            Measure("connects", turnover.times, "connects", "at least"),
            Measure("delivered", view.delivered, "messages"),
        ),
        remedy=REMEDY,
        actions=(Action("now", REMEDY, check=check_line(view, "its consumer stays connected")),),
    )
