"""The acknowledged ranges and holes after mark-delete, to scale, and the storage that a hole keeps.

Were the oldest hole acknowledged, the ledgers before the next one could be deleted, as far as other
subscriptions and the retention policy allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsar_doctor.broker.stats.internal import InternalStats
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


@dataclass(frozen=True, slots=True)
class Pinned:
    """Bytes of the ledgers that are kept."""

    ledgers: int
    bytes: int  # from the oldest hole on
    without_oldest: int  # what would be left if the oldest hole were acknowledged
    without_any: int  # what would be left if every hole were acknowledged


def entries_of(internal: InternalStats) -> Mapping[int, int]:
    """Entries of each ledger; the one that is written tells 0 of itself."""
    last = internal.last_confirmed_entry
    found = {
        ledger.ledger_id: ledger.entries
        for ledger in internal.ledgers or ()
        if ledger.ledger_id is not None and ledger.entries is not None
    }
    if last is not None and last[0] in found:
        found[last[0]] = max(found[last[0]], last[1] + 1)
    return found


def pinned(internal: InternalStats, axis: Axis, distances: tuple[int, int, int]) -> Pinned | None:
    """distances: of the oldest hole, of the next one, and of the end of all; None: not known."""
    sizes = sizes_of(internal)
    if sizes is None:
        return None
    kept = [_from(sizes, axis.position(distance)) for distance in distances]
    return Pinned(len(kept[0]), *(sum(ledgers) for ledgers in kept))


def _from(sizes: Mapping[int, int], position: tuple[int, int] | None) -> list[int]:
    if position is None:  # behind the last entry: the ledger that is written stays
        return [sizes[max(sizes)]]
    return [size for ledger, size in sizes.items() if ledger >= position[0]]


def sizes_of(internal: InternalStats) -> dict[int, int] | None:
    """Bytes of each ledger; the one that is written has what the others leave of the total."""
    found: dict[int, int] = {}
    for ledger in internal.ledgers or ():
        if ledger.ledger_id is None or ledger.size is None:
            return None
        found[ledger.ledger_id] = ledger.size
    if not found or internal.total_size is None:
        return None
    last = max(found)
    found[last] = max(found[last], internal.total_size - sum(found.values()) + found[last])
    return found
