"""Acknowledged ranges and the holes between them, as the broker writes them.

The broker writes `[(3:4..3:9],(3:11..4:0]]`: each range is open on the left and closed on the
right. A range may begin in one ledger and end in the next; then it holds the rest of the first,
as far as that goes, and the second from its beginning. Here a range is closed on both sides and
lies in one ledger.

Source: ManagedCursorImpl and OpenLongPairRangeSet in the broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

WRITTEN = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


class Range(NamedTuple):
    """Acknowledged entries of one ledger, from `first` to `last`, both included."""

    ledger_id: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        """How many."""
        return self.last - self.first + 1


def parse_ranges(text: str) -> list[Range]:
    """The ranges of `individuallyDeletedMessages`, in the order in which they are written.

    What a range holds of the ledger that it begins in is not written where it ends in another:
    only the part in the latter is returned.
    """
    ranges = []
    for words in WRITTEN.findall(text):
        from_ledger, after, ledger_id, last = map(int, words)
        first = after + 1 if from_ledger == ledger_id else 0
        if last >= first:
            ranges.append(Range(ledger_id, first, last))
    return ranges


def written(ranges: Iterable[Range]) -> str:
    """Ranges as the broker writes them."""
    inner = ",".join(f"({r.ledger_id}:{r.first - 1}..{r.ledger_id}:{r.last}]" for r in ranges)
    return f"[{inner}]"
