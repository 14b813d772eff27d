"""The processes of the consumers that verdicts name, so that each is looked at once.

Consumers with one address share a connection, and so a process: one that holds several topics, or a
pattern consumer, has one queue and one thread for them, and one cause. Advice that is printed once
for many subscriptions names the first of them; here are all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.text import Text

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.topics import PERSISTENT
from pulsar_doctor.report.paper import print_beside
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.tree import JudgedSubscription
from pulsar_doctor.report.words import DEFAULT_NAMESPACE
from pulsar_doctor.wording.printable import listed, many, printable

SHOWN_MOST = 10
NAMED_MOST = 5


@dataclass(slots=True)
class ProcessLine:
    """One connection, the consumers on it that verdicts name, and their topics, each once."""

    address: str
    consumers: dict[str, None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """`127.0.0.1:43730 (pat-app) holds 2 topics: b and c`."""
        who, topics = listed([*self.consumers], NAMED_MOST), listed([*self.topics], NAMED_MOST)
        count = f"{many(len(self.topics), 'topic')}: " if len(self.topics) > 1 else ""
        return f"{self.address.lstrip('/')} ({who}) holds {count}{topics}"


def print_processes(pen: Pen, unwell: Iterable[JudgedSubscription], *, folded: bool) -> None:
    """A line each. folded: of all of them; otherwise only those that hold several topics."""
    shown = [each for each in processes_of(unwell) if folded or len(each.topics) > 1]
    if not shown or (folded and len(shown) == 1 and len(shown[0].topics) == 1):
        return
    pen.console.print(Text("processes", style="bold"))
    for each in shown[:SHOWN_MOST]:
        print_beside(pen.console, "  ", each.line)
    if len(shown) > SHOWN_MOST:
        print_beside(pen.console, "  ", f"and {len(shown) - SHOWN_MOST} more with -o json")
    pen.console.print()


def processes_of(unwell: Iterable[JudgedSubscription]) -> list[ProcessLine]:
    """The processes that hold most topics first."""
    known: dict[str, ProcessLine] = {}
    for folded in unwell:
        topic = folded.topic.removeprefix(PERSISTENT).removeprefix(DEFAULT_NAMESPACE)
        for address, consumer in (pair for each in folded.unwell for pair in _named(each)):
            process = known.setdefault(address, ProcessLine(address))
            process.consumers[printable(consumer)] = process.topics[printable(topic)] = None
    return sorted(known.values(), key=lambda each: -len(each.topics))


def _named(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Address and label of the consumer that its first finding, or its first doubt, is about."""
    first = next(iter(diagnosis.findings), None) or diagnosis.likeliest
    doubts = (each.consumer for each in diagnosis.unknown)
    label = first.consumer if first is not None else next(filter(None, doubts), None)
    for each in diagnosis.consumers or ():
        if each.label == label and label is not None and each.address is not None:
            yield printable(each.address), label
            return
