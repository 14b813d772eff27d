"""Reads a journal while it grows or after a crash, and skips what is damaged.

Where a block is not sound, reading continues at the next one that is. What lies between is counted,
and a row GAP represents it, with no number: nobody knows how many commands it hides. What is
missing at the end is counted too: half a block where the relay was killed, or more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.folder import is_at, journal_name, open_regular
from pulsar_doctor.trace.missing import Loss, loss_of, nothing_before
from pulsar_doctor.wire.columns import GAP, OURS, Row
from pulsar_doctor.wire.commands import rows_of, set_aside
from pulsar_doctor.wire.journal import (
    FILE_HEADER,
    MAGIC,
    Block,
    check_header,
    next_block,
    read_blocks,
)

READ_BYTES = 1 << 20
BLOCK_BYTES_MOST = 1 << 29  # no frame that a broker takes is as large
SOUGHT_BYTES_MOST = 1 << 24  # of a block that is looked for behind damage
SKIPPED_BYTES_MOST = 1 << 28  # at one place: no journal of ours is as large


class Journal:
    """One journal, read from its start. Raises FileNotFoundError where it is not there.

    after: the part before it that was read or sealed; if that is not number - 1, a GAP comes first.
    """

    def __init__(self, folder: Path, number: int, *, after: int) -> None:
        self.number = number
        self.path = folder / journal_name(number)
        # Rows that were a GAP; commands that these say are missing; bytes between sound blocks.
        self.gaps = self.dropped = self.skipped_bytes = 0
        self._file = open_regular(self.path)
        self._position = 0  # behind the last whole block
        self._broken = False  # what lies there is not the beginning of a block
        self._out_of_order = False  # blocks, as where some are there twice
        self.follows = number == after + 1  # whether the part before is known
        self._missing_before = not self.follows

    def rows(self, timeline: Timeline, *, over: bool = False) -> Iterator[Row]:
        """What it has gained since the last call, with the ledgers that `timeline` keeps.

        over: nothing will be added to it, so half a block is not the beginning of a whole one.
        """
        for block in self._blocks(timeline, over):
            if block is None:
                yield self._gap(timeline)
                continue
            if self._missing_before:
                self._missing_before = False
                timeline.pass_time(block.ts, block.mono_ns)
                yield self._gap(timeline)
            if block.mono_ns < timeline.now_ns:
                self._out_of_order |= any(row.command != GAP for row in rows_of(block))
                timeline.incomplete |= self._out_of_order
            if not block.parts:
                timeline.pass_time(block.ts, block.mono_ns)
            for row in rows_of(block):
                if row.conn_id is None and row.command == GAP:
                    self.gaps += 1
                    timeline.incomplete = True
                    self.dropped += row.dropped or 0
                try:
                    yield timeline.apply(row)
                except Exception as error:
                    timeline.next_seq = row.seq
                    yield timeline.apply(set_aside(row, error))

    def last_rows(self, timeline: Timeline, *, followed: bool, over: bool = True) -> Iterator[Row]:
        """What it has still gained, now that it is complete, and a GAP if some of it is lost.

        followed: whether there is a journal after it. over: see `rows`.
        """
        yield from self.rows(timeline, over=over)
        timeline.incomplete |= over and self.unread_bytes > 0
        if followed and self.unread_bytes:
            yield self._gap(timeline)

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    @property
    def unread_bytes(self) -> int:
        """Bytes at its end that were not read, or could not be, so far."""
        return os.fstat(self._file.fileno()).st_size - self._position

    @property
    def cut_bytes(self) -> int:
        """Bytes that could not be read, once it is complete."""
        return self.skipped_bytes + self.unread_bytes

    @property
    def damaged(self) -> bool:
        """Whether more is wrong with it than that its end is missing."""
        return self._broken or self._out_of_order or self.skipped_bytes > 0

    @property
    def lossy(self) -> bool:
        """Whether something is missing from what was read of it, or of what lay before."""
        return self.damaged or self.gaps > 0 or not self.follows

    def losses(self, *, over: bool) -> Iterator[Loss]:
        """What could not be read of it, or of what lay before. over: see `rows`."""
        if not self.follows:
            yield nothing_before(self.number)
        if self.damaged or (over and self.cut_bytes):
            yield loss_of(self.path.name, self.cut_bytes, damaged=self.damaged)

    def _blocks(self, timeline: Timeline, over: bool) -> Iterator[Block | None]:
        """Whole blocks; None where something is lost between two."""
        if not self._position and not self._begin():
            if not (self._broken and self._skip(timeline.now_ns)):
                return
            yield None
        room = READ_BYTES
        while data := self._read(self._position, room):
            before, self._broken = self._position, False
            try:
                for block, end in read_blocks(data):
                    self._position = before + end
                    yield block
            except TraceError:
                self._broken = self._read(before, room) == data  # it was not just being written
            if self._position > before:
                continue
            if not self._broken and len(data) == room and room < BLOCK_BYTES_MOST:
                room *= 2  # a block that is longer
                continue
            self._broken |= len(data) == room
            if not (self._broken or over) or not self._skip(timeline.now_ns):
                return
            yield None

    def _skip(self, after_ns: int) -> bool:
        """Continues at the next sound block; False where there is none."""
        at = self._position + 1
        until = at + SKIPPED_BYTES_MOST
        while at < until and (data := self._read(at, 2 * SOUGHT_BYTES_MOST)):
            found = next_block(data, after_ns)
            if found is not None:
                self.skipped_bytes += at + found - self._position
                self._position = at + found
                return True
            at += SOUGHT_BYTES_MOST
        return False

    def _begin(self) -> bool:
        data = self._read(0, len(FILE_HEADER))
        try:
            begun = check_header(data)
        except TraceError as error:
            if data.startswith(MAGIC):  # a newer version: nothing is wrong with it
                raise TraceError(f"{self.path}: {error}") from None
            self._broken = True
            return False
        if begun:
            self._position = len(FILE_HEADER)
        return begun

    def _read(self, at: int, room: int) -> bytes:
        if not is_at(self._file.fileno(), self.path):
            self._follow_the_name()
        # Half a block is read again when there is more: a relay with a full disk takes it back.
        self._file.seek(at)
        return self._file.read(room) or b""

    def _follow_the_name(self) -> None:
        """The file was deleted: its relay continues in one of the same name and content."""
        try:
            file = open_regular(self.path)
        except (OSError, TraceError):
            return  # what it had so far can still be read
        if os.fstat(file.fileno()).st_size < os.fstat(self._file.fileno()).st_size:
            file.close()  # not all of it is there yet
            return
        self._file.close()
        self._file = file

    def _gap(self, timeline: Timeline) -> Row:
        self.gaps += 1
        timeline.incomplete = True
        row = Row()
        row.command, row.command_code = GAP, OURS
        row.ts, row.mono_ns = timeline.now_us, timeline.now_ns
        return timeline.apply(row)
