"""Values as JSON: a table names the fields that the values of each type have in documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import NoneType
from typing import Any

ValueWriter = Callable[[Any], Any]
ObjectWriter = Callable[[Any], dict[str, Any]]

SHAPES: dict[type, ValueWriter] = {}  # how values of a type are written; each document adds its own
PLAIN = {str, int, float, bool, NoneType}


def as_json(value: Any) -> Any:
    """A value as JSON, by the shape for that type; without one it is JSON. null: not reported."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if way := SHAPES.get(kind):
        return way(value)
    return [as_json(each) for each in value] if isinstance(value, list | tuple) else value


def fields(names: str, **ways: ValueWriter) -> ObjectWriter:
    """What writes an object: these attributes in their order, as `name` or `name=path.to.another`.

    Any part of a path may be None. `name?` is left out where it is null; the fields of `*name` are
    put in its place. ways: what computes the attribute of that name.
    """
    steps: list[tuple[str, str, ValueWriter]] = []
    for each in names.split():
        name, _, path = each.partition("=")
        key = name.strip("?*")
        steps.append(
            (key, name.replace(key, ""), ways.pop(key) if key in ways else at(path or key))
        )
    assert not ways, f"not among {names}: {', '.join(ways)}"

    def write(value: Any) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for key, sign, way in steps:
            one = as_json(way(value))
            if sign == "*":
                written |= one
            elif one is not None or not sign:
                written[key] = one
        return written

    return write


def names_of(kind: type) -> str:
    """The fields of a dataclass."""
    return " ".join(field.name for field in dataclasses.fields(kind))


def whole(kind: type) -> ObjectWriter:
    """What writes every field of a dataclass."""
    return fields(names_of(kind))


def each_as(form: ValueWriter, names: str) -> dict[str, ValueWriter]:
    """Ways of fields, named as for `fields`: these attributes in this form; null where None."""

    def way(path: str) -> ValueWriter:
        along = at(path)
        return lambda value: None if (found := along(value)) is None else form(found)

    pairs = (each.partition("=") for each in names.split())
    return {name: way(path or name) for name, _, path in pairs}


def rounded(form: ValueWriter, shape: ObjectWriter) -> ObjectWriter:
    """The same shape with each number that has a fraction in this form."""

    def write(value: Any) -> dict[str, Any]:
        written = shape(value).items()
        return {name: form(one) if isinstance(one, float) else one for name, one in written}

    return write


def at(path: str) -> ValueWriter:
    """The attribute at a path; None where a part of it is."""
    first, _, rest = path.partition(".")
    further = at(rest) if rest else None

    def along(value: Any) -> Any:
        found = getattr(value, first)
        return found if further is None or found is None else further(found)

    return along
