"""Cursors of the broker itself on the terminal: which keep storage, how much, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from pulsar_doctor.broker.stats.cursors import (
    COMPACTION,
    DEDUPLICATION,
    PENDING_ACKS,
    REPLICATOR,
    SHADOW,
    TRANSACTION_BUFFER,
    TRANSACTION_LOG,
)
from pulsar_doctor.checkup.holes.held import BrokerCursor, KeptLedgers
from pulsar_doctor.report.paper import FACT_WIDTH, print_rows
from pulsar_doctor.report.tables import count
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.printable import listed, many, printable

SHOWN_MOST = 20
OTHERS_MOST = 3
WHAT = {
    REPLICATOR: "replicates to {of}",
    SHADOW: "copies to the shadow topic {of}",
    DEDUPLICATION: "for deduplication",
    COMPACTION: "for compaction",
    TRANSACTION_LOG: "of a log of transactions",
    PENDING_ACKS: "of acknowledgements within transactions",
    TRANSACTION_BUFFER: "for transactions",
}


def print_cursors(console: GatedConsole, cursors: Sequence[BrokerCursor]) -> None:
    """Prints the cursors that keep something one by one, most first; the others are counted."""
    pinning = sorted((each for each in cursors if each.pins), key=_urgency)
    for cursor in pinning[:SHOWN_MOST]:
        console.print(Text(f"{_place(cursor)}: a cursor of the broker's own"))
        rows = ((label, printable(words)) for label, words in _lines(cursor))
        print_rows(console, rows, FACT_WIDTH)
        console.print()
    if len(pinning) > SHOWN_MOST:
        console.print(Text(f"and {len(pinning) - SHOWN_MOST} more: -o json lists them all"))
    quiet = len(cursors) - len(pinning)
    if quiet:
        known = all(each.held is not None for each in cursors if not each.pins)
        kept = "" if known else ", as far as is reported"
        text = f"{many(quiet, 'cursor')} of the broker's own: nothing kept for it alone{kept}"
        console.print(Text(text if quiet == 1 else text.replace("for it", "for them")))


def _urgency(cursor: BrokerCursor) -> tuple[int, str]:
    return -(cursor.held.ledgers if cursor.held else 0), cursor.account.subscription


def _place(cursor: BrokerCursor) -> str:
    account = cursor.account
    what = WHAT[cursor.owner.kind].format(of=printable(cursor.owner.of or "another cluster"))
    return f"{printable(account.subscription)} ({what}) on {printable(account.full_topic)}"


def _lines(cursor: BrokerCursor) -> Iterator[tuple[str, str]]:
    account = cursor.account
    if account.mark_delete is not None:
        ledger, entry = account.mark_delete
        yield "mark-delete", f"{ledger}:{entry}, {cursor.moves}"
    if cursor.connected is False:
        yield "replicator", f"is not connected to {cursor.owner.of}"
    if account.ranges:
        yield "holes", _holes(cursor)
    if cursor.held is not None and cursor.held.ledgers:
        yield "on disk", _held(cursor.held)
    yield "what to do", cursor.practice


def _holes(cursor: BrokerCursor) -> str:
    account = cursor.account
    first, last = account.oldest_hole or (None, None)
    where = "" if first is None else f"; the oldest begins at {first[0]}:{first[1]}"
    until = "" if last in (None, first) else f" and ends at {last[0]}:{last[1]}"
    ranges = many(account.ranges or 0, "range")
    return f"{ranges} of entries that are done lie behind it{where}{until}"


def _held(held: KeptLedgers) -> str:
    size = "" if held.bytes is None else f" with {count(held.bytes)} bytes"
    text = f"keeps {many(held.ledgers, 'ledger')}{size} that no subscription needs"
    if not held.others:
        return f"{text}, and nothing else keeps them"
    alone = "" if held.bytes_alone is None else f" ({count(held.bytes_alone)} bytes)"
    others = listed(list(held.others), OTHERS_MOST)
    return f"{text}; of these {held.alone}{alone} alone, the others with {others}"
