"""Sentences that know which values they contain, so that no number is printed twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from functools import cache

BRACKETS, NAMES = re.compile(r"\[([^]]*)\]"), re.compile(r"\{(\w+)")


class Sentence(str):
    """A text with the values that it was built from: `12`, and with its unit `12 messages`."""

    __slots__ = ("values",)
    values: Set[str]

    def __new__(cls, text: str, values: Iterable[str] = ()) -> Sentence:
        made = super().__new__(cls, text)
        made.values = frozenset(values)
        return made


def say(template: str, *parts: object) -> Sentence:
    """Fills in a template as `str.format` does; `{:more messages}` writes a number with its unit.

    Each part counts as a value, a part that is a sentence as the values in it. The unit is the last
    word, a plural; of one it is written in the singular.
    """
    values: set[str] = set()
    return Sentence(template.format(*[_Part(part, values) for part in parts]), values)


def fill(template: str, of: object, /, **more: object) -> Sentence:
    """The same of a template that names its numbers: fields of `of`, or those in `more`.

    `[ for {since}]` is left out where a number in it is None.
    """
    values: set[str] = set()
    text = ""
    for part, names, may_lack in _split(template):
        numbers = {name: more[name] if name in more else getattr(of, name) for name in names}
        if not may_lack or None not in numbers.values():
            text += part.format(**{n: _Part(each, values) for n, each in numbers.items()})
    return Sentence(text, values)


@cache
def _split(template: str) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Splits a sentence in its parts: the text, the names in it, and whether it is in brackets."""
    parts = enumerate(BRACKETS.split(template))
    return tuple(
        (part, tuple(NAMES.findall(part)), place % 2 == 1) for place, part in parts if part
    )


def joined(separator: str, parts: Iterable[str]) -> Sentence:
    """The parts that are not empty, as one sentence that knows the values of all of them."""
    some = [part for part in parts if part]
    return Sentence(separator.join(some), (value for part in some for value in values_in(part)))


def values_in(text: str | None) -> Set[str]:
    """The values in a sentence; any other text is one value."""
    return text.values if isinstance(text, Sentence) else frozenset(filter(None, [text]))


class _Part:
    """A part of a template, which notes what is written of it."""

    __slots__ = ("_text", "_values")

    def __init__(self, part: object, values: set[str]) -> None:
        self._text = part if isinstance(part, str) else str(part)
        self._values = values

    def __format__(self, unit: str) -> str:
        text = self._text
        values = text.values if isinstance(text, Sentence) else [text] if text else []
        self._values.update(values)
        if not unit:
            return text
        last = unit.rpartition(" ")[2]
        self._values.update([f"{value} {last}" for value in values])
        one = text.removeprefix("at least ").removeprefix("at most ") == "1"
        return f"{text} {_singular(unit) if one else unit}"


def _singular(unit: str) -> str:
    return f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")
