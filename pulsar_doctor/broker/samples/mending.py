"""Reads text that is almost JSON, and reports what was corrected.

Nothing is invented: what is not whole is left out, so that it counts as not reported. One thing
represents what is left out: a list of consumers that is cut or shortened ends with one of whom
nothing is reported, so that nobody takes those before it for all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.broker.stats.fields import object_of

NOTHING: Any = object()  # a value that is left out
UNTOLD: Mapping[str, Any] = {}  # a consumer of whom nothing is reported
CONSUMERS = "consumers"
ALONE = "Exclusive"  # its consumer is the only one

SPACE = re.compile(  # each part of it can be read in one way only
    r"(?:[\s\u00a0\ufeff]++|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/|(?://|#)[^\n]*+)*"
)
COMMENT = re.compile(r"/\*|//|#")
FULL = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"#", "/"}  # what no space begins with
TYPOGRAPHIC = "“”„«»‘’‚"
QUOTED = f'"{TYPOGRAPHIC}'  # signs with which a string begins, but for the single one
STRING = re.compile(
    r'"(?:[^"\\]|\\.)*"|[“”„«»](?:[^"“”„«»\\]|\\.)*["“”«»]|[‘’‚](?:[^\'"‘’‚\\]|\\.)*[‘’\']',
    re.DOTALL,
)
SINGLE = re.compile(r"'((?:[^'\\\n]|\\.)*)'")
PLAIN = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
PYTHON = {"True": True, "False": False, "None": None}
WORD = re.compile(r"[A-Za-z_][\w.-]*")
NAME_OF_FIELD = re.compile(r"[A-Za-z_]\w*(?=\s*[:=])")
NAME_OF_JAVA = re.compile(r"[^=,(){}]+(?==)")
VALUE_OF_JAVA = re.compile(r"[^,(){}\[\]]*")
CLASS = re.compile(r"[A-Z]\w*\(")
NO_VALUE = re.compile(rf"[^\s,\[\]{{}}()'{QUOTED}][^,\n\[\]{{}}()'{QUOTED}]*")
DOTS = re.compile(r"\.{2,}|…")
ENDS = {"{": "}", "[": "]", "(": ")"}
CLOSING = ("}", "]", ")", "")

COMMAS = "extra commas are left out"
NO_COMMA = "commas that are missing at ends of lines are added"
QUOTES = "typographic quotes are read as plain ones"
SINGLES = "single quotes and missing ones are read as double ones"
COMMENTS = "comments are left out"
ELISIONS = "what '...' stands for is not reported"
CUT = "it is cut off: brackets are closed, and a value that is not whole is left out"
NO_VALUES = "placeholders that are not values are left out"
NOT_ALL = "the list of consumers may be incomplete: one entry stands for all that are missing"
PRINTED = "values of Java are read as objects"


@dataclass(slots=True)
class Mending:
    """The place in a text. It moves on with each value; ValueError where there is none."""

    text: str
    at: int = 0
    done: set[str] = field(default_factory=set)  # what was mended
    passed_line: bool = False  # the space before this place has the end of a line

    def value(self, levels: int, name: str = "", java: bool = False) -> Any:
        """The value here; NOTHING where it is not whole, or is a placeholder.

        name: of its field. java: whether the object around it is written by Java's toString.
        """
        self.space()
        if levels == 0:
            raise ValueError("too deep")
        if self.ends():
            return NOTHING
        start = self.text[self.at]
        if start in "{[":
            return self._inner(levels, ENDS[start], name, java)
        if start in QUOTED:
            return self._string()
        if start == "'":
            return self._single()
        if match := CLASS.match(self.text, self.at):
            self.at = match.end() - 1
            self.done.add(PRINTED)
            return self._inner(levels, ")", name, java=True)
        return NOTHING if self._dots() else self._printed() if java else self._plain()

    def entries(self, levels: int, end: str, java: bool = False) -> tuple[list[Any], bool, bool]:
        """The text up to a bracket; whether anything is left out of it, and whether it ends."""
        found: list[Any] = []
        whole, left_out = self.passed(end), False
        while not (whole or self.ends()):
            one = self.value(levels - 1, java=java) if end == "]" else self.entry(levels, java)
            found += [] if one is NOTHING else [one]
            left_out |= one is NOTHING
            self._part(one)
            whole = self.passed(end)
        return found, left_out, whole

    def _inner(self, levels: int, end: str, name: str, java: bool) -> Any:
        """An object or a list; NOTHING where all that was in it is left out."""
        self.at += 1
        found, left_out, whole = self.entries(levels, end, java)
        if not found and (left_out or not whole):
            return NOTHING
        if end == "]":
            shortened = name == CONSUMERS and (left_out or not whole)
            self.done.update({NOT_ALL} if shortened else ())
            return [*found, UNTOLD] if shortened else found
        return as_object(found)

    def _part(self, before: Any) -> None:
        """Passes what parts two values: a comma, or the end of a line, or dots."""
        commas = 0
        new_line = self.passed_line
        while self.passed(","):
            commas += 1
        closes = self.text[self.at : self.at + 1] in CLOSING
        if commas > 1 or (commas and closes and self.at < len(self.text)):
            self.done.add(COMMAS)
        if commas or closes or before is NOTHING or DOTS.match(self.text, self.at):
            return
        if not new_line:
            raise ValueError(f"no comma at {self.at}")
        self.done.add(NO_COMMA)

    def entry(self, levels: int, java: bool = False) -> Any:
        """A name and its value; NOTHING where that is left out."""
        if self._dots():
            return NOTHING
        name = self._name(java)
        if self.ends():
            return NOTHING
        if name is NOTHING or not (self.passed(":") or (java and self.passed("="))):
            raise ValueError(f"no name at {self.at}")
        one = self.value(levels - 1, name, java)
        return NOTHING if one is NOTHING else (name, one)

    def _name(self, java: bool) -> Any:
        start = self.text[self.at : self.at + 1]
        if start == "'":
            return self._single()
        bare = NAME_OF_JAVA if java else NAME_OF_FIELD
        if start not in tuple(QUOTED) and (match := bare.match(self.text, self.at)):
            self.at = match.end()
            self.space()
            self.done.update(() if java else (SINGLES,))
            return match[0].strip()
        if WORD.fullmatch(self.text, self.at):
            return self._cut()
        return self._string()

    def _string(self) -> Any:
        match = STRING.match(self.text, self.at)
        if match is None:
            if self.text[self.at : self.at + 1] not in tuple(QUOTED):
                raise ValueError(f"no string at {self.at}")
            return self._cut()
        self.at = match.end()
        written = match[0]
        if written[0] != '"' or written[-1] != '"':
            self.done.add(QUOTES)
        self.space()
        text: str = json.loads(f'"{written[1:-1]}"', strict=False)
        return text

    def _single(self) -> Any:
        match = SINGLE.match(self.text, self.at)
        if match is None:
            return self._cut()
        self.at = match.end()
        self.done.add(SINGLES)
        self.space()
        return match[1].replace("\\'", "'")

    def _plain(self) -> Any:
        match = PLAIN.match(self.text, self.at)
        if match is None and (word := WORD.match(self.text, self.at)) and word[0] in PYTHON:
            self.at = word.end()
            self.done.add(SINGLES)
            self.space()
            return PYTHON[word[0]]
        if match is None or (match.end() == len(self.text) and match[0][-1].isdigit()):
            if match is not None or self._begins_a_word():
                return self._cut()
            return self._no_value()
        self.at = match.end()
        self.space()
        if match[0][-1].isdigit() and DOTS.match(self.text, self.at):
            return NOTHING  # without a comma the dots may stand for more of its digits
        return json.loads(match[0])

    def _begins_a_word(self) -> bool:
        """Whether the text ends within a value that is written as a word, or before a number."""
        if len(self.text) - self.at > len("false"):
            return False
        rest = self.text[self.at :]
        return any(each.startswith(rest) for each in ("true", "false", "null", "-"))

    def _printed(self) -> Any:
        """What Java prints of a value: a number, a flag, null, or else a text without quotes."""
        match = VALUE_OF_JAVA.match(self.text, self.at)
        assert match is not None
        if match.end() == len(self.text):
            return self._cut()
        self.at = match.end()
        text = match[0].strip()
        self.space()
        return json.loads(text) if PLAIN.fullmatch(text) else text

    def _no_value(self) -> Any:
        """Passes what somebody wrote in place of a value."""
        match = NO_VALUE.match(self.text, self.at)
        if match is None:
            raise ValueError(f"no value at {self.at}")
        self.at = match.end()
        self.done.add(NO_VALUES)
        self.passed_line = False
        self.space()
        return NOTHING

    def _cut(self) -> Any:
        self.at = len(self.text)
        self.ends()
        return NOTHING

    def _dots(self) -> bool:
        match = DOTS.match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        self.done.add(ELISIONS)
        self.space()
        return True

    def passed(self, sign: str) -> bool:
        """Whether this sign is here; then it is passed, and the space behind it."""
        self.space()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
        self.passed_line = False
        self.space()
        return True

    def ends(self) -> bool:
        """Whether the text is over, though something is open."""
        if self.at < len(self.text):
            return False
        self.done.add(CUT)
        return True

    def space(self) -> None:
        """Passes space and comments."""
        if self.text[self.at : self.at + 1] in FULL:
            return  # mostly so, and much faster
        match = SPACE.match(self.text, self.at)
        assert match is not None
        if not match[0]:
            return
        self.passed_line = "\n" in match[0]
        if COMMENT.search(match[0]):
            self.done.add(COMMENTS)
        self.at = match.end()


def as_object(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these fields. Nobody is beside the one consumer of an Exclusive one."""
    made = object_of(entries)
    consumers = made.get(CONSUMERS)
    if isinstance(consumers, list) and len(consumers) > 1 and made.get("type") == ALONE:
        made[CONSUMERS] = [each for each in consumers if each is not UNTOLD]
    return made
