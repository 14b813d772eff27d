"""Single unacknowledged entries hold mark-delete back while later ones are acknowledged.

You see: `markDeletePosition` stays at, say, 164:49, `nonContiguousDeletedMessagesRanges` is 1 or
more, and `msgBacklog` never gets to 0. A backlog of 7 entries can keep many ledgers on disk.

Everything up to mark-delete is acknowledged, and the broker deletes nothing after it. One entry
that nobody acknowledges stops it. The broker keeps later acknowledgements as ranges, and after a
load of the topic it remembers only so many of them.

On Shared and Key_Shared such ranges are normal for as long as a message takes. It is a warning if
mark-delete has not moved for `hole_after` with a consumer connected all that time, and the ranges
are as old: nothing was acknowledged for as long either, or acknowledgements continued for as long
after mark-delete had stopped. If the window shows that they came faster (a burst after a quiet
night), it is silent. If mark-delete has not moved since the topic was loaded, the time counts from
the oldest consumer's connection. In a trace, the entry itself was delivered `hole_after` ago. A
message that takes longer than that, or is given back again and again, is reported as well.

If a message was skipped at pace, it is unknown from `skipped_after` on: those who hold it have
acknowledged `passed_by` later ones or more, and ten times as many as they hold. It may be one long
job, or the application has given it back: by default a client reports a negative acknowledgement
after 60 s, and up to a third later than that. It is unknown from then on as well if more than 16
messages for each consumer are left out: workers do not have so many in hand, but a sink may
acknowledge in groups that take up to `hole_after`. Both together are a warning from
`given_back_within` on, and so is one that is sent again and again.

From `young_after` on it is information: the message may be in work, given back with a delay, or
forgotten. It is silent while delayed messages wait, as they leave gaps until they are due, and on
Key_Shared if everything that nobody holds waits for the consumers of its keys.

With acknowledgmentAtBatchIndexLevelEnabled, a batch of which one message is missing is in no range.
It is a warning after `hole_after`, if consumers took ten batches in that time and finished none. In
a compacted topic, consumers are never sent what compaction replaced. Single acknowledgements leave
a gap before it for good, cumulative ones do not: then the finding says so.

Source: ManagedCursorImpl (individualDeletedMessages), SubscriptionStats.lastMarkDeleteAdvanced…;
NegativeAcksTracker of the Java and the C++ client (negativeAckRedeliveryDelay).
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.actions.commands import admin
from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.consumers import (
    AGAIN,
    TAKE_OUT,
    SettingChange,
    given_back,
    read_oldest,
)
from pulsar_doctor.diagnosis.actions.transactions import LIST
from pulsar_doctor.diagnosis.answers import (
    Action,
    Answers,
    Finding,
    NotReported,
    Rests,
    Severity,
    Unknown,
)
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.holder_laws import rest_beside_others
from pulsar_doctor.diagnosis.key_waits import never_sent
from pulsar_doctor.diagnosis.probes import read_positions
from pulsar_doctor.diagnosis.thresholds import IN_HAND, PAUSE_SECONDS, Limits, Threshold
from pulsar_doctor.evidence.account import left_with_nobody
from pulsar_doctor.evidence.hole import AckHole
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.ledger.clients import DEAD_LETTERS
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, say

PASSED_TIMES = 10  # as many later ones as are held: on average each took a tenth of the time
AGAIN_SECONDS = 60.0
TOGETHER_MS = 1000  # an ack and the mark-delete that it moves, which is written first

THRESHOLDS = (
    Threshold("hole_after", 300.0, "seconds", "a younger gap is normal"),
    Threshold(
        "skipped_after", 60.0, "seconds", "a message that others overtake may still be in progress"
    ),
    Threshold(
        "given_back_within",
        90.0,
        "seconds",
        "a client may wait this long before it gives a message back",
    ),
    Threshold("passed_by", 50.0, "messages", "fewer later messages may just have been faster"),
    Threshold("young_after", 5.0, "seconds", "a gap of this age is reported, as info"),
)
NEEDS = frozenset({STATS, WIRE})
SYMPTOM = "wrong backlog"
REMEDY = (
    "Find the entry after mark-delete (`pulsar-admin topics get-message-by-id`) and the consumer "
    "that holds it: acknowledge it, restart that consumer so that it is delivered again, or give "
    "the subscription an ack timeout and a dead-letter policy. A client keeps what it cannot "
    "decrypt or decode: its log shows that, and a restart does not help."
)
PUT_AWAY = SettingChange(
    DEAD_LETTERS,
    10,
    "Move messages that keep failing to another topic",
    "somebody has to watch that topic",
    "mark-delete has moved on",
    TAKE_OUT,
)
CUMULATIVE = (
    "Acknowledge cumulatively (acknowledgeCumulative): that also covers entries that compaction "
    "replaced."
)
NOBODY = (
    "No consumer holds it: see whether an open transaction acknowledges it. It then stays until "
    "that is committed or aborted; otherwise it was lost on its way, and is sent again when its "
    "consumers connect anew."
)
GIVEN_BACK = (
    "Find out why the application gives messages back, and set a dead-letter policy, which puts "
    "away what keeps failing. A restart does not end it."
)
IN_ITS_LOG = "then the application's log for why it gives it back"
WAIT = (
    "Wait as long as one message may take. If the gap stays, a consumer forgot to acknowledge it."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where mark-delete has stood for long while acknowledgements went on."""
    hole = view.hole
    if view.durable is False or view.persistent is False:
        return
    if view.backlog is not None and view.backlog.empty:
        return
    if hole is None:
        yield NotReported("this source does not report acknowledged ranges")
        return
    if never_sent(view):
        return
    passed_over, stood = hole.ranges > 0 or hole.in_part, hole.stood
    if not passed_over or hole.delayed or not view.consumers:
        return
    if view.pending_acks and _nobody_holds_it(view):
        return  # uncommitted-acks speaks of these
    if hole.moved and not _stopped_within(view, stood, limits):
        return
    confidence = _sure(hole, limits["hole_after"])
    old = stood is not None and stood.seconds >= limits["hole_after"]
    if stood is not None and old and confidence is not None:
        yield _finding(view, hole, stood, "warning", confidence)
    elif hole.in_part:
        return
    elif stood is not None and _skipped(hole, stood.seconds, limits):
        not_in_work = _leaves_out_many(view, hole, stood.seconds, limits) or _again(view)
        if stood.seconds >= limits["given_back_within" if not_in_work else "hole_after"]:
            yield _finding(view, hole, stood, "warning", 0.6)
        else:
            yield _skipped_or_in_work(stood, limits)
    elif stood is not None and _leaves_out_many(view, hole, stood.seconds, limits):
        yield Rests(
            say(
                "{:entries} or more are not acknowledged while later ones are, the first for {}: "
                "more than workers have in hand is left out; it is the same with a sink that "
                "acknowledges in groups, until {}",
                *(hole.left_out, duration(stood.seconds), duration(limits["hole_after"])),
            )
        )
    elif (stood is None or not stood.exact) and hole.passed_in_window:
        yield Unknown(
            f"mark-delete did not move in the window while later entries were acknowledged "
            f"({hole.ranges} ranges), but for how long is not known: give the time of the stats "
            "(--at)"
        )
    elif stood is not None and not old and _is_young(hole, stood.seconds, limits["young_after"]):
        yield _finding(view, hole, stood, "info", 0.9)


def _stopped_within(view: SubscriptionView, stood: Age | None, limits: Limits) -> bool:
    """Whether what moved in the window is known to have stopped in it, long ago."""
    if stood is None or not stood.exact:
        return False
    long = stood.seconds >= min(limits["skipped_after"], limits["hole_after"])
    return long and stood.seconds <= (view.watched_seconds or 0)


def _skipped_or_in_work(stood: Age, limits: Limits) -> Rests:
    return Rests(
        f"a message has not been acknowledged for {duration(stood.seconds)} while later ones were: "
        "its client may have given it back and be waiting for it to be delivered again, or works "
        f"on it for so long; check again when the gap is {duration(limits['hole_after'])}"
    )


def _is_young(hole: AckHole, stood: float, young_after: float) -> bool:
    """Whether later entries have been acknowledged for so long already."""
    lasted = hole.acks_lasted_ms is not None and hole.acks_lasted_ms >= young_after * 1000
    return stood >= young_after and (hole.proven or lasted)


def _skipped(hole: AckHole, stood: float, limits: Limits) -> bool:
    """Whether those who hold it acknowledge later ones at pace.

    What they hold and how fast they finish it tell how long a message takes on average.
    """
    passed = hole.passed >= max(limits["passed_by"], PASSED_TIMES * hole.held)
    return passed and stood >= limits["skipped_after"]


def _leaves_out_many(view: SubscriptionView, hole: AckHole, stood: float, limits: Limits) -> bool:
    """Whether those who acknowledge later ones leave out more than workers have in hand.

    What is left out is held as well, so that what they hold does not tell how long a message takes.
    """
    many = hole.left_out > IN_HAND.default * len(view.served)
    return many and stood >= limits["skipped_after"]


def _sure(hole: AckHole, hole_after: float) -> float | None:
    """How sure it is that the gap is as old as mark-delete's standstill; None where it is not."""
    acked, after_ms = hole.acked, hole.acks_lasted_ms
    if hole.proven:
        return 0.8
    if acked is None or after_ms is None:
        return None
    together = TOGETHER_MS if hole.markers else -TOGETHER_MS
    if acked.seconds >= hole_after and after_ms >= together:
        return 0.8
    younger = hole.all_acked_in is not None and hole.all_acked_in < hole_after
    if after_ms < hole_after * 1000 or younger:
        return None
    return 0.7 if hole.passed_in_window else 0.5


def _finding(
    view: SubscriptionView, hole: AckHole, stood: Age, severity: Severity, confidence: float
) -> Finding:
    return Finding(
        severity=severity,
        confidence=confidence,
        summary=_summary(view, hole, stood, severity),
        evidence=(
            Measure("mark_delete_stood", round(stood.seconds, 3), "seconds"),
            Measure("non_contiguous_deleted_messages_ranges", hole.ranges, "ranges"),
            backlog_measure(view),
            Measure("backlog_size", hole.backlog_bytes, "bytes"),
            Measure("unacked_messages", _unacked(view), "messages"),
            Measure("mark_delete_position", hole.position, ""),
        ),
        remedy=_remedy(view, hole, severity),
        actions=tuple(_actions(view, hole)),
    )


def _remedy(view: SubscriptionView, hole: AckHole, severity: Severity) -> str:
    if hole.compacted:
        return CUMULATIVE
    if _nobody_holds_it(view):
        return NOBODY
    return WAIT if severity == "info" else GIVEN_BACK if _again(view) else REMEDY


def _again(view: SubscriptionView) -> Sentence:
    """What is sent again meanwhile: the message may be given back each time, and not forgotten."""
    of = view.circulation
    if of is None or of.rate_redeliver == 0:  # counters that are read one after the other may err
        return say("")
    sent = of.lately(AGAIN_SECONDS) or of.window
    if sent and sent.again > 0:
        return say("sent again lately: at least {} of {:messages}", sent.again, sent.messages)
    rate = of.rate_redeliver
    return say("sent again lately: {} messages a second", f"{rate:.3g}") if rate else say("")


def _summary(view: SubscriptionView, hole: AckHole, stood: Age, severity: Severity) -> str:
    """What was passed over and for how long, what that may be, then where and how many ranges."""
    ranges, entries = hole.ranges, view.backlog.entries if view.backlog else None
    size = "" if not hole.backlog_bytes else say(", which pins {:bytes}", hole.backlog_bytes)
    backlog = "" if entries is None else say(" in a backlog of {:entries}{}", entries, size)
    up_to, means = "", "nothing after it can be deleted"
    if severity == "info":
        up_to = "up to "
        means = "it may be in progress or forgotten, and nothing after it can be deleted until then"
    if again := _again(view):
        means = say(
            "it may be given back again and again ({}), and nothing after it can be deleted", again
        )
    where = "" if hole.position is None else say(" at {}", hole.position)
    if hole.in_part:
        return say(
            "batches are acknowledged only in part: none has been finished for {}, though messages "
            "of them are acknowledged; nothing can be deleted: mark-delete is stuck{}{}",
            *(duration(stood.seconds), where, backlog.replace(" in ", " before ", 1)),
        )
    acked = say("{:acknowledged ranges}", ranges)
    seen = say("a message has not been acknowledged for {}{}", up_to, duration(stood.seconds))
    if hole.compacted:
        seen = say(
            "at least {:entries} were replaced by compaction and sent to nobody", hole.compacted
        )
    stuck = say("mark-delete is stuck before it{}, with {} behind{}", where, acked, backlog)
    others = "were acknowledged singly" if hole.compacted else "were"
    return say("{} while later ones {}; {}: {}", seen, others, means, stuck)


def _actions(view: SubscriptionView, hole: AckHole) -> Iterator[Action]:
    if hole.compacted:
        yield Action("today", CUMULATIVE, check=check_line(view, "mark-delete has moved on"))
        return
    again = bool(_again(view)) and not _nobody_holds_it(view)
    yield from read_oldest(view, *([IN_ITS_LOG] if again else []))
    if _nobody_holds_it(view):
        moved_on = check_line(view, "mark-delete has moved on")
        yield Action("now", NOBODY, command=LIST, check=moved_on)
        return
    if again:
        yield given_back(view, "mark-delete has moved on")
    else:
        yield _restart(view)
    yield from PUT_AWAY.on(view, view.consumers[0].client if view.consumers else None)


def _restart(view: SubscriptionView) -> Action:
    """What to do about a consumer that may have forgotten the message."""
    return Action(
        "now",
        "List the consumers that hold messages, and restart the one that holds it: the message is "
        "then delivered again.",
        command=admin(view, "topics stats"),
        side_effect=AGAIN,
        check=check_line(view, "mark-delete has moved on"),
    )


def _nobody_holds_it(view: SubscriptionView) -> bool:
    """Whether no consumer holds a message: it is acknowledged in a transaction, or was lost."""
    return _unacked(view) == 0


def _unacked(view: SubscriptionView) -> int | None:
    return view.unacked.exact if view.unacked else None


def _excluded(view: SubscriptionView) -> str | None:
    """Ranges that are reported, and are none; what lies between was never sent, or is pending.

    Where one consumer rests while others go on, the gap is what that one holds. What consumers held
    that left waits to be sent.
    """
    ranges = view.ranges
    if view.alone is not None:
        return "no consumer is attached, so nobody holds what is not acknowledged"
    if never_sent(view):
        return "what is not acknowledged was sent to nobody: it waits for the consumer of the key"
    if view.pending_acks and _nobody_holds_it(view):
        return "no consumer holds a message, and some are acknowledged in an open transaction"
    if view.pending_acks is None and left_with_nobody(view):
        return "no consumer holds what was read, and open transactions are not reported"
    for each, _ in rest_beside_others(view, PAUSE_SECONDS):
        return f"{each.label} holds messages in silence while others go on"
    return "no acknowledged range lies behind mark-delete" if ranges and not ranges.count else None


HYPOTHESIS = Hypothesis(
    "single messages that are not acknowledged hold mark-delete back",
    speaks_for=("undecided", "hole", "hole_old", "many_ranges"),
    excluded=(_excluded,),
    missing=("acknowledged_ranges",),
    stalls=False,
    found_at_once=True,
    confirmed="if mark-delete does not move while acknowledgements arrive, this is the cause",
    probe=read_positions,
)
