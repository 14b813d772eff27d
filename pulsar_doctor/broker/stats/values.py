"""Basic values of the stats: positions and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

Position = tuple[int, int]  # ledger, entry; entry -1 is "before the first"
HashRange = tuple[int, int]  # the first and the last hash
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def latest(*moments: int | None) -> int | None:
    """The last of these moments; None where none of them is known."""
    return max((moment for moment in moments if moment is not None), default=None)


@lru_cache(maxsize=10_000)  # of each consumer it is wanted many times
def epoch_ms(text: str | None) -> int | None:
    """Epoch milliseconds of an ISO 8601 time with its zone; None where it tells no moment."""
    try:
        moment = datetime.fromisoformat(text or "")
        return (moment - EPOCH) // MILLISECOND if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
