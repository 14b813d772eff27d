"""The answer of `analyze --sql`, on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from pulsar_doctor.wording.printable import printable

if TYPE_CHECKING:
    from pulsar_doctor.parts.analyze.asking import SqlAnswer

SCHEMA = "pulsar-doctor/analyze-sql/1"
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def answer_json(answer: SqlAnswer) -> dict[str, Any]:
    """The document of `-o json`. more: there are rows that are not here."""
    return {
        "schema": SCHEMA,
        "columns": [{"name": name, "type": kind} for name, kind in answer.columns.items()],
        "rows": list(answer.rows),
        "more": answer.more,
        "notes": [],
    }


def answer_table(answer: SqlAnswer) -> Table:
    """A line for each row, a null empty."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, kind in answer.columns.items():
        right = kind.startswith(NUMBERS)
        table.add_column(Text(printable(name)), justify="right" if right else "left")
    for row in answer.rows:
        table.add_row(*(Text(_cell(row[name])) for name in answer.columns))
    return table


def _cell(value: Any) -> str:
    return "" if value is None else printable(str(value))
