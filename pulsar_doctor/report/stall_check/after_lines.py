"""The lines of --after: for each subscription, whether it has recovered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.text import Text

from pulsar_doctor.diagnosis.followup import After
from pulsar_doctor.diagnosis.short_form import place
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.paper import print_beside
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.printable import printable

STYLES = {"worked": "green", "worse": "red", "not yet": "yellow"}


@dataclass(slots=True)
class AfterLines:
    """Keeps what became of subscriptions with verdicts that pass."""

    _seen: list[tuple[str, After]] = field(default_factory=list)

    def through(self, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
        """The same verdicts."""
        for diagnosis in diagnoses:
            if diagnosis.after is not None:
                self._seen.append((place(diagnosis.key), diagnosis.after))
            yield diagnosis

    def lines(self) -> list[str]:
        """In the order in which they were judged."""
        return [printable(f"{where}: {after}") for where, after in self._seen]

    def print_on(self, console: GatedConsole) -> None:
        """The same, each in its colour: the outcome, then who was restarted and what moved."""
        for where, after in self._seen:
            first, *more = (printable(line) for line in after.lines())
            console.print(Text(f"after: {where}: {first}", style=STYLES.get(after.outcome, "")))
            for line in more:
                print_beside(console, "  ", line)
