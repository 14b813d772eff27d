"""Values as JSON: a table names the fields that the values of each type have in documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import NoneType
from typing import Any

Way = Callable[[Any], Any]
Shape = Callable[[Any], dict[str, Any]]

SHAPES: dict[type, Way] = {}  # how values of a type are written; each document adds its own
PLAIN = {str, int, float, bool, NoneType}


def as_json(value: Any) -> Any:
    """A value as JSON, by the shape of its type; without one it is JSON. null: not reported."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if way := SHAPES.get(kind):
        return way(value)
    return [as_json(each) for each in value] if isinstance(value, list | tuple) else value


def fields(names: str, **ways: Way) -> Shape:
    """What writes an object: these attributes in their order, as `name` or `name=path.to.another`.

    Any part of a path may be None. `name?` is left out where it is null. ways: what computes the
    field of that name.
    """
    steps: list[tuple[str, bool, Way]] = []
    for each in names.split():
        name, _, path = each.partition("=")
        key = name.rstrip("?")
        steps.append((key, name != key, ways.get(key) or at(path or key)))

    def write(value: Any) -> dict[str, Any]:
        found = ((key, absent, as_json(way(value))) for key, absent, way in steps)
        return {key: one for key, absent, one in found if one is not None or not absent}

    return write


def names_of(kind: type) -> str:
    """The fields of a dataclass."""
    return " ".join(field.name for field in dataclasses.fields(kind))


def whole(kind: type) -> Shape:
    """What writes every field of a dataclass."""
    return fields(names_of(kind))


def each_as(form: Way, names: str) -> dict[str, Way]:
    """Ways of fields: the attributes of these names, in this form."""

    def way(name: str) -> Way:
        return lambda value: form(getattr(value, name))

    return {name: way(name) for name in names.split()}


def at(path: str) -> Way:
    """The attribute at a path; None where a part of it is."""
    first, _, rest = path.partition(".")
    further = at(rest) if rest else None

    def along(value: Any) -> Any:
        found = getattr(value, first)
        return found if further is None or found is None else further(found)

    return along
