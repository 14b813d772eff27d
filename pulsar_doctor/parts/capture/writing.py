"""Writes a capture as a trace: masks commands, writes a journal, and seals it.

The only file of this room that touches a disk. The times are those of the packets; where rows had
to wait for others, they have the time at which they could be written, so that time never runs back.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.tap.relay.journal_disk import Chunk, JournalDisk
from pulsar_doctor.trace import ring
from pulsar_doctor.trace.folder import REDACTION, Meta, take_relay_lock
from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import DIRECTIONS, NO_CONNECTION, pack_block, pack_event
from pulsar_doctor.wire.masking import Mask

BUFFER_BYTES_MOST = 256 * 1024
SEAL_BYTES = 64 << 20  # of journal, between two checks of what can be sealed
FOR_EVER_NS = 1 << 62


class TraceWriter:
    """A trace of a capture; a context manager: at its end the trace is complete.

    limits: of a ring, and when the next segment begins, on the clock of the packets. seals: if not,
    an observer does, and what the disk refuses becomes a GAP, as in a tap. Raises InputError for
    a folder that cannot be used, DoctorError where the disk refuses and nobody else would know.
    """

    def __init__(
        self,
        folder: Path,
        capture: Mapping[str, Any],
        limits: RingLimits | None = None,
        *,
        seals: bool = True,
    ) -> None:
        self.written = 0  # rows; without any, nothing is left behind
        limits = limits or RingLimits()
        self._meta = Meta(trace_id=uuid.uuid4().hex, redaction=REDACTION, capture=dict(capture))
        self._folder = folder
        self._made = [each for each in (folder, *folder.parents) if not each.exists()]
        try:
            self._meta.begin(folder, "capture")
            if limits.bounded:
                ring.begin(folder, limits)
            self._lock = take_relay_lock(folder)
            self._disk = JournalDisk(folder, limits)
        except OSError as error:
            raise InputError(f"cannot write a trace to {folder}: {error.strerror}") from error
        self._mask = Mask(secrets.token_bytes(16))
        self._sealer = Sealer(folder) if seals else None
        self._seal_bytes = min(SEAL_BYTES, limits.rotate_bytes)
        in_time = limits.bounded or not seals
        self._rotate_ns = round(limits.rotate_seconds * 1e9) if in_time else FOR_EVER_NS
        self._rotated_ns: int | None = None
        self._complete = 0
        self._buffer: list[bytes] = []
        self._buffer_bytes = self._unsealed_bytes = self._buffer_rows = 0
        self._now_ns = 0
        self._closed = False

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
        if not self.written:
            self._take_away()

    def _take_away(self) -> None:
        """The folder was empty or not there, and is so again."""
        with contextlib.suppress(OSError):
            for each in self._folder.iterdir():
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
            for folder in self._made:
                folder.rmdir()

    def close(self) -> None:
        """Ends the trace; safe to be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._disk.end()
            os.close(self._lock)
            if self._sealer is not None:
                with self._sealer as sealer:
                    sealer.finish()

    @property
    def dropped(self) -> int:
        """Rows that the disk, or a limit, refused."""
        return self._disk.dropped

    def rotate(self) -> int:
        """Begins the next part of the trace; the number of the last one that is complete."""
        self.flush()
        self._complete = self._disk.rotate() or self._complete
        return self._complete

    def tell(self, capture: Mapping[str, Any]) -> None:
        """What _meta.json says of the capture, now that it is known."""
        replace(self._meta, capture=dict(capture)).write(self._folder)

    def event(
        self, conn_id: int, command: str, now_ns: int, way: int | None = None, **columns: object
    ) -> None:
        """See CaptureListener."""
        if way is not None:
            columns = {"direction": DIRECTIONS[way], **columns}
        self._add([pack_event(command, **columns)], 1, conn_id, way or 0, now_ns)

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there, masked."""
        self._add(self._mask.pack_all(frames), len(frames), conn_id, direction, now_ns)

    def flush(self) -> None:
        """Puts on the disk what has been passed on so far."""
        if not self._buffer:
            return
        blocks, size, rows = self._buffer, self._buffer_bytes, self._buffer_rows
        self._buffer, self._buffer_bytes, self._buffer_rows = [], 0, 0
        self._disk.write(Chunk(blocks, rows, (self._now_ns // 1000, self._now_ns)))
        is_old = self._now_ns - (self._rotated_ns or 0) >= self._rotate_ns
        if is_old:
            self._rotated_ns = self._now_ns
            self._complete = self._disk.rotate() or self._complete
        if self._sealer is None:
            return
        if self._disk.dropped:
            raise DoctorError(
                f"{self._folder} takes no more: the disk is full or refuses; "
                "what was written before can be read"
            )
        self._unsealed_bytes += size
        if self._unsealed_bytes >= self._seal_bytes or is_old:
            self._unsealed_bytes = 0
            self._sealer.follow()

    def pass_time(self, now_ns: int) -> None:
        """Records that time passed and nothing else happened, for whoever reads the trace."""
        self._add([], 0, NO_CONNECTION, 0, now_ns)

    def _add(
        self, records: Sequence[bytes], rows: int, conn_id: int, direction: int, now_ns: int
    ) -> None:
        self._now_ns = max(self._now_ns, now_ns)
        if self._rotated_ns is None:
            self._rotated_ns = self._now_ns
        self.written += rows
        self._buffer_rows += rows
        block = pack_block(
            records,
            ts=self._now_ns // 1000,
            mono_ns=self._now_ns,
            conn_id=conn_id,
            direction=direction,
        )
        self._buffer.append(block)
        self._buffer_bytes += len(block)
        is_old = self._now_ns - self._rotated_ns >= self._rotate_ns
        if is_old or self._buffer_bytes >= BUFFER_BYTES_MOST:
            self.flush()
