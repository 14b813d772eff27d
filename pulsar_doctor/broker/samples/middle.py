"""Reads a broker's answer without its beginning.

Each bracket that closes and was never opened ends what is read so far; what follows tells whether
that stood in a list or under a name. The name is known by what is in it (`parts`); what is not
known is left out.
"""

from __future__ import annotations

from typing import Any

from pulsar_doctor.broker.samples.mending import (
    NOT_ALL,
    NOTHING,
    QUOTED,
    UNTOLD,
    Mending,
    as_object,
)
from pulsar_doctor.broker.samples.parts import are_consumers, is_consumer, name_of


def from_the_middle(reading: Mending, levels: int) -> Any:
    """The object with the fields that begin here, with as much around it as the text has."""
    found, _, closed = reading.entries(levels, "}")
    inner: Any = _apart(found)
    for _ in range(levels):
        if not closed or reading.at >= len(reading.text):
            break
        comma = reading.passed(",")
        sign = reading.text[reading.at : reading.at + 1]
        if sign == "}" or (comma and sign in tuple(f"'{QUOTED}")):
            inner, closed = _object_around(reading, levels, inner)
        elif (sign == "]" or (comma and sign in ("{", "["))) and isinstance(inner, dict):
            inner, closed = _list_around(reading, levels, inner)
        else:
            break
    return inner


def _apart(found: list[tuple[str, Any]]) -> Any:
    """Their object; a list of consumers where the fields of some stand together without brackets.

    So a search for a field prints them. ValueError where others have the same name.
    """
    each: list[dict[str, Any]] = [{}]
    for name, value in found:
        if name in each[-1]:
            each.append({})
        each[-1][name] = value
    objects = [as_object([*one.items()]) for one in each]
    if len(objects) == 1:
        return objects[0]
    if not all(map(is_consumer, objects)):
        raise ValueError("several fields have one name")
    return [*objects, UNTOLD]


def _object_around(reading: Mending, levels: int, inner: Any) -> tuple[Any, bool]:
    found, _, closed = reading.entries(levels, "}")
    name = name_of(inner)
    return as_object([] if name is None else [(name, inner)]) | as_object(found), closed


def _list_around(reading: Mending, levels: int, inner: Any) -> tuple[Any, bool]:
    """A list of which `inner` is known, and what follows; not its beginning."""
    found, _, closed = reading.entries(levels, "]")
    whole = [each for each in [inner, *found] if each is not NOTHING and each]
    if not are_consumers(whole):
        return whole, closed
    reading.done.add(NOT_ALL)
    return [*whole, UNTOLD], closed
