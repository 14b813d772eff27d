"""How many ranges of acknowledged entries lie behind mark-delete, and how many are written down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AckedRanges:
    """Ranges of acknowledged entries, with gaps between them.

    limit: managedLedgerMaxUnackedRangesToPersist; None where it is not told. size_bytes: of the
    record in which the broker wrote them down, likewise.
    """

    count: int
    limit: int | None
    size_bytes: int | None
