"""Watches a running capture: an observer reads its journal, seals it, and judges.

Its messages are shown on the screen of a tap, and where a subscription stalls the ring is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.parts.tap.events import Answering, Screen
from pulsar_doctor.parts.tap.observer.events import (
    Begin,
    Counted,
    Keep,
    ObserverEvent,
    Seal,
    Snapshot,
    Verdict,
)
from pulsar_doctor.parts.tap.observing import Observing
from pulsar_doctor.parts.tap.stalls import Stalls

LOOK_SECONDS = 0.2


class Watching:
    """The observer beside a capture; a context manager: at its end all is sealed.

    writer: of the trace, which does not seal it itself. changes: of thresholds. ring: whether there
    is one to keep.
    """

    def __init__(
        self,
        folder: Path,
        writer: TraceWriter,
        screen: Screen,
        changes: Sequence[str] = (),
        *,
        ring: bool = False,
    ) -> None:
        self._writer, self._screen, self._ring = writer, screen, ring
        self._stalls = Stalls(self.keep)
        self._looked = float("-inf")
        self._wanted = False
        self._observing = Observing(folder, Begin(tuple(changes)), screen.warn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._screen.hurry()
        self._writer.close()
        for event in self._observing.finish():
            if not isinstance(event, Snapshot | Counted):
                self._hear(event)
        self._screen.close()

    def ask(self) -> None:
        """Has what was captured kept at the next look; safe in a signal's handler."""
        self._wanted = True

    def look(self) -> None:
        """Shows what the observer has reported; called again and again."""
        now_seconds = time.monotonic()
        if now_seconds - self._looked < LOOK_SECONDS:
            return
        self._looked = now_seconds
        while (event := self._observing.next(0)) is not None:
            self._hear(event)
        self._screen.look()
        if self._wanted:
            self._wanted = False
            self.keep("a signal")
        if self._ring:
            self._stalls.look()

    def keep(self, reason: str) -> None:
        """Seals all that there is; of a ring a copy stays. reason: without secrets."""
        through = self._writer.rotate()
        self._observing.ask_surely(Keep(through, reason) if self._ring else Seal(through))

    def _hear(self, event: ObserverEvent | Answering) -> None:
        if isinstance(event, Verdict):
            self._stalls.hear(event.diagnosis)
        self._screen.show(event)
