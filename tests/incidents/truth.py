"""What is true of a moment in a few words: it stands for good, moves soon, or nothing waits."""

from __future__ import annotations

from tests.incidents.moments import Moment
from tests.incidents.script import SECOND

REFILL_WAIT_NS, SLOW_WAIT_NS, QUIET_AFTER_NS = 300 * SECOND, 30 * SECOND, 5 * SECOND
FIRST_ACK_NS, NOTHING_NEW_NS = 60 * SECOND, 3600 * SECOND
RATE_NS = 120 * SECOND  # a rate is of a whole minute, and stays until the next one is over
MANY = 50  # messages


def why(moment: Moment) -> str:
    """What stands in the way, as the model knows it."""
    everybody = moment.truth.consumers.values()
    if not everybody:
        return "nobody attached"
    if any(each.blocked for each in everybody):
        return "at a limit"
    if all(each.permits <= 0 for each in everybody if each.hangs or each.paused):
        return "no permits"
    return "permits left"


def truth_of(moment: Moment) -> str:
    """What a verdict should come to, in a few words, for a table of verdicts by truth."""
    truth = moment.truth
    if stands_for_good(moment):
        return f"stands for good, {why(moment)}"
    if never_acknowledges(moment):
        return "works, never acknowledges"
    if not truth.waiting and not truth.queued:
        return "nothing waits"
    if truth.moves_in is not None and truth.moves_in <= SLOW_WAIT_NS:
        return "moves within 30 s"
    return "moves later, or stands since lately"


def never_acknowledges(moment: Moment) -> bool:
    """Whether an application has worked on many messages for long and acknowledged none, ever."""
    return any(
        each.app.worker.acks == "never"
        and each.unacked - each.queued - each.in_hand >= MANY
        and moment.at_ns - min(hold.since_ns for hold in each.holds) >= 2 * REFILL_WAIT_NS
        for each in moment.truth.consumers.values()
    )


def stands_for_good(moment: Moment) -> bool:
    """Whether messages wait, nothing has moved for long, and nothing ever will."""
    truth = moment.truth
    waits = truth.waiting > 0 or truth.queued > 0
    never = truth.moves_in is None and truth.comes_in is None
    followed = truth.ended or truth.known >= 20 * REFILL_WAIT_NS
    return waits and never and followed and moment.at_ns - truth.since >= REFILL_WAIT_NS + SECOND
