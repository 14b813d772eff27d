"""Reads a broker's answer as people paste it: with text around it, quoted, shortened or cut off.

Only where the text is no JSON as it stands. Nothing is invented: what is not whole is left out, so
that it counts as not told, and each thing that was done is said. Left out are

- text before and behind the first object, marks of quotation (`> `) and of code (three backticks);
- commas too many, and `...` that stands for something (also a list or object of nothing else: it
  is not an empty one);
- in a text that is cut off, the value that it is cut in, and a list or object that has just begun.

Typographic quotes are read as plain ones. What is wrong in any other way stays an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.stats.fields import document_of
from pulsar_doctor.errors import InputError

DEEPEST = 32  # levels; a broker writes less than ten
MOST_BYTES = 16_000_000  # of a text that is read so, character by character
NOTHING: Any = object()  # a value that is left out

SPACE = re.compile(r"[\s\u00a0\ufeff]*")
NAMED = re.compile(r'\s*["“][^"“”\n]{1,200}["”]\s*:\s*[\[{]')
QUOTED_LINE = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*$", re.MULTILINE)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[“„](?:[^"“”\\]|\\.)*["”]', re.DOTALL)
PLAIN = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
DOTS = re.compile(r"\.{2,}|…")

AROUND = "the text around it is left out"
MARKS = "marks of quotation and code are left out"
COMMAS = "commas too many are left out"
QUOTES = "typographic quotes are read as plain ones"
ELISIONS = "what '...' stands for is not told"
CUT = "it is cut off: brackets are closed, and a value that is not whole is left out"
SPACES = "spaces and ends of lines that JSON does not know are read as plain ones"
PART = "it begins in the middle: its bracket is opened"


@dataclass(frozen=True, slots=True)
class Pasted:
    """The decoded JSON of a text, and sentences that say how it was read; none where it is JSON."""

    document: Any
    notes: tuple[str, ...] = ()


def document_in(content: bytes, name: str) -> Pasted:
    """What a file holds. Raises InputError, of the text as it stands, where nothing can be read."""
    try:
        return Pasted(document_of(content, called(name)))
    except InputError:
        found = None if len(content) > MOST_BYTES else _mended(content)
        if found is None:
            raise
    document, done = found
    said = "; ".join(sorted(done)) or SPACES
    return Pasted(document, (f"{called(name)} is no JSON as it stands, and is read so: {said}",))


def _mended(content: bytes) -> tuple[dict[str, Any], set[str]] | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    done: set[str] = set()
    text = _bare(text, done)
    if part := NAMED.match(text):
        text, begin = f"{{{text[part.start() :]}", 0
        done.add(PART)
    else:
        begin = text.find("{")
    if begin < 0:
        return None
    reading = _Reading(text, begin, done)
    try:
        document = reading.value(DEEPEST)
    except ValueError:
        return None
    if text[:begin].strip() or text[reading.at :].strip():
        done.add(AROUND)
    return (document, done) if isinstance(document, dict) and document else None


def _bare(text: str, done: set[str]) -> str:
    """Without marks of quotation, where all lines of the object have them, and those of code."""
    lines = [line for line in text[max(0, text.find("{")) :].splitlines()[1:] if line.strip()]
    bare = text
    if lines and all(QUOTED_LINE.match(line) for line in lines):
        bare = QUOTED_LINE.sub("", bare)
    fences = list(FENCE.finditer(bare))
    if fences:
        end = fences[1].start() if len(fences) > 1 else len(bare)
        bare = bare[fences[0].end() : end]
    code = bare.strip().strip("`").strip()
    if len(code) < len(text.strip()):
        done.add(MARKS)
    return code


@dataclass(slots=True)
class _Reading:
    """Where it is in a text. It moves on with each value; ValueError where there is none."""

    text: str
    at: int
    done: set[str] = field(default_factory=set)

    def value(self, levels: int) -> Any:
        """The value here; NOTHING where it is not whole, or stands for something."""
        self._space()
        if levels == 0:
            raise ValueError("too deep")
        if self._ends():
            return NOTHING
        start = self.text[self.at]
        if start in "{[":
            return self._inner(levels, "}" if start == "{" else "]")
        if start in '"“„':
            return self._string()
        return NOTHING if self._dots() else self._plain()

    def _inner(self, levels: int, end: str) -> Any:
        """An object or a list; NOTHING where all that was in it is left out."""
        found: list[Any] = []
        self.at += 1
        whole, seen = self._passed(end), False
        while not (whole or self._ends()):
            one = self._entry(levels) if end == "}" else self.value(levels - 1)
            found += [] if one is NOTHING else [one]
            seen = True
            self._part(one)
            whole = self._passed(end)
        if not found and (seen or not whole):
            return NOTHING
        return dict(found) if end == "}" else found

    def _part(self, before: Any) -> None:
        """Passes what parts two values: a comma, and no other sign but where dots stand."""
        commas = 0
        while self._passed(","):
            commas += 1
        if commas > 1 or (commas and self.text[self.at : self.at + 1] in ("}", "]")):
            self.done.add(COMMAS)
        closes = self.text[self.at : self.at + 1] in ("}", "]", "")
        if not (commas or closes or before is NOTHING or DOTS.match(self.text, self.at)):
            raise ValueError(f"no comma at {self.at}")

    def _entry(self, levels: int) -> Any:
        """A name and its value; NOTHING where that is left out."""
        if self._dots():
            return NOTHING
        name = self._string()
        if self._ends():
            return NOTHING
        if name is NOTHING or not self._passed(":"):
            raise ValueError(f"no name at {self.at}")
        one = self.value(levels - 1)
        return NOTHING if one is NOTHING else (name, one)

    def _string(self) -> Any:
        match = STRING.match(self.text, self.at)
        if match is None:
            if self.text[self.at : self.at + 1] not in ('"', "“", "„"):
                raise ValueError(f"no string at {self.at}")
            self.at = len(self.text)
            self._ends()
            return NOTHING
        self.at = match.end()
        written = match[0]
        if written[0] != '"' or written[-1] != '"':
            self.done.add(QUOTES)
        self._space()
        text: str = json.loads(f'"{written[1:-1]}"', strict=False)
        return text

    def _plain(self) -> Any:
        match = PLAIN.match(self.text, self.at)
        if match is None or (match.end() == len(self.text) and match[0][-1].isdigit()):
            rest = self.text[self.at :]
            cut = match is not None or any(
                word.startswith(rest) for word in ("true", "false", "null", "-")
            )
            if not cut:
                raise ValueError(f"no value at {self.at}")
            self.at = len(self.text)
            self._ends()
            return NOTHING
        self.at = match.end()
        self._space()
        if match[0][-1].isdigit() and DOTS.match(self.text, self.at):
            return NOTHING  # without a comma the dots may stand for more of its digits
        return json.loads(match[0])

    def _dots(self) -> bool:
        match = DOTS.match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        self.done.add(ELISIONS)
        self._space()
        return True

    def _passed(self, sign: str) -> bool:
        self._space()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
        self._space()
        return True

    def _ends(self) -> bool:
        """Whether the text is over, though something is open."""
        if self.at < len(self.text):
            return False
        self.done.add(CUT)
        return True

    def _space(self) -> None:
        match = SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
