"""--watch on a terminal: one screen, drawn again in place, the worst first.

The top shows where, when and how many; below are the verdicts in as much detail as there is room
for; at the bottom what turned since the watch began, the newest last. It is drawn once a second, so
that it fits a terminal with a size that changes, on the terminal's other screen, which leaves no
ghosts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.report.paper import STYLES
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.round_lines import stamp
from pulsar_doctor.report.stall_check.round_rows import RoundRows, StyledLine, cut, signs, whole
from pulsar_doctor.report.stall_check.rounds import Round, Turned, change_words, next_round
from pulsar_doctor.report.stall_check.unread import sentences
from pulsar_doctor.report.stall_check.verdict import print_fleet
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import totals
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.printable import many, printable

CHANGES_SHOWN_MOST = 6
CHANGES_KEPT_MOST = 200


class RoundScreen:
    """Draws rounds. head: of what and where. Changes in place; a context manager."""

    def __init__(self, console: GatedConsole, head: str) -> None:
        self.progress = self  # what is done of a round is shown at the top
        self.changes: deque[Turned] = deque(maxlen=CHANGES_KEPT_MOST)
        self._console = console
        self._head = head
        self._round: Round | None = None
        self._doing = ""
        self._due: float | None = None
        self._notes: tuple[str, ...] = ()
        self._noted: list[str] = []
        self._live = Live(self, console=console, screen=True, refresh_per_second=1)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()
        self._leave()

    def _leave(self) -> None:
        """What stays on the terminal: all that has changed, and how things stood at the end."""
        for change in self.changes:
            words = change_words(change, signs(self._console)["turns to"])
            self._console.print(Text(f"{stamp(change.at)}  {words}"))
        if self._round:
            when = stamp(self._round.checkup.checked_at)
            self._console.print(Text(f"{when}  {self._head}", style="bold"))
            print_fleet(self._console, self._round.fleet, self._round.checkup, Wanted())

    def __call__(self, done: int, planned: int, what: str) -> None:
        """Progress of the round that is under way."""
        self._due = None
        self._doing = f"{done} of {planned} {what}"

    def stop(self) -> None:
        """No more progress of this round."""
        self._doing = ""

    def note(self, text: str) -> None:
        """What is to be known beside the verdicts of the round that is under way."""
        self._noted.append(text)

    def show(self, checkup: Checkup) -> None:
        """One round, read to its end, with what was noted during it."""
        self._round = next_round(checkup, self._round.known if self._round else None)
        self.changes += self._round.changes
        self._over()

    def failed(self, why: str) -> None:
        """A round that came to nothing; what was known before stays, with its time."""
        self.note(f"{_clock(datetime.now(UTC))}  {why}")
        self._over()

    def until(self, due: float) -> None:
        """The next round begins then, by time.monotonic()."""
        self._due = due

    def _over(self) -> None:
        self._notes, self._noted = tuple(self._noted), []
        self.stop()
        self._live.refresh()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = console.height
        top = self._top(self._console, max(2, height // 3))
        bottom = self._bottom(self._console, min(CHANGES_SHOWN_MOST, height // 4))
        room = max(0, height - len(top) - len(bottom))
        middle: list[StyledLine] = []
        if self._round:
            pen = Pen(self._console)
            middle = RoundRows(pen, self._round).lines(room)
        blank: list[StyledLine] = [[] for _ in range(room - len(middle))]
        for line in (*top, *middle, *blank, *bottom)[:height]:
            yield from line
            yield Segment.line()

    def _top(self, console: GatedConsole, most: int) -> list[StyledLine]:
        """Where, when, how many; and whole sentences, as far as there is room."""
        when = f"{_clock(self._round.checkup.checked_at)} UTC" if self._round else "first check"
        first, *about = _about(self._round) if self._round else [""]
        lines = [
            cut(console, Text(f"{when}  {self._head}", style="bold")),
            cut(console, Text(f"{first}{'; ' if first else ''}{self._next()}")),
        ]
        for text in (*about, *map(printable, self._notes)):
            lines += whole(console, Text(text, style="yellow"))
        return [*lines[:most], []]

    def _next(self) -> str:
        left = 0.0 if self._due is None else self._due - time.monotonic()
        return f"again in {left:.0f} s, Ctrl-C ends" if left > 0 else self._doing or "checking"

    def _bottom(self, console: GatedConsole, most: int) -> list[StyledLine]:
        """The newest changes."""
        newest = list(self.changes)[-most:] if most else []
        lines = [Text("what has changed", style="dim")] if newest else []
        for change in newest:
            words = change_words(change, signs(console)["turns to"])
            lines.append(Text(f"{_clock(change.at)}  {words}", style=STYLES[change.now or "info"]))
        return [cut(console, each) for each in lines]


def _about(round_: Round) -> Iterator[str]:
    """How many there are, and what was not judged."""
    yield totals(round_.fleet.counts, round_.checkup.tally)
    if round_.checkup.not_loaded:
        yield f"{many(len(round_.checkup.not_loaded), 'topic')} not loaded by any broker: not read"
    yield from (printable(note) for _, note in round_.checkup.notes)
    yield from sentences(round_.checkup.unreachable)


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}"
