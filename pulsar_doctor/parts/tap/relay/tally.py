"""Counts what a relay has written and dropped, in a file that survives a kill.

Whoever starts the relay makes the file and hands it on, and reads it when the relay has died. It is
written by the thread that writes the journal, so it costs the traffic nothing.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from pathlib import Path

COUNTS = struct.Struct("<qq")  # records that are in a file; records that never will be


class SharedTally:
    """The side of whoever starts the relay. Raises OSError where the folder takes no file."""

    def __init__(self, folder: Path) -> None:
        self.fd, name = tempfile.mkstemp(prefix=".tally-", dir=folder)  # to be handed on
        Path(name).unlink()
        note(self.fd, 0, 0)

    def take(self) -> tuple[int, int]:
        """Records written and dropped by the relay that is gone; the next one begins with none."""
        written, dropped = COUNTS.unpack(os.pread(self.fd, COUNTS.size, 0))
        note(self.fd, 0, 0)
        return written, dropped

    def close(self) -> None:
        """Nobody asks any more."""
        os.close(self.fd)


def note(fd: int, written: int, dropped: int) -> None:
    """The side of the relay: what it has counted so far."""
    with contextlib.suppress(OSError):
        os.pwrite(fd, COUNTS.pack(written, dropped), 0)
