"""What `tap -o jsonl` prints: each event as JSON, and the JSON Schema by the types of events."""

from __future__ import annotations

from typing import Any, get_type_hints

from pulsar_doctor.parts.tap.events import Answering, Counters, End, Event, Listening
from pulsar_doctor.parts.tap.observer.events import EVENTS, Counted, Verdict
from pulsar_doctor.parts.tap.relay.lines import Table
from pulsar_doctor.report.schemas import JsonSchema, fields_of, typed, verdict_with
from pulsar_doctor.report.stall_check.document import DIAGNOSIS
from pulsar_doctor.report.trace.rows import iso
from pulsar_doctor.wording.typed_json import to_json

SCHEMA = "pulsar-doctor/tap/2"
SHOWN: Table[Event] = Table(
    "event",
    {
        **EVENTS.kinds,
        "listening": Listening,
        "counters": Counters,
        "observer": Answering,
        "end": End,
    },
)


def event_json(event: Event) -> dict[str, Any]:
    """The schema, which event it is, when it was in UTC, and its fields."""
    head = {"schema": SCHEMA, "event": SHOWN.kind_of(event), "at": iso(event.at_us)}
    match event:
        case Verdict():  # as stall-check's document has it
            return {**head, "before": event.before, **DIAGNOSIS(event.diagnosis)}
        case Counters():
            numbers = event.observer and numbers_of(event.observer)
            return {**head, "relay": event.relay, "observer": numbers}
        case End():
            subscriptions = [*map(DIAGNOSIS, event.subscriptions)]
            return {**head, **_document(event), "subscriptions": subscriptions}
    return {**head, **_document(event)}


def numbers_of(counted: Counted) -> dict[str, int]:
    """By their names."""
    return _document(counted)


def _document(event: Event) -> dict[str, Any]:
    document = to_json(event)
    del document["at_us"]
    return document


def _tap() -> JsonSchema:
    return {"anyOf": [_event(each, kind) for each, kind in SHOWN.kinds.items()]}


def _event(name: str, kind: type) -> JsonSchema:
    head = {"schema": {"const": SCHEMA}, "event": {"const": name}, "at": {"type": "string"}}
    if kind is Verdict:
        return verdict_with(head | {"before": typed(get_type_hints(kind)["before"])})
    properties = head | fields_of(kind)["properties"]
    return {"type": "object", "required": list(properties), "properties": properties}


SCHEMAS = {"tap": _tap}
