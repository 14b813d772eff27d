"""The gap before acknowledged ranges: the first entry that is not acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age


@dataclass(frozen=True, slots=True)
class AckHole:
    """A gap in what is acknowledged, or none."""

    ranges: int  # of acknowledged entries after it, at least
    stood: Age | None  # since mark-delete stopped before it
    proven: bool = False  # whether acks of later entries are known to have passed it
    acked: Age | None = None  # since the last ack of anybody
    acks_lasted_ms: int | None = None  # from where mark-delete stopped to that ack
    # Seconds for all that is acknowledged after it, at most, by the pace of the window.
    all_acked_in: float | None = None
    # Later messages or entries that who holds the first one acknowledged since, at least.
    passed: int = 0
    held: int = 0  # messages that they hold, at most
    left_out: int = 0  # entries that are not acknowledged while later ones are, at least
    passed_in_window: bool = False  # whether such acks came in the window
    moved: bool = False  # whether mark-delete moved in the window
    delayed: bool = False  # whether messages that are not due make gaps, too
    markers: bool = False  # whether a replicator may leave ranges
    position: str | None = None  # of mark-delete
    backlog_bytes: int | None = None
    # Entries from the first unacknowledged one to where the broker has read, acknowledged or not.
    behind: int | None = None
    # Without ranges: whether many batches were taken since then and none of them is finished.
    in_part: bool = False
    # Unacknowledged entries that were sent to nobody, since compaction replaced them, at least.
    compacted: int = 0


@dataclass(frozen=True, slots=True)
class AckedRanges:
    """Ranges of acknowledged entries, with gaps between them."""

    count: int
    limit: int | None  # managedLedgerMaxUnackedRangesToPersist; None: not reported
    size_bytes: int | None  # of the record in which the broker wrote them down
    # The limit of brokers of this version where nothing is set; None: version not known.
    by_default: int | None = None
    # How many more they became in the window while mark-delete stood, which makes none fewer; None:
    # it moved, or not known.
    grew: int | None = None

    @property
    def known_limit(self) -> int | None:
        """What is set, else what brokers of this version do; None: not known."""
        return self.by_default if self.limit is None else self.limit

    @property
    def over(self) -> bool:
        """Whether they are known to be more than the limit."""
        return self.known_limit is not None and self.count > self.known_limit
