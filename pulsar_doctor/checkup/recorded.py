"""Judges recordings: a trace of the wire, or files of broker stats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import ReadSamples
from pulsar_doctor.broker.samples import read as read_files
from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.partitions import among_partitions
from pulsar_doctor.checkup.after import Earlier
from pulsar_doctor.checkup.dumped import Dumped
from pulsar_doctor.checkup.judge import Judge, named
from pulsar_doctor.checkup.kinds import Recognised, recognise
from pulsar_doctor.checkup.kinds.transactions import joined
from pulsar_doctor.checkup.logged import Logged
from pulsar_doctor.checkup.one_by_one import Progress, one_by_one
from pulsar_doctor.checkup.result import REST, Checkup, Source, Taken
from pulsar_doctor.checkup.topic_notes import topic_notes
from pulsar_doctor.diagnosis.verdict import ReportedBy
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.evidence import by_wire
from pulsar_doctor.ledger.consumers import Subscription
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.opening import Say, open_folder

NO_STATISTICS = (
    "no file has a broker's statistics, so nothing shows which messages wait: add what "
    "`pulsar-admin topics stats TOPIC` prints"
)


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """What a trace has shown of each subscription, until when, and over how many seconds."""

    folder: Path
    wires: Sequence[Subscription]
    until_ms: int
    seconds: float
    timeline: Timeline  # the ledgers at its end
    reported_by: ReportedBy = "trace"
    notes: tuple[str, ...] = ()  # what it lacks, and what else is worth knowing
    broker_version: str | None = None  # reported when the trace began; None: not reported


def read_trace(folder: Path, *, say: Say, say_more: Say, proven_only: bool = False) -> ReadTrace:
    """A trace in its present state, read once. Raises MissingExtra, TraceError."""
    trace = open_folder(folder, say, proven_only=proven_only)
    timeline = trace.timeline()
    say_more(f"{timeline.next_seq} commands of {len(timeline.consumers)} consumers")
    began_ns = max(trace.meta.clocks.get("mono_ns", timeline.now_ns), trace.expired().until_ns)
    seconds = max(0, timeline.now_ns - began_ns) / 1e9
    reported_by: ReportedBy = "capture" if trace.meta.capture else "trace"
    until_ms, notes = timeline.now_us // 1000, tuple(trace.notes)
    version = trace.meta.broker_version
    wires = timeline.subscriptions()
    return ReadTrace(folder, wires, until_ms, seconds, timeline, reported_by, notes, version)


def of_trace(read: ReadTrace, topics: Sequence[str], judge: Judge) -> Checkup:
    """The verdicts on what went over the wire. Raises DoctorError for what is not there."""
    wires = _wanted(read.folder, read.wires, topics, judge.subscription)
    views = map(by_wire.subscription_view, wires)
    diagnoses = [judge.diagnosed(view, [read.reported_by]) for view in views]
    began_ms = read.until_ms - round(read.seconds * 1000)
    taken = Taken(began_ms, read.until_ms, exact=True)
    return Checkup("trace", diagnoses, read.seconds, files=(str(read.folder),), taken=taken)


def _wanted(
    folder: Path, wires: Sequence[Subscription], topics: Sequence[str], subscription: str | None
) -> list[Subscription]:
    """What the arguments name; DoctorError where one of them names nothing."""
    if not wires:
        raise DoctorError(f"{folder} has no consumer: nothing to judge; was its client on the tap?")
    of_topics = [w for w in wires if not topics or any(is_called(w.full_topic, t) for t in topics)]
    found = [wire for wire in of_topics if subscription in (None, wire.subscription)]
    strange = [repr(t) for t in topics if not any(is_called(w.full_topic, t) for w in wires)]
    if not strange and found:
        return found
    what = f"topic {', '.join(strange)}" if strange else f"subscription {subscription!r}"
    where = " of this topic" if topics and not strange else ""
    raise DoctorError(f"{folder} has no {what}{where}; it has {named(wires)}")


def of_files(
    files: SampleFiles, judge: Judge, say: Say, progress: Progress | None = None
) -> Checkup:
    """The verdicts on what files hold; one by one if somebody wants to know how many are made.

    Raises InputError, and DoctorError where it is not there.
    """
    return of_recognised(recognise(files), files, judge, say, progress)


def of_recognised(
    found: Recognised,
    files: SampleFiles,
    judge: Judge,
    say: Say,
    progress: Progress | None = None,
) -> Checkup:
    """The same, where they have been read. Raises DoctorError where it is not there."""
    read = found.samples
    for note in (*found.lines, *read.notes):
        say(note)
    missing = judge.missing(read.windows)
    if missing:
        raise DoctorError(missing)
    answers = [answer for each in found.brought for answer in each.transactions]
    windows = among_partitions([*joined(read.windows, answers)])
    dumps = (dump for each in found.brought for dump in each.dumps)
    dumped = Dumped.of(dumps, files.apart_seconds, windows, others=read.others)
    judge = replace(judge, dumped=dumped.joined)
    logged = Logged([each for each in found.brought if each.known])
    source: Source = "files and trace" if judge.wires else "files"
    checkup = Checkup(source, (), (read.span_ms or 0) / 1000, read.samples)
    checkup.files, checkup.broker_version = tuple(map(called, files.names)), read.broker_version
    checkup.taken, checkup.guess_ms = _taken(read.windows), read.guess_ms
    checkup.notes += (*judge.gone(read.windows), *judge.unjudged(read.windows))
    checkup.notes += topic_notes(windows).of_letters(judge.subscription)
    checkup.unreachable += [(REST, f"{why}, so others may be missing") for why in found.incomplete]
    checkup.unreachable += [] if windows else [(REST, NO_STATISTICS)]
    checkup.unreachable += judge.not_compared()
    checkup.notes += (*logged.notes, *(note for each in found.brought for note in each.notes))
    judged = (each for window in windows for each in judge.verdicts(window))
    verdicts = dumped.noted(judged, checkup)
    planned = sum(1 for window in windows for _ in judge.wanted(window))
    checkup.diagnoses = one_by_one(map(logged.joined, verdicts), checkup, planned, progress)
    return checkup


def read_earlier(file: str, topics: Sequence[str], judge: Judge) -> Earlier:
    """What a file kept, to be compared with what is there now. topics: as they were requested.

    Raises InputError where it cannot be read, or has nothing of what is requested.
    """
    try:
        kept, lacks = _kept(file, topics)
        missing = judge.missing(kept.windows)
    except InputError:
        raise
    except DoctorError as error:
        raise InputError(f"nothing to compare with: {error}") from None
    if missing:
        raise InputError(f"nothing to compare with in {called(file)}: {missing}")
    known = {
        observed.key: (observed, diagnosis)
        for observed, diagnosis in judge.judged(among_partitions(kept.windows))
    }
    return Earlier(called(file), known, lacks)


def _kept(file: str, topics: Sequence[str]) -> tuple[ReadSamples, tuple[str, ...]]:
    """What a file kept of these topics, and a sentence on those that it has not."""
    try:
        return read_files(SampleFiles([file], named=topics)), ()
    except DoctorError as error:
        every = read_files(SampleFiles([file])) if len(topics) > 1 else ReadSamples(())
        names = [window.full_topic for window in every.windows]
        if not any(is_called(name, each) for name in names for each in topics):
            raise
        return every, (f"not compared: {error}",)


def _taken(windows: Sequence[TopicWindow]) -> Taken | None:
    samples = [sample for each in windows for sample in each.window.samples]
    moments = [sample.now_ms for sample in samples if sample.now_ms is not None]
    if not moments:
        return None
    return Taken(min(moments), max(moments), all(sample.now_known for sample in samples))
