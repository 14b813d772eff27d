"""The progress of a cursor of the broker itself: a replicator's, or compaction's."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCursor:
    """One such cursor. None is "not told" everywhere.

    kind, of: as in `CursorOwner`. waiting: entries that it has to do yet; waits_throughout: whether
    some waited in every sample. moved: whether it did any within the window.
    connected, apart_throughout: of a replicator, now, and whether it was not connected in any
    sample. msg_rate_out: messages a second, of the broker's last full minute.
    succeeded, failed: since the last compaction that ended so, since the topic was loaded.
    """

    kind: str
    of: str | None
    position: str | None = None
    waiting: int | None = None
    waits_throughout: bool = False
    moved: bool | None = None
    watched_seconds: float | None = None
    connected: bool | None = None
    apart_throughout: bool = False
    msg_rate_out: float | None = None
    succeeded: Age | None = None
    failed: Age | None = None
