"""The gap before acknowledged ranges: the first entry that is not acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.broker.stats.age import Age


@dataclass(frozen=True, slots=True)
class AckHole:
    """A gap in what is acknowledged, or none.

    ranges: of acknowledged entries after it, at least. stood: since mark-delete stopped before it.
    proven: whether acks of later entries are known to have passed it. acked: since the last ack of
    anybody. acks_lasted_ms: from where mark-delete stopped to that ack. all_acked_in: seconds in
    which all that is acknowledged after it can have been, by the pace of the window.
    passed: later messages, or entries, that whoever holds the first one has acknowledged since, at
    least; held: messages that they hold, at most. passed_in_window: whether acks came in it.
    moved: whether mark-delete did. delayed: whether messages that are not due make gaps, too.
    markers: whether a replicator may leave ranges.
    position: of mark-delete, as a text. behind: entries from the first that is not acknowledged to
    where the broker has read, acknowledged or not.
    """

    ranges: int
    stood: Age | None
    proven: bool = False
    acked: Age | None = None
    acks_lasted_ms: int | None = None
    all_acked_in: float | None = None
    passed: int = 0
    held: int = 0
    passed_in_window: bool = False
    moved: bool = False
    delayed: bool = False
    markers: bool = False
    position: str | None = None
    backlog_bytes: int | None = None
    behind: int | None = None


@dataclass(frozen=True, slots=True)
class AckedRanges:
    """Ranges of acknowledged entries, with gaps between them.

    limit: managedLedgerMaxUnackedRangesToPersist; None where it is not told. size_bytes: of the
    record in which the broker wrote them down, likewise. by_default: the limit that brokers of this
    version have where nothing else is set; None where the version is not told.
    """

    count: int
    limit: int | None
    size_bytes: int | None
    by_default: int | None = None
