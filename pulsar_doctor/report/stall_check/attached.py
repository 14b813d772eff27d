"""The table of --consumers: every consumer of each subscription, on all segments of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rich.text import Text

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.numbers import REPORTED, Number, ReportedConsumer
from pulsar_doctor.report.tables import TableColumn, TableRow, View, drawn
from pulsar_doctor.report.words import client
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.printable import printable

NOT_REPORTED = "-"
RANKS = {  # where it is too narrow, the highest is dropped first
    name: rank
    for rank, name in enumerate(
        ("label", "available_permits", "unacked_messages", "since_last_ack", "address",
         "receiver_queue_size", "since_last_flow", "client_version", "connected_for")
    )
}  # fmt: skip
WORDS: Mapping[str, Callable[[str], str]] = {
    "address": lambda text: text.lstrip("/"),
    "client_version": client,
}
NEVER: Mapping[str, Callable[[ReportedConsumer], bool]] = {  # whether that has never been
    "since_last_ack": lambda of: of.never_acked is True,
    "since_last_flow": lambda of: of.flows == 0,
}


@dataclass(slots=True)
class ConsumerTables:
    """Keeps the consumers of verdicts that go by; those of all segments of a topic together."""

    _seen: list[tuple[str, Iterable[ReportedConsumer] | None]] = field(default_factory=list)
    _of_segments: dict[str, list[ReportedConsumer]] = field(default_factory=dict)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for diagnosis in diagnoses:
            where, there = diagnosis.subscription, diagnosis.consumers
            if not there or diagnosis.whole == diagnosis.topic:
                self._seen.append((f"{where} on {diagnosis.full_topic}", there))
            else:
                where = f"{where} on all segments of {diagnosis.whole}"
                if where not in self._of_segments:
                    self._seen.append((where, self._of_segments.setdefault(where, [])))
                self._of_segments[where] += there
            yield diagnosis

    def print_on(self, console: GatedConsole) -> None:
        """In the order in which they were judged."""
        for where, consumers in self._seen:
            console.print(Text(f"\nconsumers of {printable(where)}", style="bold"))
            if consumers:
                view = View(console.text_width, utf=True, first=None, last=None)
                for part in drawn([{"consumer": each} for each in consumers], COLUMNS, view):
                    console.print(part)
            else:
                console.print(
                    Text("not reported" if consumers is None else "no consumer is attached")
                )


def _column(row: Number) -> TableColumn:
    def cell(shown: TableRow, view: View) -> str:
        return printable(_cell(shown["consumer"], row.name))

    return TableColumn(row.title, RANKS.get(row.name, len(RANKS)), cell, right=row.unit != "")


def _cell(of: ReportedConsumer, name: str) -> str:
    value = getattr(of, name)
    if name in NEVER:
        return f"{value} ago" if value is not None else "never" if NEVER[name](of) else NOT_REPORTED
    if value is None or (name == "connected_for" and value.says_nothing):
        return NOT_REPORTED
    if isinstance(value, float):
        return f"{value:.3g}"
    return WORDS[name](value) if name in WORDS else str(value)


COLUMNS = tuple(_column(row) for row in REPORTED if row.title)
