"""Entries stay in the replay queue although no consumer holds them and everybody has permits.

What is given back, or was read for a consumer without permits, waits in the replay queue, and the
next read takes it from there before anything new. So nothing stays there while all consumers could
receive. Entries that do were forgotten: newer messages go out past them, mark-delete does not move,
and nobody will be sent them before the topic is loaded anew.

It is found where the oldest of the backlog has been there for `stood_for` by mark-delete, all of
the backlog is in the replay queue in every sample of the window, no consumer holds a message, and
all of them have permits. No entry filter, rate limit, limit of unacknowledged messages, draining
hash (4.x), open transaction or pause for delayed messages may keep the broker from reading them.
A window shorter than `watched_for` does not tell: a message that was given back passes through it.
It is unknown after `passed_over_for`, where a window shows that no more is sent than is published
while entries are in the queue: then only newer ones are.

Source: PersistentDispatcherMultipleConsumers.getMessagesToReplayNow, MessageRedeliveryController.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.actions.consumers import save_state, unload
from pulsar_doctor.diagnosis.answers import Answers, Finding, Rests
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, say

THRESHOLDS = (
    Threshold("stood_for", 300.0, "seconds", "mark-delete has stood still for so long"),
    Threshold("passed_over_for", 60.0, "seconds", "until then newer messages may pass them"),
    Threshold("watched_for", 5.0, "seconds", "a shorter window does not show that they stay"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"ack-hole", "broker-read-stuck"})
REMEDY = (
    "Search the broker's log for this subscription, keep both statistics for a bug report, then "
    "unload the topic (`pulsar-admin topics unload`): all that is not acknowledged is read anew."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where all of the backlog stays in the replay queue, and nothing holds it back."""
    replay, stood = exact(view.replay) or 0, view.since_mark_delete
    ready = bool(view.served) and all(each.may_receive for each in view.served)
    if stood is None or not (replay and ready) or _held_back(view):
        return
    alone = exact(view.unacked) == 0 and view.backlog is not None and view.backlog.entries == replay
    text = say(
        "{:entries} in the replay queue are held by nobody, and mark-delete has not moved for {}",
        *(replay, duration(stood.seconds)),
    )
    watched = (view.watched_seconds or 0) >= limits["watched_for"]
    if stood.seconds < limits["stood_for"] or not alone:
        long = stood.seconds >= limits["passed_over_for"]
        if watched and long and view.sends_only_new and view.replay_least:
            yield Rests(f"{text}; only newer messages are sent")
    elif not watched or view.replay_least is None:
        yield Rests(f"{text}; one sample does not show that they stay there")
    elif view.replay_least >= replay:
        yield _finding(view, text, stood)


def _held_back(view: SubscriptionView) -> bool:
    """Whether something is known that keeps the broker from reading what is in the queue."""
    limit, throttling, keys = view.unacked_limit, view.throttling, view.key_order
    design = view.type not in SHARING or view.filter_keeps or view.pauses_by_design
    limited = (limit and limit.blocked) or (throttling and throttling.lately)
    return bool(design or limited or (keys and (keys.draining or keys.joined)))


def _finding(view: SubscriptionView, text: Sentence, stood: Age) -> Finding:
    return Finding(
        severity="warning",
        confidence=0.8,
        summary=say("{}: every consumer can receive, and the broker does not send them", text),
        evidence=(
            Measure("msg_in_replay", exact(view.replay), "entries"),
            backlog_measure(view),
            Measure("mark_delete_stood", round(stood.seconds, 3), "seconds"),
        ),
        actions=(save_state(view), unload(view, "Unload", "the backlog falls to 0")),
    )


HYPOTHESIS = Hypothesis(
    "entries are left in the replay queue, and the broker does not send them",
    speaks_for=("undecided", "replay", "somebody_ready", "nobody_holds", "waits"),
    stalls=False,
    if_undecided=True,
    confirmed="if they stay there while every consumer can receive, this is the cause",
)
