"""Acknowledged ranges as they went over the wire, and what became of the entries in holes.

A trace tells of each entry whether it was sent, to whom, and when it was acknowledged; it tells
neither the broker's limits nor what is delayed. An entry in a hole that was never sent in the trace
was withheld (delayed, or its key was busy), or went to a consumer that was not on the tap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pulsar_doctor.columns import Row
from pulsar_doctor.consumers import split_partition
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.examination.acknowledged import Acknowledged
from pulsar_doctor.examination.recorded import open_folder
from pulsar_doctor.holes.account import Account, Shape, shape_of
from pulsar_doctor.holes.origins import CANNOT_TELL, INDIVIDUAL, UNACKED, Origin
from pulsar_doctor.holes.persisting import NOTHING_TOLD, forecast
from pulsar_doctor.holes.ranges import Axis, Range, Written
from pulsar_doctor.samples.reading import is_called
from pulsar_doctor.stats.observed import SINGLE_ACTIVE

if TYPE_CHECKING:
    from pulsar_doctor.acknowledgements.subscription import Acknowledgements, Biography

Key = tuple[str, str]  # full name of a topic, subscription


def holes_of_trace(
    folder: Path, topics: Sequence[str], subscription: str | None, at_us: int | None
) -> Acknowledged:
    """What a trace tells. at_us: as it stood then, microseconds since 1970; None: at its end.

    Raises TraceError, and DoctorError where the trace has no such topic or subscription.
    """
    from pulsar_doctor.acknowledgements.subscription import of_rows

    trace, types = open_folder(folder), dict[Key, str]()
    found = Acknowledged("trace", notes=[f"pulsar-doctor: {note}" for note in trace.notes])
    told = of_rows(_noting(trace.rows(), types), until_us=at_us)
    for key, each in sorted(told.items()):
        if _is_asked(key, topics, subscription):
            lives = _in_holes(each)
            found.accounts.append(_account(key, each, lives, types.get(key)))
            found.biographies[key] = lives
    if not found.accounts:
        there = ", ".join(f"{name} on {topic}" for topic, name in sorted(told)) or "no subscription"
        raise DoctorError(f"{folder} has nothing that is asked for; it has {there}")
    return found


def _noting(rows: Iterator[Row], types: dict[Key, str]) -> Iterator[Row]:
    for row in rows:
        if row.subscription_type and row.topic and row.subscription:
            types[row.topic, row.subscription] = row.subscription_type
        yield row


def _is_asked(key: Key, topics: Sequence[str], subscription: str | None) -> bool:
    of_topic = not topics or any(is_called(key[0], topic) for topic in topics)
    return of_topic and subscription in (None, key[1])


def _in_holes(told: Acknowledgements) -> list[Biography]:
    """Of entries that were sent and lie in holes, the oldest first."""
    ranges = told.ranges()
    if not ranges:
        return []
    end, after = (ranges[-1].ledger_id, ranges[-1].last), told.mark_delete or (-1, -1)
    lives = ((b, (b.ledger_id, b.entry_id)) for b in told.biographies())
    return [b for b, at in lives if b.acknowledged_us is None and after < at < end]


def _account(
    key: Key, told: Acknowledgements, lives: Sequence[Biography], type_: str | None
) -> Account:
    ranges = told.ranges()
    written: list[Written] = [(r.ledger_id, r.first - 1, r.ledger_id, r.last) for r in ranges]
    shape = _shape(told, ranges)
    entries = 0 if shape is None else sum(shape.hole_entries)
    topic, partition = split_partition(key[0])
    return Account(
        topic=topic,
        partition=partition,
        subscription=key[1],
        type=type_,
        durable=None,
        backlog=None,
        mark_delete=told.mark_delete,
        read_position=None,
        ranges=len(ranges),
        acknowledged_entries=sum(each.entries for each in ranges),
        shape=shape,
        unacked_messages=sum(life.open_messages for life in lives),
        msg_delayed=0 if entries == len(lives) else None,
        msg_in_replay=None,
        storing=NOTHING_TOLD,
        record_bytes=None,
        record_told=False,
        forecast=forecast(written, ranges, NOTHING_TOLD, is_open=None),
        stood=None,
        pinned=None,
        origins=tuple(_origins(entries, len(lives), type_)),
        not_told=told.doubts,
    )


def _shape(told: Acknowledgements, ranges: Sequence[Range]) -> Shape | None:
    """The entries behind mark-delete up to the last that was sent or acknowledged."""
    if told.mark_delete is None:
        return None
    known = [(b.ledger_id, b.entry_id) for b in told.biographies()]
    known += [(each.ledger_id, each.last) for each in ranges]
    ends: dict[int, int] = {told.mark_delete[0]: told.mark_delete[1] + 1}
    for ledger, entry in known:
        ends[ledger] = max(ends.get(ledger, 0), entry + 1)
    axis = Axis(told.mark_delete, ends)
    return shape_of(axis, ranges, axis.length)


def _origins(entries: int, sent: int, type_: str | None) -> Iterator[Origin]:
    if sent:
        code = INDIVIDUAL if type_ in SINGLE_ACTIVE else UNACKED
        yield Origin(code, sent, sent, f"{sent} were sent and not acknowledged in this trace")
    if entries > sent:
        rest = entries - sent
        because = "never sent in this trace: withheld, or sent to a consumer not on the tap"
        yield Origin(CANNOT_TELL, rest, rest, because)
