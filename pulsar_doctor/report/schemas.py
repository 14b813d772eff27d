"""The JSON Schema of each document that the program prints, for `pulsar-doctor schema NAME`.

Three sources: schema.json of stall-check; the types of a tap's events and the columns of a trace;
and documents.json, which has the fields of every other document, in short: a field's type, `[x]`
for a list of x, `*` for a field of any name, `?` behind a name that may be absent, `=` before a
constant, `$` before a part of stall-check's schema. What is not reported is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.parts.tap.observer.events import Verdict
from pulsar_doctor.parts.tap.report.document import SCHEMA as TAP
from pulsar_doctor.parts.tap.report.document import SHOWN
from pulsar_doctor.report.stall_check.schema import schema as of_verdicts
from pulsar_doctor.wire.columns import COLUMNS, IDS, TIME

DOCUMENTS: dict[str, Any] = json.loads(
    Path(__file__).with_name("documents.json").read_text("utf-8")
)
DIALECT = "https://json-schema.org/draft/2020-12/schema"
NULL = "What is null is not reported. Fields may be added."
PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}

JsonSchema = dict[str, Any]


def names() -> list[str]:
    """Of all documents, as their field `schema` has them."""
    return sorted([*DOCUMENTS, "stall-check", "verdict", "tap", "trace-show"])


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
        case "tap":
            return {"anyOf": [_event(each, kind) for each, kind in SHOWN.kinds.items()]}
        case "trace-show":
            return _row()
    return _object(DOCUMENTS[name]) | {"type": "object"}


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
        return {"anyOf": [_verdict_with({}, shape[1:]), {"type": "null"}]}
    return {"type": [shape, "null"]}


def _object(shape: Mapping[str, Any]) -> JsonSchema:
    if "*" in shape:
        return {"type": ["object", "null"], "additionalProperties": _shaped(shape["*"])}
    fields = {name.rstrip("?"): _shaped(each) for name, each in shape.items() if name != "$judged"}
    if "$judged" in shape:
        return _verdict_with(fields)
    required = [name for name in shape if not name.endswith("?")]
    return {"type": ["object", "null"], "required": required, "properties": fields}


def _verdict_with(fields: Mapping[str, JsonSchema], part: str = "judged") -> JsonSchema:
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


def _event(name: str, kind: type) -> JsonSchema:
    ours = {"const": TAP}
    head = {"schema": ours, "event": {"const": name}, "at": {"type": "string"}}
    if kind is Verdict:
        return _verdict_with(head | {"before": _typed(get_type_hints(kind)["before"])})
    properties = head | _fields_of(kind)["properties"]
    return {"type": "object", "required": list(properties), "properties": properties}


def _fields_of(kind: type) -> JsonSchema:
    """An object with the fields of a dataclass; at_us is printed as `at`."""
    fields = {name: _typed(hint) for name, hint in get_type_hints(kind).items() if name != "at_us"}
    return {"type": "object", "required": list(fields), "properties": fields}


def _typed(hint: Any) -> JsonSchema:
    """The schema of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Diagnosis:
        return _verdict_with({})
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if hint is NoneType:
        return {"type": "null"}
    if is_dataclass(hint):
        return _fields_of(hint)  # type: ignore[arg-type]
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [_typed(each) for each in inner]}
    if origin is dict:
        return {"type": "object", "additionalProperties": _typed(inner[1])}
    assert origin in (tuple, frozenset), hint
    return {"type": "array", "items": _typed(inner[0])}
