"""Ends a connection of another process, as when the network is gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator

import pytest

from tests.support.wanting import wanting

PIDFD_GETFD = 438  # the same number on every architecture; Python has no name for it


def cut(pid: int, port: int) -> int:
    """Shuts down all connections of this process to this port; how many there were."""
    count = 0
    with _process(pid) as process:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if not os.readlink(entry.path).startswith("socket:["):  # noqa: PTH115
                    continue
                with _ours(process, int(entry.name)) as sock:
                    inet = sock.family in (socket.AF_INET, socket.AF_INET6)
                    if inet and sock.getpeername()[1] == port:
                        sock.shutdown(socket.SHUT_RDWR)
                        count += 1
    return count


@contextlib.contextmanager
def _process(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _ours(process: int, number: int) -> socket.socket:
    """Another process's socket as one of ours: the same connection."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(PIDFD_GETFD, process, number, 0)
    if descriptor < 0:
        error = ctypes.get_errno()
        if error in (1, 38):  # EPERM, ENOSYS
            pytest.skip(wanting("pidfd_getfd"))
        raise OSError(error, os.strerror(error))
    return socket.socket(fileno=descriptor)
