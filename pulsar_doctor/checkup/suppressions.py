"""Reads which verdicts are suppressed, until when and why, from a file beside the contexts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.contexts import own_file, tables_of
from pulsar_doctor.diagnosis.causes import named
from pulsar_doctor.diagnosis.suppression import Suppression, covering
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.topics import PERSISTENT
from pulsar_doctor.wording.printable import printable
from pulsar_doctor.wording.spelling import near

NAME = "suppressions.toml"
TABLE = "suppress"
HEAD = re.compile(rf"\s*\[\[\s*{TABLE}\s*\]\]")
REQUIRED = ("topic", "until", "why")
KEYS = (*REQUIRED, "subscription", "cause")
ONE_OF = re.compile(r"\[!?+\]?+[^\]]{0,200}\]")  # [ ] of a pattern, as fnmatch reads it


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Every entry of a file."""

    entries: tuple[Suppression, ...] = ()

    def of(self, diagnosis: Diagnosis) -> Suppression | None:
        """What suppresses this verdict now; None: nothing, or it is healthy."""
        if diagnosis.status == "healthy" or not self.entries:
            return None
        of, now_ms = diagnosis, time.time() * 1000
        topics = of.topic, of.whole, of.full_topic
        there = (each for each in self.entries if each.until_ms > now_ms)
        valid = [each for each in there if each.names(topics, of.subscription)]
        return covering(of.findings, valid, unknown=of.status == "unknown")

    def expired(self) -> Iterator[str]:
        """A sentence for each entry that has ended."""
        for each in self.entries:
            if each.until_ms <= time.time() * 1000:
                yield printable(
                    f"the suppression of {each.subscription} on {each.topic} has ended "
                    f"({each}); delete it, or give it another end"
                )


def read(file: Path | None) -> Suppressions:
    """The entries of a file; None: of the one beside the contexts. Raises InputError."""
    where = file or own_file().with_name(NAME)
    found = tables_of(where, "the file of suppressions", required=file is not None)
    if found is None:
        return Suppressions()
    text, tables = found
    lines = text.splitlines()
    try:
        unknown = next((name for name in tables if name != TABLE), None)
        listed = tables.get(TABLE, [])
        if unknown is not None:
            raise InputError(f"{unknown!r} is not known; write [[{TABLE}]] above each")
        if not (isinstance(listed, list) and all(isinstance(x, dict) for x in listed)):
            raise InputError(f"{TABLE!r} is not a list; write [[{TABLE}]] above each")
        return Suppressions(tuple(_entry(each, lines, at) for at, each in enumerate(listed)))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _entry(table: Any, lines: list[str], number: int) -> Suppression:
    try:
        return _of_table(table)
    except InputError as error:
        key, why = error.args[0].split(": ", 1)
        raise InputError(f"line {_line(lines, number, key)}: {key} {why}") from None


def _of_table(table: dict[str, Any]) -> Suppression:
    """InputError says `key: why`."""
    for key in (*(each for each in REQUIRED if each not in table), *table):
        if key not in KEYS:
            raise InputError(f"{key}: is not known; {near(key, KEYS)}")
        if key not in table:
            raise InputError(f"{key}: is missing")
        if key != "until" and not (isinstance(table[key], str) and table[key].strip()):
            raise InputError(f"{key}: is not a text in quotes")
        if key in ("topic", "subscription") and "[" in ONE_OF.sub("", table[key]):
            raise InputError(f"{key}: has a [ without its ]; write [[] for the character itself")
    if cause := table.get("cause"):
        try:
            named([cause])
        except InputError as error:
            raise InputError(f"cause: is wrong, {error}") from None
    until_ms = _end_ms(table["until"])
    topic, subscription = _full(table["topic"]), table.get("subscription", "*")
    return Suppression(topic, subscription, cause, until_ms, table["why"])


def _end_ms(until: Any) -> int:
    """The last moment: of a date its end, in UTC where no other zone is written."""
    if not isinstance(until, date):
        raise InputError("until: is not a date without quotes, such as 2027-01-31")
    if not isinstance(until, datetime):
        until = datetime(until.year, until.month, until.day, 23, 59, 59)
    try:
        moment = until.replace(tzinfo=until.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        raise InputError("until: is no moment of the years 1 to 9999") from None
    return int(moment.timestamp() * 1000)


def _full(pattern: str) -> str:
    """The full name of TOPIC as it is read: `orders` is a topic of public/default."""
    if "://" in pattern:
        return pattern
    return f"{PERSISTENT}{'' if '/' in pattern else 'public/default/'}{pattern}"


def _line(lines: list[str], number: int, key: str) -> int:
    """Where a key of that entry is, or its head, or 1 where it is written in another way."""
    heads = [at for at, line in enumerate(lines, 1) if HEAD.match(line)]
    if number >= len(heads):
        return 1
    end = heads[number + 1] - 1 if number + 1 < len(heads) else len(lines)
    inside = range(heads[number], end)
    of_key = (at + 1 for at in inside if lines[at].partition("=")[0].strip(" \t\"'") == key)
    return next(of_key, heads[number])
