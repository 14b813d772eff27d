"""Verdicts in brief, the worst first: one small JSON document for a ticket, a chat or a program.

The words are those of the screen. It is JSON, so that a program reads it and no name from outside
can pass for a line of ours. It has 1 KB for each thing that is wrong, and 5 KB at most: what has no
room is left out, the last and the least first, and `cut` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from pulsar_doctor.checkup.result import STATUSES, Checkup
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.stall_check.after_lines import AfterLines
from pulsar_doctor.report.stall_check.block import block_rows, slow_rows
from pulsar_doctor.report.stall_check.details import healthy_rows
from pulsar_doctor.report.stall_check.header import header
from pulsar_doctor.report.stall_check.pen import Pen, ScreenRow
from pulsar_doctor.report.stall_check.tree import Alike, JudgedFleet, tree_of
from pulsar_doctor.report.stall_check.unread import sentences
from pulsar_doctor.report.stall_check.verdict import counts_line, left_out_line
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.suspicion import undecided
from pulsar_doctor.report.words import cause
from pulsar_doctor.wording.printable import json_text, printable

SCHEMA = "pulsar-doctor/brief/1"
CARRIES = {"after", "notes"}
BYTES_EACH, BYTES_MOST = 1024, 5 * 1024
TEXT_BYTES = (400, 200, 100, 40)  # of one text: the first with which the document fits
ENTRIES_MOST = 20  # for which there may be room
LISTED_MOST = 5
LEAST = (  # which rows of an entry are left out, the first first; the rest stays
    "more", "names", "unseen", "no use", "else", "helps", "pace", "waits", "largest", "where",
    "check", "decide", "run", "seen", "fix", "risk",
)  # fmt: skip
ELSEWHERE = "-o json has everything"


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """The document, once everything is judged."""
    since, pen = AfterLines(), Pen(console_on(out), tells_backlog=True)
    fleet = tree_of(since.through(checkup.examined()))
    entries = [_rows(pen, each) for each in fleet.entries]
    head = _head(checkup, fleet, since)
    wrong = len(entries) + sum(len(head[name]) for name in ("after", "unread", "notes"))
    room = min(BYTES_MOST, BYTES_EACH * max(1, wrong))
    for text in _shorter_and_shorter(head, entries):
        if len(text) < room:
            break
    out.write(f"{text}\n")


def _rows(pen: Pen, alike: Alike) -> list[ScreenRow]:
    """One that is not healthy; of many with one cause, what they share, then the costliest."""
    shown, alone = alike.members[0].worst if alike.count > 1 else alike, alike.count == 1
    kept = {
        "status": alike.status,
        "subscription": alike.subscriptions,
        "topic": alike.place,
        "cause": alike.cause(with_name=alone),
    }
    more = {
        "certainty": _certainty(shown),
        "cost": "" if alone else alike.cost,
        "largest": "" if alone else shown.where,
    }
    named = kept | {name: text for name, text in more.items() if text}
    rows = (ScreenRow(name, text) for name, text in named.items())
    return [*rows, *block_rows(pen, shown), *slow_rows(shown), *_beside(shown)]


def _certainty(alike: Alike) -> str:
    """The certainty of the cause that is found or suspected."""
    shown = alike.shown
    if shown.findings and alike.status != "unknown":
        return f"{shown.findings[0].confidence:.0%}"
    first = shown.suspected
    return "" if first is None else first.share


def _beside(alike: Alike) -> Iterator[ScreenRow]:
    """What the first action risks, if its brief text does not say it; what was not seen."""
    shown = alike.shown
    if alike.status != "unknown" and shown.findings and shown.findings[0].actions:
        action = shown.findings[0].actions[0]
        if action.brief is None:
            yield ScreenRow("risk", action.side_effect or "none")
    if alike.status == "unknown":
        reasons = [each for each in undecided(shown) if each.partition(": ")[2] != cause(shown)]
        yield from (ScreenRow("unseen", "; ".join(reasons)) for _ in reasons[:1])


def _head(checkup: Checkup, fleet: JudgedFleet, since: AfterLines) -> dict[str, Any]:
    """What holds for all of them. Lists are cut by their number here, by their length later."""
    hidden = [
        printable(f"{each.subscription} on {each.topic}: {name}: {text}")
        for each in fleet.healthy
        for name, text in healthy_rows(each)
    ]
    alone = fleet.counts.total() == 1 and not checkup.tally.suppressed
    counts = "" if alone else counts_line(fleet, checkup.tally)
    lists = {
        "after": since.lines(),
        "unread": sentences(checkup.unreachable),
        "notes": [printable(note) for _, note in checkup.notes],
        "of_healthy": hidden if fleet.counts["healthy"] <= LISTED_MOST else [],
    }
    return {
        "schema": SCHEMA,
        "status": _status(checkup),
        "counts": left_out_line(checkup) if checkup.left_out else counts,
        "checked": header(checkup),
        "partial": checkup.stopped,
        "not_loaded": len(checkup.not_loaded),
        **{name: _few(texts) for name, texts in lists.items()},
    }


def _few(texts: Sequence[str]) -> list[str]:
    more = len(texts) - LISTED_MOST
    return [*texts[:LISTED_MOST], *([f"and {more} more"] if more > 0 else [])]


def _status(checkup: Checkup) -> str:
    """The worst; unknown, and never healthy, where something was not read or nothing was judged."""
    counts = Counter(checkup.tally.counts)
    counts["unknown"] += bool(checkup.unreachable or checkup.stopped or not counts.total())
    return next(status for status in STATUSES if counts[status])


def _shorter_and_shorter(head: dict[str, Any], entries: list[list[ScreenRow]]) -> Iterator[str]:
    """The whole document first; then with ever less in it."""
    for most in TEXT_BYTES:
        shown = [_within(rows, most) for rows in entries[:ENTRIES_MOST]]
        yield _text(head, shown, len(entries), most)
        for entry in reversed(shown):
            for name in [name for name in LEAST if name in entry]:
                del entry[name]
                entry["cut"] = ", ".join(filter(None, (entry.get("cut"), name)))
                yield _text(head, shown, len(entries), most)
        while len(shown) > 1:
            del shown[-1]
            yield _text(head, shown, len(entries), most)


def _within(rows: list[ScreenRow], most: int) -> dict[str, str]:
    """The rows by their names, none longer; a line for a shell is whole or not there."""
    entry: dict[str, str] = {}
    for row in rows:
        short = next((each for each in (row.whole, str(row.shown)) if _size(each) <= most), None)
        if short or not row.to_paste:
            entry.setdefault(row.name, short or _clipped(row.whole, most))
    if left_out := [row.name for row in rows if row.name not in entry]:
        entry["cut"] = ", ".join(left_out)
    return entry


def _text(head: dict[str, Any], shown: list[dict[str, str]], count: int, most: int) -> str:
    cut = [f"{count - len(shown)} of {count} that are not healthy"] if len(shown) < count else []
    cut += ["texts that end in …"] if most < TEXT_BYTES[0] else []
    cut += [ELSEWHERE] if cut else []
    last = {"subscriptions": shown} | ({"cut": "; ".join(cut)} if cut else {})
    clipped = {name: _clipped(value, most) for name, value in head.items() if value}
    return json_text(clipped | last, between=",\n ")


def _clipped(text: Any, most: int) -> Any:
    """A text, or each of a list, in so many bytes."""
    if isinstance(text, list):
        return [_clipped(each, most) for each in text]
    while isinstance(text, str) and (size := _size(text)) > most:
        text = f"{text[: len(text) * most // size - 1]}…"
    return text


def _size(text: str) -> int:
    """How many bytes it has in the document."""
    return len(json_text(text)) - 2
