"""The JSON Schema of each document that the program prints, for `pulsar-doctor schema NAME`.

Three sources: schema.json of stall-check, with the numbers of a consumer; types, as those of a
tap's events, and the columns of a trace; and documents.json, here and in each part, which has the
fields of every other document in short: a field's type, `[x]` for a list of x, `*` for a field of
any name, `?` behind a name that may be absent, `=` before a constant, `$` before a part of stall-
check's schema. What is not reported is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pulsar_doctor import installed
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.numbers import REPORTED, Number
from pulsar_doctor.wire.columns import COLUMNS, IDS, TIME

IN_SHORT = "documents.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
NULL = "What is null is not reported. Fields may be added."
PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}

JsonSchema = dict[str, Any]
SCHEMA_FILE = Path(__file__).parent / "stall_check" / "schema.json"
NUMBER_TYPES: dict[str, dict[str, Any]] = {  # by the type of a number in Python
    "str": {"type": "string"},
    "str | None": {"type": ["string", "null"]},
    "bool | None": {"type": ["boolean", "null"]},
    "int | None": {"type": ["integer", "null"]},
    "float | None": {"type": ["number", "null"]},
    "Count | None": {"$ref": "#/$defs/count"},
    "Age | None": {"$ref": "#/$defs/age"},
}


@cache
def _in_short() -> dict[str, Any]:
    """Every documents.json: ours and those of parts."""
    files = [Path(__file__).with_name(IN_SHORT), *sorted(installed.FOLDER.glob(f"*/{IN_SHORT}"))]
    found: dict[str, Any] = {}
    for file in files:
        found |= json.loads(file.read_text("utf-8"))
    return found


@cache
def _of_types() -> dict[str, Callable[[], JsonSchema]]:
    """Documents of parts and what makes their schemas."""
    return installed.offered("schemas", "SCHEMAS")


def names() -> list[str]:
    """The names of all documents, as their field `schema` has them."""
    return sorted([*_in_short(), *_of_types(), "stall-check", "verdict", "trace-show"])


def schema_of(name: str) -> JsonSchema:
    """The schema of a document, whole in itself. name: one of `names`."""
    verdicts = of_verdicts()
    if name == "stall-check":
        return verdicts
    head = {"$schema": DIALECT, "title": f"pulsar-doctor {name}", "description": NULL}
    found = head | _part(name)
    return found | {"$defs": verdicts["$defs"]} if "#/$defs/" in json.dumps(found) else found


def _part(name: str) -> JsonSchema:
    match name:
        case "verdict":
            return {"$ref": "#/$defs/line"}
        case "trace-show":
            return _row()
    if name in _of_types():
        return _of_types()[name]()
    return _object(_in_short()[name]) | {"type": "object"}


def _shaped(shape: Any) -> JsonSchema:
    """The schema of a shape of documents.json."""
    if isinstance(shape, list):
        return {"type": ["array", "null"], "items": _shaped(shape[0])}
    if isinstance(shape, dict):
        return _object(shape)
    if shape == "any":
        return {}
    if shape.startswith("="):
        return {"const": f"pulsar-doctor/{shape[1:]}"}
    if shape.startswith("$"):  # with properties, so that a test can close it
        return {"anyOf": [verdict_with({}, shape[1:]), {"type": "null"}]}
    return {"type": [shape, "null"]}


def _object(shape: Mapping[str, Any]) -> JsonSchema:
    if "*" in shape:
        return {"type": ["object", "null"], "additionalProperties": _shaped(shape["*"])}
    fields = {name.rstrip("?"): _shaped(each) for name, each in shape.items() if name != "$judged"}
    if "$judged" in shape:
        return verdict_with(fields)
    required = [name for name in shape if not name.endswith("?")]
    return {"type": ["object", "null"], "required": required, "properties": fields}


def verdict_with(fields: Mapping[str, JsonSchema], part: str = "judged") -> JsonSchema:
    """A part of stall-check's schema, and these fields beside its own."""
    return {
        "allOf": [{"$ref": f"#/$defs/{part}"}], "type": "object",
        "required": list(fields), "properties": dict(fields),
    }  # fmt: skip


def _row() -> JsonSchema:
    """A row of `trace show`: columns that are null are left out."""
    kinds = {
        "string": "string",
        TIME: "string",
        "binary": "string",
        "bool": "boolean",
        IDS: "array",
    }
    return {
        "type": "object",
        "required": [column.name for column in COLUMNS if not column.nullable],
        "properties": {
            column.name: {"type": kinds.get(column.type, "integer"), "description": column.meaning}
            for column in COLUMNS
        },
    }


def fields_of(kind: type) -> JsonSchema:
    """An object with the fields of a dataclass; at_us is printed as `at`."""
    fields = {name: typed(hint) for name, hint in get_type_hints(kind).items() if name != "at_us"}
    return {"type": "object", "required": list(fields), "properties": fields}


def typed(hint: Any) -> JsonSchema:
    """The schema of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Diagnosis:
        return verdict_with({})
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if hint is NoneType:
        return {"type": "null"}
    if is_dataclass(hint):
        return fields_of(hint)  # type: ignore[arg-type]
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [typed(each) for each in inner]}
    if origin is dict:
        return {"type": "object", "additionalProperties": typed(inner[1])}
    assert origin in (tuple, frozenset), hint
    return {"type": "array", "items": typed(inner[0])}


@cache
def of_verdicts() -> dict[str, Any]:
    """The schema of stall-check's document."""
    found: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    properties = {row.name: _property(row) for row in REPORTED}
    found["$defs"]["consumer"] = {
        "type": "object", "required": list(properties), "properties": properties,
    }  # fmt: skip
    return found


def _property(row: Number) -> dict[str, Any]:
    unit = f"; {row.unit}" if row.unit else ""
    return {"description": f"{row.meaning}{unit}", **NUMBER_TYPES[row.type]}
