"""Frozen dataclasses as JSON and back, by the types of their fields.

What is by anything else than names is a list of pairs. Fields that are not known here are passed
over; one that is missing has its default, or is None where that is allowed. A field that does not
count when values are compared is not written. All else that does not fit is a `Misread`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from itertools import repeat
from types import GenericAlias, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

Value = TypeVar("Value")
KEY = "typed_json.KEY"  # of a field's metadata


class Misread(ValueError):
    """JSON that is not of the expected type; says where."""


def written_as(key: str) -> dict[str, str]:
    """Metadata of a field that has another name in JSON, which documents keep."""
    return {KEY: key}


def to_json(value: Any) -> dict[str, Any]:
    """The fields of a value, in their order."""
    return form_of(type(value)).written(value)


def of_json(kind: type[Value], given: object) -> Value:
    """A value of that kind. Raises Misread."""
    value: Value = form_of(kind).read(given)
    return value


class _Way(NamedTuple):
    """How a value of one type is read, and how it is written where it is not JSON by itself."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None
    as_is: frozenset[type] = frozenset()  # JSON types that need no reading: most, and no call then


# Of any length: Python writes no decimal number of more than 4,300 digits.
InHex = Annotated[int, _Way(lambda given: int(given, 16), hex)]


class Form:
    """How one dataclass is written and read."""

    def __init__(self, kind: type) -> None:
        FORMS[kind] = self  # first: a value may contain others of the same kind
        hints = get_type_hints(kind, include_extras=True)
        self._kind = kind
        compared = [field for field in fields(kind) if field.compare]
        self._names = {field.metadata.get(KEY, field.name): field.name for field in compared}
        self._others = [(key, name) for key, name in self._names.items() if key != name]
        needed = {f.name for f in compared if f.default is f.default_factory is MISSING}
        self._needed = [key for key, name in self._names.items() if name in needed]
        self._ways = {key: _way_of(hints[name]) for key, name in self._names.items()}
        self._writes = [(name, way.write) for name, way in self._ways.items() if way.write]

    def written(self, value: Any) -> dict[str, Any]:
        given = {key: getattr(value, name) for key, name in self._names.items()}
        for name, write in self._writes:
            given[name] = write(given[name])
        return given

    def read(self, given: Any) -> Any:
        if not isinstance(given, dict):
            raise Misread("is no object")
        found: dict[str, Any] = dict.fromkeys(self._absent(given))
        name = ""
        try:
            for name, (read, _, as_is) in self._ways.items():
                if name in given:
                    one = given[name]
                    found[name] = one if type(one) in as_is else read(one)
        except Misread as misread:
            raise Misread(f"{misread} in {name}") from None
        for key, own in self._others:
            if key in found:
                found[own] = found.pop(key)
        return self._kind(**found)

    def _absent(self, given: dict[str, Any]) -> Iterator[str]:
        for name in self._needed:
            if name not in given:
                if NoneType not in self._ways[name].as_is:
                    raise Misread(f"has no {name}")
                yield name


FORMS: dict[type, Form] = {}
PLAIN = {int, float, str, bool, NoneType}


def form_of(kind: type) -> Form:
    """How that dataclass is written and read. TypeError where a field of it cannot be JSON."""
    return FORMS.get(kind) or Form(kind)


def _way_of(hint: Any) -> _Way:
    if isinstance(hint, type) and is_dataclass(hint):
        form = form_of(hint)
        return _Way(form.read, form.written)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _either(inner)
    if origin is Literal:
        return _one_of(inner)
    if origin in (tuple, frozenset, list):
        return _many(origin, inner)
    if origin is Annotated:
        way: _Way = inner[1]
        return way
    if origin is dict:
        way = _way_of(inner[1])
        by_name = inner[0] is str and way.write is None
        return _named(way) if by_name else _many(dict, (GenericAlias(tuple, inner),))
    return _plain(hint)


def _plain(*kinds: type) -> _Way:
    if not PLAIN.issuperset(kinds):
        raise TypeError(f"{kinds} cannot pass as JSON")
    also = [int, bool] if float in kinds else [bool] if int in kinds else []  # as types have it
    return _Way(_refuse, as_is=frozenset((*kinds, *also)))


def _read(way: _Way, given: Any) -> Any:
    return given if type(given) in way.as_is else way.read(given)


def _refuse(given: Any) -> Any:
    raise Misread(f"has {type(given).__name__}")


def _either(hints: tuple[Any, ...]) -> _Way:
    """One of plain types, or, of at most one, something else."""
    others = [hint for hint in hints if hint not in PLAIN]
    plain = _plain(*(hint for hint in hints if hint in PLAIN))
    if not others:
        return plain
    read, write, as_is = _way_of(*others)
    otherwise = write and (lambda value: value if type(value) in plain.as_is else write(value))
    return _Way(read, otherwise, as_is | plain.as_is)


def _one_of(known: tuple[Any, ...]) -> _Way:
    def read(given: Any) -> Any:
        if isinstance(given, str) and given in known:
            return given
        raise Misread("has something else")

    return _Way(read)


def _many(kind: Callable[[Any], Any], inner: tuple[Any, ...]) -> _Way:
    """Values of one type in any number, or, of a tuple, exactly so many of these types."""
    alike = kind is not tuple or inner[1:] == (...,)
    ways = [_way_of(hint) for hint in (inner[:1] if alike else inner)]

    def each(given: Any) -> Iterator[tuple[_Way, Any]]:
        return zip(repeat(ways[0]) if alike else ways, given, strict=False)

    def read(given: Any) -> Any:
        if not isinstance(given, list) or not (alike or len(given) == len(ways)):
            raise Misread("has no such list")
        return kind(_read(way, one) for way, one in each(given))

    def write(value: Any) -> list[Any]:
        in_order = sorted(value) if kind is frozenset else value.items() if kind is dict else value
        return [way.write(one) if way.write else one for way, one in each(in_order)]

    return _Way(read, write)


def _named(way: _Way) -> _Way:
    """Values of one type by their names, which are JSON as they are."""

    def read(given: Any) -> Any:
        if not isinstance(given, dict):
            raise Misread("has no such object")
        return {name: _read(way, one) for name, one in given.items()}

    return _Way(read)
