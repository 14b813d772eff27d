"""What a person reads of a verdict, in the same words in every format."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from pulsar_doctor.diagnosis.checkup import STATUSES
from pulsar_doctor.diagnosis.weighing import Diagnosis, Status
from pulsar_doctor.evidence.answers import Action, Finding, Measure
from pulsar_doctor.evidence.told import Whereabouts
from pulsar_doctor.ledger.consumers import full_name
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable

CLIENT = re.compile(r"Pulsar[- ]([A-Za-z+]+)[- ]v?(\d.*)")  # what a client says of itself


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


def client(version: str) -> str:
    """`Java 4.0.8` of `Pulsar-Java-v4.0.8`; what is written otherwise, as it is."""
    told = CLIENT.fullmatch(version)
    return printable(f"{told[1]} {told[2]}" if told else version)


def whereabouts(where: Whereabouts, said: str = "") -> str:
    """`10.0.3.7:51494, Java 4.0.8, connected 2 h`; without an address that was said before."""
    connected = where.connected and f"connected {where.connected}"
    parts = (
        where.address.lstrip("/") if where.address and where.address not in said else None,
        client(where.client_version) if where.client_version else None,
        connected or (where.connected_since and f"connected since {where.connected_since}"),
    )
    return printable(", ".join(part for part in parts if part))


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


def what_to_do(finding: Finding) -> Iterator[tuple[str, str]]:
    """All its actions in order: when and what, then the line to run and what goes with it.

    A check that holds for several actions in a row stands below the last of them.
    """
    for number, action in enumerate(finding.actions, start=1):
        yield action.when, printable(action.text)
        last = action.check not in {after.check for after in finding.actions[number : number + 1]}
        yield from _with_it(action, action.check if last else None)


def _with_it(action: Action, check: str | None) -> Iterator[tuple[str, str]]:
    said = {"run": action.command, "but": action.side_effect, "undo": action.undo, "check": check}
    yield from ((name, printable(text)) for name, text in said.items() if text)


def in_detail(diagnosis: Diagnosis, *, with_actions: bool = False) -> Iterator[str]:
    """A verdict in plain lines: each finding with its numbers and remedy, or what is in the way.

    with_actions: with all that can be done, in its order.
    """
    for finding in diagnosis.findings:
        yield f"{culprit(finding)}: {printable(finding.summary)}"
        yield from _beside(finding)
        if finding.evidence:
            yield f"Numbers: {numbers(finding.evidence)}"
        yield f"Remedy: {printable(finding.remedy)}"
        if with_actions:
            yield from (f"{name.capitalize()}: {text}" for name, text in what_to_do(finding))
        yield f"More: {finding.explain}"
    if diagnosis.status == "unknown":
        yield from (f"Not told: {printable(reason)}" for reason in diagnosis.not_told)


def _beside(finding: Finding) -> Iterator[str]:
    if finding.where and whereabouts(finding.where, finding.summary):
        yield f"Where: {whereabouts(finding.where, finding.summary)}"
    if finding.impact:
        yield f"Impact: {printable(finding.impact)}"
