"""The verdicts of one round of --watch, in as many lines as the screen has.

In detail while each of the others keeps a line, then what it is, then a line each, then how many
more there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.text import Text

from pulsar_doctor.diagnosis.short_form import place
from pulsar_doctor.report.stall_check.block import block
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.rounds import Round, alone
from pulsar_doctor.report.stall_check.tree import JudgedSubscription
from pulsar_doctor.report.words import backlog, cause
from pulsar_doctor.wording.printable import printable

StyledLine = list[Segment]
UNICODE = {"turns to": "→", "more": "↑", "less": "↓", "and so on": "…"}
ASCII = {"turns to": "->", "more": "up", "less": "down", "and so on": "..."}


def signs(console: Console) -> dict[str, str]:
    """Signs by what they mean, as far as the terminal has them."""
    return UNICODE if console.encoding.lower().startswith("utf") else ASCII


def whole(console: Console, what: RenderableType) -> list[StyledLine]:
    """The whole of a text, with every line that it takes."""
    return console.render_lines(what, console.options.update(height=None), pad=False)


def cut(console: Console, text: Text) -> StyledLine:
    """One line, whatever it says."""
    text.truncate(console.width, overflow="ellipsis" if signs(console) is UNICODE else "crop")
    return whole(console, text)[0]


@dataclass(frozen=True, slots=True)
class RoundRows:
    """One round, drawn with this pen. The backlog is in the heading, with how it moved."""

    pen: Pen
    round_: Round

    def lines(self, room: int) -> list[StyledLine]:
        """At most so many."""
        healthy = self.round_.fleet.counts["healthy"]
        found = self._unwell(room - 1 if healthy else room)
        return [*found, *self._healthy(healthy, room - len(found))][: max(0, room)]

    def _unwell(self, room: int) -> list[StyledLine]:
        lines: list[StyledLine] = []
        unwell = self.round_.fleet.unwell
        for number, folded in enumerate(unwell):
            left, after = room - len(lines), len(unwell) - number - 1
            if left <= min(1, after):
                lines.append(self._more(f"{after + 1} more not healthy"))
                break
            most = max(1, left - after)
            lines += next(each for each in self._ever_shorter(folded, most) if len(each) <= most)
        return lines

    def _healthy(self, count: int, room: int) -> Iterator[StyledLine]:
        """By name where all of them are kept and have room."""
        named = self.round_.fleet.healthy
        if len(named) == count <= room:
            for folded in named:
                yield cut(self.pen.console, self._heading(folded))
        elif count:
            yield self._more(f"{count} healthy")

    def _more(self, what: str) -> StyledLine:
        console = self.pen.console
        return cut(console, Text(f"{signs(console)['and so on']} and {what}", style="dim"))

    def _ever_shorter(self, folded: JudgedSubscription, most: int) -> Iterator[list[StyledLine]]:
        """In detail, then what it is, then as much of that as one line has."""
        console, row = self.pen.console, self._row(folded)
        if most > 1:
            yield self._in_detail(folded)
        yield whole(console, row)
        yield [cut(console, row)]

    def _in_detail(self, folded: JudgedSubscription) -> list[StyledLine]:
        """Every cause below the heading."""
        console = self.pen.console
        moved = self._moved(folded)
        blocks = (block(self.pen, alike, beside=f", {moved}") for alike in folded.alike())
        return [each for lines in blocks for line in lines for each in whole(console, line)]

    def _heading(self, folded: JudgedSubscription) -> Text:
        kind = printable(folded.type or "type not reported")
        where = f"  {place(folded.key)} ({kind}), "
        return Text.assemble(self.pen.badge(folded.status), where, self._moved(folded))

    def _row(self, folded: JudgedSubscription) -> Text:
        why = cause(folded.worst.shown)
        where = f"  {place(folded.key)}: {why}, "
        return Text.assemble(self.pen.badge(folded.status), where, self._moved(folded))

    def _moved(self, folded: JudgedSubscription) -> str:
        """The backlog with an arrow where it moved, and the verdict before where it turned."""
        was, turned = self.round_.was(folded), self.round_.turned_from(folded)
        before, now = was.backlog if was else None, folded.backlog
        arrow = ""
        if before is not None and now is not None and before != now:
            arrow = f" {signs(self.pen.console)['more' if now > before else 'less']}"
        before_it = f", was {turned}" if turned else ""
        steady = alone(folded.worst.shown) if folded.unwell else ""
        return f"backlog {backlog(now)}{arrow}{before_it}{steady}"
