"""The journal on the disk: buffered, rotated, and never in the way of the traffic.

Blocks are gathered and written at `tick`, ten times a second, or when the buffer is full. When
nothing happens, an empty block a second says that the trace was still being watched. What cannot
be written (disk full) is dropped and counted; the first write that works again begins with a GAP.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from pulsar_doctor.columns import GAP
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.journal import FILE_HEADER, NO_CONNECTION, pack_block, pack_event
from pulsar_doctor.trace.folder import RELAY_LOCK, journal_name

NUMBERED = re.compile(r"\.?(?:journal|seg|state)-(\d+)\b")
BUFFER_BYTES_MOST = 1024 * 1024
ROTATE_RECORDS = 500_000
ROTATE_BYTES = 64 * 1024 * 1024
BEAT_SECONDS = 1.0


class JournalFile:
    """Appends blocks to `.journal-NNNNNN.pdj` in a trace folder, and begins the next in time.

    Holds the lock that says: this trace is live. Raises DoctorError where another relay has it,
    OSError where the folder cannot be written to. Afterwards nothing is raised: what the disk
    refuses is counted.
    """

    def __init__(self, trace_dir: str, rotate_seconds: float) -> None:
        self._dir = Path(trace_dir)
        self._rotate_seconds = rotate_seconds
        self._lock = os.open(self._dir / RELAY_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise DoctorError(f"another tap writes to {trace_dir}") from error
        self._number = max(self._numbers(), default=0)
        self._fd = -1
        self._buffer: list[bytes] = []
        self._buffer_bytes = self._buffer_records = 0
        self._file_bytes = self._file_records = 0
        self._since = 0.0  # monotonic seconds of the file's first record
        self._beat = 0.0
        self._dropped = 0  # records that are not written and not yet told by a GAP
        self._dropped_at = 0, 0  # when the last of them was: microseconds, monotonic nanoseconds
        try:
            self._open()
        except OSError:
            os.close(self._lock)
            raise

    def _numbers(self) -> list[int]:
        names = (NUMBERED.match(path.name) for path in self._dir.iterdir())
        return [int(name[1]) for name in names if name]

    def __enter__(self) -> JournalFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._add_beat()
        self.flush()
        self._close()
        os.close(self._lock)

    def add(
        self, records: Sequence[bytes], conn_id: int = NO_CONNECTION, direction: int = 0
    ) -> None:
        """A block of packed records, with the time of now."""
        if not records:
            return
        block = pack_block(
            records,
            ts=time.time_ns() // 1000,
            mono_ns=time.monotonic_ns(),
            conn_id=conn_id,
            direction=direction,
        )
        self._buffer.append(block)
        self._buffer_bytes += len(block)
        self._buffer_records += len(records)
        if self._buffer_bytes >= BUFFER_BYTES_MOST:
            self.flush()

    def tick(self, now: float) -> None:
        """To be called about ten times a second. now: monotonic seconds."""
        if self._buffer:
            self._beat = now
        elif now - self._beat >= BEAT_SECONDS:
            self._beat = now
            self._add_beat()
        self.flush()
        full = self._file_records >= ROTATE_RECORDS or self._file_bytes >= ROTATE_BYTES
        if self._file_records and (full or now - self._since >= self._rotate_seconds):
            self._close()
            with contextlib.suppress(OSError):  # the next write tries again, and counts
                self._open()

    def flush(self) -> None:
        """Hands everything gathered to the operating system; drops and counts what it refuses."""
        if not self._buffer:
            return
        data, records = b"".join(self._buffer), self._buffer_records
        self._buffer, self._buffer_bytes, self._buffer_records = [], 0, 0
        if self._dropped:
            gap = pack_event(GAP, dropped=self._dropped)
            ts, mono_ns = self._dropped_at
            data = pack_block([gap], ts=ts, mono_ns=mono_ns) + data
        try:
            self._write(data)
        except OSError:
            if records:
                self._dropped += records
                self._dropped_at = time.time_ns() // 1000, time.monotonic_ns()
            return
        if not self._file_records:
            self._since = time.monotonic()
        self._file_records += records + bool(self._dropped)
        self._dropped = 0

    def _write(self, data: bytes) -> None:
        if self._fd < 0:
            self._open()
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
            self._close()

    def _add_beat(self) -> None:
        self._buffer.append(pack_block([], ts=time.time_ns() // 1000, mono_ns=time.monotonic_ns()))

    def _open(self) -> None:
        """Begins the next file, which is there with its whole header or not at all."""
        name = self._dir / journal_name(self._number + 1)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            if os.write(fd, FILE_HEADER) != len(FILE_HEADER):
                raise OSError(f"{name} cannot be begun")
        except OSError:
            os.close(fd)
            name.unlink(missing_ok=True)
            raise
        self._number += 1
        self._fd = fd
        self._file_bytes, self._file_records = len(FILE_HEADER), 0

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        self._file_records = 0
        if fd >= 0:
            with contextlib.suppress(OSError):  # what was written stays written
                os.close(fd)
