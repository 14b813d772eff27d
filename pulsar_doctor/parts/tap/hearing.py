"""Passes on the stderr of the tap's processes without disturbing the screen.

It says a few sentences in its life, fewer than a pipe holds: it never waits for us.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

LAST_SECONDS = 2.0


class Hearing:
    """Hears one process with stderr on a pipe. say: takes one line, in a thread of its own."""

    def __init__(self, process: subprocess.Popen[bytes], say: Callable[[str], object]) -> None:
        self._process = process
        self._say = say
        self._thread = threading.Thread(target=self._hear, daemon=True, name="stderr")
        self._thread.start()

    def finish(self) -> None:
        """The process has ended: hears it out."""
        self._thread.join(LAST_SECONDS)

    def _hear(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._say(line.decode(errors="replace").rstrip())
