"""Runs what may block in a child process, with a time limit.

What another process controls can block any call for ever, even a stat: a file system of its own
(FUSE), its memory while it holds a lock on it. No signal ends such a call, so the only limit that
holds is that of a parent which stops waiting. A child may also become another user for good, which
a thread cannot: a change of user is one of the whole process.

The work is a generator: it runs from one `yield` to the next when the parent asks for the next
step. When the parent closes it, or has been killed, the generator is closed, and so cleans up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from pulsar_doctor.errors import DoctorError

STEP_SECONDS = 5.0
HURRY_SECONDS = 0.5  # for Ctrl-C, which ends at once
RESULT_BYTES = 64 << 20  # the steps have limits of their own, which are lower
DONE, NUMBERED, REFUSED, BROKEN = b"=", b"#", b"!", b"?"
HEAD = struct.Struct(">cI")


class CannotAttach(DoctorError):
    """Why a process cannot be looked into, in one sentence. The rest of it is examined anyway."""


class Child:
    """A child process that works in steps. To be used as a context manager."""

    def __init__(self, steps: Callable[[], Iterator[bytes]]) -> None:
        self._works = False
        self._ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._pid = os.fork()
            except OSError as error:
                self._ours.close()
                raise CannotAttach(f"no child process can be started: {error.strerror}") from None
            if self._pid == 0:
                _serve(theirs, steps)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Has it clean up and end: it has the time of a step, and little if a step is under way."""
        with self._ours, contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)
            self._ours.settimeout(HURRY_SECONDS if self._works else STEP_SECONDS)
            self._ours.recv(1)
        _end(self._pid)

    def step(self, seconds: float = STEP_SECONDS) -> bytes:
        """What the next step yields, or its OSError or CannotAttach; else raises TimeoutError."""
        until = time.monotonic() + seconds
        self._works = True
        try:
            self._ours.sendall(b".")
            kind, size = HEAD.unpack(self._read(HEAD.size, until))
            result = self._read(min(size, RESULT_BYTES), until)
        except TimeoutError:
            os.kill(self._pid, signal.SIGKILL)
            raise
        self._works = False
        if kind == DONE:
            return result
        text = result.decode("utf-8", "replace")
        if kind == NUMBERED:
            raise OSError(int(text), os.strerror(int(text)))
        raise CannotAttach(text) if kind == REFUSED else RuntimeError(text)

    def _read(self, size: int, until: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._ours.settimeout(max(until - time.monotonic(), 1e-6))
            part = self._ours.recv(min(size - len(found), 1 << 20))
            if not part:
                raise CannotAttach("the child process that looks into it was killed")
            found += part
        return bytes(found)


def in_time(work: Callable[[], bytes], seconds: float = STEP_SECONDS) -> bytes:
    """What this work returns, from a child. Raises as `Child.step` does."""
    with Child(lambda: iter((work(),))) as child:
        return child.step(seconds)


def _serve(theirs: socket.socket, steps: Callable[[], Iterator[bytes]]) -> NoReturn:
    """The life of the child. Only the parent ends it: by closing its end of the connection."""
    try:
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sent, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for each in range(3):
            os.dup2(null, each)
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        _work(theirs, steps)
    finally:
        os._exit(0)


def _work(theirs: socket.socket, steps: Callable[[], Iterator[bytes]]) -> None:
    with contextlib.ExitStack() as stack:
        work: Iterator[bytes] | None = None
        while theirs.recv(1):
            try:
                if work is None:
                    work = steps()
                    stack.callback(getattr(work, "close", lambda: None))
                kind, result = DONE, next(work)
            except OSError as error:
                kind, result = NUMBERED, str(error.errno or 0).encode()
            except DoctorError as error:
                kind, result = REFUSED, str(error).encode()
            except BaseException as error:
                kind, result = BROKEN, repr(error).encode()
            theirs.sendall(HEAD.pack(kind, len(result)) + result)


def _end(pid: int) -> None:
    """Ends the child. One that a call holds back stays, and is no longer waited for."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 1
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < until:
            time.sleep(0.001)
