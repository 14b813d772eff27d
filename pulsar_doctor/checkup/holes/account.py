"""The acknowledged ranges of one subscription: their number, cost and origin.

Numbers are entries: an entry is one message or one batch. Partially acknowledged batches are in no
range, and nobody tells how many there are; what was acknowledged of them is not counted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.backlog import Backlog
from pulsar_doctor.broker.stats.internal import CursorStats, InternalStats
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.checkup.holes.bounds import Bounds, bounds_of, known_entries, known_ranges
from pulsar_doctor.checkup.holes.origins import Origin, main_origin, origins
from pulsar_doctor.checkup.holes.shape import Pinned, Shape, entries_of, pinned, shape_of
from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.causes import named
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.account import Account, account_of
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.acks.persisting import (
    RECORD_BYTES_MOST,
    RedeliveryForecast,
    Storing,
    forecast,
    record_bytes,
)
from pulsar_doctor.ledger.acks.ranges import Axis, Range
from pulsar_doctor.ledger.acks.written import Written, parse_written
from pulsar_doctor.ledger.topics import AboutSubscription

NEAR = 0.8  # of a limit
NO_STATS = "the subscription's type and counts: there are no stats beside"
NEVER_MOVED = "last_mark_delete_advanced_timestamp_ms"


@dataclass(frozen=True, slots=True)
class CursorAccount(AboutSubscription):
    """One subscription; None: not reported."""

    topic: str
    partition: int | None
    subscription: str
    type: str | None
    durable: bool | None
    backlog: int | None  # the broker's counter
    mark_delete: Position | None
    read_position: Position | None
    ranges: int | None  # as the broker counts them
    acknowledged_entries: int | None
    shape: Shape | None  # None: the entries of a ledger are not known
    messages: Account | None  # where all its messages are, in holes or not; None: not reported
    storing: Storing  # how the broker keeps ranges
    record_bytes: int | None
    record_known: bool  # the record's size is the broker's own number
    forecast: RedeliveryForecast | None
    stood: Age | None  # since mark-delete moved
    pinned: Pinned | None
    origins: tuple[Origin, ...]
    unknowns: tuple[str, ...] = ()  # what is missing, and why
    backlog_by_positions: int | None = None
    backlog_wrong: bool | None = None  # it cannot be right; None: one reading does not show it
    stuck: str | None = None  # what `ack-hole` warns of, where a reading shows it
    # of numbers that are not known, in a trace or where internal stats lack ledgers
    bounds: Bounds | None = None
    incomplete: bool = False  # from a trace that lacks something: nothing is certainly well

    @property
    def holes(self) -> int | None:
        """How many holes there are; None where not reported."""
        if self.shape is not None:
            return len(self.shape.holes)
        return 0 if self.ranges == 0 else None

    @property
    def hole_entries(self) -> int | None:
        """How many entries are in holes; None where not reported."""
        if self.shape is not None:
            return sum(self.shape.hole_entries)
        return 0 if self.ranges == 0 else None

    @property
    def oldest_hole(self) -> tuple[Position, Position] | None:
        """The first and the last entry of the oldest hole; None: no hole, or not reported."""
        first, last = (self.shape and self.shape.oldest) or (None, None)
        if self.shape is None and self.bounds is not None:
            first, last = self.bounds.oldest_hole[0], self.bounds.oldest_hole_end[0]
        return None if first is None or last is None else (first, last)

    @property
    def between(self) -> Bounds:
        """What surely holds of each number; without doubts least and most are the number itself."""
        if self.bounds is not None:
            return self.bounds
        numbers = self.ranges, self.acknowledged_entries, self.holes, self.hole_entries
        known = self.mark_delete, *numbers, *(self.oldest_hole or (None, None))
        return Bounds(*((each, each) for each in known))

    @property
    def has_holes(self) -> bool:
        """Whether there is one for certain."""
        return bool(self.between.holes[0])

    @property
    def urgency(self) -> tuple[bool, int, str]:
        """Orders accounts: warnings first, then most ranges."""
        return self.status == "healthy", -(self.ranges or 0), self.subscription

    @property
    def origin(self) -> str | None:
        """The main one; None where there are no holes."""
        return main_origin(self.origins)

    @property
    def share_of_limit(self) -> float | None:
        """Ranges, as a share of what is persisted; may be above 1."""
        limit = self.storing.limit
        return None if self.ranges is None or limit <= 0 else self.ranges / limit

    @property
    def status(self) -> str:
        """unknown where ranges are not reported; warning where a load forgets, or nearly.

        A warning, too, where the backlog's counter is wrong, and where `stall-check` warns that a
        message is not acknowledged; else unknown where a trace lacks something.
        """
        if self.ranges is None and self.bounds is None and self.durable is not False:
            return "unknown"
        if self.backlog_wrong or self.stuck:
            return "warning"
        ahead = self.forecast is not None and self.forecast.most > 0
        full = (self.record_bytes or 0) >= NEAR * RECORD_BYTES_MOST
        if ahead or full or (self.share_of_limit or 0) >= NEAR:
            return "warning"
        return "unknown" if self.incomplete else "healthy"


def account(observed: Observed, storing: Storing) -> CursorAccount:
    """Reads the last sample of a subscription. Raises InputError where its ranges are none."""
    now, cursor, internal = observed.now, observed.cursor_now, observed.internal
    view = by_stats.subscription_view(observed)
    messages = account_of(view)
    text = None if cursor is None else cursor.individually_deleted_messages
    written = None if text is None else parse_written(text)
    entries = known_entries(internal, cursor, written)
    ranges = known_ranges(internal, entries, written)
    shape = None
    if cursor is not None and internal is not None and ranges is not None:
        shape = _shape(cursor, internal, ranges, entries)
    reported = now.non_contiguous_deleted_messages_ranges_serialized_size
    estimate = None if written is None else record_bytes(written, ranges or (), storing)
    durable = False if observed.persistent is False else observed.durable
    count = _count(observed, written)
    return CursorAccount(
        topic=observed.topic,
        partition=observed.partition,
        subscription=observed.subscription,
        type=observed.type,
        durable=durable,
        backlog=now.msg_backlog,
        mark_delete=None if cursor is None else cursor.mark_delete_position,
        read_position=None if cursor is None else cursor.read_position,
        ranges=count,
        acknowledged_entries=_entries(count, ranges),
        shape=shape,
        messages=messages,
        storing=storing,
        record_bytes=reported or estimate,
        record_known=bool(reported),
        forecast=_forecast(written, ranges, storing, cursor) if durable is not False else None,
        stood=view.since_mark_delete or _since_load(observed),
        pinned=_pinned(shape, cursor, internal),
        origins=() if shape is None else origins(observed, messages, *shape.hole_entries),
        unknowns=tuple(_unknowns(observed, written, shape)),
        backlog_by_positions=observed.backlog.positions,
        backlog_wrong=_backlog_wrong(observed.backlog),
        stuck=stuck_in(view),
        bounds=bounds_of(cursor, ranges) if shape is None else None,
    )


def stuck_in(view: SubscriptionView) -> str | None:
    """The sentence with which `ack-hole` warns of this subscription; None if it does not warn."""
    [cause] = named(["ack-hole"])
    limits = {each.name: each.default for each in cause.thresholds}
    found = cause.check(view, limits)
    warns = (each for each in found if isinstance(each, Finding) and each.severity != "info")
    return next((each.summary for each in warns), None)


def _backlog_wrong(backlog: Backlog) -> bool | None:
    if backlog.wrong:
        return True
    both = backlog.counter is not None and backlog.positions is not None
    return False if both and not backlog.doubtful else None


def _count(observed: Observed, written: Sequence[Written] | None) -> int | None:
    """The ranges that are written; where these are not reported, or cut, the broker's own count."""
    if written is not None:
        return len(written)
    if observed.backlog.empty:
        return 0  # mark-delete is at the end
    return observed.acknowledged_ranges


def _entries(count: int | None, ranges: Sequence[Range] | None) -> int | None:
    if ranges is None:
        return 0 if count == 0 else None
    return sum(each.entries for each in ranges)


def _shape(
    cursor: CursorStats,
    internal: InternalStats,
    ranges: Sequence[Range],
    entries: Mapping[int, int],
) -> Shape | None:
    mark_delete, last = cursor.mark_delete_position, internal.last_confirmed_entry
    if mark_delete is None or last is None:
        return None
    axis, read = Axis(mark_delete, entries), cursor.read_position
    at = None if read is None else axis.distance(*read)
    if at is None:  # the read position may stand behind the last ledger that is known
        at = axis.length if read is not None and read[0] > max(entries, default=-1) else 0
    return shape_of(axis, ranges, at)


def _forecast(
    written: Sequence[Written] | None,
    ranges: Sequence[Range] | None,
    storing: Storing,
    cursor: CursorStats | None,
) -> RedeliveryForecast | None:
    if written is None or ranges is None or cursor is None:
        return None
    is_open = None if cursor.state is None else cursor.state != "NoLedger"
    return forecast(written, ranges, storing, is_open=is_open)


def _since_load(observed: Observed) -> Age | None:
    """At least since the topic was loaded, where mark-delete has not moved since."""
    cursor = observed.cursor_now
    if NEVER_MOVED not in observed.now.never or cursor is None:
        return None
    age = observed.window.last.age(cursor.last_ledger_switch_timestamp_ms)
    return None if age is None else Age(age.ms, False)


def _pinned(
    shape: Shape | None, cursor: CursorStats | None, internal: InternalStats | None
) -> Pinned | None:
    if shape is None or not shape.holes or cursor is None or internal is None:
        return None
    assert cursor.mark_delete_position is not None
    axis, end = Axis(cursor.mark_delete_position, entries_of(internal)), shape.acknowledged[-1][1]
    second = shape.holes[1][0] if len(shape.holes) > 1 else end
    return pinned(internal, axis, (shape.holes[0][0], second, end))


def _unknowns(
    observed: Observed, written: Sequence[Written] | None, shape: Shape | None
) -> list[str]:
    missing: list[str] = []
    if observed.persistent is False:
        return missing
    if observed.internal is None:
        missing.append("positions and ledgers: there are no internal stats")
    elif observed.cursor_now is None:
        missing.append("positions: the internal stats have no such cursor")
    elif written is None:
        missing.append("acknowledged ranges: they are not in the internal stats")
    elif shape is None:
        missing.append("holes: the internal stats do not tell all ledgers")
    if observed.backlog.doubtful:
        missing.append(
            f"the backlog: its counter says {observed.backlog.counter} and the positions "
            f"{observed.backlog.positions}, perhaps of two moments"
        )
    if observed.internal is not None and observed.now.type is None:
        missing.append(NO_STATS)
    return missing
