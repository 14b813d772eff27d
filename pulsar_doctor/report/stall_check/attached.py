"""Every consumer with its numbers, well or not, a table for each subscription: --consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.told import ToldConsumer
from pulsar_doctor.report.words import client, full_topic
from pulsar_doctor.wording.printable import printable

NOT_TOLD = "-"
TITLES = {  # and whether it is a number
    "consumer": False, "address": False, "client": False, "connected": True, "queue size": True,
    "permits": True, "unacked": True, "last ack": True, "last FLOW": True, "msg/s": True,
}  # fmt: skip


@dataclass(slots=True)
class ConsumerTables:
    """Keeps the consumers of verdicts that go by."""

    _seen: list[tuple[str, tuple[ToldConsumer, ...] | None]] = field(default_factory=list)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for diagnosis in diagnoses:
            where = f"{diagnosis.subscription} on {full_topic(diagnosis)}"
            self._seen.append((where, diagnosis.consumers))
            yield diagnosis

    def print_on(self, console: Console) -> None:
        """In the order in which they were judged."""
        for where, consumers in self._seen:
            console.print(Text(f"\nconsumers of {printable(where)}", style="bold"))
            if consumers:
                console.print(_table(consumers))
            else:
                console.print(Text("not told" if consumers is None else "nobody is attached"))


def _table(consumers: Iterable[ToldConsumer]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title, number in TITLES.items():
        table.add_column(title, justify="right" if number else "left", overflow="fold")
    for consumer in consumers:
        table.add_row(*(Text(printable(cell)) for cell in _cells(consumer)))
    return table


def _cells(of: ToldConsumer) -> tuple[str, ...]:
    return (
        of.label,
        of.address.lstrip("/") if of.address else NOT_TOLD,
        client(of.client_version) if of.client_version else NOT_TOLD,
        _or_not(None if of.connected and of.connected.says_nothing else of.connected),
        _or_not(of.queue_size),
        _or_not(of.permits),
        _or_not(of.held),
        _ago(of.since_ack, never=of.never_acked),
        _ago(of.since_flow, never=of.flows == 0),
        NOT_TOLD if of.msg_rate_out is None else f"{of.msg_rate_out:.3g}",
    )


def _or_not(value: object) -> str:
    return NOT_TOLD if value is None else str(value)


def _ago(since: Age | None, *, never: bool | None) -> str:
    if since is not None:
        return f"{since} ago"
    return "never" if never else NOT_TOLD
