"""Many verdicts at a glance: a row for each, and below them what to do for each cause.

A remedy belongs to its cause, so it stands once below the rows, and whole, at any width.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.answers import Finding
from pulsar_doctor.report.stall_check.block import Pen
from pulsar_doctor.report.stall_check.folding import Alike, Folded
from pulsar_doctor.report.words import backlog, cause
from pulsar_doctor.wording.printable import printable

ROWS_MOST = 100
COLUMNS_LEAST = 110  # characters of width; where there are fewer, lines are easier to read
CAUSE_LENGTH_MOST = 60


def print_many(pen: Pen, unwell: Sequence[Folded]) -> None:
    """Draws what is not healthy, already in its order, and what to do about it."""
    rows = [folded.alike() for folded in unwell[:ROWS_MOST]]
    if pen.console.width >= COLUMNS_LEAST:
        pen.console.print(_table(pen, rows))
    else:
        _print_lines(pen, rows)
    if len(unwell) > ROWS_MOST:
        pen.console.print(Text(f"and {len(unwell) - ROWS_MOST} more: -o json lists them all"))
    _print_remedies(pen, unwell)


def _table(pen: Pen, rows: Sequence[list[Alike]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    for title in ("subscription", "topic", "culprit", "cause"):
        table.add_column(title, overflow="fold", min_width=len(title))
    table.add_column("backlog", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(*pen.badge(row[0].status)), *_cells(row))
    return table


def _cells(row: Sequence[Alike]) -> tuple[Text, ...]:
    worst = row[0]
    texts = (
        printable(worst.of.subscription),
        _place(row),
        _who(worst.shown),
        _why(worst.shown),
        backlog(worst.of.backlog),
    )
    return tuple(Text(text) for text in texts)


def _place(row: Sequence[Alike]) -> str:
    """Where the worst is, and how many partitions have something milder."""
    others = sum(len(alike.diagnoses) for alike in row[1:])
    return f"{row[0].place}; {others} more with other causes" if others else row[0].place


def _who(diagnosis: Diagnosis) -> str:
    named = diagnosis.findings[0].consumer if diagnosis.findings else None
    return printable(named) if named else "-"


def _why(diagnosis: Diagnosis) -> str:
    if diagnosis.status != "unknown":
        return diagnosis.findings[0].code
    said = cause(diagnosis)
    return said if len(said) <= CAUSE_LENGTH_MOST else f"{said[: CAUSE_LENGTH_MOST - 1]}…"


def _print_lines(pen: Pen, rows: Sequence[list[Alike]]) -> None:
    """Two lines each, for a narrow terminal."""
    for row in rows:
        worst = row[0]
        where = f"{printable(worst.of.subscription)} on {_place(row)}"
        pen.console.print(Text.assemble(pen.badge(worst.status), "  ", where))
        who = "" if _who(worst.shown) == "-" else f" of {_who(worst.shown)}"
        said = f"{_why(worst.shown)}{who}, backlog {backlog(worst.of.backlog)}"
        pen.console.print(Padding(Text(said), (0, 0, 0, 2)))


def _print_remedies(pen: Pen, unwell: Sequence[Folded]) -> None:
    """What to do, for each first cause in the order in which the rows have it."""
    first: dict[str, Finding] = {}
    for alike in (alike for folded in unwell for alike in folded.alike()):
        for finding in alike.shown.findings[:1]:
            first.setdefault(finding.code, finding)
    pen.console.print()
    for code, finding in first.items():
        pen.console.print(Text.assemble((code, "bold"), f": {printable(finding.remedy)}"))
        pen.console.print(Padding(Text(finding.explain, style="dim"), (0, 0, 0, 2)))
    if first:
        pen.console.print()
