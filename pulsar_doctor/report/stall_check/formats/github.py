"""Verdicts as annotations of a GitHub workflow, the worst first.

GitHub shows ten annotations of each kind in a step; the log keeps all of them.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.report.plain import in_detail
from pulsar_doctor.report.stall_check.tree import Alike, tree_of
from pulsar_doctor.report.stall_check.unread import summary
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import counted, suppressed
from pulsar_doctor.wording.printable import many, printable

CARRIES = {"worst"}
MARKUP = re.compile(r"[\\`*_{}\[\]()#+!|~@:>-]|(?<=www)\.", re.IGNORECASE)
# GitHub begins a formula at $, and documents this way to show one.
HTML = str.maketrans({"&": "&amp;", "<": "&lt;", "$": "<span>$</span>"})
SUMMARY_FILE = "GITHUB_STEP_SUMMARY"
SUMMARY_ROWS_MOST = 100  # the job's page takes 1 MiB of each step

SummaryRow = tuple[str, str, str]  # of the summary: what it is, where, and what was seen


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """An error for what makes the exit code 1 or 3, a warning for the rest, and a summary.

    The summary is a table on the page of the job, too, where GITHUB_STEP_SUMMARY names a file.
    """
    unmet = [each for each in checkup.expectations if not each.met]
    out.writelines(_annotation("error", each.sentence, f"Remedy: {each.action}") for each in unmet)
    entries = tree_of(checkup.examined(), wanted.worst).entries
    errors = (one for one in entries if _is_error(one, wanted))
    warnings = (one for one in entries if not _is_error(one, wanted))
    out.writelines(_annotation("error", _title(one), _message(one)) for one in errors)
    for topic, reason in checkup.unreachable:
        out.write(_annotation("error", f"unreachable: {printable(topic)}", printable(reason)))
    out.writelines(_annotation("warning", _title(one), _message(one)) for one in warnings)
    judged = checkup.tally.subscriptions or checkup.expectations
    nothing = not judged and wanted.accept_unknown != "all"
    level = "error" if nothing else "notice"
    out.write(_annotation(level, wanted.program, _summary(checkup)))
    if file := os.environ.get(SUMMARY_FILE):
        with Path(file).open("a", encoding="utf-8", errors="backslashreplace") as page:
            page.writelines(_page(checkup, entries, wanted))


def _page(checkup: Checkup, entries: Sequence[Alike], wanted: Wanted) -> Iterator[str]:
    """The summary in GitHub's Markdown."""
    yield f"### {wanted.program}\n\n{_summary(checkup)}\n\n"
    rows = [*_rows(checkup, entries)]
    if rows:
        yield "| | where | seen, and what to do first |\n| --- | --- | --- |\n"
        yield from (f"| {' | '.join(map(_cell, row))} |\n" for row in rows[:SUMMARY_ROWS_MOST])
    if len(rows) > SUMMARY_ROWS_MOST:
        yield f"\nand {len(rows) - SUMMARY_ROWS_MOST} more: see the log\n"
    yield "\n"


def _rows(checkup: Checkup, entries: Sequence[Alike]) -> Iterator[SummaryRow]:
    for each in checkup.expectations:
        mark = "\N{WHITE HEAVY CHECK MARK}" if each.met else "\N{CROSS MARK}"
        yield f"{mark} {each.option}", "", each.seen if each.met else f"{each.seen}. {each.action}"
    for topic, reason in checkup.unreachable:
        yield "unreachable", topic, reason
    for one in entries:
        finding = next(iter(one.shown.findings), None)
        yield one.status, one.summary, f"{finding.summary}. {finding.remedy}" if finding else ""


def _cell(text: str) -> str:
    """The text as it is, whatever GitHub's Markdown or HTML would make of it."""
    return MARKUP.sub(r"\\\g<0>", printable(text)).translate(HTML)


def _is_error(each: Alike, wanted: Wanted) -> bool:
    unknown = each.status == "unknown" and not all(map(wanted.accepts, each.verdicts))
    return unknown or any(map(wanted.fails, each.verdicts))


def _title(each: Alike) -> str:
    return f"{each.status}: {each.summary}"


def _message(each: Alike) -> str:
    return "\n".join(in_detail(each.shown, with_actions=True))


def _summary(checkup: Checkup) -> str:
    tally = checkup.tally
    judged = f"{many(tally.subscriptions, 'subscription')} judged"
    parts = [judged, counted(tally.counts), summary(checkup)]
    if tally.not_loaded:
        parts.append(f"{many(tally.not_loaded, 'topic')} not loaded")
    return ", ".join(part for part in parts if part) + suppressed(tally)


def _annotation(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_property(title)}::{_escaped(message)}\n"


def _property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
