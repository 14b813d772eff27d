"""What is expected of each client: what was measured of these versions, from measured.json.

imbalance: permits above the queue size when all is taken, below it lost ones, None: it stands
still. Of the numbers, those that depend on timing are left out; the texts may tell them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).with_name("measured.json")

Cells = dict[str, dict[str, Any]]  # client -> the text of its cell, and the numbers

_told = json.loads(MEASURED.read_text("utf-8"))
VERSIONS: dict[str, str] = _told["versions"]
CELLS: dict[str, Cells] = _told["behaviours"]
TOOLS: Cells = _told["tools"]

# Client -> behaviour -> the numbers that it shows.
EXPECTED: dict[str, Cells] = {
    client: {
        name: {key: value for key, value in cells[client].items() if key != "text"}
        for name, cells in CELLS.items()
        if client in cells
    }
    for client in VERSIONS
}
