"""Where a tap shows what it sees: as lines, or as JSON lines; a terminal is in terminal.py.

Nobody who reads has to be there: a reader that goes away must not end the tap and with it the
connections of its clients, so what cannot be written is left out.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TextIO

from rich.text import Text

from pulsar_doctor.report.watching import (
    UNICODE,
    Signs,
    change_lines,
    clock,
    not_recorded,
    parted_lines,
)

SCHEMA = "pulsar-doctor/tap/1"
LAST_SECONDS = 2.0  # for a reader, when the tap ends
PIECE_BYTES = select.PIPE_BUF  # a pipe that takes anything takes so much at once

ScreenEvent = Mapping[str, Any]
Tell = Callable[[str], object]


class Screen(Protocol):
    """What a tap is shown on. Every event has `event` and `at`."""

    def show(self, event: ScreenEvent) -> None:
        """Something that happened, or how all consumers stand."""

    def say(self, text: str, /) -> object:
        """Talk; nothing under --quiet."""

    def warn(self, text: str, /) -> object:
        """What a person has to know, also under --quiet. From any thread, like `say`."""

    def look(self) -> None:
        """Called again and again: whoever reads may have another window now."""

    def hurry(self) -> None:
        """The tap ends: whoever does not read now is not waited for."""

    def close(self) -> None:
        """Nothing more is shown; safe to be called twice."""


class JsonLines:
    """One JSON object a line, and nothing else."""

    def __init__(self, out: TextIO, say: Tell, warn: Tell) -> None:
        self._out = _Patient(out, say)
        self.say, self.warn = say, warn

    def show(self, event: ScreenEvent) -> None:
        """As it is, with the schema in front."""
        self._out.write(json.dumps({"schema": SCHEMA, **event}) + "\n")

    def look(self) -> None:
        """A line is a line, however wide."""

    def hurry(self) -> None:
        """Does not wait any more."""
        self._out.patience_seconds = LAST_SECONDS

    def close(self) -> None:
        """There is nothing to take away."""


class Lines:
    """The address, and then what happens; for a pipe, a file, and beside a command's own output."""

    def __init__(self, out: TextIO, changes: TextIO, say: Tell, warn: Tell) -> None:
        self._out = _Patient(out, say)
        self._changes = _Patient(changes, say)
        self.say, self.warn = say, warn

    def show(self, event: ScreenEvent) -> None:
        """A verdict that changed and the like; not the consumers."""
        if event["event"] == "listening":
            self._out.write(f"{event['service_url']}\n")
        for line in happened(event, UNICODE):
            self._changes.write(f"{line.plain}\n")
        for sentence in talked(event):
            self.say(sentence)

    def look(self) -> None:
        """A line is a line, however wide."""

    def hurry(self) -> None:
        """Does not wait any more."""
        self._out.patience_seconds = self._changes.patience_seconds = LAST_SECONDS

    def close(self) -> None:
        """There is nothing to take away."""


def happened(event: ScreenEvent, signs: Signs) -> Iterator[Text]:
    """What stays on the screen of an event."""
    if event["event"] == "verdict" and (event["before"] or event["status"] != "healthy"):
        yield from change_lines(event, signs)
    elif event["event"] == "parted":
        yield from parted_lines(event)


def talked(event: ScreenEvent) -> Iterator[str]:
    """What is said of an event, on stderr."""
    kind = event["event"]
    if kind == "gap":
        yield f"{clock(event)}  {not_recorded(event['dropped'])}: the trace has a gap"
    elif kind == "sealed":
        yield f"{clock(event)}  all that had passed is sealed"
    elif kind == "kept" and event["path"]:
        yield f"{clock(event)}  {event['reason']}: the ring is kept in {event['path']}"
    elif kind == "kept":
        yield f"{clock(event)}  {event['reason']}: nothing could be kept: {event['error']}"
    elif kind == "trouble" and event["reason"]:
        yield f"{clock(event)}  the trace cannot be sealed now: {event['reason']}"
    elif kind == "trouble":
        yield f"{clock(event)}  the trace can be sealed again"
    elif kind == "counters":
        for side in ("relay", "observer"):
            told = event[side]
            numbers = ", ".join(f"{name} {value}" for name, value in (told or {}).items())
            yield f"{clock(event)}  {side}: {numbers or 'does not answer'}"


class _Patient:
    """A stream whose reader may be slow, stopped or gone: then what comes later is left out.

    It is never written to before it can take something, so that a signal always gets through, and
    a line that was interrupted is finished first.
    """

    def __init__(self, out: TextIO, say: Tell) -> None:
        self._out = out
        self._say = say
        self._rest = b""
        self._gone = False
        self.patience_seconds: float | None = None  # for ever

    def write(self, text: str) -> None:
        """And flushes."""
        if self._gone:
            return
        try:
            self._rest += text.encode(self._out.encoding or "utf-8", "backslashreplace")
            while self._rest:
                if not select.select([], [self._out], [], self.patience_seconds)[1]:
                    self._give_up("it is not read")
                    return
                written = os.write(self._out.fileno(), self._rest[:PIECE_BYTES])
                self._rest = self._rest[written:]
        except OSError as error:
            self._give_up(error.strerror or str(error))

    def _give_up(self, why: str) -> None:
        self._gone = True
        self._say(f"nothing more is written to {self._out.name}: {why}; the tap goes on")
