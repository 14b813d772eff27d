"""An event of a tap as JSON."""

from __future__ import annotations

from typing import Any

from pulsar_doctor.parts.tap.events import Answering, Counters, End, Event, Listening
from pulsar_doctor.parts.tap.observer.events import EVENTS, Counted, Verdict
from pulsar_doctor.parts.tap.relay.lines import Table
from pulsar_doctor.report.stall_check.document import diagnosis_json
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
            return {**head, "before": event.before, **diagnosis_json(event.diagnosis)}
        case Counters():
            numbers = event.observer and numbers_of(event.observer)
            return {**head, "relay": event.relay, "observer": numbers}
        case End():
            subscriptions = [diagnosis_json(diagnosis) for diagnosis in event.subscriptions]
            return {**head, **_document(event), "subscriptions": subscriptions}
    return {**head, **_document(event)}


def numbers_of(counted: Counted) -> dict[str, int]:
    """By their names."""
    return _document(counted)


def _document(event: Event) -> dict[str, Any]:
    document = to_json(event)
    del document["at_us"]
    return document
