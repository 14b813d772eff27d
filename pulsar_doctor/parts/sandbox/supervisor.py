"""A small process that keeps the sandbox's broker, and stops it when its owner is gone.

Theory of operation. The owner starts this file as a program of its own, in a session of its own,
and holds the writing end of a pipe to it. The pipe says all there is to say:

    end of file   the owner is dead, by SIGKILL too: end the broker
    b"q"          the owner is done: end the broker
    b"s"          the sandbox stays: forget the owner, go on until SIGTERM

A child that the owner forked may hold the pipe open after the owner's death, so the parent's pid
is watched too. The owner also hands over a locked file. The lock lives as long as this process:
whoever finds it free knows that no broker is left. Should this process itself be killed, Linux
kills the broker with it.

It uses the standard library only and runs under `python -I -S`: it starts in no time.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

STAY, QUIT = b"s", b"q"
LOOK_SECONDS = 0.25
QUIT_SECONDS = 30.0
PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Charge:
    """A command to be supervised, its owner, and how it ends."""

    owner: int
    command: tuple[str, ...]
    remove: tuple[str, ...]  # files and folders to delete when the command has ended
    grace_seconds: float  # from SIGTERM to SIGKILL; 0: kill at once, the data is not needed


def launch(
    charge: Charge, environ: dict[str, str], lock: int, log: Path
) -> subprocess.Popen[bytes]:
    """Starts a supervisor; its stdin is the pipe that keeps the broker alive.

    lock: descriptor of a locked file; close it afterwards, the supervisor has its own.
    log: what supervisor, start script and broker write is appended there.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, json.dumps(asdict(charge))],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            pass_fds=[lock],
            start_new_session=True,
        )


def tell(process: subprocess.Popen[bytes], word: bytes) -> None:
    """Says the last word to a supervisor: STAY or QUIT."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(word)
        pipe.flush()


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a broker and waits until its Java is gone."""
    try:
        tell(process, QUIT)
        process.wait(QUIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def lives(lock: Path) -> bool:
    """Whether a supervisor holds this lock; then its pid is no other program's."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(file, "rb"):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def keep(charge: Charge, over: list[int]) -> int:
    """Runs the command until it ends, its owner is gone or `over` is not empty; its exit code."""
    try:
        child = subprocess.Popen(
            charge.command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is one thread only
        )
        try:
            _watch(child, charge.owner, over)
        finally:
            code = _end(child, charge.grace_seconds)
    finally:
        for path in charge.remove:
            _remove(Path(path))
    return code


def _watch(child: subprocess.Popen[bytes], owner: int, over: list[int]) -> None:
    pipe = [0]
    while not over and child.poll() is None:
        if pipe and os.getppid() != owner:
            return
        readable, _, _ = select.select(pipe, [], [], LOOK_SECONDS)
        if readable:
            if os.read(0, 1) != STAY:
                return
            pipe = []


def _end(child: subprocess.Popen[bytes], grace_seconds: float) -> int:
    if grace_seconds and child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_seconds)
    # The whole group, also after its leader's end: the start script has children of its own.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _die_with_parent() -> None:
    # Only Linux can do this; elsewhere a killed supervisor leaves its broker behind.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Reads its charge from the first argument and keeps it."""
    over: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        over.append(signum)

    for number in ENDING:
        signal.signal(number, note)
    return keep(Charge(**json.loads(sys.argv[1])), over)


if __name__ == "__main__":
    sys.exit(main())
