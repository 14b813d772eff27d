"""Turns journals into segments, as the observer goes along and for whoever finds a dead trace.

A journal is complete when the next one is there or the relay has ended. Sealing it is a sequence of
steps, and what each leaves is a folder from which sealing can start again with the same result: a
segment bears its journal's number, and the ledgers before it stay until its line is in the list.

1. write .seg-N.parquet.tmp      a crash: it is written again
2. rename it to seg-N.parquet    a crash: it is written again, with the same rows
3. write .state-N                a crash: likewise, from .state-(N-1)
4. add the line of N             from here on N is sealed
5. delete the older .state-*     a crash: whoever seals next deletes them
6. delete the journal            likewise; last, since a journal is what calls for sealing

Without a .state file (a trace that was copied) the ledgers are rebuilt from the sealed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pulsar_doctor.columns import Row
from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace import folder
from pulsar_doctor.trace.folder import Part
from pulsar_doctor.trace.journals import Journal
from pulsar_doctor.trace.reading import Trace, timeline_at
from pulsar_doctor.trace.segments import SegmentWriter, sha256_of


def open_trace(path: Path) -> Trace:
    """A trace to read. Seals first what a crash left; a live trace is left alone.

    Raises TraceError where the folder is no trace, is damaged, or needs a newer program.
    """
    trace = Trace(path)
    if folder.journals(path) and not trace.live:
        try:
            with Sealer(path) as sealer:
                sealer.finish()
        except BeingSealedError:
            pass  # an observer does it: until then it reads like a live one
        except OSError as error:
            trace.notes.append(f"what a crash left of {path} could not be sealed: {error.strerror}")
    return trace


class BeingSealedError(TraceError):
    """Another process has the right to seal this trace."""


# What may go once a part is sealed: pattern -> how many of the last parts still need theirs.
LEFT_OVER = {".seg-*.parquet.tmp": 0, ".state-*.tmp": 0, ".state-*[0-9]": 1}
JOURNALS = {".journal-*.pdj": 0}


class Sealer:
    """Seals the journals of one trace in order; has the right to do so until it is closed.

    timeline: the ledgers after the last row that was read. on_row: called with every row that is
    read from a journal; after a restart those of the journals that are not sealed come again.
    After an exception the place in the journal is lost: close it and make a new one.
    """

    def __init__(
        self, path: Path, on_row: Callable[[Row], object] | None = None, wait_seconds: float = 0.0
    ) -> None:
        self.path = path
        self.row_count = 0
        meta = folder.read_meta(path)
        lock = folder.take_seal_lock(path, wait_seconds)
        if lock is None:
            raise BeingSealedError(f"another process is sealing {path}")
        self._lock = lock
        self._on_row = on_row
        self._journal: Journal | None = None
        self._writer: SegmentWriter | None = None
        try:
            parts = folder.read_parts(path)
            self._sealed = parts[-1].number if parts else 0
            state = folder.read_state(path, self._sealed)
            self.timeline = timeline_at(path, meta, parts, state)
            self._sweep(LEFT_OVER)
            self._sweep(JOURNALS)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Sealer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives up the right to seal. What is not sealed stays in its journal."""
        if self._journal is not None:
            self._journal.close()
        if self._writer is not None:
            self._writer.abandon()
        self._journal = self._writer = None
        self._lock.close()

    def follow(self) -> int:
        """Reads what the journals have gained and seals those that are complete; rows read."""
        before = self.row_count
        while waiting := self._waiting():
            if len(waiting) == 1:
                journal = self._open(waiting[0])
                self._take(journal.number, journal.rows(self.timeline))
                break
            self._seal(waiting)
        return self.row_count - before

    def finish(self) -> int:
        """Reads and seals everything; to be called once the relay has ended. Rows read."""
        before = self.row_count
        while waiting := self._waiting():
            self._seal(waiting)
        return self.row_count - before

    def sealing_steps(self, waiting: list[int]) -> Iterator[int]:
        """Seals the first of these journals, step by step as numbered on top of this file."""
        journal = self._open(waiting[0])
        rows = journal.last_rows(self.timeline, followed=len(waiting) > 1)
        self._take(journal.number, rows)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            yield 1
            folder.put_in_place(writer.path, self.path / folder.segment_name(journal.number))
            yield 2
        folder.write_state(self.path, journal.number, self.timeline.state())
        yield 3
        folder.append_part(self.path, self._part(journal, writer))
        self._sealed = journal.number
        yield 4
        self._sweep(LEFT_OVER)
        yield 5
        journal.close()
        self._journal = None
        self._sweep(JOURNALS)
        yield 6

    def _waiting(self) -> list[int]:
        return [number for number in folder.journals(self.path) if number > self._sealed]

    def _open(self, number: int) -> Journal:
        if self._journal is None:
            self._journal = Journal(self.path, number, after=self._sealed)
        return self._journal

    def _seal(self, waiting: list[int]) -> None:
        for _ in self.sealing_steps(waiting):
            pass

    def _take(self, number: int, rows: Iterator[Row]) -> None:
        for row in rows:
            if self._writer is None:
                self._writer = SegmentWriter(self.path / f".{folder.segment_name(number)}.tmp")
            self._writer.add(row)
            self.row_count += 1
            if self._on_row is not None:
                self._on_row(row)

    def _part(self, journal: Journal, writer: SegmentWriter | None) -> Part:
        rows = 0 if writer is None else writer.row_count
        name = folder.segment_name(journal.number) if rows else None
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
        )

    def _sweep(self, patterns: Mapping[str, int]) -> None:
        """Removes what the sealed parts need no more."""
        for pattern, keep in patterns.items():
            for path in self.path.glob(pattern):
                if folder.number_of(path) <= self._sealed - keep:
                    path.unlink()
