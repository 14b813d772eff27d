"""JSON lines between a process and its parent, without ever waiting for the other side.

What must arrive waits in order until the parent reads. Of what is shown again and again only the
newest waits, and only until the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

READ_BYTES = 1 << 16
PIPE_BYTES = 1 << 20  # what Linux lets anybody have; a snapshot of 2,000 consumers
ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class Channel:
    """The two ends. The process may not write to out_fd in any other way."""

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self._in = in_fd
        self._out = out_fd
        self._listening = True
        self._read = b""
        self._begun = b""  # of a line of which some is written
        self._unsent: deque[bytes] = deque()
        self._shown: bytes | None = None
        self._gone = False
        os.set_blocking(in_fd, False)
        os.set_blocking(out_fd, False)
        with contextlib.suppress(OSError, AttributeError):  # no pipe, or another system
            fcntl.fcntl(out_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def tell(self, values: Mapping[str, Any]) -> None:
        """A line that must arrive."""
        if not self._gone:
            self._unsent.append(_line(values))
            self.pump()

    def show(self, values: Mapping[str, Any]) -> None:
        """A line that the next one makes worthless."""
        if not self._gone:
            self._shown = _line(values)
            self.pump()

    @property
    def wants_more(self) -> bool:
        """Whether the last line that was shown is on its way."""
        return self._shown is None and not self._gone

    def pump(self) -> None:
        """Writes as much as the parent has room for."""
        while line := self._next():
            try:
                written = os.write(self._out, line)
            except BlockingIOError:
                self._begun = line
                return
            except OSError:  # nobody is there to read it
                self._gone, self._begun, self._shown = True, b"", None
                self._unsent.clear()
                return
            self._begun = line[written:]

    def _next(self) -> bytes:
        if self._begun:
            return self._begun
        if self._unsent:
            return self._unsent.popleft()
        shown, self._shown = self._shown, None
        return shown or b""

    def questions(self) -> list[dict[str, Any]]:
        """The lines that have come since. What is not JSON object is left out."""
        with contextlib.suppress(BlockingIOError):
            while self._listening:
                piece = os.read(self._in, READ_BYTES)
                self._listening = bool(piece)
                self._read += piece
        *lines, self._read = self._read.split(b"\n")
        return [question for line in lines if isinstance(question := _document(line), dict)]

    def wait(self, seconds: float) -> None:
        """Sleeps, or less where a line comes or can be written."""
        reading = [self._in] if self._listening else []
        writing = [self._out] if self._begun or self._unsent or self._shown else []
        select.select(reading, writing, [], seconds)
        self.pump()

    def drain(self, seconds: float) -> None:
        """Waits until all has been written, at most so long."""
        until = time.monotonic() + seconds
        self.pump()
        while self._begun and not self._gone and (left := until - time.monotonic()) > 0:
            select.select([], [self._out], [], left)
            self.pump()


def _line(values: Mapping[str, Any]) -> bytes:
    return ENCODE(values).encode() + b"\n"


def _document(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
