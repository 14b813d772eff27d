"""Tables that leave out columns to fit the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pulsar_doctor.report.charts import ASCII, UNICODE, ChartSigns
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable

TABLE_WIDTH = 60  # characters; where there are fewer, lines are easier to read
RANK_OF_LINES = 3  # what lines tell: columns up to this rank
NAME_LENGTH_MOST = 200
BETWEEN = 3
INDENT = 2
NOT_REPORTED = "?"

TableRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """What rows are drawn for."""

    width: int  # characters
    utf: bool
    first: datetime | None  # of all events
    last: datetime | None  # of all events

    @property
    def signs(self) -> ChartSigns:
        """What charts are drawn with."""
        return UNICODE if self.utf else ASCII

    def clock(self, moment: datetime) -> str:
        """A moment in UTC, with its day where the events are of more than one."""
        days = {end.astimezone(UTC).date() for end in (self.first, self.last) if end is not None}
        pattern = "%H:%M:%S" if len(days) == 1 else "%m-%d %H:%M:%S"
        return moment.astimezone(UTC).strftime(pattern)

    def lasting(self, us: int | None) -> str:
        """Microseconds as a person says them, in at most three digits."""
        if us is None:
            return NOT_REPORTED
        if us < 1000:
            return f"{us} {self.signs.micro}"
        return f"{us / 1000:.3g} ms" if us < 10_000 else duration(us / 1e6)


class TableColumn(NamedTuple):
    """One column."""

    title: str  # in lines
    rank: int  # the highest is dropped first if there is no room; 0: never
    cell: Callable[[TableRow, View], str]  # in lines
    right: bool = False
    least: int = 0  # characters of a name before it is wrapped; 0: never wrapped
    style: Callable[[TableRow], str] = lambda row: ""


def drawn(
    rows: Sequence[TableRow], columns: Sequence[TableColumn], view: View
) -> Iterator[RenderableType]:
    """At least one row, in their order."""
    fitting = _fitting(rows, columns, view) if view.width >= TABLE_WIDTH else []
    if fitting:
        yield indented(_table(rows, fitting, view))
    else:
        for row in rows:
            yield from _lines(row, columns, view)


def indented(what: RenderableType) -> Padding:
    """What is below a title."""
    return Padding(what, (0, 0, 0, INDENT))


def _table(rows: Sequence[TableRow], columns: Sequence[TableColumn], view: View) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=not column.least,
            overflow="fold",
            min_width=_width(rows, column, view),
        )
    for row in rows:
        table.add_row(*(_cell(row, column, view) for column in columns))
    return table


def _cell(row: TableRow, column: TableColumn, view: View) -> Text:
    return Text(column.cell(row, view), style=column.style(row))


def _fitting(
    rows: Sequence[TableRow], columns: Sequence[TableColumn], view: View
) -> list[TableColumn]:
    """The columns that have room, in order; none where those that stay have none."""
    widths = {column: _width(rows, column, view) + BETWEEN for column in columns}
    shown = list(columns)
    while sum(widths[column] for column in shown) - BETWEEN > view.width - INDENT:
        last = max(shown, key=lambda column: column.rank)
        if last.rank == 0:
            return []
        shown.remove(last)
    return shown


def _width(rows: Sequence[TableRow], column: TableColumn, view: View) -> int:
    """Characters that a column needs: all of its numbers, and of its names a part."""
    widest = max(_widest(column.cell(row, view)) for row in rows)
    if column.least:
        widest = min(widest, column.least)
    return max(widest, _widest(column.title))


def _widest(lines: str) -> int:
    return max(cell_len(line) for line in lines.split("\n"))


def _lines(row: TableRow, columns: Sequence[TableColumn], view: View) -> Iterator[RenderableType]:
    """What it is about, and below it the numbers, each with its name."""
    names = [column for column in columns if column.rank == 0 and column.least]
    lines = [line for column in names for line in _cell(row, column, view).split("\n")]
    yield indented(Text("  ").join(lines))
    shown = [c for c in columns if c.rank <= RANK_OF_LINES and c not in names]
    facts = (_fact(row, column, view) for column in shown)
    yield indented(indented(Text(", ".join(facts))))


def _fact(row: TableRow, column: TableColumn, view: View) -> str:
    """Each line of a cell behind its title; what has one title is one fact, in any lines."""
    titles, cells = column.title.split(",\n"), column.cell(row, view).split("\n")
    if len(titles) != len(cells):
        titles, cells = [" ".join(column.title.split())], [" ".join(cells)]
    return ", ".join(
        f"{title} {cell}".replace("\n", " ").strip()
        for title, cell in zip(titles, cells, strict=True)
    )


def name(text: str | None) -> str:
    """A name that others gave, on one line, and not endless."""
    if not text:
        return NOT_REPORTED
    shown = printable(text[:NAME_LENGTH_MOST])
    return shown if len(text) <= NAME_LENGTH_MOST else f"{shown}..."


def count(value: int | None) -> str:
    """A number with its thousands apart; `?` where it is not known."""
    return NOT_REPORTED if value is None else f"{value:,}"


def counted(number: int, what: str) -> str:
    """`1 entry`, `2,000 entries`."""
    if number == 1:
        return f"1 {what}"
    return f"{count(number)} {what[:-1]}ies" if what.endswith("y") else f"{count(number)} {what}s"


def percent(share: float | None) -> str:
    """A share of 1; neither none nor all where it is neither."""
    if share is None:
        return NOT_REPORTED
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{share * 100:.0f} %"
