"""There are more acknowledged ranges than the broker persists; the rest is forgotten at a load.

Acknowledgements out of order leave ranges of acknowledged entries with gaps (holes) between them.
The broker writes down only so many of these ranges, from the oldest on. What lies beyond is known
in its memory alone: when the topic is unloaded, moved, or its broker restarts, those entries come
back as not acknowledged and are delivered a second time. Nothing stands still by this.

The rule compares the number of ranges with the cluster's managedLedgerMaxUnackedRangesToPersist
where it is told, otherwise with `persisted_ranges`; a value of it that was set always holds. The
broker keeps one range more than that. Each range beyond holds at least one entry, so the number
told is the least that comes again, and it holds for an orderly unload; after a crash it is more.

Where the ranges are stored as bit arrays (managedLedgerPersistIndividualAckAsLongArray, since 4.1)
the size of the record follows the span of the backlog and the limit means less than it says. About
200,000 ranges make a record of 5 MB, the largest that a bookie takes, whatever the limit is.

The many gaps come from many causes (delays, slow keys, single acknowledgements on Exclusive); a
single message that nobody acknowledges makes one range only, and has a rule of its own.

Source: ManagedCursorImpl.buildIndividualDeletedMessageRanges (it stops after limit + 1, seen on
4.0.8); SubscriptionStats.nonContiguousDeletedMessagesRanges.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis import (
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Threshold,
    backlog_measure,
    found,
)
from pulsar_doctor.stats.observed import Observed

DEFAULT = 10_000.0

THRESHOLDS = (
    Threshold("persisted_ranges", DEFAULT, "ranges", "managedLedgerMaxUnackedRangesToPersist"),
)
NEEDS = frozenset({STATS})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "Do not unload or restart before the gaps are acknowledged: see what keeps them (a key that is "
    "slow, delays, single acks on Exclusive where a cumulative one would do), or raise "
    "managedLedgerMaxUnackedRangesToPersist in broker.conf, or store bit arrays "
    "(managedLedgerPersistIndividualAckAsLongArray, 4.1)."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found where ranges would be lost at an unload."""
    assert evidence.stats is not None
    return found(_answers(evidence.stats, limits))


def _answers(observed: Observed, limits: Limits) -> Iterator[Finding | NotTold]:
    ranges = observed.acknowledged_ranges
    if observed.now.is_durable is False or observed.persistent is False:
        return
    if ranges is None:
        yield NotTold("this source does not count acknowledged ranges")
        return
    limit = _limit(observed, limits)
    if ranges > limit + 1:
        yield _finding(observed, ranges, limit)


def _limit(observed: Observed, limits: Limits) -> int:
    told = observed.limits.max_unacked_ranges_to_persist
    chosen = limits["persisted_ranges"]
    return int(chosen) if told is None or chosen != DEFAULT else told


def _finding(observed: Observed, ranges: int, limit: int) -> Finding:
    now = observed.now
    again = ranges - limit - 1
    return Finding(
        code="holes-over-limit",
        severity="warning",
        confidence=0.9,
        consumer=None,
        summary=(
            f"{ranges} acknowledged ranges, of which the broker persists {limit + 1}: at the next "
            f"unload at least {again} acknowledged {'entry is' if again == 1 else 'entries are'} "
            "delivered again"
        ),
        evidence=(
            Measure("non_contiguous_deleted_messages_ranges", ranges, "ranges"),
            Measure("max_unacked_ranges_to_persist", limit, "ranges"),
            Measure("delivered_again_least", again, "entries"),
            backlog_measure(observed),
            Measure(
                "non_contiguous_deleted_messages_ranges_serialized_size",
                now.non_contiguous_deleted_messages_ranges_serialized_size or None,
                "bytes",
            ),
        ),
        remedy=REMEDY,
    )
