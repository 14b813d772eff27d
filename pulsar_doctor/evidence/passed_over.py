"""Entries of an older epoch that were skipped while later ones were sent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Entries that came in an older epoch only, while later ones have come since."""

    entries: int
    messages: int
    first: str  # a position
    behind: str  # a position
    epoch: int | None
    late_entries: int  # of an older epoch, after the last REDELIVER
    settled_seconds: float  # since that changed last
