"""Reads a broker's answer as people paste it: with text around it, quoted, shortened or cut off.

Only where the text is no JSON as it stands. Nothing is invented: what is not whole is left out, so
that it counts as not told, and each thing that was done is said. Left out are

- text before and behind the first answer, marks of quotation (`> `), of changes (`+`), of code, of
  HTML, and numbers of lines;
- commas too many, comments, and `...` that stands for something (also a list or object of nothing
  else: it is not an empty one);
- in a text that is cut off, the value that it is cut in, and a list or object that has just begun.

An answer that begins in the middle is read from its first field on: what was around that is known
by what stands in it. What is no JSON at all may be written as YAML is. What is wrong in any other
way stays an error.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.samples.indented import indented
from pulsar_doctor.broker.samples.mending import Mending
from pulsar_doctor.broker.samples.middle import from_the_middle
from pulsar_doctor.broker.samples.parts import tells_something
from pulsar_doctor.broker.stats.fields import document_of
from pulsar_doctor.errors import InputError

DEEPEST = 32  # levels; a broker writes less than ten
MOST_BYTES = 16_000_000  # of a text that is read so, character by character
MOST_BEGINNINGS = 40  # places where an answer may begin

BEGINNING = re.compile(
    r'\{|\[(?=\s*\{)|[A-Z]\w*Impl\(|["“][^"“”\n]{1,200}["”]\s*:|\'[^\'\n]{1,200}\'\s*:'
)
FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,}|\{(?:code|noformat)(?::[^}]*)?\}).*$", re.MULTILINE)
TAG = re.compile(r"</?(?:br|pre|code|p|div|span|li|details|summary)(?:\s[^<>]*)?/?>", re.IGNORECASE)
FIELD = re.compile(r"\b(?:msgRate(?:In|Out)|msgBacklog|availablePermits|unackedMessages|cursors)\b")
NEXT = re.compile(r'\{\s*"(?:msgRateIn|entriesAddedCounter)"|"cursors"\s*:')
ENTITY = re.compile(r"&(?:quot|nbsp|#34|#39|#x22|#x27|lt|gt|amp);")
BEFORE_LINES = (
    re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE),
    re.compile(r"^[ \t]*(?:[|+│][ \t]?)", re.MULTILINE),
    re.compile(r"^[ \t]*[0-9]{1,6}[:|.)]?(?=[ \t]|$)", re.MULTILINE),
)

AROUND = "the text around it is left out"
ANOTHER = "another answer behind it is not read: give each in a file of its own"
MARKS = "marks of quotation and code are left out"
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
        document = document_of(content, called(name))
        if not isinstance(document, str):
            return Pasted(document)
        content, found = document.encode(), _found_in(document.encode())
        if found is None:
            return Pasted(document)
    except InputError:
        found = _found_in(content)
        if found is None:
            raise
    document, done = found
    said = "; ".join(sorted(done)) or SPACES
    return Pasted(document, (f"{called(name)} is no JSON as it stands, and is read so: {said}",))


def _found_in(content: bytes) -> tuple[Any, set[str]] | None:
    """The first answer in it that tells something, or else the first object; what was done."""
    if len(content) > MOST_BYTES:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    done: set[str] = set()
    text = _bare(text, done)
    first = None
    for at, begin in enumerate(islice(_beginnings(text), MOST_BEGINNINGS)):
        reading = Mending(text, begin, set(done))
        found = _read(reading)
        if found is not None and tells_something(found):
            return found, reading.done
        if found is None and FIELD.search(text, begin, reading.at):
            return None  # it is an answer, and something in it is wrong
        if at == 0 and isinstance(found, dict):
            first = found, reading.done
    read = indented(text) if first is None else None
    return (read[0], read[1] | done) if read and tells_something(read[0]) else first


def _beginnings(text: str) -> Iterator[int]:
    """Where an answer may begin: its first bracket, or the first field of one without it."""
    return (match.start() for match in BEGINNING.finditer(text))


def _read(reading: Mending) -> Any:
    """The object or list that begins here; None where there is none that can be read."""
    text, begin = reading.text, reading.at
    try:
        if text[begin] in "\"“'":
            document = from_the_middle(reading, DEEPEST)
            reading.done.add(PART)
        else:
            document = reading.value(DEEPEST)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict | list) or not document:
        return None
    behind = text[reading.at :]
    if text[:begin].strip() or behind.strip():
        reading.done.add(AROUND)
    if NEXT.search(behind):
        reading.done.add(ANOTHER)
    return document


def _bare(text: str, done: set[str]) -> str:
    """Without marks of quotation, where all lines of the object have them, and those of code."""
    bare = text
    if TAG.search(bare) or "&quot;" in bare or "&#34;" in bare:
        bare = TAG.sub("", bare)
        bare = ENTITY.sub(lambda match: html.unescape(match[0]), bare)
        done.update({MARKS} if bare != text else ())
    if re.search(r'\{\s*(?:\\n\s*)*\\"', bare):
        bare = bare.replace("\\n", "\n").replace('\\"', '"')
        done.add(MARKS)
    for mark in BEFORE_LINES:
        bare = _without(mark, bare)
    fences = list(FENCE.finditer(bare))
    if fences:
        end = fences[1].start() if len(fences) > 1 else len(bare)
        bare = bare[fences[0].end() : end]
    code = bare.strip().strip("`").strip()
    if len(code) < len(text.strip()):
        done.add(MARKS)
    return code


def _without(mark: re.Pattern[str], text: str) -> str:
    """Without such a mark, where all lines have it behind the one where the object begins."""
    lines = [line for line in text[max(0, text.find("{")) :].splitlines()[1:] if line.strip()]
    return mark.sub("", text) if lines and all(map(mark.match, lines)) else text
