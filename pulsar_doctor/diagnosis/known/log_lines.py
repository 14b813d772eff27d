"""Finds known lines in logs of clients and brokers: what they mean, since when, and of which topic.

A line is described by the sentence of the row that knows it, and by its times. Nothing else is
returned but the names of the topic and the subscription: a log may hold payloads, tokens and keys.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("log_lines.toml")
AROUND = 1000  # characters before and behind the text that makes a line known
NAMES_MOST = 2_000  # topics and subscriptions of one row
TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})[.,]?[0-9]{0,9}"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
TOPIC = re.compile(r"(?:non-)?persistent://[^\s\[\]{},'\"]{1,300}")
SUBSCRIPTION = re.compile(  # by Java's tracker, Go, and the broker; in brackets behind a topic
    r"subscription='?([^'\s,{}]{1,200})(?=['\s,])|, name=([^},]{1,200})}"
    r"|://[^\s\[\]{},'\"]{1,300}(?:\] ?\[|, (?!name=))([^\],\[]{1,200})[\],]"
)


@dataclass(frozen=True, slots=True)
class LogRow:
    """One kind of line; the comment on top of the table describes its fields."""

    name: str
    of: str
    has: tuple[str, ...]
    codes: tuple[str, ...]
    means: str


@dataclass(frozen=True, slots=True)
class KnownLine:
    """Every line of one row about one subscription. None: the line does not have it."""

    row: LogRow
    topic: str | None
    subscription: str | None
    count: int
    first: str | None  # as the log has it, to the second: its clock may be any
    last: str | None

    def __str__(self) -> str:
        """The line in a sentence: what it means, and since when."""
        since = "" if self.first is None else f", first at {self.first}"
        since += f", last at {self.last}" if self.last not in (None, self.first) else ""
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"{self.row.means} (the log of {self.row.of}, {times}{since})"

    def __add__(self, other: KnownLine) -> KnownLine:
        """Both together: lines of the same row."""
        first = min(filter(None, (self.first, other.first)), default=None)
        last = max(filter(None, (self.last, other.last)), default=None)
        return replace(self, count=self.count + other.count, first=first, last=last)


@cache
def rows() -> tuple[LogRow, ...]:
    """The table."""
    programs: list[dict[str, Any]] = tomllib.loads(TABLE.read_text("utf-8"))["program"]
    return tuple(
        LogRow(name, each["of"], tuple(row["has"]), tuple(row.get("codes", ())), row["means"])
        for each in programs
        for name, row in each["lines"].items()
    )


def known_lines(text: str) -> tuple[KnownLine, ...]:
    """What a log holds of known lines, each kind and subscription once, in order of the table."""
    return tuple(found for row in rows() for found in _of_row(row, text))


def _of_row(row: LogRow, text: str) -> Iterator[KnownLine]:
    found: dict[tuple[str | None, str | None], KnownLine] = {}
    for line in _lines(row, text):
        topic, subscription, moment = _topic(line), _subscription(line), _moment(line)
        place = topic, subscription
        one = KnownLine(row, topic, subscription, 1, moment, moment)
        if place in found:
            found[place] += one
        elif len(found) < NAMES_MOST:
            found[place] = one
    yield from found.values()


def _lines(row: LogRow, text: str) -> Iterator[str]:
    """Each line of this kind, as far as it is near to the text that makes it known."""
    at = text.find(row.has[0])
    while at >= 0:
        begin = max(text.rfind("\n", max(0, at - AROUND), at) + 1, at - AROUND, 0)
        end = text.find("\n", at, at + AROUND)
        end = min(at + AROUND, len(text)) if end < 0 else end
        if _has_all(row, text, at, end):
            yield text[begin:end]
        at = text.find(row.has[0], end)


def _has_all(row: LogRow, text: str, at: int, end: int) -> bool:
    for part in row.has:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _topic(line: str) -> str | None:
    found = TOPIC.search(line)
    return None if found is None else found[0]


def _subscription(line: str) -> str | None:
    found = SUBSCRIPTION.search(line)
    return None if found is None else next(name for name in found.groups() if name is not None)


def _moment(line: str) -> str | None:
    found = TIME.search(line)
    if found is None:
        return None
    day, time, zone = found.groups()
    return " ".join(filter(None, (day, time, "UTC" if zone == "Z" else zone)))
