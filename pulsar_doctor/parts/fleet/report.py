"""Prints an answer as a table; names of topics and moments are shortened, JSON has them whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TextIO

from pulsar_doctor.ledger.consumers import PERSISTENT
from pulsar_doctor.parts.analyze.asking import SqlAnswer
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.tables import (
    NOT_REPORTED,
    TableColumn,
    TableRow,
    View,
    count,
    drawn,
    name,
)
from pulsar_doctor.report.words import short_topic
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many

SCHEMA = "pulsar-doctor/fleet/1"
Cell = Callable[[Any], str]


def _moment(value: Any) -> str:
    return f"{datetime.fromisoformat(value):%m-%d %H:%M}"


def _column(
    title: str, rank: int, key: str, cell: Cell = name, *, right: bool = False
) -> TableColumn:
    def shown(row: TableRow, _: View) -> str:
        return NOT_REPORTED if row[key] is None else cell(row[key])

    return TableColumn(title, rank, shown, right)


def _where(row: TableRow, _: View) -> str:
    topic = short_topic((row["topic"] or "").removeprefix(PERSISTENT))
    return f"{name(row['subscription'])} on {name(topic)}"


def _number(title: str, rank: int, key: str, cell: Cell = count) -> TableColumn:
    return _column(title, rank, key, cell, right=True)


WHERE = TableColumn("subscription", 0, _where, least=20)
COLUMNS: Mapping[str, tuple[str, tuple[TableColumn, ...]]] = {
    "episodes": ("times when a subscription was not well", (
        WHERE, _column("cause", 0, "cause"), _column("since", 1, "began", _moment),
        _number("for", 0, "seconds", duration), _column("ended by", 2, "ended_by"),
        _number("backlog", 3, "depth"), _column("consumer", 4, "consumer"),
    )),
    "stalled": ("what stalled or was in trouble", (
        WHERE, _column("cause", 0, "cause"), _number("times", 0, "times"),
        _number("in all", 1, "seconds", duration),
        _number("longest", 3, "longest_seconds", duration),
        _number("hour", 2, "hour"), _column("ended by", 4, "ended_by"),
    )),
}  # fmt: skip


def print_answer(out: TextIO, table: str, found: SqlAnswer, top: int) -> None:
    """Its title, and as many rows."""
    console = console_on(out)
    title, columns = COLUMNS[table]
    total = f"{len(found.rows):,}{'+' if found.more else ''}"
    console.print(f"{table}: {title} ({total})", markup=False, highlight=False)
    view = View(console.width, console.encoding.lower().startswith("utf"), None, None)
    if found.rows:
        for each in drawn(found.rows[:top], columns, view):
            console.print(each)
    if len(found.rows) > top:
        console.print(f"  and {many(len(found.rows) - top, 'row')} more: --top N, -o json")
    console.print()
