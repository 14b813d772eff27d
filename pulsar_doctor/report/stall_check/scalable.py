"""The verdict on each subscription of a scalable topic as a whole, with all its segments, for JSON.

A consumer of a V5 client is one ordinary consumer on each segment, and one row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.broker.stats.segments import TopicSegment
from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.segments import in_application
from pulsar_doctor.evidence.values import Count

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
