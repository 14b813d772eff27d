"""Buffers the journal, so that writing never delays the traffic.

Blocks are gathered and handed to the thread at `tick`, ten times a second, or when the buffer is
full. When nothing happens, an empty block a second says that the trace was still being watched. A
disk that hangs holds the thread and not the event loop: what waits for it is bounded, and what
comes beyond is dropped, counted and recorded by a GAP as what the disk refuses (journal_disk.py).

The two threads share a queue and counters that only one of them writes; there is no lock to wait
for.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from pulsar_doctor.parts.tap.relay.journal_disk import Chunk, JournalDisk, Time
from pulsar_doctor.parts.tap.relay.tally import note
from pulsar_doctor.trace.folder import JournalLimits, take_relay_lock
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import NO_CONNECTION, pack_block
from pulsar_doctor.wire.masking import Read

BUFFER_BYTES_MOST = 1024 * 1024
WAITING_BYTES_MOST = 16 * 1024 * 1024
BEAT_SECONDS = 1.0
CLOSE_SECONDS = 5.0

Reply = TypeVar("Reply")


class JournalFile:
    """What the relay saw, on its way to `.journal-NNNNNN.pdj` in a trace folder.

    Holds the lock of a live trace. lock_fd: it is held already, here. tally_fd: where the counts
    are left (tally.py). Raises DoctorError where another relay has the lock, OSError where the
    folder cannot be written to. Afterwards nothing is raised: what the disk refuses is counted.
    """

    def __init__(
        self,
        trace_dir: str,
        limits: JournalLimits,
        lock_fd: int | None = None,
        tally_fd: int | None = None,
    ) -> None:
        folder = Path(trace_dir)
        self._lock = take_relay_lock(folder) if lock_fd is None else lock_fd
        try:
            self._disk = JournalDisk(folder, limits)
        except OSError:
            os.close(self._lock)
            raise
        self._tally_fd = tally_fd
        self.seen = 0  # records that came; after a flush exactly written + dropped
        self.before: Callable[[], None] = lambda: None  # called first, to add what is gathered
        self._beat = 0.0
        self._ticks = self._ticks_done = 0
        self._buffer: list[bytes] = []
        self._buffer_bytes = self._buffer_records = 0
        self._buffer_at: Time = (0, 0)
        self._handed_bytes = self._done_bytes = 0
        self._dropped = 0  # records that did not even reach the thread
        self._lost = 0  # those of them that no chunk has recorded yet
        self._lost_at: Time = (0, 0)
        self._orders: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        # A disk that never answers must not keep the process: nobody waits for a daemon.
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    def __enter__(self) -> JournalFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.before()
        self._add_beat()
        self._hand_over()
        self._orders.put(self._disk.end)
        self._orders.put(None)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():  # otherwise the trace is live until the process has ended
            os.close(self._lock)

    @property
    def written(self) -> int:
        """Records that are in a file."""
        return self._disk.written

    @property
    def dropped(self) -> int:
        """Records that are not, and never will be."""
        return self._dropped + self._disk.dropped

    def add(
        self,
        records: Sequence[bytes],
        conn_id: int = NO_CONNECTION,
        direction: int = 0,
        *,
        now: Time | None = None,
    ) -> None:
        """A block of packed records. now: when they were seen, None for this moment.

        The records of a block are written together or dropped together.
        """
        if not records:
            return
        self.before()
        read = Read(*(now or moment()), conn_id, direction, Frames())
        self.add_block(records, len(records), read)

    def add_block(self, records: Sequence[bytes], count: int, read: Read) -> None:
        """A block of what was read (its frames are not looked at). count: of what is in it."""
        if not records:
            return
        self.seen += count
        self._append(records, count, read)
        if self._buffer_bytes >= BUFFER_BYTES_MOST:
            self._hand_over()

    def tick(self, now: float) -> None:
        """To be called about ten times a second. now: monotonic seconds."""
        self.before()
        if self._buffer:
            self._beat = now
        elif now - self._beat >= BEAT_SECONDS:
            self._beat = now
            self._add_beat()
        self._hand_over()
        if self._ticks == self._ticks_done:  # not another while the disk hangs
            self._ticks += 1
            self._orders.put(lambda: self._tick_disk(now))

    def flushing(self) -> Future[None]:
        """Done once everything that was seen is in the journal, or is counted as dropped."""
        self.before()
        self._hand_over()
        return self._ask(lambda: None)

    def rotating(self) -> Future[int | None]:
        """Begins the next file: the number of the one that is complete, None if it has nothing."""
        self.before()
        self._hand_over()
        return self._ask(self._disk.rotate)

    def _ask(self, question: Callable[[], Reply]) -> Future[Reply]:
        future: Future[Reply] = Future()

        def order() -> None:
            try:
                future.set_result(question())
            except Exception as error:
                future.set_exception(error)

        self._orders.put(order)
        return future

    def _add_beat(self) -> None:
        self._append([], 0, Read(*moment(), NO_CONNECTION, 0, Frames()))

    def _append(self, records: Sequence[bytes], count: int, read: Read) -> None:
        ts, mono_ns, conn_id, direction, _ = read
        block = pack_block(records, ts=ts, mono_ns=mono_ns, conn_id=conn_id, direction=direction)
        self._buffer.append(block)
        self._buffer_bytes += len(block)
        self._buffer_records += count
        self._buffer_at = ts, mono_ns

    def _hand_over(self) -> None:
        """Gives the thread what was gathered, if it has not too much already."""
        if not self._buffer and not self._lost:
            return
        blocks, size, records = self._buffer, self._buffer_bytes, self._buffer_records
        self._buffer, self._buffer_bytes, self._buffer_records = [], 0, 0
        if self._handed_bytes - self._done_bytes + size > WAITING_BYTES_MOST:
            if records:
                self._dropped += records
                self._lost += records
                self._lost_at = self._buffer_at
            return
        chunk = Chunk(blocks, records, self._buffer_at, self._lost, self._lost_at)
        self._lost = 0
        self._handed_bytes += size
        self._orders.put(lambda: self._write(chunk, size))

    # The rest is called by the thread.

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            with contextlib.suppress(Exception):  # nothing may end this thread
                order()

    def _write(self, chunk: Chunk, size: int) -> None:
        try:
            self._disk.write(chunk)
        finally:
            self._done_bytes += size
            self._note()

    def _note(self) -> None:
        if self._tally_fd is not None:
            note(self._tally_fd, self.written, self.dropped)

    def _tick_disk(self, now: float) -> None:
        self._disk.tick(now)
        self._note()
        self._ticks_done += 1


def moment() -> Time:
    """The time of now, as a journal has it."""
    return time.time_ns() // 1000, time.monotonic_ns()
