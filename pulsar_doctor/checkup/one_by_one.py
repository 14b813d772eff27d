"""Judges many subscriptions one after another: the first are shown while the next are judged.

Ctrl-C ends it with the verdicts that were made by then.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from threading import current_thread, main_thread
from typing import Protocol

from pulsar_doctor.checkup.result import REST, Checkup
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import DoctorError

FIRST = 64  # verdicts that are made before a report begins: input that is refused has none


class Progress(Protocol):
    """Hears how many are done, how many are planned, and of what."""

    def __call__(self, done: int, planned: int, what: str) -> None:
        """One step."""

    def stop(self) -> None:
        """No more steps will come; safe to be called twice."""


class Stopping:
    """Ends a window early: when Ctrl-C comes, or when whoever watches has seen enough.

    in_vain: whether nothing has been read so far; then Ctrl-C ends the program instead.
    """

    def __init__(self, in_vain: Callable[[], bool] = lambda: False) -> None:
        self.requested = False
        self._in_vain = in_vain
        self._now: asyncio.Event | None = None

    @contextmanager
    def window(self) -> Iterator[asyncio.Event]:
        """What ends one window; to be used within the event loop."""
        self._now, loop = asyncio.Event(), asyncio.get_running_loop()
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's `&` leaves it ignored
            yield self._now
            return
        # Only the main thread has signals; in any other, Ctrl-C ends all as it does elsewhere.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGINT, self._ask)
        try:
            yield self._now
        finally:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(signal.SIGINT)

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Outside of an event loop: sets `requested` when Ctrl-C comes between two steps."""
        before = signal.getsignal(signal.SIGINT)
        if before is signal.SIG_IGN or current_thread() is not main_thread():
            yield
            return
        signal.signal(signal.SIGINT, lambda *_: self._ask())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _ask(self) -> None:
        """A second Ctrl-C does not wait for a broker that does not answer."""
        if self.requested or self._in_vain():
            raise KeyboardInterrupt
        self.requested = True
        if self._now is not None:
            self._now.set()


def one_by_one(
    verdicts: Iterable[Diagnosis], checkup: Checkup, planned: int, progress: Progress | None
) -> Iterable[Diagnosis]:
    """The verdicts as they are made; all at once where nobody hears how many there are.

    planned: how many there will be.
    """
    if progress is None:
        return list(verdicts)
    return begun(_counted(verdicts, checkup, planned, progress), checkup, FIRST)


def begun(verdicts: Iterator[Diagnosis], checkup: Checkup, first: int) -> Iterable[Diagnosis]:
    """The same verdicts, the first of which are made now, so that what they raise is raised."""
    made = list(islice(verdicts, first))
    return chain(made, _to_the_end(verdicts, checkup)) if made else []


def _to_the_end(verdicts: Iterator[Diagnosis], checkup: Checkup) -> Iterator[Diagnosis]:
    """The verdicts; what fails on the way is shown in the report, which must come to its end."""
    try:
        yield from verdicts
    except DoctorError as error:
        checkup.unreachable.append((REST, str(error)))


def _counted(
    verdicts: Iterable[Diagnosis], checkup: Checkup, planned: int, progress: Progress
) -> Iterator[Diagnosis]:
    stopping = Stopping()
    try:
        with stopping.between_steps():
            for number, diagnosis in enumerate(verdicts, 1):
                yield diagnosis
                if planned > FIRST:  # fewer are there at once
                    progress(number, planned, "subscriptions")
                if stopping.requested and number < planned:
                    checkup.stopped = True
                    left = f"{planned - number} of {planned} subscriptions were not judged"
                    checkup.unreachable.append((REST, f"{left}: stopped by Ctrl-C"))
                    return
    finally:
        progress.stop()
