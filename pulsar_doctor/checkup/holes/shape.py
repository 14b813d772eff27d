"""The acknowledged ranges and holes after mark-delete, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.ledger.acks.ranges import Axis, Range, gaps

Span = tuple[int, int]  # distances behind mark-delete: from, to behind


@dataclass(frozen=True, slots=True)
class Shape:
    """The entries behind mark-delete, as distances from it."""

    acknowledged: Sequence[Span]  # in order, apart
    holes: Sequence[Span]  # in order, apart
    read: int  # up to where the broker has read
    length: int  # to the last entry
    first: Position | None  # position at distance 0
    last: Position | None  # position of the last entry
    # first and last position of the first hole
    oldest: tuple[Position | None, Position | None] | None

    @property
    def hole_entries(self) -> Span:
        """In holes: read, and at or behind the read position."""
        read = sum(max(0, min(end, self.read) - begin) for begin, end in self.holes)
        return read, sum(end - begin for begin, end in self.holes) - read


def shape_of(axis: Axis, ranges: Sequence[Range], read: int) -> Shape | None:
    """read: distance of the read position. None where a range is in a ledger that is not known."""
    spans = axis.spans(ranges)
    if spans is None:
        return None
    length, holes = max(axis.length, spans[-1][1] if spans else 0), gaps(spans)
    oldest = (axis.position(holes[0][0]), axis.position(holes[0][1] - 1)) if holes else None
    return Shape(
        spans,
        holes,
        read=min(max(0, read), length),
        length=length,
        first=axis.position(0),
        last=axis.position(length - 1),
        oldest=oldest,
    )
