"""One state, asked in one way: what is said of it, and what of that is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_doctor.diagnosis.answers import HEALTHY
from pulsar_doctor.diagnosis.fitted import Weights
from pulsar_doctor.diagnosis.laws import resting
from pulsar_doctor.diagnosis.ranking import cases_of, hidden_cases, limited, total_of
from pulsar_doctor.diagnosis.weighing import hypotheses_of, weighed_by, well_at_most
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.incidents.asking import LIMITS, RULES
from tests.incidents.causes import Cause, is_right

True_ = tuple[frozenset[Cause], frozenset[Cause]]  # every cause, and the roots
Signs = tuple[tuple[str, int], ...]
# Whether it is right, and a root; the share that it has at most; its clues.
Case = tuple[bool, bool, float, Signs]
Group = tuple[str, list[Case]]  # by code


@dataclass(slots=True)
class State:
    """One state, asked in one way. half: 0 fits, 1 judges. groups: what nothing excludes.

    status: by the checks alone. forbidden: whether a fact forbids that it is called healthy.

    findings: code, grade, whether it is right, severity. A case is right where its cause is true,
    and root where it is not only what follows from another cause. truths: codes of the roots.
    """

    half: int
    kind: str
    asked: str
    status: str
    forbidden: bool
    healthy: bool
    ill: bool
    findings: Sequence[tuple[str, float, bool, str]]
    groups: list[Group]
    truths: frozenset[str]


def state(
    half: int,
    kind: str,
    asked: str,
    seen: SubscriptionView,
    true: True_,
) -> State:
    """Messages of it, and what of that is right. true: every cause, and the roots."""
    every, root = true
    said, undecided = weighed_by(seen, RULES, LIMITS)
    found = [
        (f.code, f.confidence, is_right((f.code, f.consumer), every), f.severity)
        for f in said.findings
        if f.severity != "info"
    ]
    groups: list[Group] = []
    facts = tuple(resting(seen, LIMITS[HEALTHY]))
    well = well_at_most(seen, said, facts)
    if said.status == "healthy":
        known = hypotheses_of(RULES, seen.sources)
        rest = {fact.consumer for fact in facts}
        left = hidden_cases(seen, known, {finding.code for finding in said.findings}, rest)
    else:
        asked_for = undecided or said.status == "unknown"
        left = cases_of(seen, hypotheses_of(RULES), undecided) if asked_for else []
    for group in left:
        code = group[0].of.code
        cases = []
        for case in group:
            cause = (code, case.consumer.label if case.consumer else None)
            right, at_root = is_right(cause, every), is_right(cause, root)
            cases.append((right, at_root, case.at_most(well), tuple(case.signs)))
        groups.append((code, cases))
    healthy = (HEALTHY, None) in every
    ill = any(code != HEALTHY for code, _ in every)
    truths = frozenset(code for code, _ in root or every)
    return State(half, kind, asked, said.status, bool(facts), healthy, ill, found, groups, truths)


@dataclass(frozen=True, slots=True)
class Best:
    """Of one hypothesis the case with the highest sum."""

    total: float
    right: bool
    root: bool
    at_most: float
    signs: Signs


def best(group: Group, weights: Weights) -> Best:
    """The case that stands for its hypothesis."""
    code, cases = group
    return max((Best(total_of(code, case[-1], weights), *case) for case in cases), key=_total)


def shares_of(cases: Sequence[Best]) -> list[float]:
    """As the program says them; the last: of none of these."""
    return limited([case.total for case in cases], [case.at_most for case in cases])


def _total(each: Best) -> float:
    return each.total
