"""Fits the weights of clues, and measures how often findings are right."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Collection, Sequence

from pulsar_doctor.diagnosis import fitted as kept
from pulsar_doctor.diagnosis.fitted import UNMEASURED
from pulsar_doctor.diagnosis.fitted import prior as unfitted
from tests.incidents.asking import HYPOTHESES

from .state import Best, State, best, shares_of

EPOCHS, RATE, PRIOR = 12, 0.5, 0.0001
SUREST = 0.99  # no number of states makes it certain
FOLLOWS = 0.4  # of the worth of a root: shares are held against roots
SQUARED = 6.0  # by so much an error of a share counts beside the logarithm of what is named
ENOUGH = 20.0  # states that weigh as much as what all codes have in common

Fitted = dict[str, dict[str, float]]
Certainties = dict[str, dict[float, float]]


def prior() -> Fitted:
    """Before anything is measured each clue weighs the same."""
    return {
        each.code: {"": unfitted(), **dict.fromkeys((*each.speaks_for, *each.against), UNMEASURED)}
        for each in HYPOTHESES
    }


def fitted(states: Sequence[State], seed: int = 1, only: Collection[str] = ()) -> Fitted:
    """Fitted with which true causes have large shares, and errors of shares are small.

    No clue ever weighs below 0.

    A cause that no state has is not fitted: nothing tells when it would be right. only: codes of
    causes, or one clue as CODE.CLUE, where all others keep their weights.
    """
    weights, start = prior(), prior()
    only = frozenset(only or weights)
    weights |= {code: dict(own) for code, own in kept.weights().items() if code not in only}
    squares: dict[tuple[str, str], float] = defaultdict(lambda: 1e-3)
    order, shuffled = [s for s in states if s.groups], random.Random(seed)
    for _ in range(EPOCHS):
        shuffled.shuffle(order)
        for each in order:
            _step(weights, start, squares, each, only)
    known = true_of(states).intersection(each.partition(".")[0] for each in only)
    return {code: own for code, own in weights.items() if code in known}


def stepped(before: Fitted, after: Fitted, share: float) -> Fitted:
    """Weights between these; those of a cause that is not fitted now stay as they were."""
    between = {
        code: {
            key: share * weight + (1 - share) * kept.weight(before.get(code, {}), key)
            for key, weight in own.items()
        }
        for code, own in after.items()
    }
    return {**before, **between}


def true_of(states: Sequence[State]) -> frozenset[str]:
    """Codes of the causes that any of these states has."""
    return frozenset(
        group[0] for each in states for group in each.groups if any(case[0] for case in group[1])
    ).union(*(each.truths for each in states))


def _worth(case: Best, *, roots: bool) -> float:
    """How much it is worth to name it: all for a root, less for what follows from one."""
    if case.root or (case.right and not roots):
        return 1.0
    return FOLLOWS if case.right else 0.0


def _step(
    weights: Fitted,
    start: Fitted,
    squares: dict[tuple[str, str], float],
    each: State,
    only: frozenset[str],
) -> None:
    cases = [best(group, weights) for group in each.groups]
    shares = shares_of(cases)
    # What has all that it may have teaches nothing: the others share the rest.
    most = (*(case.at_most for case in cases), math.inf)
    free = [s if s < m else 0.0 for s, m in zip(shares, most, strict=True)]
    errors = _errors(cases, shares)
    usual = _common(free, errors) / sum(free)
    for group, share, case, error in zip(each.groups, free, cases, errors, strict=False):
        signs, slope = case.signs, share * (error - usual)
        if abs(slope) < 1e-4:
            continue
        own, first = weights[group[0]], start[group[0]]
        for key, sign in (("", 1), *signs):
            if only.isdisjoint((group[0], f"{group[0]}.{key}")):
                continue
            pull = slope * sign + PRIOR * (own[key] - first[key])
            squares[group[0], key] += pull * pull
            own[key] -= RATE * pull / math.sqrt(squares[group[0], key])
            if key and own[key] < 0:
                own[key] = 0.0


def _errors(cases: Sequence[Best], shares: Sequence[float]) -> list[float]:
    """How much worse a larger share of each makes it; the last: of none of these.

    True causes are to be named first, and shares are to be those of roots.
    """
    roots = any(case.root for case in cases)
    worth = [_worth(case, roots=roots) for case in cases]
    worth.append(0.0 if any(worth) else 1.0)
    right = [case.root if roots else case.right for case in cases]
    right.append(not any(case.right for case in cases))
    mass = max(_common(shares, worth), 1e-6)
    return [
        SQUARED * (share - is_right) - named / mass
        for share, is_right, named in zip(shares, right, worth, strict=True)
    ]


def _common(shares: Sequence[float], worth: Sequence[float]) -> float:
    return sum(share * each for share, each in zip(shares, worth, strict=True))


def certainties(states: Sequence[State]) -> Certainties:
    """How often a finding is right, by code and by how sure its rule is; never falling with that.

    Where a code has few states, what all codes have in common weighs in. A cause that no state has
    is not measured.
    """
    known = true_of(states)
    everybody: dict[float, list[int]] = defaultdict(list)
    own: dict[str, dict[float, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in states:
        for code, raw, right, _ in each.findings:
            if code not in known:
                continue
            everybody[raw].append(right)
            own[code][raw].append(right)
    common = {raw: (sum(r) + 1) / (len(r) + 2) for raw, r in everybody.items()}
    return {
        code: _rising(
            {
                raw: ((sum(r) + ENOUGH * common[raw]) / (len(r) + ENOUGH), float(len(r)))
                for raw, r in sorted(by.items())
            }
        )
        for code, by in sorted(own.items())
    }


def _rising(shares: dict[float, tuple[float, float]]) -> dict[float, float]:
    """Neighbours that fall are taken together, weighted by their states."""
    blocks: list[tuple[list[float], float, float]] = []
    for raw, (share, count) in shares.items():
        blocks.append(([raw], share, max(count, 1.0)))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            (those, a, n), (these, b, m) = blocks[-2:]
            blocks[-2:] = [(those + these, (a * n + b * m) / (n + m), n + m)]
    return {raw: min(SUREST, round(share, 2)) for raws, share, _ in blocks for raw in raws}
