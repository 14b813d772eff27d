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
from the oldest consumer's connection.

It is silent while delayed messages are in the backlog: these are gaps, too, until they are due. A
message that takes longer than `hole_after`, or one that is given back again and again, does hold
mark-delete back and is told. Partially acknowledged batches are in no range (before they are done).
A small backlog that pins much storage is told with its size, but the size alone decides nothing:
without ranges it is an ordinary backlog.

Source: ManagedCursorImpl (individualDeletedMessages), SubscriptionStats.lastMarkDeleteAdvanced….
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from pulsar_doctor.diagnosis import (
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Threshold,
    Unknown,
    backlog_measure,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import standings
from pulsar_doctor.stats.backlog import is_empty
from pulsar_doctor.stats.observed import Observed, entries_from
from pulsar_doctor.stats.sample import Age, Moment

MARK_DELETE: Moment = "last_mark_delete_advanced_timestamp_ms"
TOGETHER_MS = 1000  # an ack and the mark-delete that it moves, which is written first

THRESHOLDS = (
    Threshold("hole_after", 300.0, "seconds", "a gap that has stood for less is ordinary"),
)
NEEDS = frozenset({STATS})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "Find the entry after mark-delete (`pulsar-admin topics get-message-by-id`) and the consumer "
    "that holds it: acknowledge it, restart that consumer so that it comes again, or give the "
    "subscription an ack timeout and a dead-letter policy."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found where mark-delete has stood for long while acknowledgements went on."""
    assert evidence.stats is not None
    return found(_answers(evidence.stats, limits))


def _answers(observed: Observed, limits: Limits) -> Iterator[Finding | Unknown | NotTold]:
    now, ranges = observed.now, observed.acknowledged_ranges
    if now.is_durable is False or observed.persistent is False or observed.backlog.empty:
        return
    if ranges is None:
        yield NotTold("this source does not tell acknowledged ranges")
        return
    if ranges <= 0 or (now.msg_delayed or 0) > 0 or not observed.consumers or _moved(observed):
        return
    stood, confidence = _stood(observed), _sure(observed, limits)
    if stood is not None and stood.ms >= limits["hole_after"] * 1000:
        if confidence is not None:
            yield _finding(observed, ranges, stood, confidence)
    elif (stood is None or not stood.exact) and _acks_pass_it(observed):
        yield Unknown(
            f"mark-delete stood still in the window while later entries were acknowledged "
            f"({ranges} ranges), but for how long is not told: give the time of the stats (--at)"
        )


def _moved(observed: Observed) -> bool:
    return bool(
        observed.course.passed(MARK_DELETE)
        or observed.cursor.moved(attrgetter("mark_delete_position"))
    )


def _since_ms(observed: Observed) -> int | None:
    """When mark-delete stopped, as far as a consumer was there and something was in the backlog."""
    now = observed.now
    connected = [standing.now.connected_since_ms for standing in standings(observed)]
    oldest = min((moment for moment in connected if moment is not None), default=None)
    advanced = now.last_mark_delete_advanced_timestamp_ms
    if oldest is None or (advanced is None and MARK_DELETE not in now.never):
        return None
    return max(oldest, advanced or oldest, _emptied_ms(observed) or oldest)


def _emptied_ms(observed: Observed) -> int | None:
    """When the backlog was last seen to be 0 within the window: no gap is older."""
    if observed.backlog.wrong:
        return None
    seen = zip(observed.window.samples, observed.course.values, strict=True)
    empty = [sample for sample, value in seen if value and is_empty(value)]
    return empty[-1].now_ms if empty else None


def _stood(observed: Observed) -> Age | None:
    return observed.window.last.age(_since_ms(observed))


def _acked_ms(observed: Observed) -> int | None:
    acks = [standing.now.last_acked_timestamp_ms for standing in standings(observed)]
    told = (observed.now.last_acked_timestamp_ms, *acks)
    return max((moment for moment in told if moment is not None), default=None)


def _sure(observed: Observed, limits: Limits) -> float | None:
    """How sure it is that the gap is as old as mark-delete's standstill; None where it is not."""
    since, acked = _since_ms(observed), _acked_ms(observed)
    age = observed.window.last.age(acked)
    if since is None or acked is None or age is None:
        return None
    after_ms, needed_ms = acked - since, limits["hole_after"] * 1000
    markers = observed.now.is_replicated is not False  # their acks leave ranges, too
    if age.ms >= needed_ms and after_ms >= (TOGETHER_MS if markers else -TOGETHER_MS):
        return 0.8
    if after_ms < needed_ms or _younger(observed, limits["hole_after"]):
        return None
    return 0.7 if _acks_pass_it(observed) else 0.5


def _younger(observed: Observed, seconds: float) -> bool:
    """Whether all that is acknowledged after mark-delete took less, at the pace of the window."""
    cursor, internal, span = observed.cursor_now, observed.internal, observed.window.span_ms
    acked = observed.cursor.growth(attrgetter("messages_consumed_counter"))
    if cursor is None or internal is None or not span or not acked:
        return False
    backlog, position = observed.backlog.entries, cursor.mark_delete_position
    after = entries_from(position, internal) if position is not None else None
    if after is None or backlog is None:
        return False
    return (after - 1 - backlog) * span / acked < seconds * 1000


def _acks_pass_it(observed: Observed) -> bool:
    """Whether acknowledgements came in the window, and mark-delete did not move."""
    return observed.course.passed("last_acked_timestamp_ms") is True


def _finding(observed: Observed, ranges: int, stood: Age, confidence: float) -> Finding:
    now, cursor = observed.now, observed.cursor_now
    position = cursor.mark_delete_position if cursor else None
    where = "" if position is None else " after {}:{}".format(*position)
    size = "" if not now.backlog_size else f", which pins {now.backlog_size} bytes"
    entries = observed.backlog.entries
    backlog = "" if entries is None else f" in a backlog of {entries} entries{size}"
    return Finding(
        code="ack-hole",
        severity="warning",
        confidence=confidence,
        consumer=None,
        summary=(
            f"mark-delete has stood for {duration(stood.ms / 1000)} before an entry that is not "
            f"acknowledged{where}, while later ones were: {ranges} acknowledged "
            f"{'range' if ranges == 1 else 'ranges'}{backlog}"
        ),
        evidence=(
            Measure("mark_delete_stood", round(stood.ms / 1000, 3), "seconds"),
            Measure("non_contiguous_deleted_messages_ranges", ranges, "ranges"),
            backlog_measure(observed),
            Measure("backlog_size", now.backlog_size, "bytes"),
            Measure("unacked_messages", now.unacked_messages, "messages"),
            Measure("mark_delete_position", "{}:{}".format(*position) if position else None, ""),
        ),
        remedy=REMEDY,
    )
