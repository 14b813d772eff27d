"""Reads a journal: while it grows, as far as whole blocks are there, and after a crash likewise.

What cannot be read of it, because its end is missing or a checksum does not agree, is counted. If
more came after that, the ledgers behind it cannot be certain: a row GAP says so, with no number,
since nobody knows how many commands it hides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.folder import is_at, journal_name, open_regular
from pulsar_doctor.wire.columns import GAP, OURS, Row
from pulsar_doctor.wire.commands import rows_of, set_aside
from pulsar_doctor.wire.journal import FILE_HEADER, MAGIC, Block, check_header, read_blocks

READ_BYTES = 1 << 20
BLOCK_BYTES_MOST = 1 << 29  # no frame that a broker takes is as large


class Journal:
    """One journal, read from its start. Raises FileNotFoundError where it is not there.

    after: the part before it that was read or sealed; if that is not the one before, a GAP comes
    first. gaps, dropped: how many rows were a GAP so far, and how many commands these say are
    missing.
    """

    def __init__(self, folder: Path, number: int, *, after: int) -> None:
        self.number = number
        self.path = folder / journal_name(number)
        self.damaged = False
        self.gaps = self.dropped = 0
        self._file = open_regular(self.path)
        self._position = 0  # behind the last whole block
        self._missing_before = number != after + 1

    def rows(self, timeline: Timeline) -> Iterator[Row]:
        """What it has gained since the last call, with the ledgers that `timeline` keeps."""
        for block in self._blocks():
            if self._missing_before:
                self._missing_before = False
                timeline.pass_time(block.ts, block.mono_ns)
                yield self._gap(timeline)
            if not block.parts:
                timeline.pass_time(block.ts, block.mono_ns)
            for row in rows_of(block):
                if row.conn_id is None and row.command == GAP:
                    self.gaps += 1
                    self.dropped += row.dropped or 0
                try:
                    yield timeline.apply(row)
                except Exception as error:
                    timeline.next_seq = row.seq
                    yield timeline.apply(set_aside(row, error))

    def last_rows(self, timeline: Timeline, *, followed: bool) -> Iterator[Row]:
        """What it has still gained, now that it is complete, and a GAP if some of it is lost.

        followed: whether there is a journal after it.
        """
        yield from self.rows(timeline)
        if followed and self.cut_bytes:
            yield self._gap(timeline)

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    @property
    def cut_bytes(self) -> int:
        """Bytes at its end that could not be read, so far."""
        return os.fstat(self._file.fileno()).st_size - self._position

    def _blocks(self) -> Iterator[Block]:
        if not self._position and not self._begin():
            return
        room = READ_BYTES
        while data := self._read(room):
            self.damaged = False
            before = self._position
            try:
                for block, end in read_blocks(data):
                    self._position = before + end
                    yield block
            except TraceError:
                self.damaged = True
                return
            if self._position == before:
                if len(data) < room:
                    return
                room *= 2  # a block that is longer
                if room > BLOCK_BYTES_MOST:
                    self.damaged = True
                    return

    def _begin(self) -> bool:
        data = self._read(len(FILE_HEADER))
        try:
            begun = check_header(data)
        except TraceError as error:
            if data.startswith(MAGIC):  # a newer version: nothing is wrong with it
                raise TraceError(f"{self.path}: {error}") from None
            self.damaged = True
            return False
        if begun:
            self._position = len(FILE_HEADER)
        return begun

    def _read(self, room: int) -> bytes:
        if not is_at(self._file.fileno(), self.path):
            self._follow_the_name()
        # Half a block is read again when there is more: a relay whose disk is full takes it back.
        self._file.seek(self._position)
        return self._file.read(room) or b""

    def _follow_the_name(self) -> None:
        """The file was deleted: its relay goes on in one of the same name and content."""
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
        row = Row()
        row.command, row.command_code = GAP, OURS
        row.ts, row.mono_ns = timeline.now_us, timeline.now_ns
        return timeline.apply(row)
