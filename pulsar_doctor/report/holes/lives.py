"""What happened to the entries in holes, as a table and as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pulsar_doctor.report.trace.rows import iso
from pulsar_doctor.wording.printable import printable

if TYPE_CHECKING:
    from pulsar_doctor.ledger.acks.biographies import Biography
    from pulsar_doctor.wording.consoles import GatedConsole

ROWS_MOST = 20
TITLES = ("entry", "first sent (UTC)", "to", "times", "last sent", "to", "open")


def print_lives(console: GatedConsole, lives: Sequence[Biography]) -> None:
    """The oldest entries in holes; nothing where there are none. open: messages of the entry."""
    if not lives:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in TITLES:
        table.add_column(title, overflow="fold", no_wrap=title != "to")
    for life in lives[:ROWS_MOST]:
        table.add_row(*map(Text, _row(life)))
    console.print(Padding(table, (0, 0, 0, 2)))
    if len(lives) > ROWS_MOST:
        console.print(Text(f"  and {len(lives) - ROWS_MOST} more: -o json lists them all"))
    console.print()


def _row(life: Biography) -> tuple[str, ...]:
    return (
        f"{life.ledger_id}:{life.entry_id}",
        _moment(life.first_delivered_us),
        printable(life.first_consumer),
        str(life.deliveries),
        "" if life.deliveries < 2 else _moment(life.last_delivered_us),
        "" if life.deliveries < 2 else printable(life.last_consumer),
        str(life.open_messages),
    )


def _moment(us: int) -> str:
    return iso(us)[5:19].replace("T", " ")
