"""Files that pulsar-doctor creates in a JVM's /tmp, and how leftovers are removed.

Two things: the file .attach_pid<pid>, and the folder of the agent. Each is locked by the one that
uses it for as long as it does, so what is there without a lock is of a doctor that was killed: it
is taken away by the next one, whichever JVM of this user that examines one. Other tools make the
same attach file; ours has a content, which HotSpot does not read, and theirs are left alone.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from itertools import islice

from pulsar_doctor.owners import ANYTHING, FOLDER, belongs_to, locked
from pulsar_doctor.parts.examine.child import STEP_SECONDS, CannotAttach
from pulsar_doctor.parts.examine.identity import Process
from pulsar_doctor.parts.examine.inside import FILE, NEW, is_at, opened

ATTACH, AGENT = ".attach_pid", ".pulsar-doctor-"
MARK = b"pulsar-doctor\n"
OURS_WITHIN = ("agent.jar", "look-")  # how the names of all files in a folder of ours begin
NAMES, LEFTOVERS, WITHIN = 100_000, 1000, 1000  # how many of each are looked at
OTHERS_SECONDS = STEP_SECONDS - 0.5  # as long as any look into a JVM may take


@contextlib.contextmanager
def attach_file(tmp: int, process: Process) -> Iterator[None]:
    """The file by which a JVM knows of a request; another tool's, where one attaches just now."""
    name = f"{ATTACH}{process.inner_pid}"
    while True:
        try:
            file = os.open(name, NEW, 0o600, dir_fd=tmp)
        except FileExistsError:
            yield
            return
        try:
            if locked(file) and is_at(file, name, tmp):
                os.write(file, MARK)
                try:
                    yield
                finally:
                    _unlink(file, name, tmp)
                return
        finally:
            os.close(file)


@contextlib.contextmanager
def agent_folder(tmp: int, name: str, process: Process) -> Iterator[int]:
    """Makes the folder, and holds it: it is ours, and nobody else's look uses it or removes it."""
    until = time.monotonic() + OTHERS_SECONDS
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=tmp)
        try:
            folder = os.open(name, FOLDER, dir_fd=tmp)
        except FileNotFoundError:  # another look has just taken it away
            continue
        except (NotADirectoryError, PermissionError):
            raise CannotAttach(f"/tmp/{name} is there, and somebody else's") from None
        try:
            if not belongs_to(os.fstat(folder), process.uid, forbidden=ANYTHING):
                raise CannotAttach(f"/tmp/{name} is there, and somebody else's")
            if locked(folder) and is_at(folder, name, tmp):
                try:
                    yield folder
                finally:
                    _remove_folder(folder, name, tmp)
                return
        finally:
            os.close(folder)
        if time.monotonic() > until:
            raise CannotAttach(f"another look into JVM {process.pid} has not ended yet")
        time.sleep(0.02)


def clear(folder: int) -> None:
    """Unlinks our files in an open folder of ours, and nothing else in there."""
    with os.scandir(folder) as entries:
        names = [each.name for each in islice(entries, WITHIN)]
    for name in names:
        if name.startswith(OURS_WITHIN):
            os.unlink(name, dir_fd=folder)


def sweep(tmp: int, uid: int) -> None:
    """Takes away what killed doctors have left in this /tmp, of this user."""
    with os.scandir(tmp) as entries:
        names = (each.name for each in islice(entries, NAMES))
        found = [name for name in names if name.startswith((ATTACH, AGENT))]
    for name in found[:LEFTOVERS]:
        with contextlib.suppress(OSError):
            if os.lstat(name, dir_fd=tmp).st_uid == uid:
                (_sweep_file if name.startswith(ATTACH) else _sweep_folder)(name, tmp, uid)


def _sweep_file(name: str, tmp: int, uid: int) -> None:
    with opened(name, FILE, tmp) as file:
        there = os.fstat(file)
        plain = stat.S_ISREG(there.st_mode) and there.st_uid == uid
        if plain and os.read(file, len(MARK) + 1) == MARK and locked(file):
            _unlink(file, name, tmp)


def _sweep_folder(name: str, tmp: int, uid: int) -> None:
    with opened(name, FOLDER, tmp) as folder:
        if belongs_to(os.fstat(folder), uid, forbidden=ANYTHING) and locked(folder):
            _remove_folder(folder, name, tmp)


def _unlink(file: int, name: str, tmp: int) -> None:
    if is_at(file, name, tmp):
        os.unlink(name, dir_fd=tmp)


def _remove_folder(folder: int, name: str, tmp: int) -> None:
    """By what is open. The name is taken away too if it still leads there, and it is empty."""
    with contextlib.suppress(OSError):
        clear(folder)
        if is_at(folder, name, tmp):
            os.rmdir(name, dir_fd=tmp)
