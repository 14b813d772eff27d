"""The table of docs/clients.md is made from measured.json; a new measurement replaces both."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.behaviours import in_order
from tests.conformance.expected import CELLS, MEASURED, TOOLS, VERSIONS, Cells
from tests.conformance.report import Table
from tests.conformance.table import Measured

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
IN_PAGE = re.compile(r"^Broker: Apache Pulsar .*?(?=\n\n(?!\|)|\n*\Z)", re.M | re.S)


def published() -> Table:
    """All that was measured, as a table."""
    table = Table(versions=dict(VERSIONS))
    for name, cells in CELLS.items():
        for client, cell in cells.items():
            table.add(name, client, Measured(cell["text"]))
    table.tools = {name: Measured(cell["text"]) for name, cell in TOOLS.items()}
    return table


def publish(table: Table) -> None:
    """Puts what was measured now in the place of what was, in measured.json and in the page."""
    take_over(table)
    MEASURED.write_text(as_json(), "utf-8")
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")


def take_over(table: Table) -> None:
    """Into what was measured. Of a cell that is there only the numbers that it has.

    Which numbers do not depend on timing was chosen by hand.
    """
    VERSIONS.update(table.versions)
    for name, row in table.cells.items():
        for client, measured in row.items():
            _put(CELLS.setdefault(name, {}), client, measured)
    for name, measured in table.tools.items():
        _put(TOOLS, name, measured)


def _put(cells: Cells, name: str, measured: Measured) -> None:
    told = {"text": measured.text, **measured.values}
    chosen = cells.get(name, told)
    cells[name] = {key: value for key, value in told.items() if key in chosen}


def files() -> Iterator[tuple[Path, str]]:
    """The page and its text."""
    yield PAGE, with_table(PAGE.read_text("utf-8"))


def with_table(page: str) -> str:
    """The page with its table replaced by what was measured."""
    return IN_PAGE.sub(lambda _: published().markdown(), page, count=1)


def as_json() -> str:
    """What was measured, a line for each cell."""
    rows = [f'  "{name}": {{\n{_lines(CELLS[name], 3)}\n  }}' for name in in_order()]
    behaviours = ",\n".join(rows)
    return (
        f'{{\n "versions": {_json(VERSIONS)},\n "behaviours": {{\n{behaviours}\n }},\n'
        f' "tools": {{\n{_lines(TOOLS, 2)}\n }}\n}}\n'
    )


def _lines(cells: Cells, indent: int) -> str:
    return ",\n".join(f'{" " * indent}"{name}": {_json(cells[name])}' for name in cells)


def _json(told: object) -> str:
    return json.dumps(told, ensure_ascii=False)
