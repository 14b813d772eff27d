"""Verdicts as JSON lines, one for each subscription as it is judged.

A line is one of the document's subscriptions, with when it was judged and from what. A topic that
could not be read has a line too, without a subscription: it is unknown, for the reason it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis, ReportedBy
from pulsar_doctor.report.stall_check.document import (
    CHECKED,
    DIAGNOSIS,
    as_json,
    moment_json,
)
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.printable import json_text

SCHEMA = "pulsar-doctor/verdict/3"
CARRIES = {"after", "steady"}


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """Writes every verdict, then what could not be read; several runs may follow each other."""
    for diagnosis in checkup.examined():
        head = _head(checkup, diagnosis.sources)
        out.write(json_text(head | CHECKED(diagnosis)) + "\n")
    for topic, reason in checkup.unreachable:
        out.write(json_text(_head(checkup) | _unread(topic, reason)) + "\n")


def _head(checkup: Checkup, sources: Sequence[ReportedBy] = ()) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "checked_at": moment_json(checkup),
        "source": checkup.source,
        "sources": list(sources),
        "cluster": as_json(checkup.cluster),
    }


def _unread(topic: str, reason: str) -> dict[str, Any]:
    nothing = Diagnosis(topic, None, "", None, "unknown", findings=(), unknowns=(reason,))
    return DIAGNOSIS(nothing) | {"subscription": None}
