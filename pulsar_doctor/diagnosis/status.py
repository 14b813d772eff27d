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
    unread: int = 0,
    accept_unknown: bool = False,
) -> int:
    """1 where a verdict is as bad as fail_on; else 3 where anything is not known; else 0.

    counts: how many verdicts there are of each status; that there is none is not known either.
    suspected: of how many a stall is likely. unread: what could not be read. accept_unknown: what
    is unknown counts as healthy, what could not be read does not.
    """
    if any(counts.get(status) for status in FAILS[fail_on]):
        return 1
    if fail_on == "suspect" and suspected:
        return 1
    unknown = counts.get("unknown", 0) or not any(counts.values())
    return DoctorError.exit_code if unread or (unknown and not accept_unknown) else 0
