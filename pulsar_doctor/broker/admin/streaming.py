"""Reads broker stats topic by topic, so that memory holds one topic at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from pulsar_doctor.broker.bodies import ANSWER_VALUES, NAMES_MOST
from pulsar_doctor.broker.stats.fields import object_of

LEVELS = 4  # namespace, bundle, kind, topic: their names lead to the stats of one topic
TOPIC_CHARACTERS = 1 << 26  # more than this is no topic's stats, and no space between two
VALUES_MOST = ANSWER_VALUES // 2  # counted at half of a length that is read
SIGNS = ",:[{"
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
        self._pieces: list[str] = []  # that are not read yet
        self._length = 0  # of these
        self._unread = 0  # characters since the last step
        self._enough = 0  # what was cut off is tried again at twice its length
        self._buffer = ""
        self._at = 0
        self._names: list[str] = []
        self._count = 0  # values
        self._depth = 0  # objects that are open
        self._wanted = "{"  # what comes next: { a first name, a name, a value, a comma

    def feed(self, piece: bytes) -> Iterator[StreamedEntry]:
        """The values that this piece completes."""
        self._pieces.append(self._decode(piece))
        self._length += len(self._pieces[-1])
        self._unread += len(self._pieces[-1])
        if self._unread > TOPIC_CHARACTERS:
            raise ValueError("the stats of one topic have no end")
        if self._length < self._enough:
            return
        self._buffer, self._at = "".join(self._pieces), 0
        while (entry := self._next()) is not None:
            self._unread = 0
            if entry:
                yield entry
        rest, self._buffer = self._buffer[self._at :], ""
        self._pieces, self._length, self._enough = [rest], len(rest), 2 * len(rest)
        if sum(map(rest.count, SIGNS)) > VALUES_MOST:
            raise ValueError("the stats of one topic hold too many values")

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
        if self._wanted == "value" and self._depth == LEVELS and character in '{["':
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
        self._count += 1
        if self._count > NAMES_MOST:
            raise ValueError(f"more than {NAMES_MOST:,} topics")
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
