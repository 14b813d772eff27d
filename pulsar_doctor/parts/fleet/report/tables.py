"""Prints an answer as a table; names of topics and moments are shortened, JSON has them whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TextIO

from pulsar_doctor.ledger.topics import PERSISTENT
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
InWords = Callable[[Any], str]


def _moment(value: Any) -> str:
    return f"{datetime.fromisoformat(value):%m-%d %H:%M}"


def _few(value: Any) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _judged(row: TableRow, _: View) -> str:
    return "leaks" if row["is_leaky"] else "hoards" if row["is_hoarding"] else ""


def _column(
    title: str, rank: int, key: str, cell: InWords = name, *, right: bool = False
) -> TableColumn:
    def shown(row: TableRow, _: View) -> str:
        return NOT_REPORTED if row[key] is None else cell(row[key])

    return TableColumn(title, rank, shown, right)


def _where(row: TableRow, _: View) -> str:
    topic = short_topic((row["topic"] or "").removeprefix(PERSISTENT))
    return f"{name(row['subscription'])} on {name(topic)}" if topic else "all"


def _number(title: str, rank: int, key: str, cell: InWords = count) -> TableColumn:
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
    "changes": ("what began after which change", (
        _column("change", 0, "what"), _column("version", 0, "version"),
        _column("since", 1, "began", _moment), _column("cause", 1, "cause"),
        _number("stalls before", 2, "before_stalls"), _number("after", 0, "after_stalls"),
        _number("by chance", 3, "by_chance", _few),
        TableColumn("subscription", 2, _where, least=20),
    )),
    "versions": ("client versions", (
        _column("version", 0, "version"), _number("consumers", 1, "consumers"),
        _number("leaking", 0, "leaking"), _number("permits lost a day", 2, "lost_a_day", _few),
        _number("work held", 1, "held_seconds", duration), TableColumn("", 0, _judged),
    )),
    "forecast": ("limits that are reached", (
        WHERE, _column("limit", 0, "name"), _number("days left", 0, "days_left", _few),
        _column("reached", 1, "reached", _moment), _number("now", 2, "level", _few),
        _number("limit", 3, "most", _few),
    )),
    "together": ("topics that share a cause and a moment", (
        _column("cause", 0, "cause"), _column("since", 0, "began", _moment),
        _number("topics", 0, "topics"), _column("ended by", 2, "ended_by"),
        _number("by chance", 2, "by_chance", _few),
    )),
    "queues": ("queue sizes that do not fit", (
        WHERE, _number("queue", 0, "queue_size"), _number("fits", 0, "fits", _few),
        _number("msg/s", 1, "rate", _few), _number("holds", 2, "seconds", duration),
    )),
    "remedies": ("before and after the remedy", (
        WHERE, _column("cause", 0, "cause"), _number("before", 0, "before_stalls"),
        _number("after", 0, "after_stalls"), _column("outcome", 0, "outcome"),
    )),
}  # fmt: skip


def print_answer(out: TextIO, table: str, found: SqlAnswer, top: int) -> None:
    """Draws the title and as many rows as fit."""
    console = console_on(out)
    title, columns = COLUMNS[table]
    total = f"{len(found.rows):,}{'+' if found.more else ''}"
    console.print(f"{table}: {title} ({total})", markup=False, highlight=False)
    view = View(console.text_width, console.encoding.lower().startswith("utf"), None, None)
    if found.rows:
        for each in drawn(found.rows[:top], columns, view):
            console.print(each)
    if len(found.rows) > top:
        console.print(f"  and {many(len(found.rows) - top, 'row')} more: --top N, -o json")
    console.print()
