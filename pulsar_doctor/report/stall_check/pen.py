"""How a verdict is drawn, on every screen and page: its badge, and the rows below its headline.

However narrow a screen is, nothing is left out: a sentence is broken between words, and a line that
is to be pasted is never broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from rich.text import Text

from pulsar_doctor.diagnosis.actions.commands import quoted
from pulsar_doctor.report.paper import PLAIN_SYMBOLS, ROOM_LEAST, STYLES, SYMBOLS
from pulsar_doctor.wording.consoles import GatedConsole, wrapped
from pulsar_doctor.wording.printable import printable

LABEL_WIDTH = 7  # characters of a name below a heading, at least
COMMENT = "# "  # of a shell
EXPECT = f"  {COMMENT}"  # before what a check should show

OURS = re.compile("pulsar-doctor (stall-check|holes|examine) ")  # what connects to a cluster

NamedText = tuple[str, str | Text]  # the name of a row, and its text


@dataclass(frozen=True, slots=True)
class Pen:
    """How the terminal is drawn on."""

    console: GatedConsole
    verbose: bool = False
    tells_backlog: bool = False  # the source has a backlog at all
    explained: set[str] = field(default_factory=set)  # codes with `explain` named already
    saved: str | None = None  # the file of --save of this very check
    reach: str = ""  # the options of this call that say which cluster is meant

    def compared(self, check: str) -> str:
        """A check that compares with what this one saved."""
        before, expects, expect = check.rpartition(EXPECT)
        line, expect = (before, expect) if expects else (check, "")
        line = self.reaching(line)
        if self.saved is not None and line.startswith("pulsar-doctor stall-check "):
            line += f" --after {quoted(self.saved)}"
        return f"{line}{expects}{expect}"

    def reaching(self, line: str) -> str:
        """A line for a shell without a comment; one of ours asks the cluster of this call."""
        ours = OURS.match(line)
        takes_it = ours and (ours[1] == "stall-check" or not self.reach.startswith("--metrics"))
        return f"{line} {self.reach}" if self.reach and takes_it else line

    def badge(self, status: str) -> tuple[str, str]:
        """`✖ STALLED` and its style."""
        unicode = self.console.encoding.lower().startswith("utf")
        symbol = (SYMBOLS if unicode else PLAIN_SYMBOLS)[status]
        return f"{symbol} {status.upper()}", STYLES[status]


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """A row below a headline."""

    name: str
    text: str | Text
    to_paste: bool = False  # a line for a shell, followed by `comment`
    comment: str = ""

    @classmethod
    def named(cls, name: str, text: str | Text) -> Self:
        """A row of a verdict; a check is the line to run, and what it should show."""
        if name == "check":
            check = str(text)
            line, _, expect = check.rpartition(EXPECT) if EXPECT in check else (check, "", "")
            return cls(name, line, to_paste=True, comment=expect)
        return cls(name, text, to_paste=name == "run")

    @property
    def shown(self) -> str | Text:
        """The text on one line, whatever the names in it; a styled one is that already."""
        return self.text if isinstance(self.text, Text) else printable(self.text)

    @property
    def remark(self) -> str:
        """The comment on one line."""
        return printable(self.comment)

    @property
    def whole(self) -> str:
        """In one line, however long, with its comment."""
        return f"{self.shown}{EXPECT}{self.remark}" if self.comment else str(self.shown)


def print_named(pen: Pen, named: Iterable[NamedText]) -> None:
    """Draws such rows; what is to be pasted on a line of its own, however long."""
    rows = [ScreenRow.named(*row) for row in named]
    widest = max([LABEL_WIDTH, *(len(row.name) for row in rows)])
    for line in (line for row in rows for line in row_lines(pen, row, widest)):
        pen.console.print(line, soft_wrap=True)


def row_lines(pen: Pen, row: ScreenRow, width: int) -> list[Text]:
    """One row, as wide as the console. width: of the column of names; 0: without its name."""
    head = f"  {row.name:<{width}}  " if width else "  "
    room = max(ROOM_LEAST, pen.console.text_width - len(head))
    texts = _pasted(row, room) if row.to_paste else [*wrapped(Text.assemble(row.shown), room)]
    heads = [head] + [" " * len(head)] * len(texts)
    return [Text.assemble((head, "dim"), line) for head, line in zip(heads, texts, strict=False)]


def _pasted(row: ScreenRow, room: int) -> list[Text]:
    """With what it is for or prints as a comment of the shell, below it where the room ends."""
    line = Text(row.whole)
    if not row.comment or line.cell_len <= room:
        line.stylize("dim", len(row.shown))
        return [line]
    comment = wrapped(Text(row.remark), room - len(COMMENT))
    return [Text.assemble(row.shown), *(Text.assemble(COMMENT, each) for each in comment)]
