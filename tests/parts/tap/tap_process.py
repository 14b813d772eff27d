"""`pulsar-doctor tap` as a process of its own: what it says, and the processes below it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import eventually
from tests.support.command_line import environment


class Tap:
    """One tap. out, err: lines so far. state: where it keeps what nobody gave a folder for."""

    def __init__(self, process: subprocess.Popen[str], state: Path) -> None:
        self.process = process
        self.state = state
        self.out: list[str] = []
        self.err: list[str] = []
        self.reads = threading.Event()  # its stdout
        self.reads.set()
        self.leaves = False  # closes our end of its stdout with the next line
        self._threads = [
            threading.Thread(target=self._read, args=(process.stdout, self.out), daemon=True),
            threading.Thread(target=self._read, args=(process.stderr, self.err), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: Any, lines: list[str]) -> None:
        with stream:
            for line in stream:
                lines.append(line.rstrip("\n"))
                if lines is self.out:
                    self.reads.wait()
                    if self.leaves:
                        return

    @property
    def events(self) -> list[dict[str, Any]]:
        """Of -o jsonl, in order."""
        return [json.loads(line) for line in self.out]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    def wait_for(self, kind: str, count: int = 1, timeout: float = 45) -> dict[str, Any]:
        """The event of that kind and number."""
        try:
            return eventually(lambda: self.of(kind)[count - 1 : count], timeout)[0]
        except AssertionError:
            raise AssertionError(f"no {kind}: {self.out[-3:]} {self.err}") from None

    def says(self, text: str, timeout: float = 45) -> str:
        """The first line on stdout or stderr that has it."""
        found = eventually(lambda: [x for x in (*self.out, *self.err) if text in x], timeout)
        return found[0]

    @property
    def service_url(self) -> str:
        line = eventually(self._first_words)[0]
        if line.startswith("{"):
            return str(json.loads(line)["service_url"])
        assert line.startswith("pulsar"), [*self.out, *self.err]
        return line

    def _first_words(self) -> list[str]:
        """On stdout; on stderr where it has ended without."""
        return self.out[:1] or ([] if self.process.poll() is None else self.err[:1])

    @property
    def taps(self) -> list[Path]:
        """Traces of taps that were told no folder."""
        return sorted((self.state / "pulsar-doctor" / "taps").glob("*"))

    def child(self, module: str) -> int:
        """The process id of a process below it that runs this module."""

        def found() -> int | None:
            for status in Path("/proc").glob("[0-9]*/stat"):
                try:
                    parent = int(status.read_text().rpartition(")")[2].split()[1])
                    arguments = (status.parent / "cmdline").read_text().split("\0")
                except (OSError, IndexError):
                    continue
                if parent == self.process.pid and module in arguments:
                    return int(status.parent.name)
            return None

        return eventually(found)

    def pids(self) -> dict[str, int]:
        """Of all its processes."""
        found = {
            name: self.child(f"pulsar_doctor.parts.tap.{name}") for name in ("relay", "observer")
        }
        return {"parent": self.process.pid, **found}

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def counted(self) -> dict[str, Any]:
        """The counters, as they are now: an event of that kind."""
        before = len(self.of("counters"))
        self.send(signal.SIGUSR1)
        return self.wait_for("counters", before + 1)

    def end(self, number: int = signal.SIGINT) -> int:
        """Its exit code after a signal."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(40)
        for thread in self._threads:
            thread.join(10)
        return code


@contextmanager
def running(
    *arguments: str, broker: Any = None, state: Path | None = None, **settings: str
) -> Iterator[Tap]:
    """settings: PULSAR_DOCTOR_… of the process, by their names. state: its XDG_STATE_HOME."""
    environ = environment(broker)
    environ |= {f"PULSAR_DOCTOR_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "pulsar_doctor", "tap", "--listen", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
        state = state or Path(own)
        process = subprocess.Popen(
            [*command, *arguments], env=environ | {"XDG_STATE_HOME": str(state)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            yield Tap(process, state)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
