"""Many verdicts as a table, and below it what to do about each cause.

A row is one line, to be searched: what is long comes last or moves only its own row. A remedy
belongs to its cause, so it is printed once below the rows, and whole, at any width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from pulsar_doctor.diagnosis.answers import HEALTHY, Finding, ReaderRests, Suspect
from pulsar_doctor.report.paper import print_beside, print_rows
from pulsar_doctor.report.stall_check.pen import LABEL_WIDTH, Pen
from pulsar_doctor.report.stall_check.tree import Alike
from pulsar_doctor.report.stall_check.vitals import total
from pulsar_doctor.report.suspicion import probe_rows
from pulsar_doctor.report.words import READERS_REST, READS_AT_WILL, accused, backlog
from pulsar_doctor.wording.printable import many, printable

ROWS_MOST = 100
ALIGNED_MOST = 40  # characters of a cell for which other rows make room
TITLES = "verdict", "backlog", "subscription", "topic", "culprit", "cause"
LARGEST_SHOWN_MOST = 3


def print_many(pen: Pen, groups: Sequence[Alike]) -> None:
    """Draws what is not healthy, already in its order, and what to do about it."""
    rows = groups if pen.verbose else groups[:ROWS_MOST]
    table = _table(pen, rows)
    if max(line.cell_len for line in table) <= pen.console.width:
        for line in table:
            pen.console.print(line, soft_wrap=True)
    else:
        _print_lines(pen, rows)
    if len(groups) > len(rows):
        pen.console.print(Text(f"and {len(groups) - len(rows)} more: -o json lists them all"))
    _print_remedies(pen, groups)


def print_group(pen: Pen, group: Alike) -> None:
    """Draws many that have one cause: how many, what they cost, the largest, what to do."""
    cause = group.cause(with_name=False)
    who = str(group.count) if cause == READERS_REST else f"{many(group.count, 'subscription')}:"
    pen.console.print(Text.assemble(pen.badge(group.status), f"  {who} {cause}, {group.cost}"))
    print_rows(pen.console, _of_group(group), LABEL_WIDTH)
    _print_remedies(pen, [group])


def _of_group(group: Alike) -> Iterator[tuple[str, Text]]:
    shown = [each.worst for each in group.members[:LARGEST_SHOWN_MOST]]
    for number, each in enumerate(shown):
        who = f" ({_who(each)})" if _who(each) else ""
        yield "" if number else "largest", Text(f"{each.where}{_milder(each)}{who}, {each.cost}")
    if group.count > len(shown):
        yield "", Text(f"and {group.count - len(shown)} more with -v or -o json")


def _table(pen: Pen, rows: Sequence[Alike]) -> list[Text]:
    """A heading and a line for each; the numbers on the right of their column."""
    table = [[Text(title, style="bold") for title in TITLES], *(_cells(pen, each) for each in rows)]
    for title, column in zip(TITLES, zip(*table, strict=True), strict=True):
        width = max(cell.cell_len for cell in column if cell.cell_len <= ALIGNED_MOST)
        for cell in column:
            pad = cell.pad_left if title == "backlog" else cell.pad_right
            pad(max(0, width - cell.cell_len))
    lines = [Text("   ").join(cells) for cells in table]
    for line in lines:
        line.rstrip()
    return lines


def _cells(pen: Pen, group: Alike) -> list[Text]:
    cells = (
        backlog(total(each.backlog for each in group.members)),
        group.subscriptions,
        f"{group.place}{_milder(group)}",
        _who(group) or "-",
        group.cause(with_name=False),
    )
    return [Text(*pen.badge(group.status)), *map(Text, cells)]


def _who(group: Alike) -> str:
    """The culprit of a single subscription."""
    by = group.shown.first
    return printable(by.consumer) if by and by.consumer and group.count == 1 else ""


def _milder(group: Alike) -> str:
    """How many partitions of a single subscription have other causes."""
    milder = len(group.of.unwell) - len(group.diagnoses) if group.count == 1 else 0
    return f"; {milder} more with other causes" if milder else ""


def _print_lines(pen: Pen, rows: Sequence[Alike]) -> None:
    """Two lines each, for a narrow terminal."""
    for group in rows:
        where = group.subscriptions if group.count > 1 else f"{group.where}{_milder(group)}"
        pen.console.print(Text.assemble(pen.badge(group.status), "  ", where))
        cause = group.cause(with_name=group.count == 1)
        print_beside(pen.console, "  ", f"{cause}, {group.cost}")


def _print_remedies(pen: Pen, groups: Sequence[Alike]) -> None:
    """What to do, for each first cause in the order in which the rows have it."""
    first: dict[str, Finding | Suspect | ReaderRests] = {}
    addresses: dict[str, set[str | None]] = {}  # of the processes of each cause
    members = (folded for group in groups for folded in group.members)
    for shown in (alike.shown for folded in members for alike in folded.alike()):
        if shown.findings:
            worst = shown.findings[0]
            first.setdefault(worst.code, worst)
            addresses.setdefault(worst.code, set()).add(
                worst.where.address if worst.where else None
            )
        elif shown.suspects:
            first.setdefault(f"? {shown.suspects[0].code}", shown.suspects[0])
        for reader in shown.resting_readers:
            first.setdefault(READERS_REST, reader)
    pen.console.print()
    for code, found in first.items():
        several = len(addresses.get(code, ())) > 1
        _print_remedy(pen, _of_several(found) if several and isinstance(found, Finding) else found)
    if first:
        pen.console.print()


def _of_several(found: Finding) -> Finding:
    """The remedy without the one address that it names: `processes` below has all of them."""
    address = found.where.address if found.where else None
    if not address:
        return found
    shown = printable(address.lstrip("/"))
    remedy = found.remedy.replace(f"the process at {shown}", "each of the processes below")
    return replace(found, remedy=remedy.replace(shown, "each of the addresses below"))


def _print_remedy(pen: Pen, found: Finding | Suspect | ReaderRests) -> None:
    """And where nothing is decided, how that is done, for the first of those."""
    if isinstance(found, Finding):
        pen.console.print(Text.assemble((found.code, "bold"), f": {printable(found.remedy)}"))
        print_beside(pen.console, "  ", Text(found.explain, style="dim"))
    elif found.decide:
        (name, text), *run = probe_rows(found.decide)
        headline = Text.assemble((READERS_REST, "bold"), f"; {name}")
        if isinstance(found, Suspect) and found.code == HEALTHY:
            headline = Text("probably nothing is wrong; to be sure", "bold")
        elif isinstance(found, Suspect):
            who = accused(found, with_name=False)
            headline = Text.assemble((who, "bold"), f", suspected; {name}")
        pen.console.print(Text.assemble(headline, f": {printable(text)}"))
        for _, line in run:
            pen.console.print(
                Text(f"  {printable(pen.reaching(line))}", style="dim"), soft_wrap=True
            )
    if isinstance(found, ReaderRests):
        print_beside(pen.console, "  ", READS_AT_WILL)
