"""Joins what logs show to the verdicts of the statistics: since when, and for which cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.checkup.kinds import Brought
from pulsar_doctor.checkup.result import REST
from pulsar_doctor.diagnosis.answers import Clue, Suspect
from pulsar_doctor.diagnosis.known.log_lines import KnownLine
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.ledger.consumers import full_name, split_partition
from pulsar_doctor.wording.printable import listed

LOG = "log"  # the name of such a clue
TOPICS_MOST = 3  # that a sentence names


@dataclass(frozen=True, slots=True)
class Logged:
    """The known lines of all logs."""

    logs: Sequence[Brought]

    def joined(self, diagnosis: Diagnosis) -> Diagnosis:
        """With what the logs show of suspected causes. The status stays: no line decides it."""
        lines = chain.from_iterable(each.known for each in self.logs)
        about = [each for each in lines if _is_about(each, diagnosis)]
        suspects = tuple(_with(each, about) for each in diagnosis.suspects)
        return replace(diagnosis, suspects=suspects) if about else diagnosis

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
    full = full_name(diagnosis.topic, diagnosis.partition)
    named = line.topic in (full, split_partition(full)[0])
    return named and line.subscription in (None, diagnosis.subscription)


def _with(suspect: Suspect, lines: Sequence[KnownLine]) -> Suspect:
    clues = tuple(Clue(LOG, str(each)) for each in lines if suspect.code in each.row.codes)
    return replace(suspect, speaks_for=(*suspect.speaks_for, *clues)) if clues else suspect
