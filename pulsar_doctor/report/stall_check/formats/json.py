"""Verdicts as one JSON document, written as they arrive.

Behind them are the causes, each partition apart, in as much memory as there are causes; and the
verdict on each subscription of a scalable topic as a whole, with all its segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple, TextIO

from pulsar_doctor.broker.stats.segments import TopicSegment
from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.diagnosis.verdict import CauseKey, Diagnosis
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.segments import in_application
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.report.stall_check.document import CHECKED, as_json, moment_json
from pulsar_doctor.report.stall_check.vitals import total
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.printable import json_text

SCHEMA = "pulsar-doctor/stall-check/3"
CARRIES = {"after", "notes", "steady"}
LARGEST_MOST = 10  # of one cause
KEPT_MOST = 10 * LARGEST_MOST  # before the smallest are left out
NAME = "consumer"


@dataclass(slots=True)
class ScalableTopics:
    """Keeps the verdicts on segments that go by, by topic and subscription."""

    _parts: dict[tuple[str, str], list[Diagnosis]] = field(default_factory=dict)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for each in diagnoses:
            if each.whole != each.topic:
                self._parts.setdefault((each.whole, each.subscription), []).append(each)
            yield each

    def document(self) -> dict[str, Any]:
        """One row for each subscription; nothing where no segment was judged."""
        rows = [_row(topic, name, parts) for (topic, name), parts in self._parts.items()]
        return {"scalable_topics": rows} if rows else {}


def _row(topic: str, subscription: str, parts: list[Diagnosis]) -> dict[str, Any]:
    worst = min(parts, key=lambda each: (STATUSES.index(each.status), -(each.backlog or 0)))
    judged = {each.part: each for each in parts}
    known = {each.id: each for part in parts for each in part.segments or ()}
    numbers = sorted({*known, *(number for number in judged if number is not None)})
    return {
        "topic": topic,
        "subscription": subscription,
        "status": worst.status,
        "segment": None if worst.status == "healthy" else worst.part,
        "cause": worst.findings[0].code if worst.findings else None,
        "backlog": _sum([each.backlog for each in parts]),
        "segments": [_segment(number, known.get(number), judged.get(number)) for number in numbers],
        "consumers": _consumers(parts),
    }


def _segment(number: int, segment: TopicSegment | None, judged: Diagnosis | None) -> dict[str, Any]:
    """status: None where the segment does not have the subscription, or was not read."""
    return {
        "segment": number,
        "name": judged.topic if judged else segment and segment.name,
        "hash_range": segment and [segment.hash_start, segment.hash_end],
        "state": segment and ("active" if segment.active else "sealed"),
        "parents": segment and list(segment.parents),
        "children": segment and list(segment.children),
        "status": judged and judged.status,
        "backlog": judged and judged.backlog,
    }


def _consumers(parts: list[Diagnosis]) -> list[dict[str, Any]] | None:
    """Each consumer of the application, combined; None where one segment does not report them."""
    found: dict[str, list[tuple[int, ReportedConsumer]]] = {}
    for part in parts:
        if part.consumers is None or part.part is None:
            return None
        for each in part.consumers:
            name = in_application(each.label, each.address, part.part)
            found.setdefault(name, []).append((part.part, each))
    return [
        {
            NAME: name,
            "segments": sorted({number for number, _ in each}),
            "available_permits": _exact([consumer.available_permits for _, consumer in each]),
            "unacked_messages": _exact([consumer.unacked_messages for _, consumer in each]),
        }
        for name, each in found.items()
    ]


def _exact(counts: list[Count | None]) -> int | None:
    return _sum([None if count is None else count.exact for count in counts])


def _sum(numbers: list[int | None]) -> int | None:
    """None where one is not reported."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


class _Named(NamedTuple):
    topic: str
    partition: int | None
    subscription: str
    backlog: int | None


@dataclass(slots=True)
class _Cost:
    count: int = 0  # of all
    backlog: int | None = None  # of those that report it; None: none does
    growth: int | None = None  # a minute, of those that report it; None: none does
    soonest: float = math.inf  # seconds until one of them reaches a limit
    members: list[_Named] = field(default_factory=list)  # the largest, if there are very many

    def add(self, one: Diagnosis) -> None:
        """One more."""
        self.count += 1
        self.backlog = total((self.backlog, one.backlog))
        self.growth = total((self.growth, one.growth))
        self.soonest = min(self.soonest, one.soonest)
        self.members.append(_Named(one.topic, one.partition, one.subscription, one.backlog))
        if len(self.members) >= KEPT_MOST:
            self.members = self.largest()

    def largest(self) -> list[_Named]:
        """The largest backlogs first, of those as large who came first."""
        return nlargest(LARGEST_MOST, self.members, key=lambda member: member.backlog or 0)


@dataclass(slots=True)
class Causes:
    """Keeps the causes of verdicts that go by."""

    _known: dict[CauseKey, _Cost] = field(default_factory=dict)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for each in diagnoses:
            key = each.first_cause
            if key is not None:
                self._known.setdefault(key, _Cost()).add(each)
            yield each

    def document(self) -> list[dict[str, Any]]:
        """The document's causes, the worst first, and of those as bad what costs most."""
        return [
            {
                "code": code,
                "severity": severity,
                "subscriptions": cost.count,
                "backlog": cost.backlog,
                "growth": cost.growth,
                "largest": [each._asdict() for each in cost.largest()],
            }
            for (code, severity), cost in sorted(self._known.items(), key=_worst_first)
        ]


def _worst_first(known: tuple[CauseKey, _Cost]) -> tuple[int, float, int, int]:
    (_, severity), cost = known  # what is information is no cause
    place = STATUSES.index(severity or "unknown")
    return place, cost.soonest, -(cost.backlog or 0), -(cost.growth or 0)


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The document, a line for each subscription; what is known last comes last."""
    text = json_text(_head(checkup))
    out.write(f'{text[:-1]}, "subscriptions": [')
    causes, scalable = Causes(), ScalableTopics()
    diagnoses = scalable.through(causes.through(checkup.examined()))
    for number, diagnosis in enumerate(diagnoses):
        out.write(",\n" if number else "\n")
        out.write(json_text(CHECKED(diagnosis)))
    out.write(f"\n], {json_text(scalable.document() | _tail(checkup, causes))[1:]}\n")


def _head(checkup: Checkup) -> dict[str, Any]:
    return {"schema": SCHEMA, "checked_at": moment_json(checkup), "source": checkup.source}


def _tail(checkup: Checkup, causes: Causes) -> dict[str, Any]:
    unreachable = [{"topic": topic, "reason": reason} for topic, reason in checkup.unreachable]
    examined = {} if checkup.process is None else {"process": as_json(checkup.process)}
    return {
        **examined,
        "causes": causes.document(),
        "sources": checkup.sources,
        "cluster": as_json(checkup.cluster),
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
