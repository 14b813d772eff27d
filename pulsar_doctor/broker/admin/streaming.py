"""Reads broker stats topic by topic, so that memory holds one topic at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from pulsar_doctor.broker.stats.fields import object_of

LEVELS = 4  # namespace, bundle, kind, topic: their names lead to the stats of one topic
TOPIC_CHARACTERS = 1 << 26  # more than this is no topic's stats
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder(object_pairs_hook=object_of)

StreamedEntry = tuple[tuple[str, ...], Any]


class NestedReader:
    """Objects in LEVELS of objects, in pieces; each comes with the names that lead to it.

    Raises ValueError where it cannot be such a document. `whole`: the document has ended.
    """

    def __init__(self) -> None:
        self.whole = False
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._buffer = ""
        self._at = 0
        self._enough = 0  # a value that was cut off is tried again at twice its length
        self._names: list[str] = []
        self._depth = 0  # objects that are open
        self._wanted = "{"  # what comes next: { a first name, a name, a value, a comma

    def feed(self, piece: bytes) -> Iterator[StreamedEntry]:
        """The values that this piece completes."""
        self._buffer += self._decode(piece)
        if len(self._buffer) < self._enough:
            return
        while (entry := self._next()) is not None:
            if entry:
                yield entry
        self._buffer, self._at = self._buffer[self._at :], 0
        self._enough = 2 * len(self._buffer) if self._wanted == "value" else 0
        if len(self._buffer) > TOPIC_CHARACTERS:
            raise ValueError("the stats of one topic have no end")

    def end(self) -> Iterator[StreamedEntry]:
        """The values that were still open. Raises ValueError where the document is cut off."""
        self._enough = 0
        yield from self.feed(b"")
        self._decode(b"", True)
        if not self.whole:
            raise ValueError("cut off")

    def _next(self) -> StreamedEntry | tuple[()] | None:
        """One step: an entry, nothing to tell, or None where more is needed."""
        matched = SPACE.match(self._buffer, self._at)
        self._at = matched.end() if matched else self._at
        if self._at == len(self._buffer):
            return None
        character = self._buffer[self._at]
        if self.whole:
            raise ValueError(f"{character!r} after the end")
        if self._wanted == "value" and self._depth == LEVELS and character == "{":
            return self._value()
        if self._wanted in ("name", "first") and character == '"':
            return self._name()
        return self._sign(character)

    def _value(self) -> StreamedEntry | None:
        try:
            value, self._at = DECODER.raw_decode(self._buffer, self._at)
        except json.JSONDecodeError:
            return None
        self._wanted = ","
        return tuple(self._names), value

    def _name(self) -> tuple[()] | None:
        try:
            name, end = DECODER.raw_decode(self._buffer, self._at)
        except json.JSONDecodeError:
            return None
        self._at = end
        self._names.append(name)
        self._wanted = ":"
        return ()

    def _sign(self, character: str) -> tuple[()]:
        self._at += 1
        match self._wanted, character:
            case "{" | "value", "{":  # not at the last level, which is read as one value
                self._depth += 1
                self._wanted = "first"
            case "first" | ",", "}":
                self._close()
            case ",", ",":
                self._names.pop()
                self._wanted = "name"
            case ":", ":":
                self._wanted = "value"
            case _:
                raise ValueError(f"unexpected {character!r}")
        return ()

    def _close(self) -> None:
        # An object that held something still carries its last name.
        if self._wanted == ",":
            self._names.pop()
        self._depth -= 1
        self._wanted = ","
        self.whole = self._depth == 0
