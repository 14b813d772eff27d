"""Single unacknowledged entries hold mark-delete back while later ones are acknowledged.

Everything up to mark-delete is consumed and may be deleted. One entry that nobody acknowledges
stops it: what is acknowledged after that entry stays in ranges, the ledgers are kept, the backlog
never gets to 0, and after a load of the topic the broker remembers only so many ranges.

On Shared and Key_Shared acknowledgements out of order are ordinary, and so are ranges for as long
as a message takes. The rule speaks where mark-delete has stood still for `hole_after` with a
consumer connected all that time, and where the gap is as old as that: nothing has been acknowledged
for as long either, so the ranges are at least so old; or the acknowledgements went on for so long
after mark-delete had stopped. A sample without a backlog shows that the gap came later. If the pace
in the window shows that all of them have come in less time than that (a burst after a quiet night),
it is silent. Where the broker has not moved mark-delete since it loaded the topic, the time counts
from the oldest consumer's connection. A trace tells of an entry that was delivered `hole_after` ago
and is not acknowledged, while others that came later are.

It is silent while delayed messages are in the backlog: these are gaps, too, until they are due. A
message that takes longer than `hole_after`, or one that is given back again and again, does hold
mark-delete back and is told. Partially acknowledged batches are in no range (before they are done).
A small backlog that pins much storage is told with its size, but the size alone decides nothing:
without ranges it is an ordinary backlog.

Source: ManagedCursorImpl (individualDeletedMessages), SubscriptionStats.lastMarkDeleteAdvanced….
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsar_doctor.evidence.answers import (
    STATS,
    WIRE,
    Action,
    Answers,
    Finding,
    Measure,
    NotTold,
    Unknown,
)
from pulsar_doctor.evidence.hole import AckHole
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.evidence.thresholds import Limits, Threshold
from pulsar_doctor.remedies.consumers import AGAIN
from pulsar_doctor.remedies.lines import admin
from pulsar_doctor.remedies.lines import check as check_line
from pulsar_doctor.remedies.settings import DEAD_LETTERS, setting
from pulsar_doctor.wording.durations import duration

POSITION = re.compile(r"\d+:-?\d+")
TOGETHER_MS = 1000  # an ack and the mark-delete that it moves, which is written first

THRESHOLDS = (
    Threshold("hole_after", 300.0, "seconds", "a gap that has stood for less is ordinary"),
)
NEEDS = frozenset({STATS, WIRE})
REMEDY = (
    "Find the entry after mark-delete (`pulsar-admin topics get-message-by-id`) and the consumer "
    "that holds it: acknowledge it, restart that consumer so that it comes again, or give the "
    "subscription an ack timeout and a dead-letter policy."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where mark-delete has stood for long while acknowledgements went on."""
    hole = view.hole
    if view.durable is False or view.persistent is False:
        return
    if view.backlog is not None and view.backlog.empty:
        return
    if hole is None:
        yield NotTold("this source does not tell acknowledged ranges")
        return
    if hole.ranges <= 0 or hole.moved or hole.delayed or not view.consumers:
        return
    stood, confidence = hole.stood, _sure(hole, limits["hole_after"])
    if stood is not None and stood.seconds >= limits["hole_after"]:
        if confidence is not None:
            yield _finding(view, hole, stood.seconds, confidence)
    elif (stood is None or not stood.exact) and hole.passed_in_window:
        yield Unknown(
            f"mark-delete stood still in the window while later entries were acknowledged "
            f"({hole.ranges} ranges), but for how long is not told: give the time of the stats "
            "(--at)"
        )


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


def _finding(view: SubscriptionView, hole: AckHole, stood: float, confidence: float) -> Finding:
    ranges, position = hole.ranges, hole.position
    where = "" if position is None else f" after {position}"
    size = "" if not hole.backlog_bytes else f", which pins {hole.backlog_bytes} bytes"
    entries = view.backlog.entries if view.backlog else None
    backlog = "" if entries is None else f" in a backlog of {entries} entries{size}"
    return Finding(
        code="ack-hole",
        severity="warning",
        confidence=confidence,
        consumer=None,
        summary=(
            f"mark-delete has stood for {duration(stood)} before an entry that is not "
            f"acknowledged{where}, while later ones were: {ranges} acknowledged "
            f"{'range' if ranges == 1 else 'ranges'}{backlog}"
        ),
        evidence=(
            Measure("mark_delete_stood", round(stood, 3), "seconds"),
            Measure("non_contiguous_deleted_messages_ranges", ranges, "ranges"),
            backlog_measure(view),
            Measure("backlog_size", hole.backlog_bytes, "bytes"),
            Measure("unacked_messages", _unacked(view), "messages"),
            Measure("mark_delete_position", position, ""),
        ),
        remedy=REMEDY,
        actions=tuple(_actions(view, position)),
    )


def _actions(view: SubscriptionView, mark_delete: str | None) -> Iterator[Action]:
    if mark_delete is not None and POSITION.fullmatch(mark_delete):
        ledger, entry = mark_delete.split(":")
        where = ("-l", ledger, "-e", str(int(entry) + 1))
        yield Action(
            "now",
            "See the message that nobody has acknowledged, to know whose work it is.",
            command=admin(view, "topics get-message-by-id", *where),
        )
    yield Action(
        "now",
        "Restart the consumer that holds it, so that it comes again; see who holds something.",
        command=admin(view, "topics stats"),
        side_effect=AGAIN,
        check=check_line(view, "mark-delete has moved on"),
    )
    known = setting(_version(view), DEAD_LETTERS, 10)
    if known is not None:
        yield Action(
            "today",
            f"Put away what fails again and again: {known}.",
            side_effect="somebody has to look at the topic where it goes",
            undo="take the setting out, and restart the consumer",
            check=check_line(view, "mark-delete has moved on"),
        )


def _version(view: SubscriptionView) -> str | None:
    return view.consumers[0].client_version if view.consumers else None


def _unacked(view: SubscriptionView) -> int | None:
    return view.unacked.exact if view.unacked else None
