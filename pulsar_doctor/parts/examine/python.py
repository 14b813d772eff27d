"""Where the threads of a Python process are, read by py-spy.

py-spy stops the process for some milliseconds, unless it is told not to, which it is: then a stack
may be torn, and is left out. What it answers comes out of the memory of that process, so it is read
as the agent's answer is. It needs the right to trace: the same user or root, and where the
kernel asks for it, CAP_SYS_PTRACE. It is the extra [examine].

C code has no frames there, be it time.sleep or a lock: the kernel tells in which call it waits.
Who holds a lock of Python is not known.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_doctor.evidence.process_told import Pool, Role, Sitting, method
from pulsar_doctor.parts.examine.answers import Schema, Unreadable, checked, parsed
from pulsar_doctor.parts.examine.calls import waits_in
from pulsar_doctor.parts.examine.child import STEP_SECONDS, CannotAttach, in_time
from pulsar_doctor.parts.examine.identity import Process
from pulsar_doctor.parts.examine.resting import resting_seconds

ANSWER_BYTES = 16 << 20
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
FRAME: Schema = {"name": str, "filename": str, "short_filename": str, "line": int}
THREAD: Schema = {"thread_name": str, "os_thread_id": int, "active": bool, "frames": [dict]}
ACKNOWLEDGES = frozenset({"acknowledge", "acknowledge_cumulative", "negative_acknowledge"})


WORKS_IN_POOL = "_worker", "concurrent/futures/thread.py"


@dataclass(frozen=True, slots=True)
class PythonThread:
    """One thread."""

    sitting: Sitting
    pool: (
        str | None
    )  # how the names of all threads of the ThreadPoolExecutor begin; None: it has none


class PySpy:
    """py-spy, asked about one process. Raises CannotAttach where it is not there, or refused."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def threads(self) -> tuple[PythonThread, ...]:
        """Each of them, and for how long it has not run, at least."""
        began, pid = time.monotonic(), self.process.pid
        found = self._dumped()
        ids = [each["os_thread_id"] for each in found if each.get("os_thread_id")]
        calls = {each: waits_in(pid, each) for each in ids}
        rests = resting_seconds(pid, ids)
        since = time.monotonic() - began  # what has run since then may have left the place
        rests = {each: seconds for each, seconds in rests.items() if seconds > since}
        return tuple(
            PythonThread(
                _sitting(each, rests.get(at), calls[at] if at in rests else None), _pool(each)
            )
            for each in found
            for at in [each.get("os_thread_id", 0)]
        )

    def _dumped(self) -> list[dict[str, Any]]:
        pid = self.process.pid
        beside = Path(sys.executable).with_name("py-spy")
        program = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
        if program is None:
            raise CannotAttach(MISSING)
        asked = [program, "dump", "--nonblocking", "--json", "--pid", str(pid)]
        try:
            return checked_threads(in_time(lambda: _output(asked)))
        except TimeoutError:
            why = f"it takes longer than {STEP_SECONDS:g} s"
        except (OSError, CannotAttach, Unreadable) as error:
            why = str(error)
        raise CannotAttach(f"py-spy could not read process {pid}: {why}")


def _output(asked: list[str]) -> bytes:
    """In the child: what it prints, of which the kernel lets it write so much. CannotAttach."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (ANSWER_BYTES, ANSWER_BYTES))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                asked, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                timeout=STEP_SECONDS - 0.5, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TimeoutError(errno.ETIMEDOUT, "") from None
        out.seek(0)
        errors.seek(0)
        if done.returncode == 0:
            return out.read()
        why = " ".join(errors.read(1000).decode("utf-8", "replace").split())
        raise CannotAttach(why[:200] or f"code {done.returncode}")


def checked_threads(answer: bytes) -> list[dict[str, Any]]:
    """The threads of an answer of py-spy, checked. Raises Unreadable."""
    found = []
    for each in checked({"threads": parsed(answer)}, {"threads": [dict]}, ("threads",))["threads"]:
        thread = checked(each, THREAD)
        thread["frames"] = [checked(frame, FRAME) for frame in thread.get("frames", ())]
        found.append(thread)
    return found


def _sitting(told: dict[str, Any], seconds: float | None, call: str | None = None) -> Sitting:
    """call: of the kernel, in which it waits."""
    frames = told.get("frames") or []
    lines = tuple(_line(each) for each in frames)
    own = next((_line(each) for each in frames if _is_applications(each)), None)
    name = told.get("thread_name") or str(told.get("os_thread_id"))
    state = "active" if told.get("active") else "idle"
    top = lines[0] if lines else None
    inside = _inside(lines, own) or (() if call is None else (call,))
    return Sitting(
        name, _role(frames), state, top, own, lines[:12], told.get("os_thread_id"), seconds, inside
    )


def pools_of(threads: Iterable[PythonThread]) -> tuple[Pool, ...]:
    """The pools; how many tasks wait in them is not known."""
    found: dict[str, list[int]] = {}
    for each in threads:
        if each.pool is not None and each.sitting.id is not None:
            found.setdefault(each.pool, []).append(each.sitting.id)
    return tuple(Pool(tuple(ids)) for ids in found.values())


def _pool(thread: dict[str, Any]) -> str | None:
    name, file = WORKS_IN_POOL
    frames = thread.get("frames") or ()
    if any(each.get("name") == name and file in (each.get("filename") or "") for each in frames):
        return str(thread.get("thread_name") or "").rpartition("_")[0]
    return None


def _inside(lines: tuple[str, ...], own: str | None) -> tuple[str, ...]:
    """The innermost call, and the one that the application has made there."""
    at = lines.index(own) if own in lines else 0
    return (
        tuple(dict.fromkeys(method(each) for each in lines[:1] + lines[at - 1 : at])) if at else ()
    )


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
