"""The broker has stopped reading although a consumer has permits and messages wait.

You see: `availablePermits` 90, `msgBacklog` 500, `msgRateOut` falls to 0, and `pulsar-admin topics
stats-internal` prints the same `readPosition`, say 5:10, again and again.

The dispatcher reads entries from the ledger for its consumers, and the end of a read starts the
next one. If this chain breaks, nothing moves. The internal stats show the break in three ways:
- no read is pending, neither of new entries nor of a replay, though both could be (what the
  broker's own checkAndUnblockIfStuck checks for);
- a read is marked as pending, and the cursor neither reads nor waits for new entries;
- the cursor waits for new entries, and there are some after its read position.

A healthy dispatcher passes through each of these states, and one sample can be stale. So it is a
stall only if `samples` or more show the same state for `still_for`, while something was left to
send and a consumer could receive it (on Exclusive and Failover the active one): nothing was
delivered, and the read position did not move. A consumer that connected or sent a FLOW within
`still_for` does not count yet. Internal stats of the last sample are enough if nothing was
delivered in `samples` samples of the topic, or for `retried_within`, and what is unread is older.

Acks of earlier deliveries are no movement. Without a clock a `msgRateOut` above 0 is one, if all
that was sent was acknowledged, or as much was sent as came in and hardly anything is left.

The broker reads nothing behind a producer's open transaction, pauses while it keeps as many delayed
messages as its look-ahead allows, and puts back what an entry filter does not accept. These are
never this cause. It is unknown if something else shows the same: a read in progress on slow
storage; delayed messages; throttled reads that this broker does not count; Key_Shared messages that
are bound to a consumer; on Exclusive and Failover, for `retried_within`, a client that does not
read its connection. A failed read is tried again within that time, so until then the confidence is
lower. The limit of a resource group and the read of a compacted ledger cannot be seen.

With dispatcherPauseOnAckStatePersistentEnabled (since 3.3, off by default) Shared and Key_Shared
stop on purpose while there are more acknowledged ranges than the broker persists. The statistics do
not show the setting, so it is unknown if the limit is not known. An unload forgets these ranges;
and once the last consumer leaves, the next one is sent nothing (seen on 4.0.8).

Source: PersistentDispatcherMultipleConsumers and PersistentDispatcherSingleActiveConsumer
(readMoreEntries, checkAndUnblockIfStuck), ManagedCursorImpl.asyncReadEntriesOrWait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import checked, holes, namespace_admin
from pulsar_doctor.diagnosis.actions.consumers import NO_MORE, save_state, unload
from pulsar_doctor.diagnosis.actions.limits import healing
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.read_doubts import Case, doubt_of
from pulsar_doctor.diagnosis.thresholds import PAUSE_SECONDS, Limits, Threshold
from pulsar_doctor.evidence.account import left_with_nobody
from pulsar_doctor.evidence.consumer import (
    ConsumerView,
    rounded,
)
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.reading import BrokerReads, Face
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.values import exact
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

PAUSE = "dispatcherPauseOnAckStatePersistentEnabled"
POLICY = "dispatcher-pause-on-ack-state-persistent"
MOMENT, HELD = 1.0, 5.0  # seconds of what comes in: what is left for certain, or perhaps
FEW_APART = 3.0  # messages: so many more have come, as a rule, since the last one was sent
KEPT_UP = 0.95  # of the rate out: both are of one minute, and acks come a moment later
THRESHOLDS = (
    Threshold("samples", 3.0, "samples", "fewer samples that show the same do not decide"),
    Threshold(
        "still_for", 5.0, "seconds", "nothing has moved for this long, and the last FLOW is older"
    ),
    Threshold(
        "retried_within",
        60.0,
        "seconds",
        "a failed read is retried, and a client that does not read is dropped, by then",
    ),
)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Unload the topic (`pulsar-admin topics unload`): it loads again with a fresh dispatcher "
    "and nothing is lost. Before that, keep both stats for a bug report, and search the broker's "
    "log for failed reads. unblockStuckSubscriptionEnabled=true repairs this when no read is "
    "pending."
)
OVER_LIMIT = (
    "Do not unload the topic: that forgets acknowledgements. Acknowledge what keeps the gaps open, "
    "or restart the consumer that holds it while another one is attached: once the last one has "
    "left, the next one is sent nothing."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where the broker should read and does not; unknown where that is not certain."""
    reads = view.reads
    if reads is None or _moves(view, reads) or view.held_back:
        return
    active = view.served
    permits_unknown = view.consumers is None or (
        active and all(c.available_permits is None for c in active)
    )
    if permits_unknown and not view.nothing_to_move:  # nobody waits for what a reader leaves
        yield Unknown(f"{_standstill(view)}, and which consumers could receive is not reported")
    ready = tuple(consumer for consumer in active if consumer.may_receive)
    if not ready:
        return
    if not reads.states and view.durable is False:
        return  # a reader: what it holds and what is left cannot be distinguished
    case = Case(view, ready, reads, limits)
    if doubt := doubt_of(case):
        kind, reason = doubt
        yield kind(f"{_who(ready)}, and {_standstill(view)}: {reason}")
    else:
        yield _finding(case)


def _moves(view: SubscriptionView, reads: BrokerReads) -> bool:
    """Whether anything was delivered or read, or has been just now."""
    kept_up = view.consumers is None or _kept_up(view) or _sent_what_came(view)
    by_rate = view.sent_by_rate and kept_up
    return reads.moved or view.just_delivered or by_rate or _as_messages_come(view)


def _kept_up(view: SubscriptionView) -> bool:
    """Whether all that was sent within the last full minute was acknowledged, and nobody is full.

    So it went well as of that minute; a read that is stuck since then is younger.
    """
    sent, acked = view.msg_rate_out or 0, view.message_ack_rate or 0
    return acked >= KEPT_UP * sent and all(
        consumer.may_receive and consumer.holds_nothing for consumer in view.served
    )


def _sent_what_came(view: SubscriptionView) -> bool:
    """Whether as much was sent for the first time as came in that minute, and was acknowledged.

    What is left is then no more than what comes within a moment, or within a few seconds where
    consumers may hold some of it. A limit of the rate, or a read that has stood since, leaves more.
    """
    came, left = view.msg_rate_in or 0, view.left
    few = left is not None and left.most is not None and left.most <= came * HELD
    return few and _first_sent(view)


def _first_sent(view: SubscriptionView) -> bool:
    """The same, without what consumers may hold: no more is left for certain than a moment's."""
    came, sent, left = view.msg_rate_in, view.msg_rate_out or 0, view.left
    if came is None or not view.message_ack_rate or left is None:
        return False
    first = sent - (view.msg_rate_redeliver or 0)
    return first >= KEPT_UP * came and (left.least or 0) <= came * MOMENT


def _as_messages_come(view: SubscriptionView) -> bool:
    """Whether one document shows a delivery that is no older than a few messages lie apart.

    Nothing has to be due then. Where no consumer's unacknowledged messages are reported, all that
    waits may be in hand.
    """
    since, came = view.since_delivery, view.msg_rate_in
    if view.watched or since is None or not since.exact or not came:
        return False
    return since.seconds <= min(max(HELD, FEW_APART / came), PAUSE_SECONDS) and _first_sent(view)


def _standstill(view: SubscriptionView) -> str:
    if (view.msg_rate_out or 0) > 0:
        return f"{view.msg_rate_out:.4g} messages a second went out within the last minutes"
    return "nothing moves" if view.delivered == 0 else "nothing moved"


def _who(ready: Sequence[ConsumerView]) -> str:
    names = ready[0].label if len(ready) == 1 else f"{len(ready)} consumers"
    return say("{} could receive ({:permits})", names, _permits(ready))


def _permits(ready: Sequence[ConsumerView]) -> int:
    return sum(exact(consumer.available_permits) or 0 for consumer in ready)


def _sure(case: Case) -> float:
    """Lower where a failed read may be tried again soon, and where more cannot be seen."""
    reads = case.reads
    sure = 0.9 if case.still_for >= case.limits["retried_within"] else 0.75
    if reads.unread_least == 0 or (reads.face is Face.ASLEEP and not reads.extended):
        sure -= 0.15  # a replay that nobody counts; a bound of reading that nobody tells
    elif len(reads.states) < case.limits["samples"]:
        sure -= 0.15
    return round(sure, 2)


def _pauses(case: Case) -> bool:
    """Whether the dispatcher may stand still on purpose."""
    return case.view.type not in SINGLE_ACTIVE and case.reads.face is Face.NONE_PENDING


def _gaps(case: Case) -> str:
    """What else may keep it from reading, and what an unload would do: a sentence, or nothing."""
    ranges = case.view.ranges
    if ranges is None or not ranges.over:
        return ""
    more = say(
        "{:acknowledged ranges} are more than the {} that it persists",
        *(ranges.count, ranges.known_limit),
    )
    if not _pauses(case):
        return say("; {}: an unload forgets the rest", more)
    return say("; {}, and {} pauses it while that is so, if it is on", more, PAUSE)


def _finding(case: Case) -> Finding:
    reads, state = case.reads, case.reads.states[-1]
    gaps = _gaps(case)
    assert reads.face is not None
    return Finding(
        severity="stalled",
        confidence=_sure(case),
        summary=say(
            "the broker has stopped reading: {}, {} or more entries are left to send, and in {}"
            " samples over {} nothing moved ({}, the read position stays at {}){}",
            *(_who(case.ready), reads.left_least, reads.samples, duration(reads.window_seconds)),
            *(reads.face.value, reads.position, gaps),
        ),
        evidence=(
            measured("available_permits", _permits(case.ready)),
            Measure("unread_entries", state.unread, "entries"),
            Measure("msg_in_replay", exact(case.view.replay), "entries"),
            backlog_measure(case.view),
            Measure("read_position", reads.position, ""),
            Measure("subscription_have_pending_read", _flag(state.pending), ""),
            Measure("waiting_read_op", _flag(state.waits), ""),
            Measure("pending_read_ops", state.under_way, "reads"),
            Measure("samples", len(reads.states), "samples"),
            Measure("stands_for_least", rounded(case.still_for), "seconds"),
        ),
        remedy=OVER_LIMIT if gaps else REMEDY,
        actions=tuple(_over_limit(case) if gaps else _actions(case.view)),
    )


def _over_limit(case: Case) -> Iterator[Action]:
    view = case.view
    yield Action("now", OVER_LIMIT, command=holes(view), check=check_line(view, NO_MORE))
    if _pauses(case):
        yield Action(
            "now",
            "Remove the pause where it is on (topic, namespace or broker.conf): messages are sent "
            "at once.",
            command=namespace_admin(view, f"remove-{POLICY}"),
            side_effect="more acknowledgements may be forgotten when the topic is loaded next",
            undo=namespace_admin(view, f"set-{POLICY}"),
            check=checked(namespace_admin(view, f"get-{POLICY}"), "it prints false"),
        )


def _actions(view: SubscriptionView) -> Iterator[Action]:
    yield save_state(view)
    yield unload(view, "Unload", NO_MORE)
    yield healing(view)


def _flag(flag: bool | None) -> str | None:
    return None if flag is None else str(flag).lower()


def _sent_before(view: SubscriptionView) -> str | None:
    if view.unread is None and left_with_nobody(view):
        return "the oldest entry was sent, and no consumer holds it"
    return None


HYPOTHESIS = Hypothesis(
    "consumers could receive, entries wait, and the broker does not read them",
    speaks_for=(
        "undecided", "somebody_ready", "waits", "delivered_long_ago", "read_lost",
        "read_asleep", "nobody_holds", "backlog_grows", "rate_none", "unread",
    ),
    against=(
        "just_delivered", "delivers", "throttled", "delayed_most", "delayed_some", "replay",
        "read_waits", "flag_all_blocked", "reads", "counter_differs", "rate_out",
    ),
    excluded=(
        "nothing_left", "waits_by_design", "filter_puts_back", "delivers", "reads", "nobody_ready",
        "nobody", "nobody_served", _sent_before,
    ),
    missing=("read_state", "read_position"),
    confirmed="if the read position does not move while a consumer can receive, this is the cause",
)  # fmt: skip
