"""Judges recordings of one incident, and brings what they show over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import ReadSamples
from pulsar_doctor.broker.samples import read as read_files
from pulsar_doctor.checkup.case import case_of, of_case
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.live import LiveRequest, kept_samples
from pulsar_doctor.checkup.recorded import (
    ReadTrace,
    of_samples,
    of_trace,
    open_folder,
    read_trace,
)
from pulsar_doctor.checkup.redacting import LEFT_OUT, Pseudonyms
from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.checkup.timelines.of_rows import COLUMNS, RowTimelines
from pulsar_doctor.checkup.timelines.of_samples import timelines_of_samples
from pulsar_doctor.checkup.timelines.timeline import DRAWN_MOST, SHOWN_MOST, Timelines, together
from pulsar_doctor.ledger.consumers import Consumer, full_name
from pulsar_doctor.ledger.timeline import Timeline

NO_BACKLOG = "the backlog is not drawn: it is not part of a trace"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recordings:
    """A trace, files of a broker's statistics, or both; one of them is there."""

    folder: Path | None
    files: SampleFiles
    proven_only: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """The verdicts, and the timelines of the consumers that they are about."""

    checkup: Checkup
    timelines: Timelines


def of_live(request: LiveRequest, topics: Sequence[str], judge: Judge) -> Incident:
    """Topics of a live broker over the window of the request. Raises DoctorError, InputError."""
    with kept_samples(request, topics, judge, "show on a page") as (checkup, file):
        read = read_files(SampleFiles([str(file)]))
    return Incident(checkup, _sampled(read, judge))


def of_recordings(those: Recordings, judge: Judge, say: Say, say_more: Say) -> Incident:
    """Raises MissingExtra, TraceError, InputError, and DoctorError for what is not there."""
    if those.folder is None:
        return _named(*_of_files(those, judge, say))
    trace = read_trace(those.folder, say=say, say_more=say_more, proven_only=those.proven_only)
    if those.files:
        both = replace(judge, wires=trace.wires, wires_by=trace.told_by)
        checkup, sampled = _of_files(those, both, say)
    else:
        checkup, sampled = of_trace(trace, those.files.named, judge), Timelines(notes=(NO_BACKLOG,))
    checkup.trace_notes = trace.notes
    checkup.broker_version = checkup.broker_version or trace.broker_version
    recorded = _of_rows(checkup, trace, proven_only=those.proven_only)
    return _named(checkup, together(recorded, sampled))


def redacted(incident: Incident, judge: Judge, changes: Sequence[str]) -> Incident:
    """The same with pseudonyms in place of names; judge: which made its verdicts, keeps views."""
    names, drawn = Pseudonyms(), incident.timelines
    case = names.case(case_of(incident.checkup, changes))
    checkup = of_case(case, replace(judge, subscription=None), (), "the case")
    notes = (LEFT_OUT,) if drawn.notes else ()
    return Incident(checkup, replace(names.value(replace(drawn, notes=())), notes=notes))


def _named(checkup: Checkup, timelines: Timelines) -> Incident:
    """Files without their folders, which are of no use elsewhere."""
    checkup.files = tuple(PurePath(each).name for each in checkup.files)
    return Incident(checkup, timelines)


def _of_files(those: Recordings, judge: Judge, say: Say) -> tuple[Checkup, Timelines]:
    read = read_files(those.files)
    return of_samples(read, those.files, judge, say), _sampled(read, judge)


def _sampled(read: ReadSamples, judge: Judge) -> Timelines:
    return timelines_of_samples(each for window in read.windows for each in judge.asked(window))


def _of_rows(checkup: Checkup, trace: ReadTrace, *, proven_only: bool) -> Timelines:
    """Reads the trace a second time: its first reading keeps no row."""
    opened = open_folder(trace.folder, lambda _: None, proven_only=proven_only)
    timeline = trace.timeline
    lives = _worst_first(checkup, timeline)
    shown = lives[:SHOWN_MOST]
    ends_us = {each.incarnation: each.closed_us or timeline.now_us for each in shown}
    made = RowTimelines(ends_us)
    for row in opened.rows(COLUMNS):
        made.add(row)
    return replace(made.finished(timeline.now_us), left_out=len(lives) - len(shown))


def _worst_first(checkup: Checkup, timeline: Timeline) -> list[Consumer]:
    """The consumers of subscriptions that were judged, what was longest without permits first; but
    before all others a few of the worst verdicts."""
    verdicts = {
        (full_name(each.topic, each.partition), each.subscription): STATUSES.index(each.status)
        for each in checkup.diagnoses
    }

    def longest(consumer: Consumer) -> tuple[int, int, int]:
        longest_ns = consumer.ledger.starvation(timeline.now_ns).longest_ns
        return -longest_ns, -consumer.ledger.messages, consumer.incarnation

    judged = [e for e in timeline.consumers if (e.topic, e.subscription) in verdicts]
    judged.sort(key=longest)
    first = sorted(judged, key=lambda e: verdicts[e.topic, e.subscription])[:DRAWN_MOST]
    chosen = {each.incarnation for each in first}
    return [*first, *(each for each in judged if each.incarnation not in chosen)]
