"""Small charts in a line of text: bars for shares, blocks for numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

NOTHING = " "  # where there is no number
UNKNOWN = "?"  # where there is one, and it is not known
CHART_WIDTH_MOST = 200  # characters; a pipe has no end

Cell = int | str  # a number, NOTHING or UNKNOWN


@dataclass(frozen=True, slots=True)
class ChartSigns:
    """The characters of a chart."""

    levels: str  # the lowest first
    zero: str  # a zero, or the rest of a bar
    at_least: str
    micro: str
    more: str


UNICODE = ChartSigns("▁▂▃▄▅▆▇█", "·", "≥ ", "µs", "…")
ASCII = ChartSigns("_-=+*%#@", ".", ">= ", "us", "...")


def bar(share: float, width: int, signs: ChartSigns) -> str:
    """A share of 1; of what is there, and not all, neither none nor all of the width."""
    share = min(max(share, 0.0), 1.0)
    cells = round(width * share)
    if 0 < share < 1:
        cells = min(max(cells, 1), width - 1)
    return signs.levels[-1] * cells + signs.zero * (width - cells)


def stretch(begins: float, ends: float, width: int, signs: ChartSigns) -> str:
    """From where to where of a line something lasted, both from 0 to 1; at least one sign."""
    first = min(max(int(begins * width), 0), width - 1)
    behind = min(max(ceil(ends * width), first + 1), width)
    filled = behind - first
    return signs.zero * first + signs.levels[-1] * filled + signs.zero * (width - behind)


def blocks(cells: Sequence[Cell], signs: ChartSigns) -> str:
    """A sign for each number, the highest block for the highest; only 0 is drawn as none."""
    most = highest(cells) or 0
    return "".join(cell if isinstance(cell, str) else _level(cell, most, signs) for cell in cells)


def highest(cells: Sequence[Cell]) -> int | None:
    """The highest number that is known; None where none is."""
    return max((cell for cell in cells if isinstance(cell, int)), default=None)


def _level(number: int, most: int, signs: ChartSigns) -> str:
    if number <= 0:
        return signs.zero
    return signs.levels[ceil(number * len(signs.levels) / most) - 1]
