"""Whether a consumer hangs, is slow, or never acknowledges, in plain words.

They look alike from afar and need different things, so whoever reports one names which it is, and
by what that is known. It is slow where acks come, however far apart. It keeps what it takes where
it asks for more and more and has never acknowledged any. It hangs where nothing comes that should
have. Where nothing tells, both are possible, and the difference is explained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import (
    FORGETS_FROM,
    HANGS_AFTER_SECONDS,
    IN_HAND,
    LONG_SECONDS,
)
from pulsar_doctor.evidence.consumer import JUST_NOW_MS, RHYTHM_NEEDS, ConsumerView
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

Activity = Literal["slow", "keeps", "hangs", "withholds", "unclear"]


def activity_of(consumer: ConsumerView) -> Activity:
    """Whether it works slowly or not at all, as far as the view tells."""
    if _withholds(consumer):
        return "withholds"
    if _keeps(consumer):
        return "keeps"
    if consumer.held_in_silence(HANGS_AFTER_SECONDS) > IN_HAND.default:
        return "hangs"
    works = consumer.works and not (consumer.pace_has_ended or _only_sent(consumer))
    if works or _in_its_rhythm(consumer):
        return "slow"
    silent = consumer.quiet_at_least(HANGS_AFTER_SECONDS) and not consumer.sent_flow
    if silent and (consumer.never_acked or consumer.works is False):
        return "hangs"
    return "unclear"


def _withholds(consumer: ConsumerView) -> bool:
    """Whether its process shows that its client keeps what it was sent.

    The application waits for a message, the queue is empty, and nothing was taken from it since the
    last FLOW, nor between two samples. The broker has sent a whole queue since then.
    """
    own = consumer.inside
    if own is None or not (own.asked and own.queue_size) or own.some_wait or own.paused:
        return False
    held = bool(consumer.without_permits and least(consumer.unacked_messages))
    return held and own.waiting == own.unsent == own.taken == 0 and not consumer.works


def _only_sent(consumer: ConsumerView) -> bool:
    """Whether it is sent messages, and no pace explains how long it has finished none."""
    worked = consumer.since_work
    return worked is not None and worked.seconds >= LONG_SECONDS and consumer.pace is None


def _in_its_rhythm(consumer: ConsumerView) -> bool:
    """Whether its pace is known, and its silence is no longer than two of its messages take.

    No pace excuses a silence that makes a stall.
    """
    pace, quiet = consumer.pace, consumer.quiet_for
    if pace is None or quiet is None:
        return False
    return quiet.seconds <= min(2 * pace.seconds, LONG_SECONDS)


def _keeps(consumer: ConsumerView) -> bool:
    """Whether the consumer asks for more than its first FLOW, holds many, and never acknowledged
    any.

    One that keeps taking has permits, unless a limit holds it. They are no more than its queue,
    of which half has to be taken before it asks again.
    """
    if not consumer.never_acked or (least(consumer.unacked_messages) or 0) < FORGETS_FROM:
        return False
    if consumer.sent_flow or least(consumer.permits_refilled):
        return True
    own = consumer.inside
    if own is not None and own.asked and not own.sits and not consumer.without_permits:
        return True  # it waits for the next message, and no thread works on one
    if consumer.without_permits and not consumer.blocked_consumer_on_unacked_msgs:
        return False
    half_taken = 2 * (most(consumer.msg_out_counter) or 0) >= (
        least(consumer.available_permits) or 0
    )
    return half_taken and (consumer.sent_another_flow or consumer.refilled)


def state(consumer: ConsumerView) -> str:
    """What it does, by which number, and which of them that is: `has … for 7 min: it hangs …`."""
    return STATES[activity_of(consumer)](consumer)


def verdict(consumer: ConsumerView) -> str:
    """Which of them it is, without its numbers.

    One whose queue is full has not taken half of it, so it cannot have forgotten to acknowledge.
    Clients keep what they cannot decrypt (ConsumerCryptoFailureAction.FAIL, the default): the
    application gets nothing, and neither a permit nor an acknowledgement comes back.
    """
    how = activity_of(consumer)
    never = NEVER_ACKED if consumer.without_permits else MAY_HAVE_TAKEN_ALL
    known = VERDICTS | never if consumer.never_acked else VERDICTS
    each = consumer.seconds_a_message if (consumer.done_in_life or 0) >= RHYTHM_NEEDS else None
    usual = "" if each is None else f" than before (one each {duration(each)})"
    return known[how].format(LEAVES_OUT if consumer.in_batches else "", usual=usual)


def _slow(consumer: ConsumerView) -> str:
    return say("works{} slowly{}", _on(consumer), _last_ack(consumer))


def _hangs(consumer: ConsumerView) -> str:
    return say("{} and asks for no more: {}", _quiet(consumer), verdict(consumer))


def _keeping(consumer: ConsumerView) -> str:
    return say("{}: {}", worded("keeps_all", consumer, number=_number(consumer)), verdict(consumer))


def _unclear(consumer: ConsumerView) -> str:
    return say("{}: {}", _quiet(consumer), verdict(consumer))


ITS_ONE = "its message"
LEAVES_OUT = ", leaves out a message of each batch"
STATES: dict[Activity, Callable[[ConsumerView], str]] = {
    "slow": _slow,
    "hangs": _hangs,
    "withholds": _hangs,
    "keeps": _keeping,
    "unclear": _unclear,
}
KEPT_BACK = "its client cannot decrypt or decode them: see its log"
VERDICTS: dict[Activity, str] = {
    "slow": "it works, but slowly",
    "hangs": "it hangs or is paused",
    "withholds": KEPT_BACK,
    "keeps": "it forgets to acknowledge{}, or its acks fail",
    "unclear": "it is stuck, or one message takes longer{usual}; the next ack will show",
}
NEVER_ACKED: dict[Activity, str] = {"hangs": f"it hangs, is paused, or {KEPT_BACK}"}
MAY_HAVE_TAKEN_ALL: dict[Activity, str] = {
    "hangs": f"it hangs, is paused, forgets to acknowledge{{}}, or {KEPT_BACK}",
    "unclear": (
        "it is stuck, forgets to acknowledge{}, or one message takes longer; the next ack will show"
    ),
}


def _quiet(consumer: ConsumerView) -> str:
    number, quiet = _number(consumer), consumer.since_last_ack or consumer.quiet_for
    since = "" if quiet is None or quiet.says_nothing else say(" for {}", quiet)
    key = "acked_none_of" if number else "acked_nothing"
    return worded(
        "acked_not_its_one" if number == ITS_ONE else key, consumer, number=number, since=since
    )


def _number(consumer: ConsumerView) -> str:
    """`its 10 messages`, with bounds; empty where nothing tells how many."""
    held = consumer.unacked_messages
    if held is None or held.most == 0 or (held.exact is None and not held.least):
        return ""
    if held.exact is None:
        return say("at least {:messages}", held.least)
    return ITS_ONE if held.exact == 1 else say("its {:messages}", held.exact)


def _on(consumer: ConsumerView) -> str:
    number = _number(consumer)
    return say(" on {}", number) if number else ""


def _last_ack(consumer: ConsumerView) -> str:
    """By which number it is known to go on: acks of the window, or the last one."""
    acks, since = consumer.acks, consumer.since_last_ack
    if acks.acknowledged and acks.span_ms:
        span = f"{acks.span_ms / 1000:.0f} s"
        return say(" ({} acknowledged in {})", acks.acknowledged, span)
    if since is not None and since.ms >= JUST_NOW_MS:
        return say(" (last ack {} ago)", since)
    return ""
