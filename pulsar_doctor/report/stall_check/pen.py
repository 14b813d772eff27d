"""Colours, symbols and name columns of verdicts on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pulsar_doctor.report.paper import PLAIN_SYMBOLS, STYLES, SYMBOLS


@dataclass(frozen=True, slots=True)
class Pen:
    """How the terminal is drawn on. tells_backlog: whether the source has a backlog at all.

    explained: the codes whose explanation has been named already.
    """

    console: Console
    verbose: bool = False
    tells_backlog: bool = False
    explained: set[str] = field(default_factory=set)

    def badge(self, status: str) -> tuple[str, str]:
        """`✖ STALLED` and its style."""
        unicode = self.console.encoding.lower().startswith("utf")
        symbol = (SYMBOLS if unicode else PLAIN_SYMBOLS)[status]
        return f"{symbol} {status.upper()}", STYLES[status]


def indented(lines: Iterable[tuple[str, Text]], below: int = 1, width: int = 7) -> Padding:
    """Names and texts in two columns, to stand below a heading."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=width)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(name, text)
    return Padding(grid, (0, 0, below, 2))
