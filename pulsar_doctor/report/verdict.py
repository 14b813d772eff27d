"""Verdicts: for a person, who reads the first line first, and for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pulsar_doctor.diagnosis import Diagnosis, Finding, Measure, Status
from pulsar_doctor.durations import duration

SCHEMA = "pulsar-doctor/stall-check/1"
STATUSES: tuple[Status, ...] = ("stalled", "unknown", "warning", "healthy")  # worst first
STYLES = {
    "stalled": "bold red",
    "warning": "bold yellow",
    "healthy": "bold green",
    "unknown": "bold magenta",
    "info": "bold",
}
SYMBOLS = {"stalled": "✖", "warning": "▲", "healthy": "✔", "unknown": "?"}
PLAIN_SYMBOLS = {"stalled": "X", "warning": "!", "healthy": "+", "unknown": "?"}


def document(
    diagnoses: Iterable[Diagnosis], *, source: str, window_seconds: float, samples: int = 0
) -> dict[str, Any]:
    """The JSON of `stall-check`. source: broker, files or trace. samples: 0 for a trace."""
    return {
        "schema": SCHEMA,
        "checked_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "source": source,
        "window_seconds": round(window_seconds, 3),
        "samples": samples,
        "subscriptions": [diagnosis_json(diagnosis) for diagnosis in diagnoses],
        "not_loaded": [],
        "unreachable": [],
    }


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """One of the document's subscriptions."""
    return {
        "topic": diagnosis.topic,
        "partition": diagnosis.partition,
        "subscription": diagnosis.subscription,
        "type": diagnosis.type,
        "status": diagnosis.status,
        "backlog": diagnosis.backlog,
        "findings": [finding_json(finding) for finding in diagnosis.findings],
        "not_told": list(diagnosis.not_told),
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """One of a subscription's findings."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "consumer": finding.consumer,
        "summary": finding.summary,
        "evidence": [asdict(measure) for measure in finding.evidence],
        "remedy": finding.remedy,
        "explain": finding.explain,
    }


def print_diagnoses(diagnoses: Sequence[Diagnosis]) -> None:
    """Draws verdicts on stdout, the worst first; several end with a line that counts them."""
    console = Console(highlight=False)
    for diagnosis in sorted(diagnoses, key=lambda d: STATUSES.index(d.status)):
        _print_diagnosis(console, diagnosis)
    if len(diagnoses) > 1:
        counts = Counter(diagnosis.status for diagnosis in diagnoses)
        told = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        console.print(f"{len(diagnoses)} subscriptions: {told}")


def _print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    console.print(_verdict(diagnosis, unicode=console.encoding.lower().startswith("utf")))
    for finding in diagnosis.findings:
        console.print(_indented(_finding_lines(finding)))
    if diagnosis.not_told:
        lines = [("not told", Text(_printable(reason))) for reason in diagnosis.not_told]
        console.print(_indented(lines))


def _verdict(diagnosis: Diagnosis, *, unicode: bool) -> Text:
    """The first line: the status, and of which subscription."""
    status = diagnosis.status
    symbol = (SYMBOLS if unicode else PLAIN_SYMBOLS)[status]
    partition = "" if diagnosis.partition is None else f", partition {diagnosis.partition}"
    where = f"{diagnosis.subscription} ({diagnosis.type or 'type not told'}) on {diagnosis.topic}"
    return Text.assemble(
        (f"{symbol} {status.upper()}", STYLES[status]), "  ", _printable(f"{where}{partition}")
    )


def _finding_lines(finding: Finding) -> Iterator[tuple[str, Text]]:
    who = f" of {_printable(finding.consumer)}" if finding.consumer else ""
    sure = f", {finding.confidence:.0%} sure"
    cause = Text.assemble((finding.code, STYLES[finding.severity]), f"{who} ({finding.severity}")
    yield "cause", cause.append(f"{sure})")
    yield "seen", Text(_printable(finding.summary))
    yield "remedy", Text(finding.remedy)
    yield "numbers", Text(", ".join(_numbers(finding.evidence)))
    yield "more", Text(finding.explain)


def _indented(lines: Iterable[tuple[str, Text]]) -> Padding:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=7)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(name, text)
    return Padding(grid, (0, 0, 1, 2))


def _numbers(evidence: Iterable[Measure]) -> Iterator[str]:
    """Each as `name value`, with its unit where the name does not say it."""
    for measure in evidence:
        value = measure.value
        if value is None:
            continue
        if isinstance(value, int | float) and measure.unit.startswith("seconds"):
            said = duration(value)
        elif isinstance(value, float):
            said = f"{value:.3g}"
        else:
            said = str(value)
        per = measure.unit.partition("/")[2]
        yield f"{measure.name.replace('_', ' ')} {said}{' a ' + per if per else ''}"


def _printable(text: str) -> str:
    """Names come from the wire: no control characters on the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
