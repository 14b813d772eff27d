"""HotSpot's attach protocol in plain Python: one command a connection to the JVM's own Unix socket.

The socket, /tmp/.java_pid<pid> in the JVM's own file system and by its own pid, is made when a JVM
is asked for the first time: a file .attach_pid<pid> beside it and SIGQUIT. It stays then, with one
thread of the JVM ("Attach Listener"), as after any jcmd or jstack. A request is the version, a
command and three arguments, each ended by a zero byte; the answer is a line with a number, 0 for
good, and text. The JVM looks at who connects: its own user, or root.

Source: HotSpot's attachListener_linux.cpp (posix since 19) and attachListener.cpp.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from pulsar_doctor.process.identity import Process
from pulsar_doctor.process.jvm.proof import CannotAttach, require_attachable

APPEARS_SECONDS = 5.0  # a JVM that is at a safepoint, or has no CPU, takes its time
ANSWERS_SECONDS = 10.0
ARGUMENTS = 3
ANSWER_BYTES = 64 << 20  # a dump of some ten thousand threads


class Jvm:
    """A JVM that can be asked. Raises CannotAttach, each time in one sentence."""

    def __init__(self, process: Process) -> None:
        require_attachable(process)
        self.process = process
        self._socket = process.root / f"tmp/.java_pid{process.inner_pid}"
        if not self._listens():
            self._wake()

    def ask(self, command: str, *arguments: str, seconds: float = ANSWERS_SECONDS) -> str:
        """The answer's text. CannotAttach where the JVM refuses, is silent, or ends meanwhile."""
        words = [command, *arguments, *[""] * (ARGUMENTS - len(arguments))]
        request = b"".join(word.encode() + b"\0" for word in ("1", *words))
        pid = self.process.pid
        try:
            with self._connected(seconds) as connection:
                connection.sendall(request)
                answer = _whole(connection, time.monotonic() + seconds)
        except TimeoutError:
            raise CannotAttach(f"JVM {pid} has not answered within {seconds:g} s") from None
        except OSError as error:
            raise self._lost(error) from None
        code, _, text = answer.partition(b"\n")
        if not code:
            raise self._lost(None)
        if code.strip() != b"0":
            why = text.decode("utf-8", "replace").strip().partition("\n")[0]
            raise CannotAttach(f"JVM {pid} refuses {command}: {why or code.decode('latin-1')}")
        return text.decode("utf-8", "replace")

    def _lost(self, error: OSError | None) -> CannotAttach:
        pid = self.process.pid
        if not self.process.is_there:
            return CannotAttach(f"JVM {pid} has ended while it was looked at")
        return CannotAttach(f"JVM {pid} has closed the connection without an answer ({error})")

    def _listens(self) -> bool:
        """Whether its socket is there, and its own."""
        try:
            there = self._socket.lstat()
        except OSError:
            return False
        if not stat.S_ISSOCK(there.st_mode) or there.st_uid not in (self.process.uid, 0):
            raise CannotAttach(f"{self._socket} is not the JVM's own socket")
        with contextlib.suppress(OSError), self._connected(1.0):
            return True
        return False  # of an earlier JVM of this pid

    @contextlib.contextmanager
    def _connected(self, seconds: float) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            with acting_as(self.process):
                connection.connect(str(self._socket))
            yield connection

    def _wake(self) -> None:
        """Has the JVM make its socket. The proof is asked again once its pid is held."""
        process = self.process
        try:
            held = os.pidfd_open(process.pid)
        except OSError:
            raise CannotAttach(f"process {process.pid} is not there any more") from None
        try:
            require_attachable(process)
            with self._attach_file():
                signal.pidfd_send_signal(held, signal.SIGQUIT)
                self._await_socket()
        except ProcessLookupError:
            raise CannotAttach(f"JVM {process.pid} has ended while it was looked at") from None
        finally:
            os.close(held)

    @contextlib.contextmanager
    def _attach_file(self) -> Iterator[None]:
        name = f".attach_pid{self.process.inner_pid}"
        with contextlib.ExitStack() as held:
            try:
                with acting_as(self.process):
                    file = held.enter_context(tmp_of(self.process)) / name
                    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            except FileExistsError:
                yield  # somebody else asks just now; it is theirs
                return
            except OSError as error:
                why = f"cannot write into the JVM's /tmp: {error.strerror}"
                raise CannotAttach(f"JVM {self.process.pid} cannot be asked: {why}") from None
            try:
                yield
            finally:
                file.unlink(missing_ok=True)

    def _await_socket(self) -> None:
        until = time.monotonic() + APPEARS_SECONDS
        while time.monotonic() < until:
            if self._listens():
                return
            if not self.process.is_there:
                raise CannotAttach(f"JVM {self.process.pid} has ended while it was looked at")
            time.sleep(0.02)
        raise CannotAttach(
            f"JVM {self.process.pid} has not opened its attach socket within {APPEARS_SECONDS:g} s"
        )


@contextlib.contextmanager
def tmp_of(process: Process) -> Iterator[Path]:
    """Its /tmp, by a way that is there when the process has ended, too. OSError without a right."""
    held = os.open(process.root / "tmp", os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{held}")
    finally:
        os.close(held)


@contextlib.contextmanager
def acting_as(process: Process) -> Iterator[None]:
    """As root: with the user of the process, so that files are its own and old JVMs let us in."""
    if os.geteuid() != 0 or (process.uid, process.gid) == (0, 0):
        yield
        return
    group = os.getegid()
    os.setegid(process.gid)
    os.seteuid(process.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


def _whole(connection: socket.socket, until: float) -> bytes:
    """All that comes until the other side closes. TimeoutError at that moment."""
    parts: list[bytes] = []
    size = 0
    while size < ANSWER_BYTES:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)
