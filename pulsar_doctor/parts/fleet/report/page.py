"""`fleet -o html`: the answers as one page, in the frame of the page of an incident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsar_doctor.parts.analyze.asking import SqlAnswer
from pulsar_doctor.parts.fleet.report.tables import COLUMNS
from pulsar_doctor.report.incident.body import Element, e, framed, section, wide
from pulsar_doctor.report.tables import TableColumn, View
from pulsar_doctor.wording.printable import many

ROWS_MOST = 200  # of a table
VIEW = View(0, True, None, None)
FIRST = (
    "stalled", "changes", "forecast", "together", "remedies", "versions", "queues", "episodes"
)  # fmt: skip
NONE = {  # so that a young record comforts nobody
    "changes": "None. Only a change with 12 hours of records before it is judged.",
    "forecast": "None. A limit is foretold from 12 hours of records on.",
}
STATUSES = ("stalled", "unknown", "warning")


def page(answers: Mapping[str, SqlAnswer]) -> str:
    """The whole file; texts cannot become tags."""
    episodes, stalled = answers["episodes"].rows, answers["stalled"]
    kinds = {row["status"] for row in episodes}
    worst = next((each for each in STATUSES if each in kinds), "healthy")
    those = (row for row in stalled.rows if row["status"] == "stalled")
    who = {(row["cluster"], row["topic"], row["subscription"]) for row in those}
    title = f"Fleet: {'at least ' * stalled.more}{many(len(who), 'subscription')} stalled"
    head = e("header", e("h1", title), e("p", _span(episodes), class_="soft"), class_=worst)
    parts = (_section(name, answers[name]) for name in FIRST if name in answers)
    return framed(title, [head, e("main", *parts)])


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
        return section(table, heading, e("p", NONE.get(table, "None."), class_="soft"))
    cut = f", the first {ROWS_MOST} are here" if len(found.rows) > ROWS_MOST else ""
    caption = f"{len(found.rows):,}{'+' if found.more else ''} in all{cut}"
    head = (e("th", each.title or "judged", scope="col") for each in columns)
    rows = (
        e("tr", *(_cell(row, each, columns) for each in columns)) for row in found.rows[:ROWS_MOST]
    )
    parts = (e("caption", caption), e("thead", e("tr", *head)), e("tbody", *rows))
    return section(table, heading, wide(heading, e("table", *parts)))


def _cell(row: Mapping[str, Any], column: TableColumn, columns: Sequence[TableColumn]) -> Element:
    text = column.cell(row, VIEW)
    if column is columns[0]:
        return e("th", text, scope="row")
    return e("td", text, class_="number" if column.right else None)
