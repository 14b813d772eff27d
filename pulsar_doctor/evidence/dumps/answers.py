"""Reads JSON from another process, or within a text, with limits on size and types.

What is too large or too deep is refused before it costs memory, and each value is checked before
anything is concluded from it. Fields that are not known here are passed over; null is a field that
is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

VALUES = 600_000  # 5,000 consumers of a JVM have half of that
GROUPS = 100_000  # objects and lists
TEXT_CHARACTERS = 10_000
DIGITS = 18  # fits into 64 bits
Schema = Mapping[str, type | list[type]]  # a field's name -> its type; [type]: a list of these


class Unreadable(ValueError):
    """Why an answer cannot be read, as the end of a sentence."""


def parsed(answer: bytes) -> object:
    """Any JSON within the limits; raises Unreadable."""
    groups = answer.count(b"[") + answer.count(b"{")
    if answer.count(b",") > VALUES or groups > GROUPS:
        raise Unreadable("it has too many values")
    try:
        return json.loads(answer.decode(), parse_int=_whole, parse_constant=_refuse)
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        raise Unreadable("it is not JSON, or too deep") from None


def documents_in(text: str, begins: re.Pattern[str]) -> tuple[list[Any], bool]:
    """The JSON documents of a text that begin so, and whether one of them cannot be read to its
    end: then nothing behind it is read."""
    decoder, found, at = json.JSONDecoder(), list[Any](), 0
    while (begin := begins.search(text, at)) is not None:
        try:
            document, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            return found, True
        found.append(document)
    return found, False


def checked(value: object, schema: Schema, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The known fields of an object that are there, each of its type; raises Unreadable."""
    if not isinstance(value, dict):
        raise Unreadable(f"{_kind(value)} is where an object should be")
    found = {}
    for name, kind in schema.items():
        if (one := value.get(name)) is not None:
            found[name] = _of_kind(one, kind, name)
    for name in needed:
        if name not in found:
            raise Unreadable(f"it has no {name}")
    return found


def _of_kind(value: object, kind: type | list[type], name: str) -> object:
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise Unreadable(f"{name} is {_kind(value)}")
        return [_of_kind(each, kind[0], name) for each in value]
    if type(value) is not kind:
        raise Unreadable(f"{name} is {_kind(value)}")
    return _text(value, name) if isinstance(value, str) else value


def _text(value: str, name: str) -> str:
    if len(value) > TEXT_CHARACTERS:
        raise Unreadable(f"{name} has more than {TEXT_CHARACTERS} characters")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return kinds.get(type(value), "null" if value is None else "a number")


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise Unreadable("it has a number with too many digits")
    return int(digits)


def _refuse(constant: str) -> NoReturn:
    raise Unreadable(f"it has {constant}, which is not a number")
