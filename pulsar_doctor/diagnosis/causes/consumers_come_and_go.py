"""A consumer connects, is closed, and connects again, all the time.

You see: another `connectedSince` in each document, while `lastMarkDeleteAdvancedTimestamp` stays.

An application that seeks, closes and subscribes again, or crashes and is started anew loses its
place: what it was sent is sent again. If each ends at one message, the first after mark-delete may
be poison.

It is a warning if a consumer of one name and host connects `times` or more in the window, or
consumers of any name come and go. A load of the topic and one restart of each instance do not
count. It is a warning, too, if what waits was sent three times or more to consumers that have left,
and nothing was ever acknowledged. It is unknown while nothing proves progress: all consumers
connected less than a minute ago, others before them were sent messages, and the oldest is not
acknowledged since; or all left within a minute. Each warning is a stall where nothing was
acknowledged for `refill_wait`, and messages were there all that time.

Source: ConsumerImpl.seekAsync, PersistentSubscription.resetCursor and removeConsumer in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import subscription_admin
from pulsar_doctor.diagnosis.actions.consumers import read_oldest
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.progress import without_progress
from pulsar_doctor.diagnosis.restart_laws import came_in_window, circles, leaves_early, sent_in_vain
from pulsar_doctor.diagnosis.thresholds import (
    FIRST_ACK_WITHIN,
    IN_HAND,
    NO_PROGRESS,
    Limits,
    Threshold,
)
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, Turnover
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold("times", 2.0, "connects", "one that connects again so often comes and goes"),
    NO_PROGRESS,
)
NEEDS = frozenset({STATS})
SYMPTOM = "again and again"
EXPLAINS = frozenset({"no-consumer", "redelivery-storm", "closed-unacknowledged"})
NAMED_MOST = 3  # names; more are made anew each time
STAYS = "it stays connected"
UNLISTED = "a consumer that no sample lists"
SHOWS_IT = (
    " No sample lists it: --interval 100ms may, and the broker's log has its address, in lines "
    "with `Subscribing on topic`."
)
COMES_BY = {"one": "comes_by_one", "each": "comes_by_each", None: "comes_by_any"}
REMEDY = (
    "Read the log of the application for what comes before each new connection: a seek, a "
    "close, an exception, a restart by its supervisor."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where consumers of one name keep coming back."""
    turnover, within = view.turnover, FIRST_ACK_WITHIN.default
    rounds = circles(view, within)
    if turnover is not None and turnover.times >= limits["times"]:
        times = Measure("connects", turnover.times, "connects", "at least")
        often = Measure("connects_per_minute", turnover.a_minute, "a minute", "at least")
        back = Measure("put_back", turnover.put_back or None, "entries")
        sent = Measure("delivered", view.delivered, "messages")
        found = _finding(view, 0.9, _connects(view, turnover), times, often, back, sent)
        yield without_progress(view, found, limits)
    elif rounds is not None and (came_in_window(view) or (rounds.sure and leaves_early(view))):
        sent = Measure("sent_to_those_that_left", rounds.sent, "messages")
        found = _finding(view, 0.7, worded("went_round", rounds), sent)
        yield without_progress(view, found, limits)
    elif not view.watched and view.alone and view.alone.requested_just_now:
        yield Unknown(worded("there_just_now", view))
    elif (in_vain := sent_in_vain(view, within)) is not None:
        yield Unknown(in_vain)


def _connects(view: SubscriptionView, turnover: Turnover) -> str:
    """How often, and what brings it back, as far as its connections and the backlog tell."""
    sent = say(", and was sent {:messages} meanwhile", view.delivered) if view.delivered else ""
    hosts = listed(turnover.hosts)
    how: str = worded(COMES_BY[turnover.connections], turnover)
    if turnover.put_back > IN_HAND.default:
        how = say("a seek puts {:entries} back each time or so", turnover.put_back)
    elif len(turnover.hosts) > 1 and view.type == "Exclusive":
        how = f"{hosts} take turns, as only one may be attached"
    more = ", or many more between two samples" if turnover.as_sampled else ""
    within, rate = duration(turnover.seconds or 0), f"{turnover.a_minute or 0:.0f}"
    often = say(" within {} ({} a minute{})", within, rate, more) if turnover.seconds else ""
    text = "{} connected again at least {:times}{}{}: {}"
    who = _who(turnover) or ("a consumer" if view.consumers else UNLISTED)
    return say(text, who, turnover.times, often, sent, how)


def _who(turnover: Turnover | None) -> str:
    """`worker-1 on 10.0.3.7`; where each has another name, `consumers on 10.0.3.7`."""
    if turnover is None or not (turnover.names and turnover.hosts):
        return ""
    few = len(turnover.names) <= NAMED_MOST
    return say("{} on {}", listed(turnover.names) if few else "consumers", listed(turnover.hosts))


def _finding(view: SubscriptionView, sure: float, text: str, *evidence: Measure) -> Finding:
    what = REMEDY.replace("the application", _who(view.turnover) or "the application")
    what += "" if view.consumers or _who(view.turnover) else SHOWS_IT
    oldest, more = view.oldest, list[Action]()
    if oldest and view.circulation and view.circulation.starts_over:
        text = say("{}; each may end at the oldest message, {}", text, oldest)
        why = () if _seeks(view.turnover) else ("to see what the application cannot process",)
        more += read_oldest(view, *why)
    if more and not _seeks(view.turnover):
        text = say("{}, or soon after it, at a message that may be poison", text)
        what += " If it fails at a message, catch that exception, or skip that message."
        more += _without_poison(view, oldest or "")
    actions = [Action("now", what, check=check_line(view, STAYS)), *more]
    return Finding(
        severity="warning",
        confidence=sure,
        summary=text,
        evidence=evidence,
        remedy=what,
        actions=tuple(actions),
    )


def _seeks(turnover: Turnover | None) -> bool:
    """Whether it rather seeks, or subscribes again, than that its process ends."""
    own = turnover is not None and turnover.connections == "one"
    return own or (turnover is not None and turnover.put_back > IN_HAND.default)


def _without_poison(view: SubscriptionView, oldest: str) -> Iterator[Action]:
    """What to do about the message at which each may end."""
    yield Action(
        "today",
        "Catch the exception in the application: acknowledge such a message, or acknowledge it "
        "negatively and give the consumer a dead letter topic.",
        check=check_line(view, STAYS),
    )
    yield Action(
        "today",
        f"This deletes the oldest message, {oldest}, for this subscription: only if the log names "
        "it, and no older one waits.",
        command=subscription_admin(view, "topics skip", "-n", "1"),
        side_effect="all messages of its batch are deleted with it",
        check=check_line(view, STAYS),
    )


HYPOTHESIS = Hypothesis(
    "consumers connect, are sent messages, and leave before they acknowledge any, all the time",
    speaks_for=("undecided", "outlived", "went_round", "all_young"),
    if_undecided=True,
    alike_once=True,
    confirmed="if another consumer is listed then, and was sent the same, this is the cause",
)
