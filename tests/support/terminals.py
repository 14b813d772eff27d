"""Real pseudo terminals: all that is written to one, and what a person would see there."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import tempfile
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyte

from tests.support import eventually
from tests.support.command_line import environment


class Wrapping(pyte.Screen):
    """Wraps what is too wide when it gets narrower, as tmux and most terminals do."""

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        rows: list[str] = []
        cursor = 0
        for y, row in enumerate(self.display):
            text = row.rstrip()
            if y == self.cursor.y:
                cursor = len(rows) + min(self.cursor.x, max(0, len(text) - 1)) // columns
            rows += [text[at : at + columns] for at in range(0, max(1, len(text)), columns)]
        gone = max(0, cursor + 1 - lines)
        super().resize(lines, columns)
        self.buffer.clear()
        for y, text in enumerate(rows[gone : gone + lines]):
            for x, char in enumerate(text):
                self.buffer[y][x] = self.default_char._replace(data=char)
        self.cursor.y, self.cursor.x = cursor - gone, min(self.cursor.x, columns - 1)


class Pane:
    """One program on a terminal of this size."""

    def __init__(self, process: Any, master: int, columns: int, lines: int) -> None:
        self.process = process
        self._master = master
        self._screen = Wrapping(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.writings = 0  # of the program
        self.bytes = b""  # all of them
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # the program has ended
            while data := os.read(self._master, 65536):
                with self._lock:
                    self._stream.feed(data)
                    self.bytes += data
                    self.writings += 1

    @property
    def seen(self) -> list[str]:
        """Line by line, down to the last one that is not empty."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")

    def count(self, text: str) -> int:
        return sum(text in line for line in self.seen)

    def says(self, text: str, timeout: float = 45) -> list[str]:
        """The lines that have it."""
        try:
            return eventually(lambda: [line for line in self.seen if text in line], timeout)
        except AssertionError:
            raise AssertionError("\n".join([f"no {text!r} in:", *self.seen])) from None

    @property
    def service_url(self) -> str:
        return self.says("pulsar://127.0.0.1:")[0].split()[0]

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            self._screen.resize(lines, columns)
        _set_size(self._master, columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = int(self.process.wait(40))
        self._thread.join(10)
        return code


@contextmanager
def terminal(columns: int = 80) -> Iterator[tuple[int, list[bytes]]]:
    """A terminal for stderr or stdout, and all that was written to it once this has ended."""
    ours, theirs = os.openpty()
    _set_size(ours, columns, 24)
    seen: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 65536):
                seen.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield theirs, seen
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


@contextmanager
def on_terminal(
    command: Sequence[str], *, columns: int = 120, lines: int = 24, **settings: str
) -> Iterator[Pane]:
    """settings: PULSAR_DOCTOR_… of the process, by their names."""
    environ = {k: v for k, v in environment().items() if k not in ("COLUMNS", "LINES")}
    environ |= {f"PULSAR_DOCTOR_{name.upper()}": value for name, value in settings.items()}
    master, slave = os.openpty()
    _set_size(master, columns, lines)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
        environ |= {"TERM": "xterm-256color", "XDG_STATE_HOME": str(Path(state))}
        process = subprocess.Popen(
            command, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        try:
            yield Pane(process, master, columns, lines)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            os.close(master)


def _set_size(terminal: int, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
