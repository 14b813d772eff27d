"""HotSpot's attach protocol in Python: one command for each connection to the JVM's socket.

The socket, /tmp/.java_pid<pid> in the JVM's own file system and by its own pid, is made when a JVM
gets its first request: a file .attach_pid<pid> beside it and SIGQUIT. It stays then, with one
thread of the JVM ("Attach Listener"), as after any jcmd or jstack. A request is the version, a
command and three arguments, each ended by a zero byte; the answer is a line with a number, 0 for
good, and text. The JVM checks who connects: its own user, or root.

Whatever touches its /tmp happens in a child process that is its user, see `inside`.

Source: HotSpot's attachListener_linux.cpp (posix since 19) and attachListener.cpp.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterator

from pulsar_doctor.parts.examine.child import STEP_SECONDS, CannotAttach, Child
from pulsar_doctor.parts.examine.identity import Process
from pulsar_doctor.parts.examine.inside import INODE, InTmp, inside, opened
from pulsar_doctor.parts.examine.jvm import leftovers
from pulsar_doctor.parts.examine.jvm.proof import require_attachable

ARGUMENTS = 3
ANSWER_BYTES = 32 << 20  # a dump of 10,000 threads with 30 frames each has 25 MiB
CONNECT_SECONDS = 1.0  # a JVM with a full queue of connections does not answer


class Jvm:
    """A JVM that takes requests. Raises CannotAttach, each time in one sentence."""

    def __init__(self, process: Process) -> None:
        require_attachable(process)
        self.process = process
        self._is_silent = False
        if not self._listens():
            self._wake()

    def ask(self, command: str, *arguments: str) -> str:
        """The answer's text. CannotAttach where the JVM refuses, is silent, or ends meanwhile."""
        words = [command, *arguments, *[""] * (ARGUMENTS - len(arguments))]
        request = b"".join(word.encode() + b"\0" for word in ("1", *words))
        pid = self.process.pid

        def work(tmp: int) -> Iterator[bytes]:
            with connected(self.process, tmp) as connection:
                connection.settimeout(None)  # the parent's limit is that of the whole answer
                connection.sendall(request)
                yield _whole(connection)

        try:
            if self._is_silent:  # it is not waited for a second time
                raise TimeoutError
            with self.inside(work) as child:
                answer = child.step()
        except TimeoutError:
            self._is_silent = True
            raise CannotAttach(f"JVM {pid} has not answered within {STEP_SECONDS:g} s") from None
        except OSError as error:
            raise self._lost(error) from None
        code, _, text = answer.partition(b"\n")
        if not code:
            raise self._lost(None)
        if len(answer) > ANSWER_BYTES:
            raise CannotAttach(
                f"JVM {pid} gave an answer to {command} that cannot be read: it has more than "
                f"{ANSWER_BYTES >> 20} MiB"
            )
        if code.strip() != b"0":
            why = text[:400].decode("utf-8", "replace").strip().partition("\n")[0]
            why = " ".join(why.split()) or repr(code[:40].decode("latin-1"))
            raise CannotAttach(f"JVM {pid} refuses {command}: {why}")
        return text.decode("utf-8", "replace")

    def inside(self, work: InTmp) -> Child:
        """A child that works as this JVM's user in its /tmp."""
        return inside(self.process, work)

    def _lost(self, error: OSError | None) -> CannotAttach:
        pid = self.process.pid
        if not self.process.is_there:
            return CannotAttach(f"JVM {pid} has ended while it was looked at")
        return CannotAttach(f"JVM {pid} has closed the connection without an answer ({error})")

    def _listens(self) -> bool:
        """Whether the JVM has its socket. Removes what killed inspections have left."""

        def work(tmp: int) -> Iterator[bytes]:
            leftovers.sweep(tmp, self.process.uid)
            yield b"yes" if listens(self.process, tmp) else b""

        with self._failures_in_one_sentence(), self.inside(work) as child:
            return bool(child.step())

    def _wake(self) -> None:
        """Has the JVM make its socket. The proof is repeated once its pid is held."""
        process = self.process
        try:
            held = os.pidfd_open(process.pid)
        except OSError:
            raise CannotAttach(f"process {process.pid} is not there any more") from None
        try:
            require_attachable(process)
            with self._failures_in_one_sentence(), self.inside(self._waking) as child:
                child.step()
                signal.pidfd_send_signal(held, signal.SIGQUIT)
                self._await_socket(child)
        except ProcessLookupError:
            raise CannotAttach(f"JVM {process.pid} has ended while it was looked at") from None
        finally:
            os.close(held)

    def _waking(self, tmp: int) -> Iterator[bytes]:
        with leftovers.attach_file(tmp, self.process):
            yield b""
            while not listens(self.process, tmp):
                yield b""
                time.sleep(0.02)
            yield b"yes"

    def _await_socket(self, child: Child) -> None:
        until = time.monotonic() + STEP_SECONDS
        while (left := until - time.monotonic()) > 0:
            if child.step(left):
                return
            if not self.process.is_there:
                raise CannotAttach(f"JVM {self.process.pid} has ended while it was looked at")
        raise TimeoutError

    @contextlib.contextmanager
    def _failures_in_one_sentence(self) -> Iterator[None]:
        pid = self.process.pid
        try:
            yield
        except TimeoutError:
            raise CannotAttach(
                f"JVM {pid} has not opened its attach socket within {STEP_SECONDS:g} s"
            ) from None
        except ProcessLookupError:
            raise
        except OSError as error:
            why = f"its /tmp cannot be used: {error.strerror}"
            raise CannotAttach(f"JVM {pid} cannot be asked: {why}") from None


def listens(process: Process, tmp: int) -> bool:
    """Whether it takes connections; what is left of an earlier JVM of this pid does not."""
    with contextlib.suppress(OSError), connected(process, tmp):
        return True
    return False


@contextlib.contextmanager
def connected(process: Process, tmp: int) -> Iterator[socket.socket]:
    """A connection to its socket: to the very file that was checked, and to that process."""
    name = f".java_pid{process.inner_pid}"
    with (
        opened(name, INODE, tmp) as file,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
    ):
        there = os.fstat(file)
        if not stat.S_ISSOCK(there.st_mode) or there.st_uid not in (process.uid, 0):
            raise CannotAttach(f"/tmp/{name} is not the JVM's own socket")
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(f"/proc/self/fd/{file}")
        _require_peer(connection, process)
        yield connection


def _require_peer(connection: socket.socket, process: Process) -> None:
    """Asks the kernel who has opened that socket, whatever is at its path."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", packed)
    if pid != process.pid:
        raise CannotAttach(f"the socket of JVM {process.pid} belongs to process {pid}")


def _whole(connection: socket.socket) -> bytes:
    """Reads until the other side closes, or one byte more than is allowed."""
    found = bytearray()
    while len(found) <= ANSWER_BYTES and (part := connection.recv(1 << 16)):
        found += part
    return bytes(found[: ANSWER_BYTES + 1])
