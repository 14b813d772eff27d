"""The status of a verdict (stalled, warning, healthy, unknown), and the exit code of all.

Every subcommand and every format takes its status and its exit code from here. A finding decides at
once. HEALTHY has to be earned: no check was undecided, no message has rested for longer than its
place allows (`laws.resting`), and the probability of a problem is at most
`healthy.problem_at_most`. Anything else is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from pulsar_doctor.diagnosis.answers import HIDING, Finding, TooProbable, Unknown
from pulsar_doctor.errors import DoctorError

Status = Literal["stalled", "warning", "healthy", "unknown"]
FailOn = Literal["stalled", "suspect", "warning", "never"]
# Unknown verdicts that count as healthy: each, or those of readers that only stand still.
AcceptUnknown = Literal["all", "readers"]
FAILS: Mapping[FailOn, frozenset[Status]] = {
    "stalled": frozenset({"stalled"}),
    "suspect": frozenset({"stalled"}),
    "warning": frozenset({"stalled", "warning"}),
    "never": frozenset(),
}


def status_of(findings: Sequence[Finding], doubts: Collection[Unknown]) -> Status:
    """The worst finding decides; without one, doubts make it unknown. findings: worst first.

    A warning does not decide where a stall may hide behind it.
    """
    worst = findings[0].severity if findings else "info"
    hidden = worst == "warning" and any(isinstance(doubt, HIDING) for doubt in doubts)
    if worst != "info" and not hidden:
        return worst
    return "unknown" if doubts else "healthy"


def doubts_by_odds(problem: float, at_most: float, culprit: str | None) -> Iterator[Unknown]:
    """Why it is not healthy, where a problem is more probable than healthy allows.

    culprit: the label of the consumer that the likeliest problem concerns.
    """
    if problem > at_most:
        yield TooProbable(
            f"the probability of a problem is {problem:.0%}, and healthy allows {at_most:.0%}",
            culprit,
        )


def exit_code(
    counts: Mapping[Status, int],
    fail_on: FailOn = "stalled",
    *,
    suspected: int = 0,
    not_known: int = 0,
) -> int:
    """1 where a verdict is as bad as fail_on; else 3 where anything is not known; else 0.

    counts: how many verdicts there are of each status. suspected: of how many a stall is likely.
    not_known: verdicts that nobody accepts, and what could not be read.
    """
    if any(counts.get(status) for status in FAILS[fail_on]):
        return 1
    if fail_on == "suspect" and suspected:
        return 1
    return DoctorError.exit_code if not_known else 0


def not_accepted(counts: Mapping[Status, int], accept: AcceptUnknown | None, readers: int) -> int:
    """How many unknown verdicts nobody accepts; that nothing was judged counts as one.

    readers: of how many verdicts only a reader's standstill is the reason.
    """
    if accept == "all":
        return 0
    unknown = counts.get("unknown", 0) if any(counts.values()) else 1
    return unknown - (readers if accept == "readers" else 0)
