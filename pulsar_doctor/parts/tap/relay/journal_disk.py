"""Writes, rotates and limits the journal's files in a thread.

What cannot be written, because the disk refuses it or a limit is reached, is dropped and counted;
the first write that works again begins with a GAP. A block is in the file wholly or not at all.

A file that somebody deletes or moves away while it is written to is put back, as long as it is open
its content is there; where that fails its records count as dropped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pulsar_doctor.trace.folder import (
    JournalLimits,
    is_at,
    journal_name,
    journals,
    names_in,
)
from pulsar_doctor.wire.columns import GAP
from pulsar_doctor.wire.journal import FILE_HEADER, pack_block, pack_event

NUMBERED = re.compile(r"\.?(?:journal|seg|state)-(\d+)\b")
ROTATE_RECORDS = 500_000
LOOK_SECONDS = 1.0
COPY_BYTES = 1024 * 1024
NEAR_BYTES = 16 * 1024 * 1024  # where a limit is as near as this, each write checks first

Time = tuple[int, int]  # microseconds since 1970, monotonic nanoseconds


class Chunk(NamedTuple):
    """Blocks to be written, and what was lost before them."""

    blocks: Sequence[bytes]
    records: int
    at: Time  # of the last block
    lost: int = 0  # records that had no room on the way to the disk
    lost_at: Time = (0, 0)  # of the last of these


class Room:
    """How much may still be written: what lies in the folder is looked up now and then."""

    def __init__(self, folder: Path, limits: JournalLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._left = 0
        self._looked = -LOOK_SECONDS

    def take(self, size: int) -> None:
        """Sets so many bytes aside; OSError where they are not there."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS or self._left - size < NEAR_BYTES:
            self._left = self._look()
            self._looked = now
        if size > self._left:
            raise OSError(errno.EDQUOT, "the trace may not become longer")
        self._left -= size

    def _look(self) -> int:
        unsealed = 0
        for number in journals(self._folder):
            with contextlib.suppress(FileNotFoundError):  # sealed and deleted just now
                unsealed += (self._folder / journal_name(number)).lstat().st_size
        return self._limits.journal_bytes_most - unsealed


class JournalDisk:
    """Appends blocks to `.journal-NNNNNN.pdj` in a trace folder, and begins the next in time.

    Raises OSError where the folder cannot be written to at the start; afterwards nothing is raised.
    """

    def __init__(self, folder: Path, limits: JournalLimits) -> None:
        self.written = 0  # records
        self.dropped = 0  # records
        self._dir = folder
        self._limits = limits
        self._room = Room(folder, limits)
        found = map(NUMBERED.match, names_in(folder))
        self._number = max((int(name[1]) for name in found if name), default=0)
        self._fd = -1
        self._file_bytes = self._file_records = 0
        self._file_written = 0  # of them, those that count as written
        self._since = 0.0  # monotonic seconds of the file's first record
        self._lost = 0  # records that are not written and not yet recorded by a GAP
        self._lost_at: Time = (0, 0)
        try:
            self._open()
        except OSError as error:
            if error.errno != errno.EDQUOT:  # a limit of ours: room may come
                raise

    def write(self, chunk: Chunk) -> None:
        """Appends it, behind a GAP if something is missing before it; or drops and counts it."""
        if chunk.lost:
            self._lost += chunk.lost
            self._lost_at = chunk.lost_at
        self._see_to_it()
        try:
            self._append(b"".join((self._gap(), *chunk.blocks)))
        except Exception:  # whatever it is, it is the journal's trouble and not the traffic's
            if chunk.records:
                self.dropped += chunk.records
                self._lost += chunk.records
                self._lost_at = chunk.at
            return
        if not self._file_records:
            self._since = time.monotonic()
        self._file_records += chunk.records + bool(self._lost)
        self._lost = 0
        self.written += chunk.records
        self._file_written += chunk.records
        if self._file_records >= ROTATE_RECORDS or self._file_bytes >= self._limits.rotate_bytes:
            self.rotate()

    def tick(self, now: float) -> None:
        """Begins the next file when it is time. now: monotonic seconds."""
        if self._file_records and now - self._since >= self._limits.rotate_seconds:
            self.rotate()

    def rotate(self) -> int | None:
        """Begins the next file; the number of the one that is complete, None if it has nothing."""
        if not self._file_records:
            return None
        self._see_to_it()
        complete = self._number
        self.close()
        with contextlib.suppress(OSError):  # the next write tries again, and counts
            self._open()
        return complete

    def end(self) -> None:
        """Ends the last file; records what is missing though a limit of ours has been reached."""
        self._see_to_it()
        if self._lost:
            with contextlib.suppress(OSError):  # a disk that is full takes not even that
                self._append(self._gap(), limited=False)
        self.close()

    def close(self) -> None:
        """Ends the file."""
        fd, self._fd = self._fd, -1
        self._file_records = self._file_written = 0
        if fd >= 0:
            with contextlib.suppress(OSError):  # what was written stays written
                os.close(fd)

    def _gap(self) -> bytes:
        if not self._lost:
            return b""
        ts, mono_ns = self._lost_at
        return pack_block([pack_event(GAP, dropped=self._lost)], ts=ts, mono_ns=mono_ns)

    def _append(self, data: bytes, *, limited: bool = True) -> None:
        if not data:
            return
        if self._fd < 0:
            self._open()
        if limited:
            self._room.take(len(data))
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            self._take_back()
            raise
        self._file_bytes += len(data)

    def _take_back(self) -> None:
        """Cuts the file to whole blocks; where even that fails, the next one begins a new file."""
        try:
            os.ftruncate(self._fd, self._file_bytes)
        except OSError:
            self.close()

    def _see_to_it(self) -> None:
        """Puts the file back where it is no longer in the folder, or counts what is lost."""
        if self._fd < 0 or is_at(self._fd, self._dir / journal_name(self._number)):
            return
        content = os.dup(self._fd)
        try:
            self._room.take(self._file_bytes)
            fd = self._begin(self._number, content)
        except OSError:
            self.written -= self._file_written
            self.dropped += self._file_written
            self._lost += self._file_written
            self._lost_at = time.time_ns() // 1000, time.monotonic_ns()
            self.close()
        else:
            os.close(self._fd)
            self._fd = fd
        finally:
            os.close(content)

    def _open(self) -> None:
        """Begins the next file."""
        self._room.take(len(FILE_HEADER))
        self._fd = self._begin(self._number + 1)
        self._number += 1
        self._file_bytes = len(FILE_HEADER)
        self._file_records = self._file_written = 0

    def _begin(self, number: int, content: int | None = None) -> int:
        """A file that is there with its whole header, or all of `content`, or not at all."""
        name = self._dir / journal_name(number)
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            if content is not None:
                self._copy(content, fd)
            elif os.write(fd, FILE_HEADER) != len(FILE_HEADER):
                raise OSError(f"{name} cannot be begun")
        except OSError:
            os.close(fd)
            name.unlink(missing_ok=True)
            raise
        return fd

    def _copy(self, content: int, fd: int) -> None:
        at = 0
        while at < self._file_bytes:
            piece = os.pread(content, min(COPY_BYTES, self._file_bytes - at), at)
            if not piece or os.write(fd, piece) != len(piece):
                raise OSError("the journal cannot be put back")
            at += len(piece)
