"""When a tap ends by itself: its time is over, or an expectation failed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

COMMAND_SECONDS = 10.0  # to end, when it is told to
CHECKS_SHARE = 10  # between two checks it does other things for so many times as long


@dataclass(frozen=True, slots=True)
class EndPlan:
    """When a tap ends by itself."""

    for_seconds: float | None = None  # None: no limit
    check_seconds: float | None = None  # until `has_failed` is called; None: never
    again: bool = False  # call it again and again
    has_failed: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Ending:
    """The end of a tap, and of the command in front of it."""

    plan: EndPlan
    told: bool = False  # the command was requested to end
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
        if not self.told:
            self.told, self._kill_at = True, now + COMMAND_SECONDS
            child.terminate()
        elif now > self._kill_at:
            child.kill()

    def code(self, returncode: int) -> int:
        """The command's exit code, as a shell has it; 0 where it ended because it was told to."""
        code = returncode if returncode >= 0 else 128 - returncode
        return 0 if self.told and code == 128 + signal.SIGTERM else code


def named(code: int) -> str:
    """An exit code with the signal that it stands for."""
    numbers = {128 + each: each.name for each in signal.Signals}
    return f"{code} ({numbers[code]})" if code in numbers else str(code)
