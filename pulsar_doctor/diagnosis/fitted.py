"""Fitted numbers: weights of clues and certainty (`python -m bench.calibration --write`).

They are data (fitted.json). A cause that is not fitted yet has the prior, a clue that no state had
weighs UNMEASURED, and a finding that was never measured keeps its own grade: adding a cause needs
no calibration run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("fitted.json")
UNMEASURED = 1.0  # the weight of a clue that no state had

Weights = Mapping[str, Mapping[str, float]]  # by code and clue, natural log of odds; "": no clue
Certainty = Mapping[str, Mapping[float, float]]  # by code and grade: the share that was right


@cache
def prior() -> float:
    """The weight without any clue of a cause that is not fitted."""
    return float(_read()["prior"])


@cache
def weights() -> Weights:
    """How much each clue says, by code; "" is the weight without any clue."""
    return {code: dict(own) for code, own in _read()["weights"].items()}


@cache
def certainty() -> Certainty:
    """How often a finding of this code and grade was right."""
    measured = _read()["certainty"].items()
    return {code: {float(grade): share for grade, share in by.items()} for code, by in measured}


def weight(own: Mapping[str, float], clue: str) -> float:
    """The weight of one clue of a cause; "": without any clue. own: of that cause."""
    return own.get(clue, UNMEASURED if clue else prior())


def sure(code: str, grade: float) -> float:
    """The share of such findings that were right; the grade itself where nothing was measured, or
    only higher grades."""
    known = certainty().get(code)
    if not known or grade < min(known):
        return grade
    return known[min(known, key=lambda each: (abs(each - grade), each))]


@cache
def _read() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))
