"""Where a report is printed: a terminal of some width, or a pipe.

In a pipe sentences of a verdict are wrapped and tables fit, as for a ticket; its headline, a row of
a list and a command to paste stay one line, to be searched, and no line ends in spaces. COLUMNS in
the environment is a wish for a width of all of them.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from typing import TextIO, cast

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pulsar_doctor.wording.consoles import GatedConsole, wrapped
from pulsar_doctor.wording.gate import behind, stdout, survive
from pulsar_doctor.wording.printable import printable

SET_IN = 4  # characters before the rest of a long line
PIPE_WIDTH = 20_000  # characters: rich wants a width, and no line of ours is as long
PIPE_TEXT_WIDTH = 100  # characters of a sentence in a pipe
FACT_WIDTH = 18  # characters of a label in a list of facts
ROOM_LEAST = 25  # characters beside a label, however narrow the terminal is
PARAGRAPH = re.compile(r"(?<=\S)\n {0,2}(?=[^\s-])")  # a line end that only its source needs
LABEL = re.compile(r" *(?:\S+(?: \S+)*  +)*(?:- |note: )?")  # what a line begins with
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


def console_on(out: TextIO) -> GatedConsole:
    """Where to print; a character that the encoding has not is written as an escape."""
    out = behind(out)
    survive(out)
    if out.isatty():
        return GatedConsole(file=out, highlight=False)
    wish = os.environ.get("COLUMNS", "").isdecimal()
    width, text_width = (None, None) if wish else (PIPE_WIDTH, PIPE_TEXT_WIDTH)
    pipe = cast(TextIO, Unpadded(out))
    return GatedConsole(text_width, file=pipe, width=width, highlight=False)


def fits(console: GatedConsole, table: Table) -> bool:
    """Whether all columns have room as they are; where they have not, lines are easier to read."""
    endless = console.options.update(width=PIPE_WIDTH)
    return Measurement.get(console, endless, table).maximum <= console.text_width


def print_rows(console: GatedConsole, rows: Iterable[tuple[str, Text | str]], width: int) -> None:
    """Labels in a column of this width and texts beside them, set in below a heading."""
    for label, text in rows:
        print_beside(console, f"  {label:<{width}}  ", text)


def print_beside(console: GatedConsole, head: str, text: Text | str) -> None:
    """A text behind `head`; where it needs more lines, they begin below its first word."""
    for line in wrapped(Text.assemble(text), max(ROOM_LEAST, console.text_width - len(head))):
        console.print(Text.assemble((head, "dim"), line), soft_wrap=True)
        head = " " * len(head)


def print_text(text: str) -> None:
    """Prints text of our own on stdout; in a pipe with the line ends of the source."""
    is_wrapped = console_on(stdout()).width != PIPE_WIDTH
    print_page(*(PARAGRAPH.sub(" ", text) if is_wrapped else text).split("\n"))


def print_page(*lines: str) -> None:
    """Prints lines on stdout; the rest of one that is too long is set in, below the text."""
    console = console_on(stdout())
    for line in map(printable, lines):
        label = LABEL.match(line)
        set_in = label.end() if label else 0
        if console.width - set_in < ROOM_LEAST:
            set_in = SET_IN
        for number, part in enumerate(wrapped(Text(line), console.width, set_in)):
            console.print(Text(" " * set_in * (number > 0)).append_text(part), soft_wrap=True)


class Unpadded:
    """A stream with lines that do not end in spaces; rich writes whole lines at once."""

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
