"""Entries stay in the replay queue although no consumer holds them and everybody has permits.

You see: `msgInReplay` 4, `msgBacklog` 4, `unackedMessages` 0, and `availablePermits` above 0.

What is given back, or was read for a consumer without permits, waits in the replay queue, and the
next read takes it from there first. If it stays while all consumers could receive, the broker
forgot it or starts no read: on Key_Shared, what waited for a consumer that has left is sent to
nobody before the next message or FLOW comes.

It is found if all of the backlog is there in every sample, and nothing that is known keeps the
broker from reading (see `broker-read-stuck`): a warning if mark-delete has not moved for
`stood_for` while newer messages pass, a stall after `silent_for` if nothing is sent. A window
shorter than `watched_for` shows it only if in the last full minute none was given back, and later
ones were acknowledged.

Source: PersistentDispatcherMultipleConsumers.getMessagesToReplayNow, MessageRedeliveryController.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.observed import SHARING
from pulsar_doctor.diagnosis.actions.consumers import save_state, unload
from pulsar_doctor.diagnosis.answers import Answers, Finding, Rests
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.laws import acked_past
from pulsar_doctor.diagnosis.read_doubts import RANGES
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold("stood_for", 300.0, "seconds", "mark-delete has not moved for so long"),
    Threshold("silent_for", 60.0, "seconds", "the same where nothing is sent meanwhile"),
    Threshold("watched_for", 5.0, "seconds", "a shorter window does not show that they stay"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
EXPLAINS = frozenset({"ack-hole", "broker-read-stuck"})
REMEDY = (
    "Search the broker's log for this subscription, keep both statistics for a bug report, then "
    "unload the topic (`pulsar-admin topics unload`): all that is not acknowledged is read anew. "
    "Where nothing comes, the next message or one more consumer may be enough."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where all of the backlog stays in the replay queue, and nothing holds it back."""
    replay, least, stood = exact(view.replay) or 0, view.replay_least, view.since_mark_delete
    if stood is None or not replay or not _ready(view):
        return
    stays = (view.watched_seconds or 0) >= limits["watched_for"] and least is not None
    silent = stays and view.delivered == 0
    past = not stays and view.msg_rate_redeliver == 0 and acked_past(view)
    nobody = all(each.holds_nothing for each in view.served)
    alone = nobody and view.backlog is not None and view.backlog.entries == replay
    old = stood.seconds >= limits["silent_for" if silent else "stood_for"]
    text = say(
        "{:entries} in the replay queue are held by nobody, and mark-delete has not moved for {}",
        *(replay, duration(stood.seconds)),
    )
    if alone and (past or (stays and (least or 0) >= replay)) and (old or silent):
        if not old:
            yield Rests(f"{text}; nothing is sent")
            return
        yield Finding(
            severity="stalled" if silent and view.throttling is not None else "warning",
            confidence=0.8,
            summary=say("{}: every consumer can receive, and the broker does not send them", text),
            evidence=(
                Measure("msg_in_replay", replay, "entries"),
                backlog_measure(view),
                Measure("mark_delete_stood", round(stood.seconds, 3), "seconds"),
            ),
            actions=(save_state(view), unload(view, "Unload", "the backlog falls to 0")),
        )
    elif alone and old and not stays:
        yield Rests(f"{text}; one sample does not show that they stay there")
    elif stays and least and stood.seconds >= limits["silent_for"] and view.sends_only_new:
        yield Rests(f"{text}; only newer messages are sent")


def _ready(view: SubscriptionView) -> bool:
    """Whether all consumers could receive, and nothing may keep the broker from reading."""
    joined = view.key_order is not None and view.key_order.joined
    pauses = view.ranges is not None and view.ranges.count >= RANGES
    held_back = view.type not in SHARING or view.held_back or joined or pauses
    return bool(view.served) and all(each.may_receive for each in view.served) and not held_back


HYPOTHESIS = Hypothesis(
    "entries are left in the replay queue, and the broker does not send them",
    speaks_for=("undecided", "replay", "somebody_ready", "nobody_holds", "waits"),
    if_undecided=True,
    confirmed="if they stay there while every consumer can receive, this is the cause",
)
