"""A consumer connects, is closed, and connects again, all the time.

An application that seeks, closes and subscribes again, crashes and is started anew, or fails after
each first message loses its place in the middle of the work: what it was sent is sent again. A
single document of the broker lists it or nobody, as chance has it: this is never "no consumer".

The check counts how often a consumer of the same name and host has connected within the window,
consumers of any name came and went, and messages were requested or sent between two samples that
both list nobody. It is found from `times` on, without those of a load of the topic. A restart of
each instance, one after the other, connects each of them once.

A seek and an application that closes and subscribes again use the connection that is there; a
process or a client that is made anew brings another port. Only a seek makes the backlog rise beyond
what was published. An Exclusive subscription refuses a second consumer: who takes turns is on
several hosts.

By counters it is found, too, where all that waits was sent three times or more to consumers that
have left, and nothing was acknowledged since the topic was loaded. It is a suspect only if
something was, long ago or by one document in the minute after consumers connected, or if who is
there has stayed for five minutes or gives messages back.

A consumer that fails on one message and is started anew each half minute is never silent for long,
and new messages go to it all the time. But the oldest message stays. So it is a suspect, too, where
mark-delete has not moved since a minute before those who are there connected, they connected less
than a minute ago and were sent what had waited, and several before them were sent it in vain.

Source: ConsumerImpl.seekAsync, PersistentSubscription.resetCursor (which disconnects every consumer
of the subscription first) and removeConsumer in the broker; seen on 4.0.8.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.holder_laws import rounds_of, went_round
from pulsar_doctor.diagnosis.thresholds import FIRST_ACK_WITHIN, IN_HAND, Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import ComesBackBy, SubscriptionView, Turnover
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold("times", 2.0, "connects", "one that connects again so often comes and goes"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "again and again"
EXPLAINS = frozenset({"no-consumer", "redelivery-storm", "closed-unacknowledged"})
NAMED_MOST = 3
YOUNG_SECONDS = 300.0  # one that stays longer has not come and gone
BY_CONNECTION: Mapping[ComesBackBy, str] = {
    "one": "always by the same connection, so its application seeks, or closes it and subscribes "
    "again",
    "each": "each time by another connection, so its process or client is made anew, or its "
    "connections break",
    None: "it seeks, closes, crashes, or its connections break",
}
REMEDY = (
    "Read the log of the application for what comes before each new connection: a seek, a "
    "close, an exception, a restart by its supervisor."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where consumers of one name keep coming back."""
    turnover, rounds = view.turnover, rounds_of(view, FIRST_ACK_WITHIN.default)
    if turnover is not None and turnover.times >= limits["times"]:
        yield _connects(view, turnover)
    elif rounds is not None:
        text = went_round(view, rounds)
        sent = Measure("sent_to_those_that_left", rounds.sent, "messages")
        certain = rounds.sure and rounds.often and _leaves_early(view)
        yield _finding(view, 0.7, text, sent) if certain else Unknown(text)
    elif not view.watched and view.alone and view.alone.requested_just_now:
        yield Unknown(
            "nobody is attached at this moment, and messages were requested just now: a window "
            "shows whether consumers come and go (--window 10s)"
        )


def _leaves_early(view: SubscriptionView) -> bool:
    """Whether who is there came lately, and gives nothing back: a storm counts the same."""
    sent = view.circulation
    gives_back = sent is not None and (sent.rate_redeliver or (sent.life and sent.life.again))
    ages = [view.alone.since_flow] if view.alone else [each.connected_for for each in view.served]
    return not gives_back and any(age and age.seconds < YOUNG_SECONDS for age in ages)


def _connects(view: SubscriptionView, turnover: Turnover) -> Finding:
    sent = say(", and was sent {:messages} meanwhile", view.delivered) if view.delivered else ""
    a_minute = round(turnover.times * 60 / turnover.seconds, 1) if turnover.seconds else None
    often = ""
    if turnover.seconds and a_minute:
        more = ", or many more between two samples" if turnover.as_sampled else ""
        within = duration(turnover.seconds)
        often = say(" within {} ({} a minute{})", within, f"{a_minute:.0f}", more)
    text, how = "a consumer connected again at least {:times}{}{}: {}", _how(view.type, turnover)
    hosts = listed(turnover.hosts, NAMED_MOST)
    evidence = (
        Measure("connects", turnover.times, "connects", "at least"),
        Measure("connects_per_minute", a_minute, "a minute", "at least"),
        Measure("put_back", turnover.put_back or None, "entries"),
        Measure("delivered", view.delivered, "messages"),
    )
    return _finding(view, 0.9, say(text, turnover.times, often, sent, how), *evidence, hosts=hosts)


def _how(type: str | None, turnover: Turnover) -> str:
    """What brings it back, as far as its connections and the backlog tell."""
    if turnover.put_back > IN_HAND.default:
        return say("a seek puts {:entries} back each time or so", turnover.put_back)
    if len(turnover.hosts) > 1 and type == "Exclusive":
        return f"{listed(turnover.hosts, NAMED_MOST)} take turns, as only one may be attached"
    return BY_CONNECTION[turnover.connections]


def _finding(
    view: SubscriptionView, sure: float, text: str, *evidence: Measure, hosts: str = ""
) -> Finding:
    first = REMEDY.replace("application", f"application on {hosts}") if hosts else REMEDY
    action = Action("now", first, check=check_line(view, "it stays connected"))
    return Finding(
        severity="warning", confidence=sure, summary=text, evidence=evidence, actions=(action,)
    )


HYPOTHESIS = Hypothesis(
    "consumers connect, are sent messages, and leave before they acknowledge any, all the time",
    speaks_for=("undecided", "outlived", "all_young"),
    stalls=False,
    if_undecided=True,
    confirmed="if another consumer is listed then, and was sent the same, this is the cause",
)
