"""Reads windows of samples from a file of `--save`, even if a crash cut it off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, BinaryIO

from pulsar_doctor.broker.samples.files import called, lines_of, located
from pulsar_doctor.broker.samples.reading import (
    SCHEMA,
    VERSION,
    StatsAnswer,
    check_found,
    is_called,
)
from pulsar_doctor.broker.stats.fields import ROOT, Fields, as_object, document_of
from pulsar_doctor.broker.stats.observed import NO_LIMITS, ClusterLimits, TopicWindow
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.segments import SegmentPlace, TopicSegment, numbers_in
from pulsar_doctor.broker.stats.transactions import NO_TRANSACTIONS, Transactions
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.ledger.topics import split_partition, split_segment
from pulsar_doctor.wording.typed_json import Misread, of_json

EFFECT = "backlog_quota_policy"  # the only limit that is text
READINGS_MOST = 50_000  # of one topic: at one a second more than half a day

# Segments by number; the loaded ones; those that the topic's metadata does not list.
_Segments = tuple[dict[int, TopicSegment], tuple[int, ...], tuple[TopicSegment, ...]]


@dataclass(slots=True)
class Saved:
    """What a samples file holds of the requested topics; filled line by line."""

    name: str
    topics: Sequence[str]
    # each topic of the file -> it was requested
    wanted: dict[str, bool] = field(default_factory=dict)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    limits: dict[str, ClusterLimits] = field(default_factory=dict)
    segments: dict[str, _Segments] = field(default_factory=dict)
    transactions: dict[str, Transactions] = field(default_factory=dict)
    cut: bool = False  # the file ends early
    broker_version: str | None = None  # None: not reported

    def take(self, document: Any) -> None:
        """Adds one line. Raises InputError if it is not a line of a samples file."""
        line = Fields(as_object(document, ROOT))
        topic = line.text("topic")
        if topic is None:
            raise InputError("it names no topic")
        self.broker_version = line.text("broker_version") or self.broker_version
        limits = line.inner("limits")
        if limits is not None:
            self.limits[topic] = _limits(limits)
        if "segments" in line.document:
            self.segments[topic] = _segments(line)
        if "transactions" in line.document:
            self.transactions[topic] = _transactions(line)
        if "stats" in line.document and self._wants(topic):
            stats, internal = line.document["stats"], line.document.get("internal")
            sample = StatsAnswer(topic, line.time_ms("taken_ms"), stats, internal).sample()
            samples = self.samples.setdefault(topic, [])
            require_next(sample, samples)
            samples.append(sharing(sample, samples[-1]) if samples else sample)

    def _wants(self, topic: str) -> bool:
        if topic not in self.wanted:
            named = any(is_called(topic, each) for each in self.topics)
            self.wanted[topic] = named or not self.topics
        return self.wanted[topic]

    def windows(self) -> list[TopicWindow]:
        """The windows by name and partition. Raises DoctorError if a topic is missing."""
        if not self.wanted:
            raise DoctorError(
                f"{called(self.name)} holds no reading of any topic: nothing to judge"
            )
        check_found(self.topics, self.wanted, called(self.name))
        return [self._window(topic) for topic in sorted(self.samples, key=_partition)]

    def _window(self, topic: str) -> TopicWindow:
        base, partition = split_partition(topic)
        limits = self.limits.get(topic) or self.limits.get(base) or NO_LIMITS
        with located(f"{called(self.name)}, {topic}"):
            window = Window(tuple(self.samples[topic]))
        limits = limits.on(self.broker_version)
        open_ones = self.transactions.get(topic, NO_TRANSACTIONS)
        place = self._place(topic)
        return TopicWindow(base, partition, window, limits, place=place, transactions=open_ones)

    def _place(self, topic: str) -> SegmentPlace | None:
        """A segment among the others, if the file has all that its broker had loaded."""
        segments, loaded, unlisted = self.segments.get(topic, ({}, (), ()))
        names = {number: each.name for number, each in segments.items() if each.name}
        own = next((segments[number] for number, name in names.items() if name == topic), None)
        if own is None or any(names.get(number) not in self.samples for number in loaded):
            return None
        stats = {number: self.samples[names[number]][-1].topic for number in loaded}
        return SegmentPlace(split_segment(topic)[0], own, segments, stats, unlisted)


def require_next(sample: Sample, before: Sequence[Sample]) -> None:
    """Raises InputError if the sample cannot follow those before it."""
    if len(before) == READINGS_MOST:
        raise InputError(f"there are more than {READINGS_MOST} readings of one topic")
    earlier = before[-1].taken_ms if before else None
    if earlier is not None and sample.taken_ms is not None and sample.taken_ms < earlier:
        raise InputError("the samples are not in order of time; give the oldest first")


def sharing(sample: Sample, before: Sample) -> Sample:
    """The sample, sharing with the one before it what is equal: most topics of a fleet idle."""
    topic = before.topic if sample.topic == before.topic else sample.topic
    internal = before.internal if sample.internal == before.internal else sample.internal
    return Sample(sample.taken_ms, topic, internal)


def read_saved(stream: BinaryIO, name: str, schema: str, topics: Sequence[str]) -> Saved:
    """Reads a samples file behind its first line. schema: of that first line.

    Raises InputError with the number of a line that cannot be read.
    """
    check_version(schema, name)
    saved = Saved(name, topics)
    try:
        for number, line in enumerate(lines_of(stream, name), 2):
            if line.isspace():
                continue
            if not line.endswith(b"\n") and not is_whole(line):
                saved.cut = True
                break
            with located(f"line {number} of {called(name)}"):
                saved.take(document_of(line, "it"))
    except EOFError:
        saved.cut = True
    return saved


def is_whole(line: bytes) -> bool:
    """Whether a last line without a line break is complete."""
    try:
        document_of(line, "it")
    except InputError:
        return False
    return True


def check_version(schema: str, name: str) -> None:
    """Raises InputError if this program cannot read samples of this schema."""
    version = schema.removeprefix(SCHEMA)
    if not schema.startswith(SCHEMA):
        raise InputError(
            f"{called(name)} is a document of pulsar-doctor itself, {schema}, and holds no "
            "samples; `stall-check --save FILE` keeps them"
        )
    if version != str(VERSION):
        raise InputError(
            f"{called(name)} has samples of version {version}, this program reads {VERSION}: "
            "use a newer pulsar-doctor"
        )


def _limits(reported: Fields) -> ClusterLimits:
    numbers = {e.name: reported.whole(e.name) for e in fields(ClusterLimits) if e.name != EFFECT}
    return ClusterLimits(**numbers, backlog_quota_policy=reported.text(EFFECT))


def _transactions(line: Fields) -> Transactions:
    try:
        return of_json(Transactions, line.document["transactions"])
    except (Misread, TypeError) as error:
        raise InputError(f"its transactions cannot be read: {error}") from None


def _segments(line: Fields) -> _Segments:
    try:
        found = [of_json(TopicSegment, each) for each in line.document["segments"]]
    except (Misread, TypeError) as error:
        raise InputError(f"its segments cannot be read: {error}") from None
    loaded = numbers_in(line.document.get("loaded"))
    listed = {each.id: each for each in found if each.seen_seconds is None}
    return listed, loaded, tuple(each for each in found if each.seen_seconds is not None)


def _partition(topic: str) -> tuple[str, int]:
    base, partition = split_partition(topic)
    return base, -1 if partition is None else partition
