"""There are more acknowledged ranges than the broker persists; a load forgets the rest.

You see: `nonContiguousDeletedMessagesRanges` 10021, above managedLedgerMaxUnackedRangesToPersist.

Acknowledgements out of order leave ranges of acknowledged entries with gaps (holes) between them.
Delays, slow keys and single acknowledgements on Exclusive make many. The broker persists only so
many ranges, the oldest first, and one more than its limit. The others are in its memory alone: an
unload of the topic or a restart of its broker delivers their entries a second time. Nothing stops,
unless dispatcherPauseOnAckStatePersistentEnabled is on: see `broker-read-stuck`.

It is a warning above the limit that the cluster reports, or else above the default of its version
(10,000; from 5.0 on 200,000), or above `persisted_ranges` if you set it. Each range beyond has an
entry or more, so at least as many come again. Stored as bit arrays
(managedLedgerPersistIndividualAckAsLongArray, since 4.1) they make a record that grows with the
span of the backlog, and the limit means less. About 200,000 ranges make 5 MB, the largest record of
a bookie.

Source: ManagedCursorImpl.buildIndividualDeletedMessageRanges (it stops after limit + 1, seen on
4.0.8); SubscriptionStats.nonContiguousDeletedMessagesRanges.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import holes
from pulsar_doctor.diagnosis.actions.consumers import NO_MORE
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, NotReported
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.probes import read_positions
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.ledger.defaults import RANGES, by_default
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.sentences import say

DEFAULT = float(by_default(RANGES, None))

THRESHOLDS = (
    Threshold("persisted_ranges", DEFAULT, "ranges", "managedLedgerMaxUnackedRangesToPersist"),
)
NEEDS = frozenset({STATS})
SYMPTOM = "again and again"
REMEDY = (
    "Do not unload or restart before the gaps are acknowledged. Find out what keeps them open (a "
    "slow key, delays, single acks on Exclusive where a cumulative one would do), or raise "
    "managedLedgerMaxUnackedRangesToPersist in broker.conf, or store bit arrays "
    "(managedLedgerPersistIndividualAckAsLongArray, 4.1)."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where ranges would be lost at an unload."""
    ranges = view.ranges
    if view.durable is False or view.persistent is False:
        return
    if ranges is None:
        yield NotReported("this source does not count acknowledged ranges")
        return
    limit = _limit(ranges, limits)
    if ranges.count > limit + 1:
        yield _finding(view, ranges, limit)


def _limit(ranges: AckedRanges, limits: Limits) -> int:
    chosen = limits["persisted_ranges"]
    known = ranges.known_limit
    return int(chosen) if known is None or chosen != DEFAULT else known


def _finding(view: SubscriptionView, ranges: AckedRanges, limit: int) -> Finding:
    again = ranges.count - limit - 1
    return Finding(
        severity="warning",
        confidence=0.9,
        summary=say(
            "when the topic is loaded next, at least {} delivered again: there are "
            f"{{:acknowledged ranges}}, and the broker persists only {{}}{_assumed(ranges, limit)}",
            say("{:acknowledged entry} is" if again == 1 else "{:acknowledged entries} are", again),
            *(ranges.count, limit + 1),
        ),
        evidence=(
            Measure("non_contiguous_deleted_messages_ranges", ranges.count, "ranges"),
            Measure("max_unacked_ranges_to_persist", limit, "ranges"),
            Measure("delivered_again_least", again, "entries"),
            backlog_measure(view),
            Measure(
                "non_contiguous_deleted_messages_ranges_serialized_size",
                ranges.size_bytes or None,
                "bytes",
            ),
        ),
        actions=tuple(_actions(view, ranges)),
    )


def _assumed(ranges: AckedRanges, limit: int) -> str:
    """Names the source of a limit that the configuration does not tell."""
    if ranges.limit is not None or limit not in (ranges.by_default, int(DEFAULT)):
        return ""
    default = "by default" if ranges.by_default is None else "by this version's default"
    return f" {default} (its configuration was not read)"


def _actions(view: SubscriptionView, ranges: AckedRanges) -> Iterator[Action]:
    yield Action(
        "now",
        "Do not unload the topic or restart its broker before the gaps are acknowledged; find out "
        "where they come from.",
        command=holes(view),
        check=check_line(view, "fewer acknowledged ranges"),
    )
    yield Action(
        "later",
        "Let brokers keep more: managedLedgerMaxUnackedRangesToPersist in broker.conf, at "
        f"{2 * ranges.count} or more.",
        side_effect="the brokers have to be restarted, which forgets the ranges over today's "
        "limit once; records in the cursor ledgers become larger",
        undo="set it back, and restart the brokers",
        check=check_line(view, NO_MORE),
    )


FEW_RANGES = 1000  # a tenth of the broker's own limit, where nobody reported what it is set to


def _excluded(view: SubscriptionView) -> str | None:
    """Far fewer ranges than the limit."""
    ranges = view.ranges
    limit = ranges and ranges.known_limit
    if ranges is None or ranges.count > (limit / 2 if limit else FEW_RANGES):
        return None
    return f"only {many(ranges.count, 'acknowledged range')}"


HYPOTHESIS = Hypothesis(
    "more acknowledged ranges than the broker writes down",
    speaks_for=("undecided", "many_ranges"),
    excluded=(_excluded,),
    missing=("acknowledged_ranges",),
    stalls=False,
    found_at_once=True,
    probe=read_positions,
)
