"""`stall-check --watch`: checks again and again, and shows each round."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Protocol

from pulsar_doctor.checkup.one_by_one import Progress
from pulsar_doctor.checkup.result import Checkup, Tally
from pulsar_doctor.cli._calls import say
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.wording.gate import complain

Say = Callable[[str], None]
Check = Callable[[Say, "Progress | None"], "Checkup"]


class Shown(Protocol):
    """Where rounds are shown."""

    @property
    def progress(self) -> Progress | None:
        """Who hears how far a round is; None: whoever hears of a single check."""

    def note(self, text: str) -> None:
        """Talk beside the verdicts."""

    def show(self, checkup: Checkup) -> None:
        """A round, to be read to its end."""

    def failed(self, why: str) -> None:
        """A round that came to nothing."""

    def until(self, due: float) -> None:
        """The next one begins then, by time.monotonic()."""


class WrittenRounds:
    """Rounds that follow each other on stdout, in any format."""

    def __init__(self, write: Callable[[Checkup], None]) -> None:
        self.progress: Progress | None = None
        self.note = say
        self.show = write

    def failed(self, why: str) -> None:
        """On stderr."""
        complain(why)

    def until(self, due: float) -> None:
        """Nothing shows it."""


def watch(check: Check, shown: Shown, *, every_seconds: float, code: Callable[[Tally], int]) -> int:
    """Ctrl-C and SIGTERM are the normal end, with the last check's code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` leaves it ignored
    # The same way out for both: asyncio has its own for SIGINT while it runs.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    last = 130
    try:
        while True:
            due = time.monotonic() + every_seconds
            try:
                checkup = check(shown.note, shown.progress)
                try:
                    shown.show(checkup)
                finally:  # whoever has read the last verdict may end the watch at that moment
                    if checkup.is_whole:
                        last = code(checkup.tally)
            except InputError:
                raise
            except DoctorError as error:
                last = error.exit_code
                shown.failed(str(error))
            shown.until(due)
            time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        return last
