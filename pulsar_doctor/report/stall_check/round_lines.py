"""--watch in a pipe: a dated line for each verdict that is bad and new, or has changed.

A round ends with how many there are of each, and how many of the bad ones are unchanged with their
backlog, so that silence is not taken for health.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TextIO

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.short_form import place
from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey
from pulsar_doctor.report.paper import PIPE
from pulsar_doctor.report.stall_check.block import NAME_WIDTH, block_rows
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.rounds import (
    KnownSubscription,
    Round,
    alone,
    next_round,
)
from pulsar_doctor.report.stall_check.tree import JudgedSubscription
from pulsar_doctor.report.stall_check.unread import sentences
from pulsar_doctor.report.stall_check.vitals import total
from pulsar_doctor.report.words import backlog, cause, totals
from pulsar_doctor.wording.gate import gated
from pulsar_doctor.wording.printable import printable


class RoundLines:
    """Writes rounds as they come."""

    def __init__(self, out: TextIO) -> None:
        self._out = gated(out)
        self._known: Mapping[VerdictKey, KnownSubscription] | None = None
        self._written: dict[VerdictKey, str] = {}  # of what is not healthy, without its numbers

    def show(self, checkup: Checkup) -> None:
        """One round, read to its end."""
        round_ = next_round(checkup, self._known)
        self._known = round_.known
        lines = self._lines(round_)
        self._out.writelines(f"{stamp(checkup.checked_at)}  {line}\n" for line in lines)
        self._out.flush()

    def _lines(self, round_: Round) -> Iterator[str]:
        unwell = round_.fleet.unwell
        written = {each.key: f"{each.status}{_changing(each.worst.shown)}" for each in unwell}
        changed = [each for each in unwell if self._written.get(each.key) != written[each.key]]
        self._written = written
        for folded in changed:
            yield from _unwell(round_, folded)
        for change in round_.changes:
            if change.now in ("healthy", None):
                now = "HEALTHY" if change.now else "GONE"
                yield f"{now}  {place((change.topic, change.subscription))}  (was {change.before})"
        yield from (printable(note) for _, note in round_.checkup.notes)
        yield from (f"UNREAD  {sentence}" for sentence in sentences(round_.checkup.unreachable))
        rest = [each for each in unwell if each not in changed]
        entries = backlog(total(each.backlog for each in rest))
        same = f"; {len(rest)} not healthy as before, backlog {entries}" if rest else ""
        yield f"{totals(round_.fleet.counts, round_.checkup.tally)}{same}"


def stamp(at: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _changing(shown: Diagnosis) -> tuple[object, ...]:
    """What makes a new line: another cause, another suspect, another verdict of this round."""
    first = shown.first
    return (first and first.code, first and first.consumer, alone(shown))


def _unwell(round_: Round, folded: JudgedSubscription) -> Iterator[str]:
    """The verdict with its cause; what was seen and what to do about it once, when it is new."""
    shown, was = folded.worst.shown, round_.turned_from(folded)
    before = f"  (was {was})" if was else alone(shown)
    where = place(folded.key)
    entries = f"backlog {backlog(folded.backlog)}"
    yield f"{folded.status.upper()}  {where}{before}  {cause(shown)}, {entries}"
    if was or round_.was(folded) is None:
        for row in block_rows(Pen(PIPE), folded.alike()[0]):
            yield f"  {row.name:<{NAME_WIDTH}}  {row.whole}"
