"""`fleet -o html`: the answers as one page, in the frame of the page of an incident."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from pulsar_doctor import __version__
from pulsar_doctor.parts.analyze.asking import SqlAnswer
from pulsar_doctor.parts.fleet.report import COLUMNS
from pulsar_doctor.report.incident.body import Element, e, html, section, wide
from pulsar_doctor.report.incident.page import TEMPLATE
from pulsar_doctor.report.tables import TableColumn, View
from pulsar_doctor.wording.printable import many

ROWS_MOST = 200  # of a table
VIEW = View(0, True, None, None)
FIRST = (
    "stalled", "changes", "forecast", "together", "remedies", "versions", "queues", "episodes"
)  # fmt: skip
HOURS = "Hours (UTC) at which episodes began"
STATUSES = ("stalled", "unknown", "warning")


def page(answers: Mapping[str, SqlAnswer]) -> str:
    """The whole file; texts cannot become tags."""
    episodes, stalled = answers["episodes"].rows, answers["stalled"]
    kinds = {row["status"] for row in episodes}
    worst = next((each for each in STATUSES if each in kinds), "healthy")
    who = {
        (row["topic"], row["subscription"]) for row in stalled.rows if row["status"] == "stalled"
    }
    title = f"Fleet: {'at least ' * stalled.more}{many(len(who), 'subscription')} stalled"
    lines = [e("h1", title), e("p", _span(episodes), class_="soft")]
    parts = [_section(name, answers[name]) for name in FIRST if name in answers]
    parts[1:1] = [*_hours(episodes)]
    body = html([e("header", *lines, class_=worst), e("main", *parts)])
    text = TEMPLATE.read_text("utf-8")
    return Template(text).substitute(
        title=escape(title), body=body, version=__version__, scripts=""
    )


def _span(episodes: Sequence[Mapping[str, Any]]) -> str:
    moments = sorted(row[end] for row in episodes for end in ("began", "last_seen"))
    if not moments:
        return "Every subscription was well whenever it was seen"
    first, last = (f"{each[:10]} {each[11:16]}" for each in (moments[0], moments[-1]))
    return f"{many(len(episodes), 'episode')} between {first} and {last} UTC"


def _section(table: str, found: SqlAnswer) -> Element:
    title, columns = COLUMNS[table]
    heading = f"{title[0].upper()}{title[1:]}"
    if not found.rows:
        return section(table, heading, e("p", "None.", class_="soft"))
    shown, total = found.rows[:ROWS_MOST], f"{len(found.rows):,}{'+' if found.more else ''}"
    caption = f"{total} in all" + (f", the first {ROWS_MOST} are here" if found.more or (
        len(found.rows) > ROWS_MOST) else "")  # fmt: skip
    rows = [[each.cell(row, VIEW) for each in columns] for row in shown]
    return section(table, heading, _table(heading, caption, columns, rows))


def _hours(episodes: Sequence[Mapping[str, Any]]) -> Iterator[Element]:
    """How many episodes began at which hour of the day."""
    counts = Counter((row["status"], int(row["began"][11:13])) for row in episodes)
    columns = [TableColumn(each, 0, _as_is, bool(number)) for number, each in enumerate(
        ("status", *(f"{hour:02d}" for hour in range(24))))]  # fmt: skip
    rows = [
        [status, *(str(counts[status, hour] or "") for hour in range(24))]
        for status in STATUSES
        if any(counts[status, hour] for hour in range(24))
    ]
    if rows:
        yield section("hours", HOURS, _table(HOURS, "Episodes by hour", columns, rows))


def _as_is(row: Mapping[str, Any], _: View) -> str:
    return str(row)


def _table(
    label: str, caption: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]
) -> Element:
    head = (e("th", each.title or "judged", scope="col") for each in columns)
    body = (
        e("tr", e("th", cells[0], scope="row"), *map(_cell, columns[1:], cells[1:]))
        for cells in rows
    )
    table = e("table", e("caption", caption), e("thead", e("tr", *head)), e("tbody", *body))
    return wide(label, table)


def _cell(column: TableColumn, text: str) -> Element:
    return e("td", text, class_="number" if column.right else None)
