"""Says of each segment that was read where it is in its scalable topic, and how the others are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from pulsar_doctor.broker.admin import Admin, topic_name
from pulsar_doctor.broker.admin.topics import SEGMENT
from pulsar_doctor.broker.sampling.plan import Sampled
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.segments import SegmentPlace, TopicSegment, unlisted_in
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.errors import DoctorError

Segments = Mapping[int, TopicSegment]
KnownSegments = tuple[Segments, Mapping[int, TopicStats]]


async def placed(admin: Admin, sampled: Sampled) -> Sampled:
    """The same windows, those of segments with their place; without it where it is not reported."""
    names = [topic_name(each.topic) for each in sampled.windows]
    topics = {str(each.of_all_segments) for each in names if each.domain == SEGMENT}
    if not topics:
        return sampled
    known = dict(
        zip(topics, await asyncio.gather(*(_known(admin, t) for t in topics)), strict=True)
    )
    windows = tuple(
        replace(window, place=_place(admin, window, str(name.of_all_segments), known))
        for window, name in zip(sampled.windows, names, strict=True)
    )
    return replace(sampled, windows=windows)


async def _known(admin: Admin, topic: str) -> KnownSegments:
    """Every segment, and the statistics of those that are loaded, as they were just read."""
    try:
        segments = await admin.scalable_topic(topic)
    except DoctorError:
        return {}, {}
    named = {each.id: each.name for each in segments.values() if each.name is not None}
    stats = await asyncio.gather(*(_stats(admin, name) for name in named.values()))
    given = dict(zip(named, stats, strict=True))
    return segments, {number: each for number, each in given.items() if each is not None}


async def _stats(admin: Admin, segment: str) -> TopicStats | None:
    try:
        return topic_stats((await admin.topic_stats(segment)).document)
    except DoctorError:
        return None


def _place(
    admin: Admin, window: TopicWindow, topic: str, known: Mapping[str, KnownSegments]
) -> SegmentPlace | None:
    segments, stats = known.get(topic, ({}, {}))
    own = next((each for each in segments.values() if each.name == window.topic), None)
    unlisted = unlisted_in(admin.loaded_segments(topic), segments)
    return None if own is None else SegmentPlace(topic, own, segments, stats, unlisted)
