"""JSON in version 2, for programs that use its names (--json-version 2, until 0.3.0).

Version 3 gives a number one name everywhere. This table has the names that were others before;
docs/json.md lists them. Remove this file, and its uses, with 0.3.0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from pulsar_doctor.diagnosis.answers import Finding

VARIABLE = "PULSAR_DOCTOR_JSON_VERSION"
SCHEMAS = {  # a document's schema: what it was in version 2
    "stall-check/3": "stall-check/2", "verdict/3": "verdict/2", "tap/2": "tap/1",
    "consume/2": "consume/1", "simulate/2": "simulate/1", "analyze/2": "analyze/1",
}  # fmt: skip
# Fields of an object, and values of lists of names and of `name`.
NAMES = {
    "consumer": {
        "connected_for": "connected", "receiver_queue_size": "queue_size",
        "available_permits": "permits", "unacked_messages": "held",
        "max_unacked_messages_per_consumer": "unacked_limit",
        "blocked_consumer_on_unacked_msgs": "blocked", "msg_out_counter": "sent",
        "permits_granted": "granted", "next_flow_after": "until_flow",
        "since_last_ack": "since_ack", "since_last_flow": "since_flow",
        "since_last_delivery": "since_delivery", "quiet_for": "quiet", "idle_for": "idle",
    },
    "snapshot": {
        "name": "consumer_name", "address": "client_addr", "flows": "flow_count",
        "msg_out_counter": "messages", "since_last_flow": "last_flow_seconds",
    },
    "refused": {"address": "client_addr"},
    "passed_by": {"address": "client_addr"},
    "suspect": {
        "since_last_ack": "last_acked_timestamp", "permits_owed": "owed",
        "permits_granted": "granted",
    },
    "moved": {"available_permits": "permits", "unacked_messages": "holds"},
}  # fmt: skip
# Evidence of a finding: by its code, or of any. One number had two names in some.
EVIDENCE: dict[str | None, dict[str, tuple[str, ...]]] = {
    None: {
        "queued": ("queued_min",),
        "unacked_entries": ("held_entries_most",),
        "sending_after": ("permits_after",),
    },
    "closed-unacknowledged": {"unacked_messages": ("held",)},
    "exclusive-zombie": {"since_work": ("silent_for",)},
    "inactive-failover": {"unacked_entries": ("held",)},
    "negative-permits": {"quiet_for": ("quiet_for", "silent_for")},
    "not-acknowledging": {"unacked_messages": ("held_least",), "quiet_for": ("silent_for",)},
    "permit-leak": {
        "permits_owed": ("missing_permits_least",),
        "since_last_flow": ("since_last_flow", "last_flow_ago"),
    },
    "listener-stuck": {"queued": ("queued",)},
    "nobody-receives": {"queued": ("queued",)},
    "paused": {"queued": ("queued",)},
    "receive-deadlock": {"queued": ("queued",)},
}
BOUND_IN_NAME = ("_least", "_most", "_min")
UNITS = {"holds_since": "seconds ago"}


def is_old() -> bool:
    """Whether the names of version 2 are asked for."""
    return os.environ.get(VARIABLE) == "2"


def schema(name: str) -> str:
    """The whole name of a schema, which may be one of SCHEMAS."""
    return f"pulsar-doctor/{SCHEMAS.get(name, name) if is_old() else name}"


def renamed(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    """An object of this kind with the names of its fields."""
    names = NAMES.get(kind, {}) if is_old() else {}
    return {names.get(name, name): value for name, value in document.items()} if names else document


def listed(kind: str, names: Iterable[str]) -> list[str]:
    """A list of names."""
    old = NAMES[kind] if is_old() else {}
    return [old.get(name, name) for name in names]


def evidence(finding: Finding) -> list[dict[str, Any]]:
    """The numbers of a finding."""
    told = [measure.document() for measure in finding.evidence]
    return [each for one in told for each in _before(finding.code, one)] if is_old() else told


def _before(code: str, measure: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A number under each name that it had."""
    name = measure["name"]
    names = EVIDENCE.get(code, {}).get(name) or EVIDENCE[None].get(name, (name,))
    for old in names:
        told = measure | {"name": old, "unit": UNITS.get(old, measure["unit"])}
        if old.endswith(BOUND_IN_NAME):
            told.pop("bound", None)
        yield told
