"""Colours, symbols and name columns of verdicts on a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console

from pulsar_doctor.report.paper import PLAIN_SYMBOLS, STYLES, SYMBOLS

LABEL_WIDTH = 7  # characters of a name below a heading, at least


@dataclass(frozen=True, slots=True)
class Pen:
    """How the terminal is drawn on."""

    console: Console
    verbose: bool = False
    tells_backlog: bool = False  # the source has a backlog at all
    explained: set[str] = field(default_factory=set)  # codes whose `explain` was named already

    def badge(self, status: str) -> tuple[str, str]:
        """`✖ STALLED` and its style."""
        unicode = self.console.encoding.lower().startswith("utf")
        symbol = (SYMBOLS if unicode else PLAIN_SYMBOLS)[status]
        return f"{symbol} {status.upper()}", STYLES[status]
