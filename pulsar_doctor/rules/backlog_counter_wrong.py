"""The broker's counter of the backlog is wrong: it does not tell how much is not acknowledged.

`msgBacklog` is counted (entries added less entries consumed), not measured, and nothing mends the
counter as long as the topic stays loaded. A seek back after single acknowledgements makes it too
low: the broker forgets these, and the counter keeps them. So a subscription can tell a backlog of 0
while messages wait, or a backlog where everything is acknowledged. Alarms, quotas and autoscalers
that read it are misled by it; the messages themselves are safe.

What is right is told by positions: the entries from mark-delete to the last one, less those in
acknowledged ranges (`pulsar-admin topics stats --get-precise-backlog` tells that number). The rule
speaks where the two cannot be reconciled: a counter below 0 in every sample, a counter of 0 beside
acknowledged ranges in every sample (before a range lies an entry that is not acknowledged), or a
difference of `least` entries or more that is larger, in two samples or more with internal stats,
than what moved from one of them to the next. Both count markers and delayed messages, so these make
no difference. All other rules go by the positions then.

Readers, other non-durable subscriptions and the cursor of compaction are not judged. A counter that
fell below 0 and that the broker replaces by the right number is not told either.

Source: ManagedCursorImpl.getNumberOfEntriesInBacklog and internalResetCursor; apache/pulsar #5202,
#25047.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.consumers import full_name
from pulsar_doctor.diagnosis import (
    CLEAR,
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    NotTold,
    Outcome,
    Threshold,
    found,
)
from pulsar_doctor.stats.backlog import Backlog
from pulsar_doctor.stats.observed import COMPACTION, Observed

THRESHOLDS = (Threshold("least", 1.0, "entries", "a smaller difference is not told"),)
NEEDS = frozenset({STATS})
EXPLAINS: frozenset[str] = frozenset()
REMEDY = (
    "Unload the topic (`pulsar-admin topics unload {topic}`): the counter is computed anew when it "
    "is loaded. All its consumers and producers reconnect, and what was sent and not acknowledged "
    "is sent again. Until then ask for the precise backlog (--get-precise-backlog)."
)
SURE = {1: 0.6, 2: 0.8}  # by samples that show it; with more of them it is certain


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for a subscription whose counter and positions cannot both be right."""
    observed = evidence.stats
    assert observed is not None
    if observed.now.is_durable is False or observed.subscription == COMPACTION:
        return CLEAR
    return found(_answers(observed, limits))


def _answers(observed: Observed, limits: Limits) -> Iterator[Finding | NotTold]:
    backlog = observed.backlog
    if backlog.wrong and _difference(backlog) >= limits["least"]:
        yield _finding(observed)
    elif observed.one_sample and backlog.doubtful and _difference(backlog) >= limits["least"]:
        yield NotTold(
            f"the backlog's counter says {backlog.counter} and the positions {backlog.positions}; "
            "one sample does not show whether it is wrong, or was read at another moment"
        )


def _difference(backlog: Backlog) -> float:
    """How far the counter is off; infinite where nothing tells what is right."""
    if backlog.counter is None or backlog.positions is None:
        return float("inf")
    return abs(backlog.counter - backlog.positions)


def _finding(observed: Observed) -> Finding:
    backlog, ranges = observed.backlog, observed.acknowledged_ranges
    named = observed.persistent is not None
    topic = full_name(observed.topic, observed.partition) if named else "TOPIC"
    return Finding(
        code="backlog-counter-wrong",
        severity="warning",
        confidence=SURE.get(backlog.shown_wrong, 0.95),
        consumer=None,
        summary=(
            f"the broker's counter tells a backlog of {backlog.counter} entries, "
            f"{_really(observed)}"
        ),
        evidence=(
            Measure("msg_backlog", backlog.counter, "entries"),
            Measure("backlog_by_positions", backlog.positions, "entries"),
            Measure("non_contiguous_deleted_messages_ranges", ranges, "ranges"),
            Measure("samples", backlog.shown_wrong, "samples"),
        ),
        remedy=REMEDY.format(topic=topic),
    )


def _really(observed: Observed) -> str:
    backlog, ranges = observed.backlog, observed.acknowledged_ranges
    if backlog.positions is not None:
        return f"and by the positions {backlog.positions} are not acknowledged"
    if ranges:
        return f"and {ranges} acknowledged ranges lie behind entries that are not acknowledged"
    return "which cannot be"
