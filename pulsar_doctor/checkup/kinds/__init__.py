"""The kinds of text that `--stats` takes. A module of this folder reads those of one source; it is
registered by its presence and has a tuple of them, KINDS.

A text may be of several kinds, such as a log with a thread dump in it: each reads its own part and
passes over the rest, in time that grows with the length of the text only. What it returns never
repeats a payload or a credential.
"""

from __future__ import annotations

import codecs
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import ReadSamples
from pulsar_doctor.broker.samples import read as read_samples
from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.samples.pasted import IsPage
from pulsar_doctor.broker.samples.plain import Plain
from pulsar_doctor.broker.stats.transactions import OpenTransactions
from pulsar_doctor.diagnosis.known.log_lines import KnownLine
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.dumps.thread_dump import ThreadDump
from pulsar_doctor.wording.printable import listed


@dataclass(frozen=True, slots=True)
class Brought:
    """What one kind has read in one file."""

    file: str
    what: str  # `a thread dump of Java: 38 threads, 6 of a Pulsar client`
    samples: tuple[Plain, ...] = ()  # statistics of a broker
    dumps: tuple[ThreadDump, ...] = ()
    known: tuple[KnownLine, ...] = ()  # of a log
    transactions: tuple[OpenTransactions, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()  # a topic, or REST, and a sentence
    incomplete: tuple[str, ...] = ()  # why something may be missing, a sentence each


@dataclass(frozen=True, slots=True)
class TextKind:
    """One kind of text."""

    what: str  # in the sentence about what can be read: `thread dumps (jstack)`
    has_any: Callable[[str], object]  # whether the text, or a part of it, is of this kind
    # What the file of this name shows. Raises InputError where that cannot be read.
    read: Callable[[str, str], Brought]


@dataclass(frozen=True, slots=True)
class Recognised:
    """What all files show."""

    samples: ReadSamples
    brought: tuple[Brought, ...]  # in the order of the files; none of a file of --save

    @property
    def lines(self) -> Iterator[str]:
        """What was recognised, a line for each file; none where all are samples."""
        if any(not each.samples for each in self.brought):
            for file in dict.fromkeys(each.file for each in self.brought):
                found = [each.what for each in self.brought if each.file == file]
                yield f"{called(file)}: {listed(found, len(found))}"

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Why something may be missing, a sentence each."""
        found = (why for each in self.brought for why in each.incomplete)
        return (*self.samples.incomplete, *found)


@dataclass(slots=True)
class _Recognising:
    """Reads one file after the other, and keeps what else than samples they show."""

    brought: list[Brought] = field(default_factory=list)

    def samples_in(self, content: bytes, name: str) -> list[Plain]:
        """The samples of one file. Raises InputError where it is of no kind."""
        text = text_of(content)
        kinds = [each for each in known() if each.has_any(text)]
        found = [_read(each, text, name, alone=len(kinds) == 1) for each in kinds]
        found = found or [_explained(text, name)]
        self.brought += found
        return [plain for each in found for plain in each.samples]


def recognise(files: SampleFiles) -> Recognised:
    """Reads all files. Raises InputError, DoctorError as `broker.samples.read` does."""
    reading = _Recognising()
    samples = read_samples(files, reading.samples_in)
    return Recognised(samples, tuple(reading.brought))


def text_of(content: bytes) -> str:
    """A text in UTF-8, or in UTF-16 as PowerShell writes it; bytes of neither are kept."""
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return content.decode("utf-16", "replace")
    if content[:4:2].isascii() and content[1:4:2] == b"\0\0":
        return content.decode("utf-16-le", "replace")
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


@cache
def known() -> tuple[TextKind, ...]:
    """Returns every kind, those of the broker's own answers first."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in found]
    return tuple(kind for module in modules for kind in module.KINDS)


def _read(kind: TextKind, text: str, name: str, *, alone: bool) -> Brought:
    """What one kind shows. alone: the text is of no other kind.

    Raises InputError where that cannot be read.
    """
    try:
        return kind.read(text, name)
    except InputError as error:
        if alone:
            raise
        return Brought(name, f"{kind.what} that cannot be read", incomplete=(str(error),))


def _explained(text: str, name: str) -> Brought:
    """A text of no kind, read as answers all the same: a mistake in it is explained that way."""
    answers, *others = known()
    try:
        return answers.read(text, name)
    except IsPage:
        raise
    except InputError as error:
        also = listed([each.what for each in others], len(others))
        raise InputError(f"{error}; `stall-check --stats` also takes {also}") from None
