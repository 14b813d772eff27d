"""The JSON Schema of what `tap -o jsonl` prints, made from the types of its events."""

from __future__ import annotations

from typing import get_type_hints

from pulsar_doctor.parts.tap.observer.events import Verdict
from pulsar_doctor.parts.tap.report.document import SCHEMA, SHOWN
from pulsar_doctor.report.schemas import JsonSchema, fields_of, typed, verdict_with


def _tap() -> JsonSchema:
    return {"anyOf": [_event(each, kind) for each, kind in SHOWN.kinds.items()]}


def _event(name: str, kind: type) -> JsonSchema:
    head = {"schema": {"const": SCHEMA}, "event": {"const": name}, "at": {"type": "string"}}
    if kind is Verdict:
        return verdict_with(head | {"before": typed(get_type_hints(kind)["before"])})
    properties = head | fields_of(kind)["properties"]
    return {"type": "object", "required": list(properties), "properties": properties}


SCHEMAS = {"tap": _tap}
