"""Turns journals into segments, also after a crash.

A journal is complete when the next one is there or the relay has ended. Sealing it is a sequence of
steps, and what each leaves is a folder from which sealing can start again with the same result: a
segment bears its journal's number, and the ledgers before it stay until its line is in the list.

1. write .seg-N.parquet.tmp      a crash: it is written again
2. rename it to seg-N.parquet    a crash: it is written again, with the same rows
3. write .state-N                a crash: it is written again, from .state-(N-1)
4. add the line of N             from here on N is sealed
5. delete the older .state-*     a crash: whoever seals next deletes them; a ring keeps its own
6. delete the journal            in the same way; last, since a journal is what calls for sealing

Without a .state file (a trace that was copied) the ledgers are rebuilt from the sealed rows. Then a
ring drops what is too old; see ring.py.

A disk that refuses (full, read-only) ends nothing: the journal is kept, and sealing begins anew
from it a while later, up to half a minute. Rows that were passed on
before are not passed on again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace import folder
from pulsar_doctor.trace.index import Part, append_part, read_index
from pulsar_doctor.trace.journals import Journal
from pulsar_doctor.trace.missing import sealed_missing
from pulsar_doctor.trace.reading import SayNote, Trace, ledgers_at
from pulsar_doctor.trace.ring import Ring
from pulsar_doctor.trace.segments import SegmentWriter, sha256_of
from pulsar_doctor.wire.columns import Row


def open_trace(path: Path, say: SayNote = lambda _: None, *, proven_only: bool = False) -> Trace:
    """A trace to read. Seals first what a crash left; a live trace is left alone.

    say, proven_only: see Trace. Raises TraceError where the folder is no trace, is damaged, or
    needs a newer program.
    """
    trace = Trace(path, say, proven_only=proven_only)
    if folder.journals(path) and not trace.live:
        try:
            with Sealer(path) as sealer:
                sealer.finish()
            trace.sealed()
        except BeingSealedError:
            pass  # an observer does it: until then it reads like a live one
        except OSError as error:
            trace.note(f"what a crash left of {path} could not be sealed: {error.strerror}")
    return trace


class BeingSealedError(TraceError):
    """Another process has the right to seal this trace."""


LEFT_OVER = (".seg-*.parquet.tmp", ".state-*.tmp", "._segments.jsonl.tmp")
RETRY_SECONDS = 1.0
RETRY_SECONDS_MOST = 30.0


class Sealer:
    """Seals the journals of one trace in order; has the right to do so until it is closed.

    on_row: called with every row that is read from a journal, once; after a restart those of the
    journals that are not sealed come again; it must not change the row. wait_seconds: for the right
    to seal. Raises BeingSealedError where another process has it for longer.
    """

    def __init__(
        self, path: Path, on_row: Callable[[Row], object] | None = None, wait_seconds: float = 0.0
    ) -> None:
        self.path = path
        self.row_count = 0  # that were read
        self.trouble: str | None = None  # why the disk refuses; None: it does not
        self._meta = folder.read_meta(path)
        lock = folder.take_seal_lock(path, wait_seconds)
        if lock is None:
            raise BeingSealedError(f"another process is sealing {path}")
        self._lock = lock
        self._on_row = on_row
        self._passed_on = 0  # rows with a lower number have been passed on
        self._journal: Journal | None = None
        self._writer: SegmentWriter | None = None
        self._again = self._pause = 0.0
        try:
            self._begin()
            self._passed_on = self.timeline.next_seq
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Begins behind what is sealed."""
        self.ring = Ring.of(self.path)  # None: the trace keeps everything
        index = read_index(self.path) if self.ring is None else self.ring.index
        self.sealed = index.through  # the last part that is; 0 before the first
        self.timeline = ledgers_at(self.path, self._meta, index)  # after the last row that was read
        self._sweep_left_over()
        self._sweep_journals()

    def __enter__(self) -> Sealer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives up the right to seal. What is not sealed stays in its journal."""
        self._let_go()
        self._lock.close()

    @property
    def expired_rows(self) -> int:
        """Rows that a ring has dropped."""
        return 0 if self.ring is None else self.ring.index.expired.rows

    @property
    def unread_bytes(self) -> int:
        """Bytes of the journals that have not been read yet."""
        at, unread = self._journal, 0
        for number in self._waiting():
            if at is not None and number == at.number:
                unread += at.unread_bytes
            else:
                with suppress(OSError):  # somebody removed it
                    unread += (self.path / folder.journal_name(number)).stat().st_size
        return unread

    def follow(self) -> int:
        """Reads what the journals have gained and seals those that are complete; rows read.

        Where the disk refuses, `trouble` says why, and a later call begins anew.
        """
        before = self.row_count
        if self.trouble is not None and time.monotonic() < self._again:
            return 0
        try:
            with self._beginning_anew():
                while waiting := self._waiting():
                    if len(waiting) == 1:
                        journal = self._open(waiting[0])
                        self._take(journal.number, journal.rows(self.timeline))
                        break
                    self._seal(waiting)
                self._expire()
        except OSError:
            pass
        return self.row_count - before

    def finish(self) -> int:
        """Reads and seals everything; to be called once the relay has ended. Rows read.

        Raises OSError where the disk refuses: the journals stay, whoever comes next seals them.
        """
        before = self.row_count
        with self._beginning_anew():
            while waiting := self._waiting():
                self._seal(waiting)
        return self.row_count - before

    def keep(self, reason: str, through: int) -> Path | None:
        """Keeps what the ring holds, as a trace of its own; where, or None: it is too early.

        through: the last part that must be in it, as the relay's `rotate` named it; it is too early
        until that is sealed. reason: a few words without secrets. A trace that is no ring keeps
        everything anyway. Raises OSError where the disk refuses.
        """
        if self.sealed < through:
            return None
        return self.path if self.ring is None else self.ring.keep(reason, self.sealed)

    def sealing_steps(self, waiting: list[int]) -> Iterator[int]:
        """Seals the first of these journals, step by step as numbered on top of this file."""
        journal = self._open(waiting[0])
        rows = journal.last_rows(self.timeline, followed=len(waiting) > 1)
        self._take(journal.number, rows)
        writer = self._writer
        if writer is not None:
            writer.close()
            yield 1
            if not writer.left_out:
                folder.put_in_place(writer.path, self.path / folder.segment_name(journal.number))
            elif self.ring is not None:
                writer.abandon()
                self.ring.begin_part()
            yield 2
        self._save_ledgers(journal.number)
        yield 3
        self._list(self._part(journal, writer), writer)
        self._writer = None
        yield 4
        self._sweep_left_over()
        yield 5
        journal.close()
        self._journal = None
        self._sweep_journals()
        yield 6

    @contextmanager
    def _beginning_anew(self) -> Iterator[None]:
        """Begins anew where the disk refused before, and gets ready for that where it does now."""
        shown = self.timeline
        try:
            if self.trouble is not None:
                self._begin()
            yield
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._pause = min(2 * self._pause or RETRY_SECONDS, RETRY_SECONDS_MOST)
            self._again = time.monotonic() + self._pause
            if self.timeline.next_seq < shown.next_seq:
                self.timeline = shown
            with suppress(OSError):
                self._let_go()
            raise
        self.trouble, self._pause = None, 0.0

    def _let_go(self) -> None:
        journal, self._journal = self._journal, None
        writer, self._writer = self._writer, None
        if journal is not None:
            journal.close()
        if writer is not None:
            writer.abandon()

    def _save_ledgers(self, number: int) -> None:
        content = folder.state_bytes(self.timeline.state())
        if self.ring is None or self.ring.has_room_for_ledgers(len(content)):
            folder.write_file(self.path / folder.state_name(number), content)

    def _list(self, part: Part, writer: SegmentWriter | None) -> None:
        """From here on this part is sealed, or has expired at once: it is larger than its ring."""
        if writer is not None and writer.left_out and self.ring is not None:
            self.ring.drop_with(part)
        else:
            append_part(self.path, part)
            if self.ring is not None:
                self.ring.add(part)
        self.sealed = part.number

    def _expire(self) -> None:
        if self.ring is None:
            return
        self.ring.expire(self.timeline.now_ns)
        if self.timeline.incomplete:  # what was missing may have expired with the rest
            sealed = sealed_missing(self.ring.index, self.timeline.set_aside)
            journal = self._journal
            self.timeline.incomplete = sealed.is_loss or (journal is not None and journal.lossy)

    def _waiting(self) -> list[int]:
        return [number for number in folder.journals(self.path) if number > self.sealed]

    def _open(self, number: int) -> Journal:
        if self._journal is None:
            self._journal = Journal(self.path, number, after=self.sealed)
        return self._journal

    def _seal(self, waiting: list[int]) -> None:
        for _ in self.sealing_steps(waiting):
            pass
        self._expire()

    def _take(self, number: int, rows: Iterator[Row]) -> None:
        writer = self._writer
        for row in rows:
            if writer is None:
                writer = self._writer = self._writer_of(number)
            writer.add(row)
            if row.seq < self._passed_on:
                continue
            self._passed_on = row.seq + 1
            self.row_count += 1
            if self._on_row is not None:
                self._on_row(row)

    def _writer_of(self, number: int) -> SegmentWriter:
        temporary = self.path / f".{folder.segment_name(number)}.tmp"
        if self.ring is None:
            return SegmentWriter(temporary)
        self.ring.begin_part()
        return SegmentWriter(temporary, self.ring.make_room)

    def _part(self, journal: Journal, writer: SegmentWriter | None) -> Part:
        rows = 0 if writer is None else writer.row_count
        name = None
        if writer is not None and not writer.left_out:
            name = folder.segment_name(journal.number)
        segment = self.path / name if name else None
        return Part(
            number=journal.number,
            name=name,
            rows=rows,
            first_seq=self.timeline.next_seq - rows if rows else None,
            last_seq=self.timeline.next_seq - 1 if rows else None,
            bytes=segment.stat().st_size if segment else 0,
            sha256=sha256_of(segment) if segment else None,
            until_us=self.timeline.now_us,
            until_ns=self.timeline.now_ns,
            cut_bytes=journal.cut_bytes,
            damaged=journal.damaged,
            gaps=journal.gaps,
            dropped=journal.dropped,
            first_us=writer.first_us if writer is not None else None,
            last_us=writer.last_us if writer is not None else None,
        )

    def _sweep_left_over(self) -> None:
        """Removes what the sealed parts need no more, and what a crash left half done."""
        for pattern in LEFT_OVER:
            folder.remove(self.path, pattern, range(self.sealed + 1))  # the list's has no number
        if self.ring is not None:
            self.ring.sweep()
        else:
            folder.remove(self.path, ".state-*[0-9]", range(1, self.sealed))

    def _sweep_journals(self) -> None:
        folder.remove(self.path, ".journal-*.pdj", range(1, self.sealed + 1))
