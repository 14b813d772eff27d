"""Draws acknowledged entries and holes on one line of the terminal.

A cell covers many entries. The first line is the acknowledged share of each cell, as a block;
the second one letter for most of what is not acknowledged in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from rich.text import Text

from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.origins import CANNOT_TELL
from pulsar_doctor.checkup.holes.shape import Shape, Span
from pulsar_doctor.report.charts import ChartSigns
from pulsar_doctor.report.tables import count

CELLS_LEAST = 20
ALL = " "
UNREAD = "."
HOLE, TAIL = "in a hole", "behind the last range"
UNACKED, DELAYED, EITHER = "u", "d", "o"
WORDS = {
    UNACKED: "sent or to be sent again, not acknowledged",
    DELAYED: "delayed",
    EITHER: "sent or delayed, which is not reported",
}
STYLES = {HOLE: "yellow", TAIL: "cyan", UNREAD: "dim"}


@dataclass(slots=True)
class _Cell:
    """Entries of one cell, by what they are."""

    acknowledged: int = 0
    hole: int = 0
    tail: int = 0
    unread: int = 0


def axis(account: CursorAccount, width: int, signs: ChartSigns) -> list[Text]:
    """The lines of the drawing and its legend; none where there is nothing to draw."""
    shape = account.shape
    if shape is None or not shape.length or not shape.holes:
        return []
    cells = _cells(shape, min(max(width, CELLS_LEAST), shape.length))
    kind = _kind(account)
    letters = Text()
    for cell in cells:
        letters.append(*_letter(cell, kind))
    blocks = Text("".join(_block(cell, signs) for cell in cells), style="green")
    return [blocks, letters, _ends(shape, len(cells)), *_legend(shape, cells, kind, signs)]


def _cells(shape: Shape, number: int) -> list[_Cell]:
    cells = [_Cell() for _ in range(number)]
    begin = shape.acknowledged[-1][1] if shape.acknowledged else 0
    _share(cells, shape.length, shape.acknowledged, "acknowledged")
    _share(cells, shape.length, _before(shape.holes, shape.read), "hole")
    _share(cells, shape.length, [(begin, max(begin, shape.read))], "tail")
    for at, cell in enumerate(cells):
        held = _bound(at + 1, number, shape.length) - _bound(at, number, shape.length)
        cell.unread = held - cell.acknowledged - cell.hole - cell.tail
    return cells


def _before(spans: Iterable[Span], end: int) -> Iterable[Span]:
    return ((first, min(last, end)) for first, last in spans if first < end)


def _share(cells: Sequence[_Cell], length: int, spans: Iterable[Span], what: str) -> None:
    """Adds the entries of spans to the cells that they lie in."""
    number = len(cells)
    for first, last in spans:
        begin = first
        while begin < last:
            at = ((begin + 1) * number - 1) // length
            end = min(last, _bound(at + 1, number, length))
            setattr(cells[at], what, getattr(cells[at], what) + end - begin)
            begin = end


def _bound(at: int, number: int, length: int) -> int:
    """The first entry of a cell."""
    return at * length // number


def _kind(account: CursorAccount) -> str:
    """What entries that were read and are not acknowledged are, where that is one thing."""
    if account.messages is None:  # of a trace
        return EITHER if any(each.code == CANNOT_TELL for each in account.origins) else UNACKED
    if account.messages.entries_in("delayed").most == 0:
        return UNACKED
    out = (account.messages.entries_in(name) for name in ("held", "replay"))
    return DELAYED if all(each.most == 0 for each in out) else EITHER


def _block(cell: _Cell, signs: ChartSigns) -> str:
    held = cell.acknowledged + cell.hole + cell.tail + cell.unread
    if not cell.acknowledged:
        return signs.zero
    if cell.acknowledged == held:
        return signs.levels[-1]
    inner = signs.levels[:-1]  # the highest one is for all
    return inner[ceil(cell.acknowledged * len(inner) / held) - 1]


def _letter(cell: _Cell, kind: str) -> tuple[str, str]:
    """The letter and its style."""
    most = max(cell.hole, cell.tail, cell.unread)
    if not most:
        return ALL, ""
    if cell.hole == most:
        return kind.upper(), STYLES[HOLE]
    return (kind, STYLES[TAIL]) if cell.tail == most else (UNREAD, STYLES[UNREAD])


def _ends(shape: Shape, width: int) -> Text:
    ends = [f"{at[0]}:{at[1]}" if at else "" for at in (shape.first, shape.last)]
    room = max(1, width - len(ends[0]) - len(ends[1]))
    return Text(f"{ends[0]}{' ' * room}{ends[1]}", style="dim")


def _legend(shape: Shape, cells: Sequence[_Cell], kind: str, signs: ChartSigns) -> list[Text]:
    each = shape.length / len(cells)
    about = "1 entry" if each == 1 else f"about {count(max(1, round(each)))} entries"
    low, high = signs.levels[0], signs.levels[-1]
    parts = [f"a sign is {about}", f"{low} to {high} acknowledged, {signs.zero} none of it"]
    words = WORDS[kind]
    if any(cell.hole for cell in cells):
        parts.append(f"{kind.upper()} {HOLE}: {words}")
    if any(cell.tail for cell in cells):
        parts.append(f"{kind} {TAIL}: {words}")
    if any(cell.unread for cell in cells):
        parts.append(f"{UNREAD} not sent yet")
    return [Text("; ".join(parts), style="dim")]
