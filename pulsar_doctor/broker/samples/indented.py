"""Reads a broker's answer that was printed as YAML.

Only what tools print of such an answer: objects, lists with dashes, and plain values. It begins at
the first field that a broker writes, and ends at the first line that is none of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pulsar_doctor.broker.samples.mending import NOTHING, PLAIN, Mending

INDENTED = "it is read as YAML"
BEGINS = re.compile(
    r"(?:subscriptions|consumers|cursors|msgRateIn|msgRateOut|msgBacklog|unackedMessages|type"
    r"|consumerName|availablePermits|entriesAddedCounter|markDeletePosition|readPosition):"
)
NAME = r"(?P<name>[\w.:/-]+|\"[^\"]+\"|'[^']+')"
LINE = re.compile(rf"(?:- )*{NAME}:(?:\s+(?P<value>.*))?")
COMMENT = re.compile(r"\s+#.*$")

Rows = list[tuple[int, str]]


def indented(text: str) -> tuple[Any, set[str]] | None:
    """The object that is written so, and what was done; None where there is none."""
    lines: Rows = []
    for line in text.splitlines():
        bare = COMMENT.sub("", line).strip()
        at = len(line) - len(line.lstrip())
        if not lines and not BEGINS.match(bare.removeprefix("- ")):
            continue
        if bare and (LINE.fullmatch(bare) is None or (lines and at < lines[0][0])):
            break
        if bare:
            lines.append((at, bare))
    if not lines:
        return None
    try:
        found, rest = _block(lines, lines[0][0])
    except (ValueError, RecursionError):
        return None
    return None if rest or found is NOTHING else (found, {INDENTED})


def _block(lines: Rows, at: int) -> tuple[Any, Rows]:
    """What stands at this depth, and the lines behind it."""
    if lines[0][1].startswith("- "):
        return _list(lines, at)
    made: dict[str, Any] = {}
    while lines and lines[0][0] == at and not lines[0][1].startswith("- "):
        match = LINE.fullmatch(lines[0][1])
        assert match is not None
        name, value, lines = match["name"].strip("\"'"), match["value"], lines[1:]
        if name in made:
            raise ValueError("several fields have one name")
        told, lines = (_value(value), lines) if value else _inner(lines, at)
        if told is not NOTHING:
            made[name] = told
    if lines and lines[0][0] > at:
        raise ValueError("it stands farther in than its neighbours")
    return made or NOTHING, lines


def _inner(lines: Rows, at: int) -> tuple[Any, Rows]:
    """What is within a field: farther in, or a list at the same depth."""
    if lines and (lines[0][0] > at or (lines[0][0] == at and lines[0][1].startswith("- "))):
        return _block(lines, lines[0][0])
    return NOTHING, lines


def _list(lines: Rows, at: int) -> tuple[Any, Rows]:
    found: list[Any] = []
    while lines and lines[0][0] == at and lines[0][1].startswith("- "):
        own = lines[0][1][2:]
        deeper = at + len(lines[0][1]) - len(own.lstrip())
        one, lines = _block([(deeper, own.lstrip()), *lines[1:]], deeper)
        found += [] if one is NOTHING else [one]
    return found, lines


def _value(written: str) -> Any:
    if PLAIN.fullmatch(written):
        return json.loads(written)
    if written[0] in "\"'[{":
        return Mending(written).value(4)
    return NOTHING if written.startswith("...") else written
