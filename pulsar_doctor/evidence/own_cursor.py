"""The progress of a cursor of the broker itself: a replicator's, or compaction's."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCursor:
    """One such cursor. None is not reported everywhere."""

    kind: str  # as in `CursorOwner`, like `of`
    of: str | None
    position: str | None = None
    waiting: int | None = None  # entries that it has to do yet
    waits_throughout: bool = False  # whether some waited in every sample
    moved: bool | None = None  # whether it did any within the window
    watched_seconds: float | None = None
    connected: bool | None = None  # of a replicator, now
    apart_throughout: bool = False  # whether a replicator was not connected in any sample
    msg_rate_out: float | None = None  # messages a second in the broker's last full minute
    succeeded: Age | None = None  # since the last compaction that succeeded
    failed: Age | None = None  # since the last one that failed
