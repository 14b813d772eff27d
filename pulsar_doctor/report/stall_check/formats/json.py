"""Verdicts as one JSON document, written as they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.report.process import process_json
from pulsar_doctor.report.stall_check.by_cause import Causes
from pulsar_doctor.report.stall_check.document import checked_json, cluster_json, moment_json
from pulsar_doctor.report.stall_check.scalable import ScalableTopics
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.printable import json_text

SCHEMA = "pulsar-doctor/stall-check/3"
CARRIES = {"after", "notes", "steady"}


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The document, a line for each subscription; what is known last comes last."""
    text = json_text(_head(checkup))
    out.write(f'{text[:-1]}, "subscriptions": [')
    causes, scalable = Causes(), ScalableTopics()
    diagnoses = scalable.through(causes.through(checkup.examined()))
    for number, diagnosis in enumerate(diagnoses):
        out.write(",\n" if number else "\n")
        out.write(json_text(checked_json(diagnosis)))
    out.write(f"\n], {json_text(scalable.document() | _tail(checkup, causes))[1:]}\n")


def _head(checkup: Checkup) -> dict[str, Any]:
    return {"schema": SCHEMA, "checked_at": moment_json(checkup), "source": checkup.source}


def _tail(checkup: Checkup, causes: Causes) -> dict[str, Any]:
    unreachable = [{"topic": topic, "reason": reason} for topic, reason in checkup.unreachable]
    examined = {} if checkup.process is None else {"process": process_json(checkup.process)}
    return {
        **examined,
        "causes": causes.document(),
        "sources": checkup.sources,
        "cluster": cluster_json(checkup),
        "window_seconds": round(checkup.window_seconds, 3),
        "samples": checkup.samples,
        **_of_fleet(checkup),
        **({"partial": True} if checkup.stopped else {}),
        "suppressed": sum(checkup.tally.suppressed.values()),
        "not_loaded": checkup.not_loaded,
        "unreachable": unreachable,
        "notes": [*_notes(checkup)],
    }


def _of_fleet(checkup: Checkup) -> dict[str, int]:
    """How many topics were looked at once, and how many for the window; a fleet alone has both."""
    if not (checkup.read_once or checkup.watched):
        return {}
    counts = {"topics_read_once": checkup.read_once, "topics_watched": checkup.watched}
    ago = checkup.read_once_seconds_ago
    return counts | ({"topics_read_once_seconds_ago": ago} if ago else {})


def _notes(checkup: Checkup) -> Iterator[dict[str, str | None]]:
    """topic: null where a note is on a trace as a whole."""
    for note in checkup.trace_notes:
        yield {"topic": None, "note": note}
    for topic, note in checkup.notes:
        yield {"topic": topic, "note": note}
