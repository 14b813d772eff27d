"""Judges recordings of one incident, and brings what they show over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import ReadSamples
from pulsar_doctor.broker.samples import read as read_files
from pulsar_doctor.checkup.case import SavedCase, case_of, of_case
from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.found import holes_in
from pulsar_doctor.checkup.holes.from_trace import ACK_COLUMNS, AckedRows, by_name, judged
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.kinds import recognise
from pulsar_doctor.checkup.live import LiveRequest, kept_samples
from pulsar_doctor.checkup.recorded import (
    ReadTrace,
    of_recognised,
    of_trace,
    read_trace,
)
from pulsar_doctor.checkup.redacting import LEFT_OUT, Pseudonyms
from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.checkup.timelines.of_rows import COLUMNS, RowTimelines
from pulsar_doctor.checkup.timelines.of_samples import timelines_of_samples
from pulsar_doctor.checkup.timelines.timeline import DRAWN_MOST, SHOWN_MOST, Timelines, together
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.trace.opening import open_folder
from pulsar_doctor.wording.printable import many

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recordings:
    """A trace, files of a broker's statistics, or both; one of them is there."""

    folder: Path | None
    files: SampleFiles
    case: SavedCase | None = None  # of a bundle: what its verdicts were made of
    proven_only: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """The verdicts, the timelines of the consumers that they are about, and holes."""

    checkup: Checkup
    timelines: Timelines
    holes: tuple[CursorAccount, ...] = ()


def of_live(request: LiveRequest, topics: Sequence[str], judge: Judge) -> Incident:
    """Topics of a live broker over the window of the request. Raises DoctorError, InputError."""
    with kept_samples(request, topics, judge, "show on a page") as (checkup, file):
        read = read_files(SampleFiles([str(file)]))
    return _shown(_of_samples(checkup, read, judge))


def of_recordings(those: Recordings, judge: Judge, say: Say, say_more: Say) -> Incident:
    """Raises MissingExtra, TraceError, InputError, and DoctorError for what is not there."""
    if those.folder is None:
        return _shown(_of_files(those, judge, say))
    trace = read_trace(those.folder, say=say, say_more=say_more, proven_only=those.proven_only)
    if those.files:
        both = replace(judge, wires=trace.wires, wires_by=trace.reported_by)
        sampled = _of_files(those, both, say)
    else:
        checkup = of_trace(trace, those.files.named, judge)
        why = "the backlog is not drawn: it is not part of a trace"
        sampled = Incident(checkup, Timelines(notes=(why,)))
    sampled.checkup.trace_notes = trace.notes
    sampled.checkup.broker_version = sampled.checkup.broker_version or trace.broker_version
    return _shown(_with_rows(sampled, trace, proven_only=those.proven_only))


def redacted(incident: Incident, judge: Judge, changes: Sequence[str]) -> Incident:
    """The same with pseudonyms in place of names; judge: which made its verdicts, keeps views."""
    names, drawn = Pseudonyms(), incident.timelines
    case = names.value(case_of(incident.checkup, changes))
    checkup = of_case(case, replace(judge, subscription=None), (), "the case")
    notes = (LEFT_OUT,) if drawn.notes else ()
    timelines = replace(names.value(replace(drawn, notes=())), notes=notes)
    return Incident(checkup, timelines, tuple(_renamed(each, names) for each in incident.holes))


def _renamed(account: CursorAccount, names: Pseudonyms) -> CursorAccount:
    topic, partition = split_partition(names.of("topic", account.full_topic))
    subscription = names.of("subscription", account.subscription)
    unnamed = replace(account, messages=None)  # these name consumers
    return replace(unnamed, topic=topic, partition=partition, subscription=subscription)


def _shown(incident: Incident) -> Incident:
    """Files without their folders, which mean nothing elsewhere; holes that there is room for."""
    incident.checkup.files = tuple(PurePath(each).name for each in incident.checkup.files)
    holes = sorted((e for e in incident.holes if e.has_holes), key=lambda each: each.urgency)
    notes = list(incident.timelines.notes)
    if unknown := sum(e.holes is None and not e.has_holes for e in incident.holes):
        which = f"the holes of {many(unknown, 'subscription')}"
        notes.append(f"{which} are not drawn: where they are is not reported")
    if (others := len(holes) - DRAWN_MOST) > 0:
        more = many(others, "more subscription")
        notes.append(f"{more} with holes not drawn: the first have most ranges")
    drawn = replace(incident.timelines, notes=tuple(notes))
    return replace(incident, timelines=drawn, holes=tuple(holes[:DRAWN_MOST]))


def _of_files(those: Recordings, judge: Judge, say: Say) -> Incident:
    found = recognise(those.files)
    read = found.samples
    if those.case is None:
        return _of_samples(of_recognised(found, those.files, judge, say), read, judge)
    return _of_samples(of_case(those.case, judge, those.files.named, "the bundle"), read, judge)


def _of_samples(checkup: Checkup, read: ReadSamples, judge: Judge) -> Incident:
    drawn = timelines_of_samples(each for window in read.windows for each in judge.wanted(window))
    found = holes_in(read.windows, judge.subscription)
    notes = *drawn.notes, *(why for _, why in found.unreachable)
    return Incident(checkup, replace(drawn, notes=notes), tuple(found.accounts))


def _with_rows(sampled: Incident, trace: ReadTrace, *, proven_only: bool) -> Incident:
    """Reads the trace a second time: its first reading keeps no row."""
    opened = open_folder(trace.folder, lambda _: None, proven_only=proven_only)
    now_us, verdicts = trace.timeline.now_us, _verdicts(sampled.checkup)
    lives = _worst_first(verdicts, trace.timeline)
    shown = lives[:SHOWN_MOST]
    made = RowTimelines({e.incarnation: e.closed_us or now_us for e in shown})
    rows = opened.rows((*COLUMNS, *ACK_COLUMNS))
    acked = AckedRows(map(made.add, rows), opened.meta.storing)
    recorded = replace(made.finished(now_us), left_out=len(lives) - len(shown))
    accounts = {key: acked.account(key)[0] for key in acked.subscriptions if key in verdicts}
    lossy, wires = opened.missing(acked.set_aside).is_loss, by_name(trace.wires)
    holes = {k: judged(each, wires.get(k), incomplete=lossy) for k, each in accounts.items()}
    holes |= {e.key: e for e in sampled.holes if e.ranges is not None}
    return Incident(sampled.checkup, together(recorded, sampled.timelines), tuple(holes.values()))


def _verdicts(checkup: Checkup) -> dict[tuple[str, str], int]:
    """By full topic and subscription, the worst is 0."""
    return {each.key: STATUSES.index(each.status) for each in checkup.diagnoses}


def _worst_first(verdicts: Mapping[tuple[str, str], int], timeline: Timeline) -> list[Consumer]:
    """The consumers of subscriptions that were judged, what was longest without permits first; but
    before all others a few of the worst verdicts."""

    def longest(consumer: Consumer) -> tuple[int, int, int]:
        longest_ns = consumer.ledger.starvation(timeline.now_ns).longest_ns
        return -longest_ns, -consumer.ledger.messages, consumer.incarnation

    judged = [e for e in timeline.consumers if (e.topic, e.subscription) in verdicts]
    judged.sort(key=longest)
    first = sorted(judged, key=lambda e: verdicts[e.topic, e.subscription])[:DRAWN_MOST]
    chosen = {each.incarnation for each in first}
    return [*first, *(each for each in judged if each.incarnation not in chosen)]
