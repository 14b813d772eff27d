"""When a tap ends by itself: its time is over, or an expectation failed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import IO

from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import printable

COMMAND_SECONDS = 10.0  # to end, on request
LINE_MOST, SHOWN_MOST = 4096, 200  # bytes of a last line that are kept, characters in a sentence
LAST_SECONDS = 1.0  # for the rest of what a command that has ended wrote
CHECKS_SHARE = 10  # between two checks it does other things for so many times as long


@dataclass(frozen=True, slots=True)
class EndPlan:
    """When a tap ends by itself."""

    for_seconds: float | None = None  # None: no limit
    check_seconds: float | None = None  # until `has_failed` is called; None: never
    again: bool = False  # call it again and again
    has_failed: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How the command in front of a tap ended."""

    code: int
    seconds: float  # how long it ran
    by_itself: bool  # False: the tap ended it
    last_line: str  # of its stderr, where that was read

    @property
    def sentence(self) -> str:
        """`the command ended with 1 after 300 ms; its last line: KeyError: 'x'`."""
        if not self.by_itself:
            return f"the command still ran after {duration(self.seconds)}, and was ended"
        last = f"; its last line: {printable(self.last_line)}" if self.last_line else ""
        return f"the command ended with {named(self.code)} after {duration(self.seconds)}{last}"


class LastLine:
    """Passes on what a command writes to stderr, and keeps its last line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.text = ""
        self._stream = stream
        self._thread = Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        kept = b""
        while content := self._stream.read1(LINE_MOST):  # type: ignore[attr-defined]
            with suppress(OSError):  # nobody reads ours any more
                os.write(2, content)
            kept = (kept + content)[-LINE_MOST:]
            lines = kept.decode("utf-8", "replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            self.text = last if len(last) <= SHOWN_MOST else f"...{last[-SHOWN_MOST:]}"

    def finish(self) -> str:
        """The last line; whoever else has the stream open is not waited for."""
        self._thread.join(LAST_SECONDS)
        return self.text


@dataclass(slots=True)
class Ending:
    """The end of a tap, and of the command in front of it."""

    plan: EndPlan
    requested: bool = False  # the command was requested to end
    _began: float = field(default_factory=time.monotonic)
    _check_at: float | None = None
    _kill_at: float = 0.0

    def __post_init__(self) -> None:
        if self.plan.check_seconds is not None:
            self._check_at = self._began + self.plan.check_seconds

    def is_due(self) -> bool:
        """Whether it is time to end."""
        now, for_seconds = time.monotonic(), self.plan.for_seconds
        if for_seconds is not None and now >= self._began + for_seconds:
            return True
        if self._check_at is None or now < self._check_at:
            return False
        if self.plan.has_failed():
            return True
        after = time.monotonic()
        pause = max((self.plan.check_seconds or 0) / 4, CHECKS_SHARE * (after - now))
        self._check_at = after + pause if self.plan.again else None
        return False

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """Tells the command to end; one that does not is killed. To be called again and again."""
        now = time.monotonic()
        if not self.requested:
            self.requested, self._kill_at = True, now + COMMAND_SECONDS
            child.terminate()
        elif now > self._kill_at:
            child.kill()

    def of_command(self, child: subprocess.Popen[bytes], last: LastLine | None) -> CommandEnd:
        """How it ended."""
        seconds, code = time.monotonic() - self._began, self.code(child.returncode)
        return CommandEnd(code, seconds, not self.requested, last.finish() if last else "")

    def code(self, returncode: int) -> int:
        """The command's exit code, as a shell has it; 0 where it ended on request."""
        code = returncode if returncode >= 0 else 128 - returncode
        return 0 if self.requested and code == 128 + signal.SIGTERM else code


def named(code: int) -> str:
    """An exit code with the signal that it means."""
    numbers = {128 + each: each.name for each in signal.Signals}
    return f"{code} ({numbers[code]})" if code in numbers else str(code)
