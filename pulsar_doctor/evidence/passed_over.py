"""Entries of an older epoch that were skipped while later ones were sent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Entries that came in an older epoch only, while later ones have come since.

    first, behind: positions. settled_seconds: since that changed last. late_entries: of an older
    epoch, after the last REDELIVER.
    """

    entries: int
    messages: int
    first: str
    behind: str
    epoch: int | None
    late_entries: int
    settled_seconds: float
