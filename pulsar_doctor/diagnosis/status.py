"""The status of a verdict (stalled, warning, healthy, unknown), and which status fails.

Every subcommand and every format takes its status from here. A finding decides at once. HEALTHY has
to be earned: no check was undecided, no message has rested for longer than its place allows
(`laws.resting`), and the probability of a problem is at most `healthy.problem_at_most`. Anything
else is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from pulsar_doctor.diagnosis.answers import HIDING, Finding, TooProbable, Unknown

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
