"""Reads a broker's answer that was printed as YAML.

Only what tools print of such an answer: objects, lists with dashes, and plain values. It begins at
the first field that a broker writes, and ends at the first line that is none of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.broker.samples.mending import NOTHING, PLAIN, Mending

INDENTED = "it is read as YAML"
BEGINS = re.compile(
    r"(?:subscriptions|consumers|cursors|msgRateIn|msgRateOut|msgBacklog|unackedMessages|type"
    r"|consumerName|availablePermits|entriesAddedCounter|markDeletePosition|readPosition):"
)
NAME = r"(?P<name>[\w.:/-]+|\"[^\"]+\"|'[^']+')"
LINE = re.compile(rf"(?:- )*{NAME}:(?:\s+(?P<value>\S.*))?")
FLOW_BYTES = 64 << 10  # of a list or object on one line, which is read character by character
COMMENT = re.compile(r"(?<!\s)\s+#.*")


def indented(text: str, levels: int) -> tuple[Any, set[str]] | None:
    """The object that is written so, and what was done; None: there is none, or it is deeper."""
    lines: list[tuple[int, str]] = []
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
    rows = _Rows(lines)
    try:
        found = rows.block(levels)
    except ValueError:
        return None
    return None if rows.more(0) or found is NOTHING else (found, {INDENTED})


@dataclass(slots=True)
class _Rows:
    """The lines, and the place among them. It moves on with each line that is read."""

    lines: list[tuple[int, str]]  # how far in each is, and its text
    at: int = 0

    def more(self, least: int) -> bool:
        """Whether a line follows that is at least so far in."""
        return self.at < len(self.lines) and self.lines[self.at][0] >= least

    def block(self, levels: int) -> Any:
        """What is at the depth of this line: the fields of an object, or a list."""
        if levels == 0:
            raise ValueError("it has more levels than an answer")
        depth, text = self.lines[self.at]
        read = self.elements if text.startswith("- ") else self.fields
        return read(depth, levels - 1)

    def fields(self, depth: int, levels: int) -> Any:
        made: dict[str, Any] = {}
        while self.more(depth) and not self._is_element(depth):
            if self.lines[self.at][0] > depth:
                raise ValueError("it stands farther in than its neighbours")
            match = LINE.fullmatch(self.lines[self.at][1])
            assert match is not None
            self.at += 1
            name, value = match["name"].strip("\"'"), match["value"]
            if name in made:
                raise ValueError("several fields have one name")
            found = _value(value) if value else self.inner(depth, levels)
            if found is not NOTHING:
                made[name] = found
        return made or NOTHING

    def inner(self, depth: int, levels: int) -> Any:
        """What is within a field: farther in, or a list at the same depth."""
        more = self.more(depth + 1) or self._is_element(depth)
        return self.block(levels) if more else NOTHING

    def elements(self, depth: int, levels: int) -> list[Any]:
        found: list[Any] = []
        while self._is_element(depth):
            text = self.lines[self.at][1]
            own = text[2:].lstrip()
            self.lines[self.at] = depth + len(text) - len(own), own  # what it holds begins here
            one = self.block(levels)
            found += [] if one is NOTHING else [one]
        return found

    def _is_element(self, depth: int) -> bool:
        """Whether this line is an element of a list at this depth."""
        return (
            self.at < len(self.lines)
            and self.lines[self.at][0] == depth
            and self.lines[self.at][1].startswith("- ")
        )


def _value(written: str) -> Any:
    if PLAIN.fullmatch(written):
        return json.loads(written)
    if written[0] in "\"'[{":
        if len(written) > FLOW_BYTES:
            raise ValueError("no tool prints so long a line")
        return Mending(written).value(4)
    return NOTHING if written.startswith("...") else written
