"""Messages of an older epoch that a consumer was sent while later ones had come."""

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
