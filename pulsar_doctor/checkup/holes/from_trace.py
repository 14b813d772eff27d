"""Acknowledged ranges in a trace, and what happened to the entries in holes.

A trace tells of each entry whether it was sent, to whom, and when it was acknowledged; it tells
neither the broker's limits nor what is delayed. An entry in a hole that was never sent in the trace
was withheld (delayed, or its key was busy), or went to a consumer that was not on the tap. Whether
one has been in a hole for too long is judged by the ledgers, as `stall-check --trace` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.checkup.holes.account import CursorAccount, stuck_in
from pulsar_doctor.checkup.holes.bounds import certain_of
from pulsar_doctor.checkup.holes.found import Acknowledged
from pulsar_doctor.checkup.holes.origins import CANNOT_TELL, INDIVIDUAL, UNACKED, Origin
from pulsar_doctor.checkup.holes.shape import Shape, shape_of
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.evidence.by_wire import subscription_view
from pulsar_doctor.ledger.acks.doubts import INDEX_ACKS
from pulsar_doctor.ledger.acks.persisting import RedeliveryForecast, Storing, forecast
from pulsar_doctor.ledger.acks.ranges import Axis, Range
from pulsar_doctor.ledger.acks.subscription import of_rows
from pulsar_doctor.ledger.acks.written import Written
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.trace.opening import open_folder
from pulsar_doctor.wire.columns import SET_ASIDE, UNPARSED, Row

if TYPE_CHECKING:
    from pulsar_doctor.ledger.acks.biographies import Biography
    from pulsar_doctor.ledger.acks.subscription import Acknowledgements

T = TypeVar("T")
ACK_COLUMNS = (
    "ts", "conn_id", "direction", "command", "request_id", "incarnation", "topic", "subscription",
    "subscription_type", "consumer_name", "ledger_id", "entry_id", "message_ids", "messages",
    "ack_set", "ack_type", "error_code", "transaction",
)  # fmt: skip
SubscriptionKey = tuple[str, str]  # full name of a topic, subscription


def holes_of_trace(
    folder: Path,
    topics: Sequence[str],
    subscription: str | None,
    at_us: int | None,
    *,
    batch_index_acks: bool | None = None,
) -> Acknowledged:
    """What a trace tells. at_us: as it stood then, microseconds since 1970; None: at its end.

    batch_index_acks: whether the broker keeps them; None: as the trace recorded it. Raises
    TraceError, and DoctorError where the trace has no such topic or subscription.
    """
    found = Acknowledged("trace")
    trace = open_folder(folder, found.notes.append)
    storing = trace.meta.storing
    if batch_index_acks is not None:
        storing = replace(storing, batch_index_acks=batch_index_acks)
    acked = AckedRows(trace.rows(), storing, until_us=at_us)
    incomplete = trace.missing(acked.set_aside).is_loss
    wires = by_name(trace.timeline(at_us).subscriptions())
    for key in acked.subscriptions:
        if _is_wanted(key, topics, subscription):
            account, found.biographies[key] = acked.account(key)
            found.accounts.append(judged(account, wires.get(key), incomplete=incomplete))
    if not found.accounts:
        there = (
            ", ".join(f"{name} on {topic}" for topic, name in acked.subscriptions)
            or "no subscription"
        )
        nothing = f"{folder} has nothing that was selected; it has {there}"
        raise DoctorError("; ".join((nothing, *trace.notes)))
    return found


def by_name(wires: Iterable[Subscription]) -> dict[SubscriptionKey, Subscription]:
    """Subscriptions of a trace by full topic and name."""
    return {each.key: each for each in wires}


def judged(account: CursorAccount, wire: Subscription | None, *, incomplete: bool) -> CursorAccount:
    """The account with what `ack-hole` warns of. wire: its ledgers; None: they are not known."""
    stuck = None if wire is None else stuck_in(subscription_view(wire))
    return replace(account, stuck=stuck, incomplete=incomplete)


class AckedRows:
    """What the rows of a trace tell of the acknowledgements of each subscription.

    rows: with ACK_COLUMNS. storing: how the broker keeps ranges. until_us: as `at_us` above.
    """

    def __init__(
        self, rows: Iterable[Row], storing: Storing, *, until_us: int | None = None
    ) -> None:
        self._storing, kept = storing, storing.batch_index_acks
        self.set_aside = 0  # records that could not be read
        self._acks = of_rows(map(self._counted, rows), until_us=until_us, batch_index_acks=kept)
        self.subscriptions = sorted(self._acks)

    def _counted(self, row: Row) -> Row:
        self.set_aside += row.command == UNPARSED and row.error_code == SET_ASIDE
        return row

    def account(self, key: SubscriptionKey) -> tuple[CursorAccount, list[Biography]]:
        """The account of one subscription: its ranges, and the entries in its holes."""
        return _either(key, self._acks[key], self._storing)


def _is_wanted(key: SubscriptionKey, topics: Sequence[str], subscription: str | None) -> bool:
    of_topic = not topics or any(is_called(key[0], topic) for topic in topics)
    return of_topic and subscription in (None, key[1])


def _in_holes(acks: Acknowledgements) -> list[Biography]:
    """The lives of entries that were sent and lie in holes, the oldest first."""
    ranges = acks.ranges()
    if not ranges:
        return []
    end, after = (ranges[-1].ledger_id, ranges[-1].last), acks.mark_delete or (-1, -1)
    lives = acks.biographies(open_only=True)
    return [each for each in lives if after < (each.ledger_id, each.entry_id) < end]


def _either(
    key: SubscriptionKey, acks: Acknowledgements, storing: Storing
) -> tuple[CursorAccount, list[Biography]]:
    """Whether or not the broker keeps acks of parts of batches, where that is not known."""
    lives = _in_holes(acks)
    account = _account(key, acks, lives, storing)
    if acks.otherwise is None or INDEX_ACKS not in acks.doubts:
        return account, lives
    others = _in_holes(acks.otherwise)
    other = _account(key, acks.otherwise, others, storing)
    merged = {(life.ledger_id, life.entry_id): life for life in (*lives, *others)}
    return _joined(account, other), [merged[position] for position in sorted(merged)]


def _joined(one: CursorAccount, other: CursorAccount) -> CursorAccount:
    """What both say; None where they differ, with least and most beside."""
    assert one.bounds is not None
    assert other.bounds is not None
    same = one.shape == other.shape and one.mark_delete == other.mark_delete
    ahead = [each.forecast for each in (one, other) if each.forecast is not None]
    return replace(
        one,
        mark_delete=_same(one.mark_delete, other.mark_delete),
        ranges=_same(one.ranges, other.ranges),
        acknowledged_entries=_same(one.acknowledged_entries, other.acknowledged_entries),
        shape=one.shape if same else None,
        forecast=RedeliveryForecast(min(f.least for f in ahead), max(f.most for f in ahead)),
        origins=one.origins if same else (),
        bounds=one.bounds.or_else(other.bounds),
    )


def _same(one: T | None, other: T | None) -> T | None:
    return one if one == other else None


def _account(
    key: SubscriptionKey, acks: Acknowledgements, lives: Sequence[Biography], storing: Storing
) -> CursorAccount:
    ranges = acks.ranges()
    written: list[Written] = [(r.ledger_id, r.first - 1, r.ledger_id, r.last) for r in ranges]
    shape = _shape(acks, ranges)
    entries = 0 if shape is None else sum(shape.hole_entries)
    topic, partition = split_partition(key[0])
    return CursorAccount(
        topic=topic,
        partition=partition,
        subscription=key[1],
        type=acks.type,
        durable=None,
        backlog=None,
        mark_delete=acks.mark_delete,
        read_position=None,
        ranges=len(ranges),
        acknowledged_entries=sum(each.entries for each in ranges),
        shape=shape,
        messages=None,
        storing=storing,
        record_bytes=None,
        record_known=False,
        forecast=forecast(written, ranges, storing, is_open=None),
        stood=None,
        pinned=None,
        origins=tuple(_origins(entries, len(lives), acks.type)),
        unknowns=acks.doubts,
        bounds=certain_of(acks, shape),
    )


def _shape(acks: Acknowledgements, ranges: Sequence[Range]) -> Shape | None:
    """The entries behind mark-delete up to the last that was sent or acknowledged."""
    if acks.mark_delete is None:
        return None
    known = [*acks.last_delivered().items(), *((each.ledger_id, each.last) for each in ranges)]
    ends: dict[int, int] = {acks.mark_delete[0]: acks.mark_delete[1] + 1}
    for ledger, entry in known:
        ends[ledger] = max(ends.get(ledger, 0), entry + 1)
    axis = Axis(acks.mark_delete, ends)
    return shape_of(axis, ranges, axis.length)


def _origins(entries: int, sent: int, type_: str | None) -> Iterator[Origin]:
    if sent:
        code = INDIVIDUAL if type_ in SINGLE_ACTIVE else UNACKED
        yield Origin(code, sent, sent, f"{sent} were sent and not acknowledged in this trace")
    if entries > sent:
        rest = entries - sent
        because = "never sent in this trace: withheld, or sent to a consumer not on the tap"
        yield Origin(CANNOT_TELL, rest, rest, because)
