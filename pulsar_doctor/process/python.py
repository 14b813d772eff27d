"""Where the threads of a Python process sit, by py-spy, which reads them without its help.

py-spy stops the process for some milliseconds, unless it is told not to, which it is: then a stack
may be torn, and is left out. It needs the right to trace: the same user or root, and where the
kernel asks for it, CAP_SYS_PTRACE. It is the extra [examine].
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from pulsar_doctor.process.child import CannotAttach
from pulsar_doctor.process.identity import Process
from pulsar_doctor.process.resting import resting_seconds
from pulsar_doctor.process.told import Role, Sitting

SECONDS = 15.0
MISSING = "py-spy is not installed; install it with: pip install 'pulsar-doctor[examine]'"
LIBRARY = (
    "pulsar/__init__.py",
    "_pulsar",
    "threading.py",
    "concurrent/futures/",
    "asyncio/",
    "queue.py",
)
RECEIVES = frozenset({"receive", "batch_receive", "read_next"})
ACKNOWLEDGES = frozenset({"acknowledge", "acknowledge_cumulative", "negative_acknowledge"})


class PySpy:
    """py-spy, asked about one process. Raises CannotAttach where it is not there, or refused."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def sittings(self) -> tuple[Sitting, ...]:
        """Each thread of it, and for how long it has not run, at least."""
        threads = self._dumped()
        rests = resting_seconds(
            self.process.pid, [each["os_thread_id"] for each in threads if each.get("os_thread_id")]
        )
        return tuple(
            _sitting(each, rests.get(each.get("os_thread_id", 0)) or None) for each in threads
        )

    def _dumped(self) -> list[dict[str, Any]]:
        pid = self.process.pid
        beside = Path(sys.executable).with_name("py-spy")
        program = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
        if program is None:
            raise CannotAttach(MISSING)
        asked = [program, "dump", "--nonblocking", "--json", "--pid", str(pid)]
        try:
            done = subprocess.run(
                asked, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            threads = json.loads(done.stdout) if done.returncode == 0 else None
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            raise CannotAttach(f"py-spy could not read process {pid}: {error}") from None
        if threads is None:
            why = " ".join(done.stderr.split()) or f"code {done.returncode}"
            raise CannotAttach(f"py-spy could not read process {pid}: {why[:200]}")
        return list(threads)


def _sitting(told: dict[str, Any], seconds: float | None) -> Sitting:
    frames = told.get("frames") or []
    lines = tuple(_line(each) for each in frames)
    own = next((_line(each) for each in frames if _is_applications(each)), None)
    name = told.get("thread_name") or str(told.get("os_thread_id"))
    state = "active" if told.get("active") else "idle"
    top = lines[0] if lines else None
    return Sitting(name, _role(frames), state, top, own, lines[:12], None, seconds)


def _role(frames: list[dict[str, Any]]) -> Role:
    # From Python 3.11 on a name is whole: `Consumer.receive`.
    theirs = [each for each in frames if "pulsar/" in (each.get("filename") or "")]
    calls = [each.get("name", "").rpartition(".")[2] for each in theirs]
    if any(call in RECEIVES for call in calls):
        return "receives"
    if any(call in ACKNOWLEDGES for call in calls):
        return "acknowledges"
    return "listens" if "wrapper" in calls else "application"  # pulsar's own, around a listener


def _is_applications(frame: dict[str, Any]) -> bool:
    file = frame.get("filename") or ""
    installed = "site-packages" in file or "/lib/python" in file
    return bool(file) and not installed and not any(part in file for part in LIBRARY)


def _line(frame: dict[str, Any]) -> str:
    file = (frame.get("short_filename") or frame.get("filename") or "?").rpartition("/")[2]
    return f"{frame.get('name', '?')} ({file}:{frame.get('line', 0)})"
