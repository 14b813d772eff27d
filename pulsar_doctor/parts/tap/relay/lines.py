"""The JSON lines between the processes of a tap, checked against one table.

A table names the values that may pass, each a frozen dataclass of numbers, texts and other such
values. A line of the other end is checked against the types of its fields. The other end
may be of a newer or an older version, since a tap outlives an upgrade: fields that are not known
here are passed over, one that is missing has its default, and all else that cannot be read is a
value of its own, `Strange`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pulsar_doctor.wording.typed_json import Misread, form_of, of_json, to_json

Value = TypeVar("Value")


def first_line() -> bytes:
    """The first line of stdin and not a byte more: what follows is read as it comes."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


@dataclass(frozen=True, slots=True)
class Strange:
    """What this version cannot read."""

    kind: str | None  # as it was named; None: not named
    why: str  # as a sentence

    def __str__(self) -> str:
        return f"{self.kind or 'a line'} {self.why}"


class Table(Generic[Value]):
    """The values of one way of a pipe. tag: the field that says which one it is."""

    def __init__(self, tag: str, kinds: Mapping[str, type[Value]]) -> None:
        self._tag = tag
        self.kinds = kinds
        self._names = {kind: name for name, kind in kinds.items()}
        for kind in kinds.values():
            form_of(kind)  # a field that could not pass is an error now

    def kind_of(self, value: Value) -> str:
        """How a value is named."""
        return self._names[type(value)]

    def to_json(self, value: Value) -> dict[str, Any]:
        """The value as JSON: its name, and its fields in their order."""
        return {self._tag: self._names[type(value)], **to_json(value)}

    def of_line(self, line: bytes) -> Value | Strange:
        """The value that a line tells of, whatever it holds; never raises."""
        try:
            return self.of_json(json.loads(line))
        except (ValueError, RecursionError):
            return Strange(None, "is not JSON")

    def of_json(self, document: object) -> Value | Strange:
        """The value that any JSON tells of; never raises."""
        name = document.get(self._tag) if isinstance(document, dict) else None
        if not isinstance(name, str):
            return Strange(None, f"has no {self._tag}")
        if name not in self.kinds:
            return Strange(name, "is not known here")
        try:
            return of_json(self.kinds[name], document)
        except Misread as misread:
            return Strange(name, str(misread))
