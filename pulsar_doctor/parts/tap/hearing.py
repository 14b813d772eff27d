"""Starts the processes of a tap, and passes on their stderr without disturbing the screen.

It says a few sentences in its life, fewer than a pipe holds: it never waits for us.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection

from pulsar_doctor.broker.settings import for_own_processes

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


def started(
    module: str,
    *arguments: str,
    say: Callable[[str], object] | None,
    pass_fds: Collection[int] = (),
) -> tuple[subprocess.Popen[bytes], Hearing | None]:
    """A process of ours with pipes, and who hears it. say: as Hearing has it; None: on our stderr.

    It has a session of its own, and nothing of our environment but what Python needs.
    """
    process = subprocess.Popen(
        # -P: whatever lies in the current folder is no part of it.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if say else None,
        env=for_own_processes(os.environ),
        start_new_session=True,
        pass_fds=pass_fds,
    )
    return process, Hearing(process, say) if say else None
