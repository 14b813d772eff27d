"""Reads one field of a broker's JSON: a value, not reported, or an error that names the field.

A field that is missing or null was not reported and reads as None, never as 0. A field of a wrong
type is an InputError with its path: `subscriptions.billing.consumers[0].availablePermits is "x",
not a whole number`. A field that is written more than once with different values counts as not
reported either, and its object says so. Unknown fields are not read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pulsar_doctor.broker.stats.bounds import LEAST, MOST
from pulsar_doctor.broker.stats.values import Position
from pulsar_doctor.errors import InputError

T = TypeVar("T")
ROOT = "the document"
SHOWN = 40  # characters of a wrong value
PLAIN = re.compile(r"[\w-]+").fullmatch  # a name that a path needs no quotes for
NONE: frozenset[str] = frozenset()  # one for all: there may be very many
JOINED_LEVELS = 3  # subscriptions, one of them, what it holds


class Contradictory(dict[str, Any]):
    """A JSON object that writes a field more than once, with different values; without these."""

    def __init__(self) -> None:
        self.contradictions: dict[str, tuple[Any, Any]] = {}  # by field: its first and last value


def object_of(pairs: Sequence[tuple[str, Any]], levels: int = JOINED_LEVELS) -> dict[str, Any]:
    """The object of these fields. Objects of one name are made one, down to so many levels."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: dict[str, list[Any]] = {}
    for key, value in pairs:
        seen.setdefault(key, []).append(value)
    whole = Contradictory()
    for key, values in seen.items():
        if len(values) > 1 and levels and all(isinstance(each, dict) for each in values):
            whole[key] = object_of([pair for each in values for pair in _pairs(each)], levels - 1)
        elif any(_differ(values[0], each) for each in values[1:]):
            whole.contradictions[key] = values[0], values[-1]
        else:
            whole[key] = values[0]
    return whole


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or one != other


def _pairs(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from document.items()
    if isinstance(document, Contradictory):
        for key, values in document.contradictions.items():
            yield from ((key, value) for value in values)


def decoded(text: str | bytes | bytearray) -> Any:
    """The JSON of text. Raises ValueError or RecursionError where it is none."""
    return json.loads(text, object_pairs_hook=object_of)


def document_of(text: str | bytes, what: str) -> Any:
    """The JSON of text, which `what` names in errors. Raises InputError where it is none."""
    try:
        return decoded(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not readable JSON: {_why(error)}") from None


def _why(error: ValueError | RecursionError) -> str:
    """A mistake in JSON, in words for whoever has the file."""
    if isinstance(error, json.JSONDecodeError):
        return f"it ends too early, or is wrong, at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object. path: its place in its document. ignored: reported, but meaningless."""

    document: Mapping[str, Any]
    path: str = ""
    ignored: frozenset[str] = frozenset()

    def whole(self, name: str) -> int | None:
        """A whole number of 64 bits; tools that convert JSON write some as 737.0 or 1.795e+12."""
        value = self._read(name, "a whole number", _is_whole)
        if value is not None and not LEAST <= value <= MOST:
            raise self._wrong(name, "a number that a broker can count to")
        return None if value is None else int(value)

    def at_least_0(self, name: str) -> int | None:
        """A whole number where the broker writes -1 for "not reported"."""
        value = self.whole(name)
        return None if value is None or value < 0 else value

    def time_ms(self, name: str) -> int | None:
        """A moment in epoch milliseconds; None also where the broker writes 0 (or -1) for none."""
        value = self.whole(name)
        return None if value is None or value <= 0 else value

    def never(self, *names: str) -> frozenset[str]:
        """Which of these moments were reported as 0: it never happened, since the last load."""
        zeros = (name for name in names if name in self.document and self.whole(name) == 0)
        return frozenset(f"{snake(name)}_ms" for name in zeros) or NONE

    def number(self, name: str) -> float | None:
        """A finite number."""
        value = self._read(name, "a finite number", finite)
        return None if value is None else float(value)

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value: bool | None = self._read(name, "true or false", lambda v: type(v) is bool)
        return value

    def text(self, name: str) -> str | None:
        """A string."""
        value: str | None = self._read(name, "a string", lambda v: type(v) is str)
        return value

    def position(self, name: str) -> Position | None:
        """A position, written ledger:entry."""
        text = self.text(name)
        if text is None:
            return None
        match = re.fullmatch(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})", text)
        if match is None:
            raise self._wrong(name, "a position (ledger:entry)")
        return int(match[1]), int(match[2])

    def texts(self, name: str) -> Mapping[str, str] | None:
        """An object of strings."""
        fields = self.inner(name)
        if fields is None:
            return None
        texts = {key: fields.text(key) for key in fields.document}
        return {key: text for key, text in texts.items() if text is not None}

    def inner(self, name: str, ignored: Collection[str] = ()) -> Fields | None:
        """An object within this one."""
        value = self._read(name, "an object", lambda v: isinstance(v, Mapping))
        return None if value is None else Fields(value, self.where(name), frozenset(ignored))

    def one(
        self, name: str, read: Callable[[Fields], T], ignored: Collection[str] = ()
    ) -> T | None:
        """What `read` makes of the object."""
        inner = self.inner(name, ignored)
        return None if inner is None else read(inner)

    def each(
        self, name: str, read: Callable[[Fields], T], ignored: Collection[str] = ()
    ) -> tuple[T, ...] | None:
        """What `read` makes of every object of a list."""
        value = self._read(name, "a list", lambda v: type(v) is list)
        if value is None:
            return None
        where = self.where(name)
        return tuple(
            read(Fields(as_object(element, f"{where}[{at}]"), f"{where}[{at}]", frozenset(ignored)))
            for at, element in enumerate(value)
        )

    def length(self, name: str) -> int:
        """How many elements a list has; 0 where it is not reported, or is none."""
        value = self.document.get(name)
        return len(value) if isinstance(value, list) else 0

    def by_name(
        self, name: str, read: Callable[[Fields], T], ignored: Collection[str] = ()
    ) -> Mapping[str, T] | None:
        """What `read` makes of every object of an object, by its key."""
        outer = self.inner(name)
        if outer is None:
            return None
        found = {}
        for key, element in outer.document.items():
            where = outer.where(key)
            found[key] = read(Fields(as_object(element, where), where, frozenset(ignored)))
        return found

    def where(self, name: str) -> str:
        """The path of a field of this object."""
        if not PLAIN(name):
            return f"{self.path}[{shown(name)}]"
        return f"{self.path}.{name}" if self.path else name

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Fields that are written more than once, each with a sentence."""
        if isinstance(self.document, Contradictory):
            for name, (one, other) in self.document.contradictions.items():
                first, last = shown(one), shown(other)
                twice = "written twice, with different values"
                values = twice if first == last else f"both {first} and {last}"
                yield name, f"{self.where(name)} is {values}: nothing is judged by it"

    def _read(self, name: str, kind: str, right: Callable[[Any], bool]) -> Any:
        value = None if name in self.ignored else self.document.get(name)
        if value is not None and not right(value):
            raise self._wrong(name, kind)
        return value

    def _wrong(self, name: str, kind: str) -> InputError:
        return InputError(f"{self.where(name)} is {shown(self.document[name])}, not {kind}")


def as_object(value: Any, where: str) -> Mapping[str, Any]:
    """The value as an object; raises InputError where it is none. where: its path."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is {shown(value)}, not an object")
    return value


def _is_whole(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and value.is_integer())


def finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    if type(value) is int:
        return LEAST <= value <= MOST
    return type(value) is float and math.isfinite(value)


def shown(value: Any) -> str:
    """A wrong value as an error shows it, in one short line."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if type(value) is int and not LEAST <= value <= MOST:
        return "a number of more than 64 bits"
    text = json.dumps(value, default=repr)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def snake(name: str) -> str:
    """The broker's name in snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
