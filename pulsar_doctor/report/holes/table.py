"""Acknowledged ranges on the terminal: number, cost, origin and place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.text import Text

from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.bounds import Bounds
from pulsar_doctor.checkup.holes.found import Acknowledged
from pulsar_doctor.checkup.holes.origins import Origin
from pulsar_doctor.diagnosis.actions.commands import quoted
from pulsar_doctor.evidence.account import Account
from pulsar_doctor.ledger.acks.persisting import RECORD_BYTES_MOST
from pulsar_doctor.ledger.topics import NON_PERSISTENT
from pulsar_doctor.report.account import account_table
from pulsar_doctor.report.charts import ASCII, CHART_WIDTH_MOST, UNICODE
from pulsar_doctor.report.holes.axis import axis
from pulsar_doctor.report.holes.lives import print_lives
from pulsar_doctor.report.holes_cursors import print_cursors
from pulsar_doctor.report.paper import (
    FACT_WIDTH,
    PLAIN_SYMBOLS,
    STYLES,
    SYMBOLS,
    console_on,
    print_beside,
    print_rows,
)
from pulsar_doctor.report.stall_check.header import cluster_words
from pulsar_doctor.report.tables import NOT_REPORTED, count, counted, percent
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.printable import many, printable

BLOCKS_MOST = 20
MARGIN = 2  # characters before and behind a chart
FINE = "NO WARNING"
INCOMPLETE = "the trace is incomplete: acknowledgements may be among what is missing"
PARTIAL = (
    "Batches that are acknowledged in part are in no range, and not counted here. Brokers without "
    "apache/pulsar#26474 forget these acknowledgements at an unload, if there are at most {few} "
    "ranges."
)

LabelledLine = tuple[str, str]


def write(found: Acknowledged, out: TextIO) -> None:
    """Writes every subscription: those with holes one by one, most ranges first, then the others.

    Behind them the cursors of the broker's own, and sentences on topics without a subscription.
    """
    console, accounts = console_on(out), found.accounts
    if found.cluster is not None:
        console.print(Text(printable(cluster_words(found.cluster)), style="dim"))
    shown = sorted(filter(_is_shown, accounts), key=lambda each: each.urgency)
    for each in shown[:BLOCKS_MOST]:
        _print_block(console, each)
        print_lives(console, found.biographies.get(each.key, ()))
    if len(shown) > BLOCKS_MOST:
        console.print(Text(f"and {len(shown) - BLOCKS_MOST} more: -o json lists them all"))
    whole = [each for each in accounts if not _is_shown(each)]
    for each in whole if not shown else ():
        line = f"  {_place(each)}: {_nothing(each)}"
        console.print(Text.assemble(_badge(console, "healthy"), line))
        if not each.topic.startswith(NON_PERSISTENT):
            console.print(Text(f"  is it stalled?  {_ask(each)}"), soft_wrap=True)
    if shown and whole:
        console.print(Text(f"{many(len(whole), 'other subscription')} without holes"))
    print_cursors(console, found.cursors)
    if not (accounts or found.kinds or found.cursors):
        console.print(Text("no subscription was found: nothing to show"))
    for _, sentence in found.kinds:
        console.print(Text(printable(sentence)))
    if asleep := len(found.not_loaded):
        console.print(Text(f"{many(asleep, 'topic')} that no broker has loaded: not read"))
    out.flush()


def _is_shown(account: CursorAccount) -> bool:
    return account.ranges != 0 or account.backlog_wrong is True or account.incomplete


def _nothing(account: CursorAccount) -> str:
    if account.topic.startswith(NON_PERSISTENT):
        return "nothing is kept there, so there is no backlog and nothing to acknowledge"
    where = "" if account.mark_delete is None else f" (mark-delete {_at(account.mark_delete)})"
    backlog = "" if account.backlog is None else f", backlog {count(account.backlog)}"
    return f"no holes{where}{backlog}"


def _ask(account: CursorAccount) -> str:
    """The command that tells what holes do not."""
    topic, subscription = quoted(account.full_topic), quoted(account.subscription)
    return f"pulsar-doctor stall-check {topic} -s {subscription}"


def _print_block(console: GatedConsole, account: CursorAccount) -> None:
    console.print(Text.assemble(_badge(console, account.status), "  ", _place(account)))
    print_rows(console, (*hole_lines(account), *_messages(account.messages)), FACT_WIDTH)
    signs = UNICODE if console.encoding.lower().startswith("utf") else ASCII
    width = min(console.text_width, CHART_WIDTH_MOST) - 2 * MARGIN
    for line in axis(account, width, signs):
        print_beside(console, MARGIN * " ", line)
    console.print()


def _badge(console: GatedConsole, status: str) -> tuple[str, str]:
    unicode = console.encoding.lower().startswith("utf")
    word = FINE if status == "healthy" else status.upper()  # holes do not show who rests
    return f"{(SYMBOLS if unicode else PLAIN_SYMBOLS)[status]} {word}", STYLES[status]


def _place(account: CursorAccount) -> str:
    type_ = f", {account.type}" if account.type else ""
    return f"{printable(account.subscription)} on {printable(account.full_topic)}{type_}"


def hole_lines(account: CursorAccount) -> Iterator[LabelledLine]:
    """What is known of a subscription's holes, as names and texts."""
    if account.stuck:
        yield "ack-hole", printable(account.stuck)
    if account.backlog_wrong:
        yield "backlog", _backlog(account)
    yield "mark-delete", _mark_delete(account)
    yield "acknowledged", _acknowledged(account)
    yield "holes", _holes(account)
    yield "persisted", _persisted(account)
    yield "record", _record(account)
    yield "at the next load", _at_load(account)
    if account.pinned is not None:
        yield "on disk", _pinned(account)
    for origin in account.origins:
        yield from _origin(origin)
    yield "note", PARTIAL.format(few=count(account.storing.few))
    if account.incomplete:
        yield "not reported", INCOMPLETE
    for missing in account.unknowns:
        yield "not reported", printable(missing)


def _backlog(account: CursorAccount) -> str:
    """The backlog where its counter is wrong."""
    right = account.backlog_by_positions
    by = "" if right is None else f", by the positions it is {count(right)}"
    topic = quoted(account.full_topic)
    return (
        f"the broker's counter says {count(account.backlog)}, which is wrong{by}; it is computed "
        f"again when the topic is unloaded (pulsar-admin topics unload {topic}), and then all "
        "clients of the topic reconnect"
    )


def _mark_delete(account: CursorAccount) -> str:
    where = NOT_REPORTED if account.mark_delete is None else _at(account.mark_delete)
    least, most = account.between.mark_delete
    if account.mark_delete is None and most is not None:
        where = f"at most {_at(most)}" if least is None else f"{_at(least)} to {_at(most)}"
    if account.stood is None:
        return f"{where}; since when is not known"
    return f"{where}, has not moved for {account.stood}"


def _acknowledged(account: CursorAccount) -> str:
    bounds = account.between
    ranges = _between(account.ranges, bounds.ranges, "range")
    entries = _between(account.acknowledged_entries, bounds.acknowledged_entries, "entry")
    if ranges is None:
        return "not reported"
    held = "" if entries is None else f" with {entries}"
    return f"{ranges}{held} behind mark-delete"


def _holes(account: CursorAccount) -> str:
    if account.shape is None:
        bounds = account.between
        if None not in bounds.holes and bounds.hole_entries[1] is None:
            return _at_least(bounds)
        holes = _between(None, bounds.holes, "hole")
        entries = _between(None, bounds.hole_entries, "entry")
        return f"{holes} with {entries}" if holes and entries else holes or "not reported"
    where = ""
    if account.oldest_hole is not None:
        first, last = account.oldest_hole
        until = "" if first == last else f" to {_at(last)}"
        where = f"; the oldest is {_at(first)}{until}"
    inside = counted(sum(account.shape.hole_entries), "entry")
    return f"{counted(len(account.shape.holes), 'hole')} with {inside}{where}"


def _between(value: int | None, bounds: tuple[int | None, int | None], what: str) -> str | None:
    """`3 ranges`, `3 to 5 ranges`, `at least 3 ranges`; None where nothing is known."""
    least, most = bounds
    if value is not None:
        return counted(value, what)
    if least is None or most is None:
        return None if least is None else f"at least {counted(least, what)}"
    return counted(most, what) if least == most else f"{count(least)} to {counted(most, what)}"


def _at_least(bounds: Bounds) -> str:
    """Holes that lie in ledgers that are not all known."""
    (least, most), entries = bounds.holes, bounds.hole_entries[0]
    if least is None or not most:
        return "not reported"
    between = (
        counted(most, "hole")
        if least == most
        else f"between {count(least)} and {counted(most, 'hole')}"
    )
    held = counted(entries or 0, "entry")
    return f"{between} with {held} at least; the oldest begins behind mark-delete"


def _messages(account: Account | None) -> Iterator[LabelledLine]:
    """Where all messages of the subscription are, those in holes among them."""
    lines = iter(account_table(account).lines if account is not None else ())
    for title in lines:
        yield "account", title
        yield from (("", each) for each in lines)


def _persisted(account: CursorAccount) -> str:
    source = "this version's default" if account.storing.version else "assumed"
    assumed = f" ({source}: not reported)" if account.storing.max_ranges is None else ""
    return f"{percent(account.share_of_limit)} of {count(account.storing.limit)} ranges{assumed}"


def _record(account: CursorAccount) -> str:
    if account.record_bytes is None:
        return "not reported"
    share = percent(account.record_bytes / RECORD_BYTES_MOST)
    source = "as last written" if account.record_known else "as it would be written"
    most = f"{RECORD_BYTES_MOST // 1024**2} MiB that a bookie takes"
    return f"{counted(account.record_bytes, 'byte')} {source}, {share} of the {most}"


def _at_load(account: CursorAccount) -> str:
    if account.durable is False:
        return "nothing is kept: this subscription is not durable"
    if account.forecast is None:
        return "not reported"
    least, most = account.forecast.least, account.forecast.most
    if least != most:
        between = f"between {count(least)} and {count(most)} acknowledged entries"
        what = "the broker's way of storing them" if account.ranges is not None else "how many"
        return f"{between} are delivered again: {what} is not reported"
    if not most:
        return "no acknowledged entry is delivered again after an orderly unload"
    noun = "entry is" if most == 1 else "entries are"
    return f"{count(most)} acknowledged {noun} delivered again after an orderly unload"


def _pinned(account: CursorAccount) -> str:
    pinned = account.pinned
    assert pinned is not None
    size, ledgers = counted(pinned.bytes, "byte"), counted(pinned.ledgers, "ledger")
    kept = f"{size} in {ledgers} from the oldest hole"
    if pinned.without_any == pinned.bytes:
        return f"{kept} on; no hole keeps more than the last entries would"
    without = f"{count(pinned.without_oldest)} without it, {count(pinned.without_any)} without any"
    return f"{kept} on; {without}"


def _origin(origin: Origin) -> Iterator[LabelledLine]:
    share = counted(origin.least, "entry")
    if origin.least != origin.most:
        share = f"{count(origin.least)} to {counted(origin.most, 'entry')}"
    yield f"origin: {origin.code}", f"{share} in holes; {origin.because}"
    yield "", origin.practice


def _at(position: tuple[int, int]) -> str:
    return f"{position[0]}:{position[1]}"
