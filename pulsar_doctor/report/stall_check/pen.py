"""How a verdict is drawn, on every screen and page: its badge, and the rows below its headline.

A line that is to be pasted is never broken; a sentence that has too little room is cut between
clauses. So what a screen leaves out for its width is decided here, for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from pulsar_doctor.report.paper import PLAIN_SYMBOLS, ROOM_LEAST, STYLES, SYMBOLS
from pulsar_doctor.wording.consoles import wrapped

LABEL_WIDTH = 7  # characters of a name below a heading, at least
WHOLE = 1_000  # lines: nothing is left out
EXPECT = "  # "  # before what a check should show
BETWEEN_CLAUSES = re.compile(r"[;:] |, (?=(while|so) )|(?<=-v) (?=\()")
ELLIPSIS = "..."
CLAUSE_LEAST = 20  # characters; what is shorter before a colon only announces the rest
LEAST_SHARE = 0.4  # of the room: a sentence that would be shorter is cut between words instead

NamedText = tuple[str, str | Text]  # the name of a row, and its text


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


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """A row below a headline."""

    name: str
    text: str | Text
    to_paste: bool = False  # a line for a shell, followed by `comment`
    comment: str = ""
    # lines that a sentence takes, or a line to paste with its comment below it
    most: int = 1

    @property
    def whole(self) -> str:
        """In one line, however long."""
        return f"{self.text}{EXPECT}{self.comment}" if self.comment else str(self.text)


def check_row(check: str, most: int) -> ScreenRow:
    """How to check a cause: the line to run, and what it should show."""
    line, _, expect = check.rpartition(EXPECT) if EXPECT in check else (check, "", "")
    return ScreenRow("check", line, to_paste=True, comment=expect, most=most)


def whole_rows(named: Iterable[NamedText]) -> Iterator[ScreenRow]:
    """Rows of which nothing is left out."""
    for name, text in named:
        if name == "check":
            yield check_row(str(text), WHOLE)
        else:
            yield ScreenRow(name, text, to_paste=name == "run", most=WHOLE)


def print_whole(pen: Pen, named: Iterable[NamedText]) -> None:
    """Draws such rows; what is to be pasted on a line of its own, however long."""
    rows = [*whole_rows(named)]
    widest = max([LABEL_WIDTH, *(len(row.name) for row in rows)])
    for line in (line for row in rows for line in row_lines(pen, row, widest)):
        pen.console.print(line, soft_wrap=True)


def row_lines(pen: Pen, row: ScreenRow, width: int) -> list[Text]:
    """One row, as wide as the console. width: of the column of names; 0: without its name."""
    head = f"  {row.name:<{width}}  " if width else "  "
    cut = _pasted(pen, row, len(head)) if row.to_paste else _cut(pen, row, len(head))
    heads = [head] + [" " * len(head)] * len(cut)
    return [Text.assemble((head, "dim"), line) for head, line in zip(heads, cut, strict=False)]


def _pasted(pen: Pen, row: ScreenRow, indent: int) -> list[Text]:
    """With what it is for or prints as a comment of the shell, where that has room."""
    line = Text(row.whole)
    if indent + line.cell_len <= pen.console.width:
        line.stylize("dim", len(row.text))
        return [line]
    if row.most == 1 or not row.comment:
        return [Text.assemble(row.text)]
    comment = ScreenRow("", f"# {row.comment}", most=row.most - 1)
    return [Text.assemble(row.text), *_cut(pen, comment, indent)]


def _cut(pen: Pen, row: ScreenRow, indent: int) -> list[Text]:
    """A sentence in so many lines at most: without its last clauses, or else with an ellipsis."""
    width = max(ROOM_LEAST, pen.console.width - indent)
    lines = [*wrapped(Text.assemble(row.text), width)]
    if len(lines) <= row.most:
        return lines
    for text in _shorter(str(row.text), int(LEAST_SHARE * width * row.most)):
        if len(lines := [*wrapped(Text(text), width)]) <= row.most:
            return lines
    *lines, last = [*wrapped(Text.assemble(row.text), width - len(ELLIPSIS))][: row.most]
    return [*lines, last.append(ELLIPSIS)]


def _shorter(text: str, least: int) -> Iterator[str]:
    """Without more and more of its clauses; what is in brackets stays together."""
    for sign in reversed([*BETWEEN_CLAUSES.finditer(text)]):
        end = sign.start()
        label = sign[0] == ": " and end - text.rfind("; ", 0, end) < CLAUSE_LEAST
        if end >= least and not label and text.count("(", 0, end) == text.count(")", 0, end):
            yield text[:end]
