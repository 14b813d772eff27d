"""Reads a broker's answer as people paste it: with text around it, quoted, or cut off.

Only where the text itself is not JSON. Nothing is invented: what is not whole is left out, so
that it counts as not reported, and each thing that was done is reported. Left out are

- text before and behind the first answer, marks of quotation (`> `), of changes (`+`), of code, of
  HTML, colours of a terminal, and numbers of lines;
- commas too many, comments, and `...` that is a placeholder (also a list or object of nothing
  else: it is not an empty one);
- in a text that is cut off, the value that it is cut in, and a list or object that has just begun.

Several answers with a name in front of each, as a loop of a shell prints them, are topics of these
names. Without names, or where a name comes again, they are a list: samples of one topic where its
connections show that, or else topics without names.

Internal stats behind the stats, or in front of them, are read with them: the result is a list of
both. A time in front of the answer is when it was taken: the `Date:` of `curl -i`, or that of the
line just before, as of a log, where it has a zone.

An answer that begins in the middle is read from its first field on: what was around that is known
by what is in it. What is not JSON at all may be written as YAML is, or as a
table. What is wrong in any other way stays an error.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import islice, pairwise
from typing import Any

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.samples.indented import indented
from pulsar_doctor.broker.samples.mending import CUT, QUOTED, Mending
from pulsar_doctor.broker.samples.middle import from_the_middle
from pulsar_doctor.broker.samples.parts import is_internal, tells_something
from pulsar_doctor.broker.samples.tabular import tabular
from pulsar_doctor.broker.stats.fields import document_of, shown
from pulsar_doctor.broker.stats.values import epoch_ms
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.printable import many

LEVELS_MOST = 32  # levels; a broker writes less than ten
TEXT_BYTES = 16 << 20  # of a text that is read so, character by character
SHOWN_BYTES = 4000  # of a text that holds no answer, in which its reason is looked for
LINE_MOST = 500  # characters in front of an answer, in which its time is looked for
ANSWERS_MOST = 10_000
MOST_BEGINNINGS = 40  # places where an answer may begin

BEGINNING = re.compile(
    rf"\{{|\[(?=\s*\{{)|(?<!\w)[A-Z]\w*Impl\(|[{QUOTED}][^{QUOTED}\n]{{1,200}}[{QUOTED}]\s*:"
    r"|'[^'\n]{1,200}'\s*:"
)
# With the sign of escape, as a terminal shows it, or without any.
COLOUR = re.compile(r"(?:\x1b|\^\[|␛)\[[0-9;]{0,20}[A-Za-z]|\[(?:[0-9]{1,3};){0,4}[0-9]{1,3}m")
DATE = re.compile(r"^[<>*\s]{0,9}date:[ \t]*([^\n\r]{10,60})", re.IGNORECASE | re.MULTILINE)
MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})"
)
REFUSAL = re.compile(
    r"(?:topic|partition|subscription|namespace|tenant)\b[^\n]{0,300}?\bnot (?:found|exist)"
    r"|HTTP(?:/[0-9.]{1,3})?[ :]{1,2}[45][0-9]{2}\b(?: [a-z]{1,15}){0,3}",
    re.IGNORECASE,
)
FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,}|\{(?:code|noformat)(?::[^}\n]*)?\}).*", re.MULTILINE)
TAG = re.compile(r"</?(?:br|pre|code|p|div|span|li|details|summary)(?:\s[^<>]*)?/?>", re.IGNORECASE)
FIELD = re.compile(r"\b(?:msgRate(?:In|Out)|msgBacklog|availablePermits|unackedMessages|cursors)\b")
NEXT = re.compile(r'\{\s*"(?:msgRateIn|entriesAddedCounter)"|"cursors"\s*:')
# A field of further stats: quoted as in JSON, or as Java prints it. In prose it is neither.
FURTHER = re.compile(
    r"\b(?:msgRate(?:In|Out)|msgBacklog|availablePermits|unackedMessages)"
    rf"(?:['{QUOTED}]\s*:|=)"
)
ENTITY = re.compile(r"&(?:quot|nbsp|#34|#39|#x22|#x27|lt|gt|amp);")
BEFORE_LINES = (
    re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE),
    re.compile(r"^[ \t]*(?:[|+│][ \t]?)", re.MULTILINE),
    re.compile(r"^[ \t]*[0-9]{1,6}(?:[:|.)]|(?=[ \t]|$))", re.MULTILINE),
)
NUMBER_ALONE = re.compile(r"^[ \t]*([0-9]{1,6})[ \t]*\n", re.MULTILINE)
FEWEST_NUMBERS = 3  # lines of nothing but a number, one after the other: numbers of lines
NUMBERED_LEAST = 0.3  # of all lines; fewer are names of answers
NAME = re.compile(r"[\w/][\w.:/@%~+-]{0,300}")  # of a topic or a part of it

AROUND = "the text around it is left out"
ANOTHER = "another answer behind it is not read: give each in a file of its own"
COLOURS = "colours of a terminal are left out"
NAMED = "each answer is a topic of the name in front of it"
BOTH = "stats and internal stats are read together"
CLOCK = "the time in front of it is when it was taken"
CASE_OF_PAGE = b'id="pulsar-doctor-case"'
EXPECTED = "expected is what `pulsar-admin topics stats` or `topics stats-internal` prints"
MARKS = "quotation marks and code marks are left out"
SPACES = "spaces and ends of lines that JSON does not know are read as plain ones"
PART = "it begins in the middle: its opening brackets are added"


@dataclass(frozen=True, slots=True)
class Pasted:
    """The decoded JSON of a text."""

    document: Any
    notes: tuple[str, ...] = ()  # how it was read, in sentences; empty: it is JSON
    taken_ms: int | None = None  # when it was taken, if the text in front of it shows it
    cut: bool = False  # it is cut off
    another: bool = False  # there is another answer in the text, which is not read


class IsPage(InputError):
    """A page of ours was given where a file of statistics is expected."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is a page of `report`; `stall-check --case {name}` gives its verdicts again, "
            "and here give the file or bundle that it was made of"
        )


def document_in(content: bytes, name: str) -> Pasted:
    """What a file holds. Raises InputError, of the text itself, where nothing can be read."""
    if CASE_OF_PAGE in content:
        raise IsPage(called(name))
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
            instead = instead_of_json(content, EXPECTED)
            if instead is None:
                raise
            raise InputError(f"{called(name)} is not readable JSON: {instead}") from None
    document, done, taken_ms = found
    names = "; ".join(sorted(done)) or SPACES
    note = f"{called(name)} is not valid JSON, and was read with corrections: {names}"
    return Pasted(document, (note,), taken_ms, CUT in done, ANOTHER in done)


def instead_of_json(content: bytes, expected: str) -> str | None:
    """What a file without JSON is, and what is expected; None of JSON with a mistake.

    It quotes a refusal of a broker and nothing else: the text may be a secret, given by mistake.
    """
    text = content[:SHOWN_BYTES].decode(errors="replace").strip()
    refusal = REFUSAL.search(text)
    if refusal is not None:
        return f"it says {shown(refusal[0].strip())}; {expected}, with the full name of a topic"
    if text.startswith(("{", "[")):
        return None
    if not text:
        return f"it is empty; {expected}"
    return f"it is {_kind_of(content, text)} of {many(len(content), 'byte')}; {expected}"


def _kind_of(content: bytes, text: str) -> str:
    """What kind of file it is. Its text is not repeated: it may be a secret."""
    if text.startswith("-----BEGIN "):
        return "a PEM file"
    if text.startswith("<"):
        return "a page of HTML or XML"
    return "not text: a file" if b"\0" in content or not _is_utf8(content) else "plain text"


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _found_in(content: bytes) -> tuple[Any, set[str], int | None] | None:
    """The first answer that tells something, else the first object; what was done; when taken."""
    if len(content) > TEXT_BYTES:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    done: set[str] = set()
    text = _bare(text, done)
    first, in_vain = None, 0
    for at, beginning in enumerate(islice(BEGINNING.finditer(text), MOST_BEGINNINGS)):
        begin = beginning.start()
        if in_vain >= len(text):
            break  # or a long text would be read as often as there are beginnings
        reading = Mending(text, begin, set(done))
        found = _read(reading)
        in_vain += reading.at - begin
        if found is not None and tells_something(found):
            if ANOTHER in reading.done and (several := _several(text, done)) is not None:
                return several
            taken_ms = None if PART in reading.done else moment_in(text[:begin])
            reading.done.update(() if taken_ms is None else (CLOCK,))
            return found, reading.done, taken_ms
        if found is None and FIELD.search(text, begin, reading.at):
            return None  # it is an answer, and something in it is wrong
        if at == 0 and isinstance(found, dict):
            first = found, reading.done, None
    read = (indented(text, LEVELS_MOST) or tabular(text)) if first is None else None
    return (read[0], read[1] | done, None) if read and tells_something(read[0]) else first


def _several(text: str, done: set[str]) -> tuple[Any, set[str], int | None] | None:
    """The answers of a text, by the names in front of them, or as a list if one has none.

    None if something between them, or after them, cannot be read.
    """
    answers: list[tuple[str | None, Any]] = []
    done, at = set(done), 0
    while (begin := text.find("{", at)) >= 0:
        reading = Mending(text, begin, done)
        answer = _answer(reading)
        if not tells_something(answer) or is_internal(answer) or len(answers) == ANSWERS_MOST:
            return None
        answers.append((_name_in(text[at:begin]), answer))
        at = reading.at
    if len(answers) < 2 or FURTHER.search(text, at):
        return None
    named = {name: answer for name, answer in answers if name is not None}
    if len(named) == len(answers):
        return named, done | {NAMED}, None
    return [answer for _, answer in answers], done | {AROUND}, None


def _name_in(before: str) -> str | None:
    """The name that the line in front of an answer is; or the last word of a command for stats."""
    line = before.strip().rpartition("\n")[2][-LINE_MOST:]
    words = line.split()
    if not words or MOMENT.search(line) or (len(words) > 1 and "stats" not in words):
        return None
    name = words[-1].strip(":")
    return name if NAME.fullmatch(name) else None


def moment_in(before: str) -> int | None:
    """When an answer was taken by the text in front of it, epoch ms; None where nothing tells."""
    dates = DATE.findall(before)
    if dates:
        try:
            return round(parsedate_to_datetime(dates[-1]).timestamp() * 1000)
        except ValueError:
            return None
    line = before.rstrip().rpartition("\n")[2][-LINE_MOST:]
    if '"' in line or (moment := MOMENT.search(line)) is None:
        return None
    day, time, part, zone = moment.groups()
    return epoch_ms(f"{day}T{time}.{(part or '0').ljust(6, '0')[:6]}{zone}")


def _read(reading: Mending) -> Any:
    """The object or list that begins here, with the other answer behind it; None: nothing."""
    text, begin = reading.text, reading.at
    document = _answer(reading)
    if document is None:
        return None
    around = bool(text[:begin].strip())
    following = NEXT.search(text, reading.at)
    if following is not None:
        after = Mending(text, following.start(), set(reading.done))
        other = _answer(after)
        if other is not None and len({is_internal(document), is_internal(other)}) == 2:
            around |= bool(text[reading.at : following.start()].strip())
            document, reading.at = [document, other], after.at
            reading.done |= after.done | {BOTH}
            following = NEXT.search(text, reading.at)
    if around or text[reading.at :].strip():
        reading.done.add(AROUND)
    if following is not None or FURTHER.search(text, reading.at):
        reading.done.add(ANOTHER)
    return document


def _answer(reading: Mending) -> Any:
    """The object or list that begins here; None where there is none that can be read."""
    text, begin = reading.text, reading.at
    try:
        if text[begin] in f"'{QUOTED}":
            document = from_the_middle(reading, LEVELS_MOST)
            reading.done.add(PART)
        else:
            document = reading.value(LEVELS_MOST)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) and document else None


def _bare(text: str, done: set[str]) -> str:
    """Without marks of quotation, where all lines of the object have them, and those of code."""
    bare = COLOUR.sub("", text)
    done.update({COLOURS} if bare != text else ())
    uncoloured = bare
    if TAG.search(bare) or "&quot;" in bare or "&#34;" in bare:
        bare = TAG.sub("", bare)
        bare = ENTITY.sub(lambda match: html.unescape(match[0]), bare)
        done.update({MARKS} if bare != uncoloured else ())
    if re.search(r'\{\s*(?:\\n\s*)*\\"', bare):
        bare = bare.replace("\\n", "\n").replace('\\"', '"')
        done.add(MARKS)
    for mark in BEFORE_LINES:
        bare = _without(mark, bare)
    fences = list(FENCE.finditer(bare))
    if fences:
        end = fences[1].start() if len(fences) > 1 else len(bare)
        done.update({ANOTHER} if FURTHER.search(bare, end) else ())
        bare = bare[fences[0].end() : end]
    code = _without_numbers(bare).strip().strip("`").strip()
    if len(code) < len(uncoloured.strip()):
        done.add(MARKS)
    return code


def _without(mark: re.Pattern[str], text: str) -> str:
    """Without such a mark, where all lines have it behind the one where the object begins."""
    lines = [line for line in text[max(0, text.find("{")) :].splitlines()[1:] if line.strip()]
    return mark.sub("", text) if lines and all(map(mark.match, lines)) else text


def _without_numbers(text: str) -> str:
    """Without lines that are nothing but the next number: so some copies have numbers of lines."""
    numbers = [int(number) for number in NUMBER_ALONE.findall(text)]
    follows = all(later == earlier + 1 for earlier, later in pairwise(numbers))
    many = len(numbers) >= max(FEWEST_NUMBERS, NUMBERED_LEAST * text.count("\n"))
    return NUMBER_ALONE.sub("", text) if follows and many else text
