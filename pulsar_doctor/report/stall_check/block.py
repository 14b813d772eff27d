"""One verdict in detail: the status, the cause, what was seen, the remedy, the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.short_form import culprit, suspected_cause
from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.ledger.consumers import NON_PERSISTENT
from pulsar_doctor.report.figures import numbers
from pulsar_doctor.report.known_issues import issue_rows
from pulsar_doctor.report.paper import PLAIN_SYMBOLS, STYLES, SYMBOLS
from pulsar_doctor.report.stall_check.folding import Alike, Folded, partitions
from pulsar_doctor.report.suspicion import suspect_rows, undecided
from pulsar_doctor.report.words import (
    NO_RULE,
    accused,
    backlog,
    beside,
    explaining,
    moved,
    share,
    what_to_do,
    would_decide,
)
from pulsar_doctor.wording.printable import printable
from pulsar_doctor.wording.sentences import joined, values_in

NOT_TOLD_SHOWN_MOST = 3
PASTED = ("run", "check")  # lines that no terminal may break


@dataclass(frozen=True, slots=True)
class Pen:
    """How the terminal is drawn on. tells_backlog: whether the source has a backlog at all.

    explained: the codes of which it has been said where more is told.
    """

    console: Console
    verbose: bool
    tells_backlog: bool
    explained: set[str] = field(default_factory=set)

    def badge(self, status: str) -> tuple[str, str]:
        """`✖ STALLED` and its style."""
        unicode = self.console.encoding.lower().startswith("utf")
        symbol = (SYMBOLS if unicode else PLAIN_SYMBOLS)[status]
        return f"{symbol} {status.upper()}", STYLES[status]


def print_block(pen: Pen, alike: Alike) -> None:
    """Draws all that is known of partitions that stand still for the same causes."""
    pen.console.print(_heading(pen, alike))
    _print_rows(pen, _lines(pen, alike, with_actions=True))
    pen.console.print()


def _print_rows(pen: Pen, rows: Iterable[tuple[str, Text]]) -> None:
    """Each with its name; what is to be pasted on a line of its own, however long."""
    lines = list(rows)
    widest = max(7, *(len(name) for name, _ in lines))
    for to_paste, some in groupby(lines, lambda line: line[0] in PASTED):
        if not to_paste:
            pen.console.print(indented(some, below=0, width=widest))
            continue
        for name, text in some:
            line = Text.assemble((f"  {name:<{widest}}  ", "dim"), text)
            pen.console.print(line, soft_wrap=True)


def block_parts(pen: Pen, alike: Alike) -> Padding:
    """What stands below the heading, in short."""
    return indented(_lines(pen, alike))


def print_healthy(pen: Pen, folded: Folded) -> None:
    """One line, and a second where there is something to know."""
    every = f", {folded.partitions} partitions" if folded.partitions > 1 else ""
    said = folded.info.summary if folded.info else ""
    line = f"{_where(folded, every)}{folded.vitals.words(folded.backlog, said)}"
    pen.console.print(Text.assemble(pen.badge("healthy"), "  ", line))
    if folded.info is not None:
        info = f"{culprit(folded.info)}: {printable(folded.info.summary)}"
        pen.console.print(indented([("info", Text(info))], below=0))
    if folded.doubt is not None:
        rows = suspect_rows(folded.doubt, in_short=True)
        _print_rows(pen, ((name, Text(text)) for name, text in rows))


def _heading(pen: Pen, alike: Alike) -> Text:
    """The status, and of which subscription."""
    where = _where(alike.of, partitions(alike.diagnoses, alike.of.partitions))
    if alike.status != "unknown":
        return Text.assemble(pen.badge(alike.status), "  ", where)
    first = suspected_cause(alike.shown)
    if first is None:
        decides = would_decide(alike.shown)
        return Text.assemble(pen.badge("unknown"), "  ", where, f": {decides}" if decides else "")
    named = f" {accused(first)} ({share(first)})"
    return Text.assemble(pen.badge("suspected"), (named, STYLES["unknown"]), "  ", where)


def _where(folded: Folded, which: str) -> str:
    kind = folded.type or "type not told"
    return printable(f"{folded.subscription} ({kind}) on {folded.topic}{which}")


def _lines(pen: Pen, alike: Alike, *, with_actions: bool = False) -> Iterator[tuple[str, Text]]:
    shown = alike.shown
    if len(alike.diagnoses) > 1:
        why = ", the largest backlog of them" if shown.backlog else ""
        yield "shown", Text(f"partition {shown.partition}{why}")
    for finding in shown.findings:
        yield from _finding_lines(finding, with_actions=with_actions)
        yield from _more(pen, finding.code)
    yield from ((name, Text(text)) for name, text in issue_rows(shown, in_short=not with_actions))
    for name, text in suspect_rows(shown, in_short=not with_actions, whole=pen.verbose):
        yield name, Text(text, style=STYLES["unknown"] if name == "likely" else "")
    if shown.suspects and shown.suspects[0].code not in NO_RULE:
        yield from _more(pen, shown.suspects[0].code)
    if alike.of.topic.startswith(NON_PERSISTENT):
        yield "backlog", Text("none: a non-persistent topic keeps nothing")
    elif pen.tells_backlog:
        how = moved(alike.of.vitals.change)
        said = "" if _is_known(alike) else _entries(alike.of)
        if told := ", ".join(part for part in (said, how) if part):
            yield "backlog", Text(told)
    yield from _not_told(pen, shown)


def _entries(folded: Folded) -> str:
    unit = "" if folded.backlog is None else " entries"
    where = " in all partitions" if folded.partitions > 1 else ""
    return f"{backlog(folded.backlog)}{unit}{where}"


def _is_known(alike: Alike) -> bool:
    """Whether a sentence has the backlog."""
    texts = (text for each in alike.shown.findings for text in (each.summary, each.impact or ""))
    entries = {f"{alike.shown.backlog} {unit}" for unit in ("entry", "entries")}
    return alike.of.partitions <= 1 and not entries.isdisjoint(values_in(joined("", texts)))


def _finding_lines(finding: Finding, *, with_actions: bool) -> Iterator[tuple[str, Text]]:
    who = f" of {printable(finding.consumer)}" if finding.consumer else ""
    sure = f", {finding.confidence:.0%} sure"
    cause = Text.assemble((finding.code, STYLES[finding.severity]), f"{who} ({finding.severity}")
    yield "cause", cause.append(f"{sure})")
    yield "seen", Text(printable(finding.summary))
    yield from ((name, Text(text)) for name, text in beside(finding))
    if with_actions and finding.actions:
        yield from ((name, Text(text)) for name, text in what_to_do(finding))
    else:
        yield "remedy", Text(printable(finding.remedy))
    if told := numbers(finding):
        yield "numbers", Text(told)


def _more(pen: Pen, code: str) -> Iterator[tuple[str, Text]]:
    """Where more is told, once for each code."""
    if code not in pen.explained:
        pen.explained.add(code)
        yield "more", Text(explaining(code))


def _not_told(pen: Pen, shown: Diagnosis) -> Iterator[tuple[str, Text]]:
    """Why a verdict is unknown; beside a finding, only that something was not decided."""
    if pen.verbose:
        yield from (("not told", Text(printable(reason))) for reason in shown.not_told)
    elif shown.status == "unknown":
        reasons = undecided(shown)
        for reason in reasons[:NOT_TOLD_SHOWN_MOST]:
            yield "not told", Text(printable(reason))
        if len(reasons) > NOT_TOLD_SHOWN_MOST:
            left_out = len(reasons) - NOT_TOLD_SHOWN_MOST
            yield "", Text(f"and {left_out} more with -v or -o json")
    elif shown.unknown:
        yield "not told", Text(f"{len(shown.unknown)} not decided: see them with -v or -o json")


def indented(lines: Iterable[tuple[str, Text]], below: int = 1, width: int = 7) -> Padding:
    """Names and texts in two columns, to stand below a heading."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=width)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(name, text)
    return Padding(grid, (0, 0, below, 2))
