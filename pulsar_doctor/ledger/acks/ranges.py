"""Acknowledged ranges and the holes between them, as the broker writes them.

The broker writes `[(3:4..3:9],(3:11..4:0]]`: each range is open on the left and closed on the
right. A range may begin in one ledger and end in a later one (a broker that keeps its ranges in
Guava's set, managedLedgerUnackedRangesOpenCacheSetEnabled=false); it then holds the rest of the
first, all ledgers in between, and the last up to its end. Here a range is closed on both sides and
lies in one ledger; what a broker wrote as one is a `Written` (written.py).

A hole is a gap that ends before an acknowledged entry. What lies behind the last range is not
acknowledged either, but it is no hole.

Source: ManagedCursorImpl, OpenLongPairRangeSet and LongPairRangeSet.DefaultRangeSet in the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pulsar_doctor.ledger.acks.written import Written


class Range(NamedTuple):
    """Entries of one ledger, from `first` to `last`, both included."""

    ledger_id: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        """How many."""
        return self.last - self.first + 1


def ranges_of(written: Iterable[Written], entries: Mapping[int, int] | None = None) -> list[Range]:
    """The same, cut at the ends of ledgers. entries: how many each ledger holds, where known.

    Of a ledger that is not known, only what lies at the end of a range is known: a range that ends
    elsewhere may hold more of it.
    """
    ranges = []
    for ledger_id, after, end, last in written:
        if ledger_id == end:
            if last > after:
                ranges.append(Range(end, after + 1, last))
        else:
            ranges += _over_ledgers((ledger_id, after, end, last), entries or {})
    return ranges


def _over_ledgers(written: Written, entries: Mapping[int, int]) -> Iterator[Range]:
    begin, after, end, last = written
    for ledger in sorted(ledger for ledger in entries if begin <= ledger < end):
        first = after + 1 if ledger == begin else 0
        if first < entries[ledger]:
            yield Range(ledger, first, entries[ledger] - 1)
    if last >= 0:
        yield Range(end, 0, last)


def written(ranges: Iterable[Range]) -> str:
    """Ranges as the broker writes them."""
    inner = ",".join(f"({r.ledger_id}:{r.first - 1}..{r.ledger_id}:{r.last}]" for r in ranges)
    return f"[{inner}]"


class Axis:
    """Positions as distances: entries behind mark-delete, over the ledgers that hold them.

    entries: how many each ledger holds. Positions in other ledgers have no distance.
    """

    def __init__(self, mark_delete: tuple[int, int], entries: Mapping[int, int]) -> None:
        self._starts: dict[int, int] = {}
        at = -1 - mark_delete[1] if mark_delete[0] in entries else 0
        for ledger in sorted(ledger for ledger in entries if ledger >= mark_delete[0]):
            self._starts[ledger] = at
            at += entries[ledger]
        self.length = max(0, at)

    def distance(self, ledger_id: int, entry: int) -> int | None:
        """The distance of an entry: 0 is the first one behind mark-delete. None: it has none."""
        start = self._starts.get(ledger_id)
        return None if start is None else start + entry

    def spans(self, ranges: Sequence[Range]) -> list[tuple[int, int]] | None:
        """(begin, behind the end) of ranges, joined over ends of ledgers; None: unknown ledger."""
        joined: list[tuple[int, int]] = []
        for ledger_id, first, last in ranges:
            start = self._starts.get(ledger_id)
            if start is None:
                return None
            begin, end = max(0, start + first), start + last + 1
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            elif end > begin:
                joined.append((begin, end))
        return joined

    def position(self, distance: int) -> tuple[int, int] | None:
        """The entry at a distance."""
        within = [ledger for ledger, start in self._starts.items() if start <= distance]
        if not within or not 0 <= distance < self.length:
            return None
        return within[-1], distance - self._starts[within[-1]]


def gaps(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The holes between mark-delete and the last of these spans; entries: as in `ranges_of`."""
    ends = [0, *(end for _, end in spans)]
    return [
        (before, begin) for before, (begin, _) in zip(ends, spans, strict=False) if begin > before
    ]
