"""The table of what was measured, for a terminal, for docs/clients.md, for programs."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field

from pulsar_doctor.wording.sizes import VERSION
from tests.conformance.behaviours import SECTIONS, in_section
from tests.conformance.table import BEHAVIOURS, NOT_THERE, Measured

BROKER = f"Apache Pulsar {VERSION}"


@dataclass(slots=True)
class Table:
    """cells: behaviour -> client -> what was measured. Filled in place as the clients come."""

    cells: dict[str, dict[str, Measured]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    not_here: dict[str, str] = field(default_factory=dict)
    tools: dict[str, Measured] = field(default_factory=dict)

    def add(self, behaviour: str, client: str, measured: Measured) -> None:
        self.cells.setdefault(behaviour, {})[client] = measured

    @property
    def failed(self) -> bool:
        """Whether some measurement went wrong."""
        all_cells = [cell for row in self.cells.values() for cell in row.values()]
        return any(cell.values.get("failed") for cell in (*all_cells, *self.tools.values()))

    @property
    def _clients(self) -> list[str]:
        return [*self.versions, *(name for name in self.not_here if name != "tools")]

    def _cell(self, behaviour: str, client: str) -> str:
        if client in self.not_here:
            return "not measured here"
        measured = self.cells[behaviour].get(client)
        return measured.text if measured else NOT_THERE

    def text(self) -> str:
        """One paragraph a behaviour."""
        lines = [f"{name}: {version}" for name, version in self.versions.items()]
        lines += [f"{name}: not measured here, {why}" for name, why in self.not_here.items()]
        for behaviour in self.cells:
            lines += ["", BEHAVIOURS[behaviour].title]
            for client in self.cells[behaviour]:
                lines += textwrap.wrap(
                    f"{client:8}{self._cell(behaviour, client)}",
                    110, initial_indent="  ", subsequent_indent=" " * 10,
                )  # fmt: skip
        lines += [""] * bool(self.tools)
        lines += [f"{command}: {measured.text}" for command, measured in self.tools.items()]
        return "\n".join(lines)

    def markdown(self) -> str:
        """A table a section, clients in columns, versions in the header."""
        heads = [self.versions.get(client, client) for client in self._clients]
        lines = [f"Broker: {BROKER}. Measured by `python -m tests.conformance --publish`."]
        for section in SECTIONS:
            rows = [name for name in in_section(section) if name in self.cells]
            if rows:
                lines += ["", _row(section, *heads), _row(*["---"] * (1 + len(heads)))]
            for name in rows:
                cells = [self._cell(name, client) for client in self._clients]
                lines.append(_row(BEHAVIOURS[name].title, *cells))
        if self.tools:
            lines += ["", _row("Tools of the distribution", "FLOWs"), _row("---", "---")]
            lines += [_row(f"`{name}`", cell.text) for name, cell in self.tools.items()]
        return "\n".join(lines)

    def json(self) -> str:
        """Everything, the numbers included."""
        cells = {
            name: {client: {"text": m.text, **m.values} for client, m in row.items()}
            for name, row in self.cells.items()
        }
        commands = {name: {"text": m.text, **m.values} for name, m in self.tools.items()}
        return json.dumps(
            {"versions": self.versions, "not_measured": self.not_here, "behaviours": cells,
             "tools": commands},
            indent=1,
        )  # fmt: skip


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
