"""One reported number with its unit, and the names of the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BoundSide = Literal["at least", "at most"]

WIRE = "a trace of the wire"
STATS = "the broker's stats"
PROCESS = "a look into its process"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that a finding rests on. bound: where it is only known from one side."""

    name: str
    value: int | float | str | None
    unit: str
    bound: BoundSide | None = None
