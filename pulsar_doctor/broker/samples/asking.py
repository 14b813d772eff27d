"""Turns `--stats`, `--internal-stats`, `--at` and `--interval` into windows to judge."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import BinaryIO

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples.files import (
    BROKER,
    METRICS,
    STDIN,
    TOPIC,
    called,
    changed_ms,
    first_line,
    opened,
    schema_of,
    whole,
)
from pulsar_doctor.broker.samples.parts import AS_TEXTS, with_numbers
from pulsar_doctor.broker.samples.pasted import Pasted, document_in
from pulsar_doctor.broker.samples.plain import (
    UNNAMED,
    Plain,
    cursors_alone,
    of_document,
    plain_internal,
)
from pulsar_doctor.broker.samples.plain_windows import (
    in_time,
    left_out,
    once,
    plain_windows,
    timed,
)
from pulsar_doctor.broker.samples.reading import is_called
from pulsar_doctor.broker.samples.saved import Saved, read_saved
from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.sample import CLOCK_SLACK_MS
from pulsar_doctor.broker.stats.values import epoch_ms
from pulsar_doctor.broker.stats.window import Window, connections
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.printable import many

ReadsFile = Callable[[bytes, str], list[Plain]]  # of the content of a file, and its name

NO_TIME = (
    "it is not known when the last file was taken, so all ages are lower bounds; "
    "give the time with --at"
)
AT_IS_EARLY = "--at lies before moments of the last file; all ages are lower bounds"
NO_DISTANCE = (
    "it is not known how far apart the files were taken (see --interval); what grew between them "
    "is used, and a pace only between acks whose moments they hold"
)


@dataclass(frozen=True, slots=True)
class ReadSamples:
    """The windows, by topic and partition."""

    windows: tuple[TopicWindow, ...]
    notes: tuple[str, ...] = ()  # for the reader of the verdict
    incomplete: tuple[str, ...] = ()  # a sentence for each reason why subscriptions may be missing
    broker_version: str | None = None  # as a file of `--save` reports it; None: not reported
    others: bool = False  # whether the files have topics that were not requested

    @property
    def samples(self) -> int:
        """Samples in the longest window."""
        return max((len(each.window.samples) for each in self.windows), default=0)

    @property
    def guess_ms(self) -> int | None:
        """When the last file may have been taken, by its own time; None where that is reported."""
        guesses = [each.guess_ms for each in self.windows]
        return max((guess for guess in guesses if guess is not None), default=None)

    @property
    def span_ms(self) -> int | None:
        """From the first to the last sample of the longest window; None where not reported."""
        spans = [each.window.span_ms for each in self.windows]
        return max((span for span in spans if span is not None), default=None)

    def and_of_less(self, other: ReadSamples) -> ReadSamples:
        """With the topics that only a source has which reports less."""
        here = {(each.topic, each.partition) for each in self.windows}
        more = (each for each in other.windows if (each.topic, each.partition) not in here)
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        why = (*self.incomplete, *other.incomplete)
        others = self.others or other.others
        return replace(self, windows=(*self.windows, *more), notes=notes, incomplete=why,
                       others=others)  # fmt: skip


def answers_in(content: bytes, name: str) -> list[Plain]:
    """The samples in a text that holds answers of a broker. Raises InputError."""
    read = document_in(content, name)
    if AS_TEXTS.search(content):
        read = replace(read, document=with_numbers(read.document))
    plain = of_document(read.document, name)
    notes, changed = (*plain[-1].notes, *read.notes), changed_ms(name)
    last = replace(plain[-1], notes=notes, guess_ms=changed, another=read.another)
    taken_ms = by_its_change(last) if read.taken_ms is None else read.taken_ms
    if taken_ms is not None:
        last = last.at(taken_ms)
    return [*plain[:-1], last.cut_off(name, read.document) if read.cut else last]


def read(files: SampleFiles, reader: ReadsFile = answers_in) -> ReadSamples:
    """The samples of files. Raises InputError where they cannot be read or do not fit together, and
    DoctorError where a topic that is requested is not there.

    reader: for files of --stats that `--save` did not write; a file may hold no sample.
    """
    at_ms = None if files.at is None else moment_ms(files.at)
    check_names(files.stats_files, files.internal_files)
    contents = [stats_content(name, files.named, reader) for name in files.stats_files]
    plain = [each for content in contents if not isinstance(content, Saved) for each in content]
    saved = [content for content in contents if isinstance(content, Saved)]
    if not any(contents):
        plain = [_cursors_of(name) for name in files.internal_files]
        return of_plain(plain, files, at_ms) if plain else ReadSamples(())
    if not saved:
        return of_plain(_joined(plain, files.internal_files), files, at_ms)
    if plain or len(saved) > 1:
        raise InputError(f"{called(saved[0].name)} has samples of its own; give no other file")
    if files.internal_files:
        raise InputError(f"{called(saved[0].name)} has its own internal stats; give no other")
    if at_ms is not None:
        raise InputError(f"{called(saved[0].name)} has its own times; leave out --at")
    cut = f"{called(saved[0].name)} is cut off; it is read up to its last whole line"
    notes, version = (cut,) if saved[0].cut else (), saved[0].broker_version
    windows, others = tuple(saved[0].windows()), not all(saved[0].wanted.values())
    return ReadSamples(windows, notes, broker_version=version, others=others)


def of_plain(given: Sequence[Plain], request: SampleFiles, at_ms: int | None) -> ReadSamples:
    """Samples of several moments, as one window a topic. at_ms: when the last was taken.

    A topic that several sources have is judged by the one that reports most. Raises InputError,
    and DoctorError where a topic that is requested is not there.
    """
    if len(request.named) > 1:
        raise InputError("such files are samples of one topic; give one TOPIC or none")
    by_source = ([one for one in given if _source(one) == source] for source in range(3))
    first, *others = filter(None, by_source)
    sources = [first if request.named else _named_by(others, first), *others]
    sources = [each for each in sources if _has(each[-1], request.named)] or sources[:1]
    last = _source(given[-1])
    read = [
        _of_source(each, request, at_ms if _source(each[-1]) == last else None) for each in sources
    ]
    return reduce(ReadSamples.and_of_less, read)


def _source(plain: Plain) -> int:
    """The one that reports least is the last."""
    return {BROKER: 1, METRICS: 2}.get(plain.kind, 0)


def _has(plain: Plain, topics: Sequence[str]) -> bool:
    names = [*plain.samples]
    return not topics or UNNAMED in names or any(is_called(e, topics[0]) for e in names)


def _named_by(others: Sequence[Sequence[Plain]], given: list[Plain]) -> list[Plain]:
    """Statistics without the name of their topic; with it where others have its connections."""
    sample = given[-1].samples.get(UNNAMED)
    if sample is None or given[-1].kind != TOPIC:
        return given
    of_it = {*connections(sample.topic)}
    found = {
        name
        for source in others
        for name, other in source[-1].samples.items()
        if not of_it.isdisjoint(connections(other.topic))
    }
    return [each.named(*found) for each in given] if len(found) == 1 else given


def _of_source(given: Sequence[Plain], request: SampleFiles, at_ms: int | None) -> ReadSamples:
    """The same of files of one source."""
    interval_ms = None if request.apart_seconds is None else round(request.apart_seconds * 1000)
    sorted_ = in_time(given)
    files = once(sorted_) if interval_ms is None else sorted_
    placed = files if at_ms is None else timed(files, at_ms, interval_ms)
    windows = plain_windows(placed, request.named, interval_ms)
    gone, why = left_out(files), files[-1].incomplete
    notes = [note for plain in files for note in plain.notes]
    if gone and _source(files[-1]):  # another broker may have them now
        why = (*why, f"{called(files[-1].name)} has {many(len(gone), 'topic')} less than before")
    elif gone:
        notes.append(f"{called(files[-1].name)} has no {', '.join(gone)}: left out")
    if sorted_ != list(given):
        names = ", then ".join(called(each.name) for each in sorted_)
        notes.append(f"the files were not given in order of time; by their content it is {names}")
    if len(files) < len(given):
        notes.append(
            f"{many(len(given) - len(files), 'file')} with the same numbers as another one left "
            "out; --interval 8s would say that nothing moved for 8 s"
        )
    elif any(window.span_ms is None for window in _several(windows)):
        notes.append(NO_DISTANCE)
    if not all(each.window.last.now_known for each in windows):
        notes.append(NO_TIME if at_ms is None else AT_IS_EARLY)
    why += tuple(f"{called(e.name)} has another answer, not read" for e in given if e.another)
    others = len(windows) < len(files[-1].samples)
    return ReadSamples(tuple(windows), tuple(notes), why, others=others)


def _several(windows: Sequence[TopicWindow]) -> Iterator[Window]:
    """Reads files that hold more than one sample."""
    return (each.window for each in windows if len(each.window.samples) > 1)


def check_names(stats_files: Sequence[str], internal_files: Sequence[str]) -> None:
    """Raises InputError where there are too few or too many files, or one of them twice."""
    if not stats_files and not internal_files:
        raise InputError("no file is given; give --stats FILE or --internal-stats FILE")
    if stats_files and len(internal_files) > len(stats_files):
        raise InputError(
            f"{len(internal_files)} files of --internal-stats and {len(stats_files)} of --stats; "
            "each needs one of --stats, taken at the same moment"
        )
    names = [*stats_files, *internal_files]
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise InputError(f"{called(twice[0])} is given twice; give each file once")


def stats_content(name: str, topics: Sequence[str], reader: ReadsFile) -> list[Plain] | Saved:
    """A file of `--stats`: its samples. topics: which to take of a file that `--save` wrote."""
    with _begun(name) as (stream, line, schema):
        if schema is not None:
            return read_saved(stream, name, schema, topics)
        content = whole(stream, name, line)
    return reader(content, name)


def by_its_change(plain: Plain) -> int | None:
    """When it was taken, where its own time says that: it was taken no later than it was changed.

    And no sooner than the newest moment in it, which must be no older than a Date may be. None
    where it was saved or copied later.
    """
    changed = time.time_ns() // 1_000_000 if plain.name == STDIN else plain.guess_ms
    moments = [each.newest_ms for each in plain.samples.values() if each.newest_ms is not None]
    if changed is None or not moments or not 0 <= changed - max(moments) <= CLOCK_SLACK_MS:
        return None
    return changed


def _joined(files: Sequence[Plain], internal_files: Sequence[str]) -> list[Plain]:
    """The files, the last of `topics stats` with the internal stats."""
    files = sorted(files, key=_source, reverse=True) if internal_files else list(files)
    pairs = zip(files[len(files) - len(internal_files) :], internal_files, strict=True)
    joined = [plain.with_internal(*_internal(name)) for plain, name in pairs]
    return files[: len(files) - len(joined)] + joined


def _internal(name: str) -> tuple[Mapping[str, InternalStats], str, tuple[str, ...]]:
    """A file of `--internal-stats`, by the names of partitions; its name, and how it was read."""
    read = _internal_text(name)
    return plain_internal(read.document, name), name, read.notes


def _cursors_of(name: str) -> Plain:
    """A file of `--internal-stats` that is given without its stats."""
    read = _internal_text(name)
    plain = cursors_alone(plain_internal(read.document, name), name, read.notes)
    plain = replace(plain, another=read.another)
    return plain.cut_off(name, read.document) if read.cut else plain


def _internal_text(name: str) -> Pasted:
    with _begun(name) as (stream, line, schema):
        if schema is not None:
            raise InputError(f"{called(name)} is a document of pulsar-doctor itself, {schema}")
        return document_in(whole(stream, name, line), name)


@contextmanager
def _begun(name: str) -> Iterator[tuple[BinaryIO, bytes, str | None]]:
    """A file after its first line, that line, and the schema of ours that it tells."""
    with opened(name) as stream:
        line = first_line(stream)
        if not line:
            raise InputError(f"{called(name)} is empty")
        yield stream, line, schema_of(line)


def moment_ms(text: str) -> int:
    """Epoch milliseconds of an `--at`: ISO 8601 with its zone, or a number. Raises InputError."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{10}", text):
        raise InputError(f"--at {text} is in seconds; in milliseconds it is {text}000")
    if re.fullmatch(r"[0-9]{13,14}", text):
        return int(text)
    found = epoch_ms(text)
    if found is not None and found > 0:
        return found
    example = "write 2026-08-01T12:00:00Z, or milliseconds since 1970"
    raise InputError(
        f"--at {text!r} {'has no zone' if _is_time(text) else 'is not a time'}; {example}"
    )


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False
