"""Joins what logs show to the verdicts of the statistics: since when, and for which cause."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.checkup.kinds import Brought
from pulsar_doctor.checkup.result import REST
from pulsar_doctor.diagnosis.answers import Clue, Suspect
from pulsar_doctor.diagnosis.known.log_lines import KnownLine
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.wording.printable import listed

LOG = "log"  # the name of such a clue
LogClue = tuple[str, str]  # the code of a cause, and the sentence that speaks for it
TOPICS_MOST = 3  # that a sentence names


@dataclass(frozen=True, slots=True)
class Logged:
    """The known lines of all logs."""

    logs: Sequence[Brought]

    def joined(self, diagnosis: Diagnosis) -> Diagnosis:
        """With what the logs show of it."""
        lines = (each for log in self.logs for each in log.known if _is_about(each, diagnosis))
        return with_clues(diagnosis, [(code, str(e)) for e in lines for code in e.row.codes])

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """A sentence for each kind of line."""
        for log in self.logs:
            for _, lines in groupby(log.known, key=lambda each: each.row):
                yield _note(called(log.file), [*lines])


def _note(file: str, lines: Sequence[KnownLine]) -> tuple[str, str]:
    """The topic, if it is one, and a sentence."""
    topics = list(dict.fromkeys(each.topic for each in lines if each.topic))
    first, *more = lines
    about = f"{listed(topics, TOPICS_MOST)}: " if topics else ""
    return topics[0] if len(topics) == 1 else REST, f"{file}: {about}{sum(more, first)}"


def _is_about(line: KnownLine, diagnosis: Diagnosis) -> bool:
    """By the topic, or a partition of it, and by the subscription if the line names one.

    Of statistics that do not name their topic, by the subscription alone.
    """
    if diagnosis.topic == UNKNOWN:
        return line.subscription == diagnosis.subscription
    full = diagnosis.full_topic
    named = line.topic in (full, split_partition(full)[0])
    return named and line.subscription in (None, diagnosis.subscription)


def with_clues(diagnosis: Diagnosis, clues: Collection[LogClue]) -> Diagnosis:
    """With what logs show of its suspected causes. The status stays: no line decides it."""
    suspects = tuple(_with(each, clues) for each in diagnosis.suspects)
    return replace(diagnosis, suspects=suspects) if clues else diagnosis


def clues_in(diagnosis: Diagnosis) -> tuple[LogClue, ...]:
    """The same, as a case keeps it."""
    return tuple(
        (suspect.code, clue.text)
        for suspect in diagnosis.suspects
        for clue in suspect.speaks_for
        if clue.name == LOG
    )


def _with(suspect: Suspect, clues: Collection[LogClue]) -> Suspect:
    shown = tuple(Clue(LOG, text) for code, text in clues if code == suspect.code)
    return replace(suspect, speaks_for=(*suspect.speaks_for, *shown)) if shown else suspect
