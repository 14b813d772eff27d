"""The segments of a scalable topic: hash ranges, states, parents and children.

A scalable topic (Pulsar 5) keeps no messages itself. Each segment is a topic with a range
of key hashes. A split or a merge seals segments and makes children of them: a sealed segment takes
no more messages, and is deleted once every subscription has acknowledged all that it holds.

Source: ScalableTopicMetadata of pulsar-client-admin-api 5.0.0-M1, and SegmentTopicName of
pulsar-common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pulsar_doctor.broker.stats.fields import ROOT, Fields, as_object
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.errors import InputError


@dataclass(frozen=True, slots=True)
class TopicSegment:
    """One segment. Moments are epoch milliseconds; None: not so yet, or not reported."""

    id: int
    name: str | None  # of the topic; None where only the statistics of the topic report it
    hash_start: int
    hash_end: int  # included
    active: bool
    parents: tuple[int, ...] = ()
    children: tuple[int, ...] = ()
    created_ms: int | None = None
    sealed_ms: int | None = None
    # For how long one has been loaded, at least, that is not in the topic's metadata.
    seen_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A segment among the others of the topic."""

    topic: str
    segment: TopicSegment
    segments: Mapping[int, TopicSegment]
    # Of each now; one that no broker has loaded is missing.
    stats: Mapping[int, TopicStats] = field(default_factory=dict)
    unlisted: tuple[TopicSegment, ...] = ()  # loaded, and not in the metadata


def segments_of(topic: str, document: Any) -> dict[int, TopicSegment]:
    """The segments in a topic's metadata, by number. Raises InputError for a wrong document."""
    given = Fields(as_object(document, ROOT)).by_name("segments", partial(_segment, topic))
    if given is None:
        raise InputError(f"the answer for {topic} holds no segments")
    return {each.id: each for each in sorted(given.values(), key=lambda each: each.id)}


def unlisted_in(
    loaded: Mapping[str, float], segments: Mapping[int, TopicSegment]
) -> tuple[TopicSegment, ...]:
    """Loaded segments that the metadata lacks. loaded: by name, seconds since first seen."""
    listed = {each.name for each in segments.values()}
    found = []
    for name in sorted(loaded.keys() - listed):
        start, end, number = name.rpartition("/")[2].split("-")
        hashes, seconds = (int(start, 16), int(end, 16)), loaded[name]
        found.append(TopicSegment(int(number), name, *hashes, active=False, seen_seconds=seconds))
    return tuple(found)


def _segment(topic: str, given: Fields) -> TopicSegment:
    hashes, number = given.inner("hashRange"), given.whole("segmentId")
    start, end = (hashes.whole("start"), hashes.whole("end")) if hashes else (None, None)
    if number is None or start is None or end is None:
        raise InputError(f"a segment of {topic} has no number or no hash range")
    local = f"{start:04x}-{end:04x}-{number}"
    created_ms, sealed_ms = (given.whole(name) or 0 for name in ("createdAtMs", "sealedAtMs"))
    return TopicSegment(
        id=number,
        name=None if given.flag("legacy") else f"segment{topic.removeprefix('topic')}/{local}",
        hash_start=start,
        hash_end=end,
        active=given.text("state") == "ACTIVE",
        parents=numbers_in(given.document.get("parentIds")),
        children=numbers_in(given.document.get("childIds")),
        created_ms=created_ms if created_ms > 0 else None,
        sealed_ms=sealed_ms if sealed_ms > 0 else None,
    )


def numbers_in(given: Any) -> tuple[int, ...]:
    """Numbers of segments in a document; none where it is no list."""
    return tuple(each for each in given if isinstance(each, int)) if isinstance(given, list) else ()
