"""Verdicts for Nagios and Icinga: a status line, performance data, details.

https://www.monitoring-plugins.org/doc/guidelines.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TextIO

from pulsar_doctor.checkup.result import Checkup, Tally
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.report.plain import in_detail
from pulsar_doctor.report.stall_check.tree import Alike, tree_of
from pulsar_doctor.report.stall_check.unread import is_topic, summary
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.report.words import NOTHING_JUDGED, counted, suppressed
from pulsar_doctor.wording.printable import many, printable

CARRIES = {"worst"}
NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")  # by exit code
LIMITS: Mapping[Status, str] = {  # warn;crit;min of performance data
    "stalled": ";;0;0",
    "warning": ";0;;0",
    "unknown": ";;;0",
    "healthy": ";;;0",
}
UNREAD_MOST = 2  # of these lines, where there are too many
LINES_MOST = 8  # in all: an agent carries a few KiB, and a person reads the first ones


def failure(why: str) -> str:
    """The status line where nothing could be checked: a monitor reads only stdout and the code."""
    return f"PULSAR STALL-CHECK UNKNOWN - {why.replace('|', '/')}"


def exit_code(tally: Tally, wanted: Wanted) -> int:
    """2 where something is stalled, else 3 where something is not known, else 1, else 0.

    Where nothing was judged nothing is known; what is unknown may be accepted as healthy.

    If there is a stall and something unknown, the code is that of the stall (our own codes do the
    same): it is certain, and somebody must act. If there is a warning and something could not be
    examined, or no subscription was seen at all, the code is UNKNOWN: there may be a stall.
    """
    if tally.counting["stalled"]:
        return 2
    if tally.unreachable or tally.not_accepted(wanted.accept_unknown):
        return 3
    return 1 if tally.counting["warning"] else 0


def write(checkup: Checkup, out: TextIO, wanted: Wanted) -> None:
    """One status line with performance data, then a line for each that is not healthy.

    Of a single one all that is known.
    """
    entries = tree_of(checkup.examined(), wanted.worst).entries
    tally = checkup.tally
    count = tally.accepted(wanted.accept_unknown)
    state = NAMES[exit_code(tally, wanted)]
    accepted = f" (accepted: {count} unknown)" if wanted.accept_unknown else ""
    headline = _headline(checkup, tally, entries)
    first = _clean(f"PULSAR STALL-CHECK {state} - {headline}{accepted}")
    out.write(f"{first}|{_performance(tally)}\n")
    out.writelines(f"{_clean(line)}\n" for line in _details(checkup, entries))


def _headline(checkup: Checkup, tally: Tally, entries: list[Alike]) -> str:
    total, unread = many(tally.subscriptions, "subscription"), summary(checkup)
    loud = next((each for each in entries if each.shown.suppressed is None), None)
    if loud:
        text = f"{tally.counting[loud.status]} of {total} {loud.status}: {loud.summary}"
    elif entries and tally.counting["healthy"] == tally.subscriptions:
        quiet = sum(tally.suppressed.values())
        return f"{quiet} of {total} suppressed: {entries[0].summary}" + (unread and f"; {unread}")
    elif checkup.unreachable and is_topic(checkup.unreachable[0][0]):
        topic, reason = map(printable, checkup.unreachable[0])
        return f"{unread}: {topic}: {reason}"
    else:
        text = f"{total}, {counted(tally.counts)}" if tally.subscriptions else NOTHING_JUDGED
    text = f"{text}{suppressed(tally)}"
    return f"{text}; {unread}" if unread else text


def _details(checkup: Checkup, entries: list[Alike]) -> Iterator[str]:
    room, unread = LINES_MOST - 1, checkup.unreachable
    if len(entries) == 1 and not unread:
        yield f"{entries[0].status.upper()} {entries[0].where}"
        yield from (f"  {line}" for line in islice(in_detail(entries[0].shown), room - 1))
        return
    lines = [f"{one.status.upper()} {one.summary}" for one in entries]
    missing = [f"UNREACHABLE {printable(topic)}: {printable(reason)}" for topic, reason in unread]
    more = len(lines) + len(missing) - room
    if more > 0:
        missing = missing[:UNREAD_MOST]
        lines = lines[: room - 1 - len(missing)]
        missing.append(f"and {more + 1} more: -o json lists them all")
    yield from lines
    yield from missing


def _performance(tally: Tally) -> str:
    """label=value;warn;crit;min;max. A threshold is a range: 0 alerts from one on."""
    numbers = [
        f"{name}={tally.counts[name]}{LIMITS[name]};{tally.subscriptions}" for name in LIMITS
    ]
    numbers += [f"unreachable={tally.unreachable};;;0", f"not_loaded={tally.not_loaded};;;0"]
    if tally.suppressed:
        numbers.append(f"suppressed={sum(tally.suppressed.values())};;;0")
    return " ".join(numbers)


def _clean(line: str) -> str:
    """Without the bar that begins performance data."""
    return line.replace("|", "/")
