"""Where a report is printed: a terminal of some width, or a pipe, where lines are not wrapped.

What is piped is searched, cut and pasted: there nothing is wrapped, and no line ends in spaces.
COLUMNS in the environment is a wish for a width, and holds there too.
"""

from __future__ import annotations

import io
import os
import re
from typing import TextIO, cast

from rich.console import Console

from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.gate import behind, survive

PIPE_WIDTH = 20_000  # characters: rich wants a width, and no line of ours is as long
PADDING = re.compile(r"(?<! ) +((?:\x1b\[[\d;]*m)*)$", re.MULTILINE)
# Of a status, and of what is beside it.
STYLES = {
    "stalled": "bold red",
    "warning": "bold yellow",
    "healthy": "bold green",
    "unknown": "bold magenta",
    "suspected": "bold magenta",
    "info": "bold",
}
SYMBOLS = {"stalled": "✖", "warning": "▲", "healthy": "✔", "unknown": "?", "suspected": "?"}
PLAIN_SYMBOLS = {"stalled": "X", "warning": "!", "healthy": "+", "unknown": "?", "suspected": "?"}
PIPE = GatedConsole(file=io.StringIO(), width=PIPE_WIDTH, highlight=False)  # nothing is drawn on it


def console_on(out: TextIO) -> Console:
    """Where to print; a character that the encoding has not is written as an escape."""
    out = behind(out)
    survive(out)
    if out.isatty():
        return GatedConsole(file=out, highlight=False)
    width = None if os.environ.get("COLUMNS", "").isdecimal() else PIPE_WIDTH
    return GatedConsole(file=cast(TextIO, Unpadded(out)), width=width, highlight=False)


class Unpadded:
    """A stream whose lines do not end in spaces; rich writes whole lines at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Writes it without what only fills lines up."""
        return self._out.write(PADDING.sub(r"\1", text))

    def flush(self) -> None:
        """Writes what is buffered."""
        self._out.flush()

    def isatty(self) -> bool:
        """It is none."""
        return False

    @property
    def encoding(self) -> str | None:
        """That of the stream."""
        return self._out.encoding
