"""A tap as lines or JSON lines; terminal.py has the terminal.

Nobody who reads has to be there: a reader that leaves must not end the tap and with it the
connections of its clients, so what cannot be written is left out.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import TextIO

from rich.text import Text

from pulsar_doctor.parts.tap.events import Counters, Event, Listening, SayText, Screen, not_recorded
from pulsar_doctor.parts.tap.observer.events import (
    Gap,
    Kept,
    NotLetIn,
    PassedBy,
    Sealed,
    Trouble,
    Verdict,
)
from pulsar_doctor.parts.tap.report.watching import clock
from pulsar_doctor.parts.tap.schemas import event_json, numbers_of
from pulsar_doctor.report.paper import PIPE
from pulsar_doctor.report.stall_check.block import block
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.tree import Alike
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.printable import json_text, printable, printable_lines

LAST_SECONDS = 2.0  # for a reader, when the tap ends
PIECE_BYTES = select.PIPE_BUF  # a pipe that takes anything takes so much at once


class JsonLines(Screen):
    """One JSON object a line, and nothing else."""

    def __init__(self, out: TextIO, say: SayText, warn: SayText) -> None:
        super().__init__(say, warn)
        self._out = _Patient(out, say)

    def show(self, event: Event) -> None:
        """Writes one event with everything that there is of it."""
        self._out.write(json_text(event_json(event)) + "\n")

    def hurry(self) -> None:
        """Does not wait any more."""
        self._out.patience_seconds = LAST_SECONDS


class Lines(Screen):
    """The address, and then what happens; for a pipe, a file, and beside a command's own output."""

    def __init__(self, out: TextIO, changes: TextIO, say: SayText, warn: SayText) -> None:
        super().__init__(say, warn)
        self._out, self._changes = _Patient(out, say), _Patient(changes, say)

    def show(self, event: Event) -> None:
        """A verdict that changed and the like; not the consumers."""
        if isinstance(event, Listening):
            self._out.write(f"{event.service_url}\n")
        for line in happened(event, PIPE):
            self._changes.write(f"{line.plain}\n")
        for sentence in talked(event):
            self.say(sentence)

    def hurry(self) -> None:
        """Does not wait any more."""
        self._out.patience_seconds = self._changes.patience_seconds = LAST_SECONDS


def happened(event: Event, console: GatedConsole) -> Iterator[Text]:
    """What stays on the screen of an event: a verdict that changed."""
    if isinstance(event, Verdict) and (event.before or event.diagnosis.status != "healthy"):
        was = f", was {event.before}" if event.before else ""
        alike = Alike.single(event.diagnosis)
        yield from block(Pen(console), alike, before=f"{clock(event)}  ", beside=was)


def talked(event: Event) -> Iterator[str]:
    """Messages of an event, on stderr."""
    match event:
        case Gap():
            yield f"{clock(event)}  {not_recorded(event.dropped)}: the trace has a gap"
        case NotLetIn() if (
            " cannot be reached: " not in event.reason
        ):  # the relay has reported that
            yield f"{clock(event)}  refused: {_client(event)}: {printable(event.reason)}"
        case PassedBy():
            yield (
                f"{clock(event)}  {_client(event)} looked {printable(event.topic)} up and neither "
                "subscribed nor produced: it may have gone to the broker itself, past the tap"
            )
        case Sealed():
            yield f"{clock(event)}  all that had passed is sealed"
        case Kept() if event.path:
            yield f"{clock(event)}  {event.reason}: the ring is kept in {event.path}"
        case Kept():
            yield f"{clock(event)}  {event.reason}: nothing could be kept: {event.error}"
        case Trouble() if event.reason:
            yield f"{clock(event)}  the trace cannot be sealed now: {event.reason}"
        case Trouble():
            yield f"{clock(event)}  the trace can be sealed again"
        case Counters():
            observer = event.observer and numbers_of(event.observer)
            for side, counts in (("relay", event.relay), ("observer", observer)):
                numbers = ", ".join(f"{name} {value}" for name, value in (counts or {}).items())
                yield f"{clock(event)}  {side}: {numbers or 'does not answer'}"


def _client(event: NotLetIn | PassedBy) -> str:
    version = f" ({printable(event.client_version)})" if event.client_version else ""
    return f"the client {event.address or 'of an unknown address'}{version}"


class _Patient:
    """A stream with a reader that may be slow, stopped or gone: then what comes later is left out.

    It is never written to before it can take something, so that a signal always gets through, and
    a line that was interrupted is finished first.
    """

    def __init__(self, out: TextIO, say: SayText) -> None:
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
            self._rest += printable_lines(text).encode(
                self._out.encoding or "utf-8", "backslashreplace"
            )
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
