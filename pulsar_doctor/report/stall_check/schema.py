"""The JSON Schema of stall-check's output, with the numbers of a consumer."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pulsar_doctor.evidence.numbers import REPORTED, Number
from pulsar_doctor.report import json_versions

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


def schema() -> dict[str, Any]:
    """The whole schema, of the version that is requested."""
    return _schema(is_old=json_versions.is_old())


@cache
def _schema(*, is_old: bool) -> dict[str, Any]:
    text = SCHEMA_FILE.read_text("utf-8")
    for now, before in json_versions.SCHEMAS.items() if is_old else ():
        text = text.replace(f"/{now}", f"/{before}")
        text = text.replace(f":{now.replace('/', ':')}", f":{before.replace('/', ':')}")
    found: dict[str, Any] = json.loads(text)
    properties = {row.name: _property(row) for row in REPORTED}
    properties = json_versions.renamed("consumer", properties)
    found["$defs"]["consumer"] = {
        "type": "object", "required": list(properties), "properties": properties,
    }  # fmt: skip
    return found


def _property(row: Number) -> dict[str, Any]:
    unit = f"; {row.unit}" if row.unit else ""
    return {"description": f"{row.meaning}{unit}", **TYPES[row.type]}
