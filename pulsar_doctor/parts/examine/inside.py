"""Opens files inside another process's root as its user, without following links.

The process may rename, replace and link whatever it owns at any moment, and its root may be a
folder of this machine (chroot) or a container's. So its root is opened once, and from there each
folder is opened by the one before it, with O_NOFOLLOW: a walk that follows no link and knows no
".." cannot leave that root. That is what openat2 does with RESOLVE_IN_ROOT and RESOLVE_NO_SYMLINKS,
and it works as well where an old kernel or a seccomp filter refuses openat2. What was opened is
checked by its descriptor, and used by its descriptor: no name is resolved twice.

Everything happens in a child process (`child`), which becomes the user of the process for good,
with no other groups, before it reads the first name.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator

from pulsar_doctor.owners import FOLDER
from pulsar_doctor.parts.examine.child import CannotAttach, Child
from pulsar_doctor.parts.examine.identity import Process

FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
INODE = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC  # only Linux has it
InTmp = Callable[[int], Iterator[bytes]]


def inside(process: Process, work: InTmp) -> Child:
    """A child that works as the user of this process. work: is given its /tmp, opened."""

    def steps() -> Iterator[bytes]:
        root = os.open(f"/proc/{process.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if not process.is_there:
            raise CannotAttach(f"process {process.pid} has ended while it was looked at")
        _become(process)
        with opened("tmp", FOLDER, root) as tmp:
            yield from work(tmp)

    return Child(steps)


def _become(process: Process) -> None:
    if os.geteuid() != 0 or (process.uid, process.gid) == (0, 0):
        return
    if set(os.getgroups()) - {process.gid}:
        os.setgroups([])
    os.setresgid(process.gid, process.gid, process.gid)
    os.setresuid(process.uid, process.uid, process.uid)


@contextlib.contextmanager
def opened(name: str, flags: int, folder: int) -> Iterator[int]:
    """A file or folder of that folder, for as long as the with-block lasts."""
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def read(name: str, folder: int, *, uid: int, most: int) -> bytes:
    """A plain file of this user, of at most so many bytes. OSError, or CannotAttach."""
    with opened(name, FILE, folder) as file:
        there = os.fstat(file)
        if not stat.S_ISREG(there.st_mode) or there.st_uid != uid:
            raise CannotAttach(f"{name} is not a plain file of user {uid}")
        if there.st_size > most:
            raise CannotAttach(f"{name} has more than {most} bytes")
        parts, left = [], most
        while left and (part := os.read(file, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def is_at(file: int, name: str, folder: int) -> bool:
    """Whether this name still leads to what is open; it may have been replaced meanwhile."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(name, dir_fd=folder))
    except FileNotFoundError:
        return False
