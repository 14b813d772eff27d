"""Makes names and numbers safe and readable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pulsar_doctor.wording.sentences import Sentence, joined, say

CHARACTERS_MOST = 4000  # of a line that somebody is to read
NAMED_MOST = 3  # names in a sentence


def printable(text: str) -> str:
    """Names come from others: no control characters, line ends or halves of characters.

    Nor what turns the direction of writing or has no shape; each is U+FFFD instead. What nobody
    would read to its end is cut.
    """
    if len(text) > CHARACTERS_MOST:
        text = f"{text[: CHARACTERS_MOST - 50]}… ({len(text)} characters)"
    return _shown(text)


def _shown(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines, with its line ends kept."""
    return text if text.isprintable() else "\n".join(map(_shown, text.split("\n")))


def json_text(document: Any, indent: int | None = None, *, between: str | None = None) -> str:
    """JSON of what prints only: every other character is an escape, and so is what is no ASCII."""
    separators = (between, ": ") if between else None
    text = json.dumps(document, indent=indent, separators=separators)
    return text.replace("\x7f", "\\u007f")


def many(count: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def listed(names: Sequence[str], most: int = NAMED_MOST, last: str = " and ") -> Sentence:
    """`a, b and 3 more`: at most so many names. last: before the last one, if these are all."""
    if len(names) <= most:
        return joined(last, (joined(", ", names[:-1]), *names[-1:]))
    return say("{} and {} more", joined(", ", names[:most]), len(names) - most)
