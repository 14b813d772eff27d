"""A consumer holds messages and acknowledges nothing, though it has permits left.

Its receiver queue is not full, so permits are not what is missing: the broker has sent all there
is, and the application neither acknowledges nor asks for more. It hangs, forgets to acknowledge, or
works longer on one message than `silent_for`; from outside these look the same, so it is a warning.
Producers go on, and nothing fails until the queue is full.

The rule looks for a consumer with permits that holds messages, while nothing is left to send, and
of which neither an ack nor a FLOW nor a delivery has come for `silent_for`. Readers, other
non-durable subscriptions and standbys are not judged. On Exclusive and Failover what is held is
known from the internal stats only.

Source: Consumer.messageAcked and flowPermits in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis import (
    STATS,
    Evidence,
    Finding,
    Limits,
    Measure,
    Outcome,
    Threshold,
    found,
)
from pulsar_doctor.durations import duration
from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.starvation import quiet_is_fine
from pulsar_doctor.stats.observed import SINGLE_ACTIVE, Observed

THRESHOLDS = (Threshold("silent_for", 300.0, "seconds", "a shorter silence of a consumer is work"),)
NEEDS = frozenset({STATS})
EXPLAINS = frozenset({"ack-hole"})
REMEDY = (
    "See whether this application hangs (a thread dump) or does not acknowledge what it has "
    "finished; closing it gives its messages to another consumer."
)


def check(evidence: Evidence, limits: Limits) -> Outcome:
    """Found for each consumer that holds messages in silence."""
    assert evidence.stats is not None
    return found(_by_stats(evidence.stats, limits))


def _by_stats(observed: Observed, limits: Limits) -> Iterator[Finding]:
    left = observed.left
    if quiet_is_fine(observed) or left is None or left.most > 0:
        return
    for standing in standings(observed):
        held, silence = _held(standing), standing.silence
        permits = standing.permits
        if not held or permits is None or permits <= 0 or not standing.active or standing.moved:
            continue
        if silence is not None and silence.ms >= limits["silent_for"] * 1000:
            yield _finding(standing.label, held, permits, silence.ms / 1000)


def _held(standing: Standing) -> int | None:
    """Messages that it holds; entries on Exclusive and Failover, at least so many messages."""
    if standing.observed.type not in SINGLE_ACTIVE:
        return standing.unacked
    held = standing.observed.held
    return None if held is None else held.least


def _finding(label: str, held: int, permits: int, silent: float) -> Finding:
    return Finding(
        code="not-acknowledging",
        severity="warning",
        confidence=0.6,
        consumer=label,
        summary=(
            f"{label} holds {held} messages or more and has acknowledged nothing for "
            f"{duration(silent)}; {permits} permits are left, and nothing is left to send"
        ),
        evidence=(
            Measure("available_permits", permits, "permits"),
            Measure("held_least", held, "messages"),
            Measure("silent_for", round(silent, 3), "seconds"),
        ),
        remedy=REMEDY,
    )
