"""The JSON Schema of stall-check's output, with the numbers of a consumer."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pulsar_doctor.evidence.numbers import REPORTED, Number

SCHEMA_FILE = Path(__file__).with_name("schema.json")
TYPES: dict[str, dict[str, Any]] = {  # by the type of a number in Python
    "str": {"type": "string"},
    "str | None": {"type": ["string", "null"]},
    "bool | None": {"type": ["boolean", "null"]},
    "int | None": {"type": ["integer", "null"]},
    "float | None": {"type": ["number", "null"]},
    "Count | None": {"$ref": "#/$defs/count"},
    "Age | None": {"$ref": "#/$defs/age"},
}


@cache
def schema() -> dict[str, Any]:
    """The whole schema."""
    found: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    properties = {row.name: _property(row) for row in REPORTED}
    found["$defs"]["consumer"] = {
        "type": "object", "required": list(properties), "properties": properties,
    }  # fmt: skip
    return found


def _property(row: Number) -> dict[str, Any]:
    unit = f"; {row.unit}" if row.unit else ""
    return {"description": f"{row.meaning}{unit}", **TYPES[row.type]}
