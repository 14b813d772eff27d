"""What a person reads of a verdict, in the same words in every format."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from pulsar_doctor.diagnosis.checkup import STATUSES
from pulsar_doctor.diagnosis.weighing import Diagnosis, Status
from pulsar_doctor.evidence.answers import Finding, Measure
from pulsar_doctor.ledger.consumers import full_name
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable


def survive(out: TextIO) -> None:
    """A character that the terminal's encoding has not is written as an escape, not an error."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")


def counted(counts: Mapping[Status, int]) -> str:
    """`1 stalled, 3 healthy`: the verdicts that occur, worst first."""
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts.get(status))


def full_topic(diagnosis: Diagnosis) -> str:
    """The topic as the broker names it, with its partition."""
    return full_name(diagnosis.topic, diagnosis.partition)


def backlog(entries: int | None) -> str:
    """Entries, or that nobody told."""
    return "not told" if entries is None else str(entries)


def cause(diagnosis: Diagnosis) -> str:
    """The first cause and its culprit in a few words; of an unknown verdict, what is in the way."""
    if diagnosis.status == "unknown" or not diagnosis.findings:
        return printable(diagnosis.not_told[0]) if diagnosis.not_told else "not decided"
    return culprit(diagnosis.findings[0])


def culprit(finding: Finding) -> str:
    """`permits-exhausted of worker-3`."""
    return f"{finding.code} of {printable(finding.consumer)}" if finding.consumer else finding.code


def numbers(evidence: Iterable[Measure]) -> str:
    """Each as `name value`, with its unit where the name does not say it."""
    return ", ".join(_numbers(evidence))


def _numbers(evidence: Iterable[Measure]) -> Iterator[str]:
    for measure in evidence:
        value = measure.value
        if value is None:
            continue
        if isinstance(value, int | float) and measure.unit.startswith("seconds"):
            said = duration(value)
        elif isinstance(value, float):
            said = f"{value:.3g}"
        else:
            said = printable(str(value))
        per, bound = measure.unit.partition("/")[2], f"{measure.bound} " if measure.bound else ""
        yield f"{measure.name.replace('_', ' ')} {bound}{said}{' a ' + per if per else ''}"


def in_detail(diagnosis: Diagnosis) -> Iterator[str]:
    """A verdict in plain lines: each finding with its numbers and remedy, or what is in the way."""
    for finding in diagnosis.findings:
        yield f"{culprit(finding)}: {printable(finding.summary)}"
        if finding.evidence:
            yield f"Numbers: {numbers(finding.evidence)}"
        yield f"Remedy: {printable(finding.remedy)}"
        yield f"More: {finding.explain}"
    if diagnosis.status == "unknown":
        yield from (f"Not told: {printable(reason)}" for reason in diagnosis.not_told)
