"""Where the threads of a Python process are, read by py-spy.

py-spy stops the process for some milliseconds, unless it is forbidden, as here: then a stack
may be torn, and is left out. What it answers comes out of the memory of that process, so it is read
as the agent's answer is. It needs the right to trace: the same user or root, and where the
kernel asks for it, CAP_SYS_PTRACE. It is the extra [examine].

C code has no frames there, be it time.sleep or a lock: the kernel tells in which call it waits, and
from which socket it reads.
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pulsar_doctor.evidence.dumps.answers import Unreadable, parsed
from pulsar_doctor.evidence.dumps.python import PythonThread, checked_threads, thread
from pulsar_doctor.parts.examine.child import STEP_SECONDS, CannotAttach, in_time
from pulsar_doctor.parts.examine.identity import Process
from pulsar_doctor.parts.examine.resting import resting_seconds
from pulsar_doctor.parts.examine.sockets import sockets
from pulsar_doctor.wording.addresses import shown

SLEEP, LOCK = "a sleep", "a wait for a lock or for another thread"
READ, FILES = "a read", "a wait for a socket or a file"
CALLS = {
    "x86_64": {
        0: READ, 7: FILES, 23: FILES, 35: SLEEP, 42: "a connect", 44: "a send", 45: READ, 47: READ,
        61: "a wait for a child process", 73: "a wait for a file lock", 202: LOCK, 230: SLEEP,
        232: FILES, 270: FILES, 271: FILES, 281: FILES,
    },
    "aarch64": {
        22: FILES, 32: "a wait for a file lock", 63: READ, 72: FILES, 73: FILES, 98: LOCK,
        101: SLEEP, 115: SLEEP, 203: "a connect", 206: "a send", 207: READ, 212: READ,
        260: "a wait for a child process",
    },
}  # fmt: skip
SELECTS = frozenset({("x86_64", 23), ("x86_64", 270), ("aarch64", 72)})


def waits_in(pid: int, thread: int) -> str | None:
    """`a sleep`; None where it runs, waits in a call without a word, or may not be looked at."""
    number, first = _call(pid, thread)
    return word(platform.machine(), number, first)


def waits_for(pid: int, thread: int) -> str | None:
    """`a read from 10.0.0.9:8080`: the other end of the socket that it reads; None without one."""
    number, file = _call(pid, thread)
    if CALLS.get(platform.machine(), {}).get(number) != READ:
        return None
    try:
        target = os.readlink(f"/proc/{pid}/fd/{file}")  # noqa: PTH115
    except OSError:
        return None
    ends = (one.connection for one in sockets(str(pid)) if target == f"socket:[{one.inode}]")
    return next((f"{READ} from {shown(each.remote)}" for each in ends), None)


def _call(pid: int, thread: int) -> tuple[int, int]:
    """The number of the call in which a thread waits, and its first argument; -1 without one."""
    try:
        words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
        return int(words[0]), int(words[1], 16)
    except (OSError, ValueError, IndexError):
        return -1, 0


def word(machine: str, number: int, first: int) -> str | None:
    """What this call does. first: its first argument; select() with no file is a sleep."""
    if (machine, number) in SELECTS and first == 0:
        return SLEEP
    return CALLS.get(machine, {}).get(number)


ANSWER_BYTES = 16 << 20
MISSING = "py-spy is not installed; install it with: pip install 'pulsar-doctor[examine]'"


def threads_of(process: Process) -> tuple[PythonThread, ...]:
    """Each of them, and for how long it has not run, at least. Raises CannotAttach."""
    began, pid = time.monotonic(), process.pid
    found = _dumped(pid)
    ids = [each["os_thread_id"] for each in found if each.get("os_thread_id")]
    calls = {each: waits_in(pid, each) for each in ids}
    reads = {each: waits_for(pid, each) for each in ids}
    rests = resting_seconds(pid, ids)
    since = time.monotonic() - began  # what has run since then may have left the place
    rests = {each: seconds for each, seconds in rests.items() if seconds > since}
    return tuple(
        thread(each, rests.get(at), *((calls[at], reads[at]) if at in rests else ()))
        for each in found
        for at in [each.get("os_thread_id", 0)]
    )


def _dumped(pid: int) -> list[dict[str, Any]]:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if program is None:
        raise CannotAttach(MISSING)
    command = [program, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        return checked_threads(parsed(in_time(lambda: _output(command))))
    except TimeoutError:
        why = f"it takes longer than {STEP_SECONDS:g} s"
    except (OSError, CannotAttach, Unreadable) as error:
        why = str(error)
    raise CannotAttach(f"py-spy could not read process {pid}: {why}")


def _output(command: list[str]) -> bytes:
    """In the child: what it prints, of which the kernel lets it write so much. CannotAttach."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (ANSWER_BYTES, ANSWER_BYTES))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
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
