"""Merges many small segments of a trace into few large ones.

Consecutive parts become one, which bears the number of the last and names the first in its file:
seg-000200.from-000101.parquet. Until the list says otherwise the trace is what it was; from then on
it is the new one. What a crash leaves of a step is a whole trace, the one or the other:

1. write each as a temporary file, and rename it   a crash: nobody lists them; they are overwritten
2. write the list anew, in which they stand        a crash: it has happened, or it has not
3. delete what they were made of, and its ledgers  a crash: whoever seals or compacts next does so

The ledgers at the end of a part stay where it is the last of a new one. Not merged are parts whose
columns differ, and those that tell of a damaged journal, since that is told of each by its number.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pulsar_doctor.errors import TraceError
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.index import Index, Part, read_index, write_index
from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.trace.ring import SEGMENTS_A_RING, Ring
from pulsar_doctor.trace.segments import SegmentWriter, sha256_of

ROWS_MOST = 500_000
BYTES_MOST = 64 << 20
SPAN_US = 3600 * 1_000_000  # of one, so that readers of an hour need not open a day


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done. Segments and bytes are those of the trace."""

    segments_before: int
    segments: int
    bytes_before: int
    bytes: int
    rows: int
    merged: int  # segments that are new: merged from several


def compact(path: Path) -> Compacted:
    """Merges the small segments of a trace that is not being written.

    Raises TraceError where it is none, is damaged, or is being written; OSError where the disk
    refuses: then the trace is as it was.
    """
    with _alone(path):
        before = read_index(path)
        compaction = Compaction(path, before)
        for _ in compaction.steps():
            pass
        after = read_index(path)
    kept = {part.name for part in before.parts}
    return Compacted(
        segments_before=sum(part.name is not None for part in before.parts),
        segments=sum(part.name is not None for part in after.parts),
        bytes_before=sum(part.bytes for part in before.parts),
        bytes=sum(part.bytes for part in after.parts),
        rows=sum(part.rows for part in after.parts),
        merged=sum(part.name not in kept for part in after.parts if part.name),
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While nobody writes to this trace, and nobody begins to."""
    Trace(path)  # what is no trace is refused before a lock is made in it
    lock = folder.take_seal_lock(path)
    if lock is None:
        raise TraceError(f"another process is sealing {path}: compact it when it has ended")
    with lock:
        relay = os.open(
            path / folder.RELAY_LOCK, os.O_RDWR | os.O_CREAT | folder.STAY_INSIDE, 0o600
        )
        try:
            fcntl.flock(relay, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a relay wants it for itself alone
            if folder.journals(path):
                raise TraceError(f"{path} has journals that are not sealed: open it first")
            yield
        except BlockingIOError:
            raise TraceError(
                f"{path} is being written: compact it when the tap has ended"
            ) from None
        finally:
            os.close(relay)


class Compaction:
    """Compacts one trace, for whoever has the right to seal it."""

    def __init__(self, path: Path, index: Index) -> None:
        self.path = path
        self.index = index
        ring = Ring.of(path)
        self.rows_most, self.bytes_most, self.span_us = ROWS_MOST, BYTES_MOST, SPAN_US
        if ring is not None and ring.limits.ring_seconds is not None:
            seconds = ring.limits.ring_seconds / SEGMENTS_A_RING  # it drops whole segments
            self.span_us = min(self.span_us, int(seconds * 1e6))
        if ring is not None and ring.limits.ring_bytes_most is not None:
            most = ring.limits.ring_bytes_most // SEGMENTS_A_RING
            self.bytes_most = min(self.bytes_most, most)

    def steps(self) -> Iterator[int]:
        """Step by step as numbered on top of this file."""
        parts: list[Part] = []
        for group in self._groups():
            parts += group if len(group) == 1 else self._merged(group)
        yield 1
        if parts != self.index.parts:
            write_index(self.path, replace(self.index, parts=parts))
        yield 2
        sweep(self.path, replace(self.index, parts=parts))
        yield 3

    def _groups(self) -> Iterator[list[Part]]:
        """Parts that become one, if their columns allow it, in order."""
        group: list[Part] = []
        rows = size = 0
        for part in self.index.parts:
            told = any(each.cut_bytes or each.damaged for each in (*group[-1:], part))
            fits = rows + part.rows <= self.rows_most and size + part.bytes <= self.bytes_most
            if group and (told or not fits or not self._in_span(group, part)):
                yield from _together(group)
                group, rows, size = [], 0, 0
            group.append(part)
            rows, size = rows + part.rows, size + part.bytes
        yield from _together(group)

    def _in_span(self, group: Sequence[Part], part: Part) -> bool:
        return 0 <= part.until_us - group[0].until_us <= self.span_us

    def _merged(self, group: Sequence[Part]) -> Iterator[Part]:
        """What these become: one part for each run of the same columns, whose file is there."""
        run: list[Part] = []
        tables: list[pa.Table] = []  # small: all of a group are one segment at most
        for part in group:
            table = segments.whole(self.path / part.name, part.sha256 or "") if part.name else None
            if table is not None and tables and table.schema != tables[0].schema:
                yield from self._written(run, tables)
                run, tables = [], []
            run.append(part)
            tables += [] if table is None else [table]
        yield from self._written(run, tables)

    def _written(self, run: Sequence[Part], tables: Sequence[pa.Table]) -> Iterator[Part]:
        if len(tables) < 2:
            yield from run
            return
        name = folder.merged_name(run[0].first_number, run[-1].number)
        writer = SegmentWriter(self.path / f".{name}.tmp", schema=tables[0].schema)
        try:
            for table in tables:
                for batch in table.to_batches():
                    writer.add_batch(batch)
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        if writer.row_count != sum(part.rows for part in run):
            writer.path.unlink()
            raise TraceError(f"{self.path} does not have the rows that its list tells")
        folder.put_in_place(writer.path, self.path / name)
        yield self._part(run, name, writer)

    def _part(self, run: Sequence[Part], name: str, writer: SegmentWriter) -> Part:
        with_rows = [part for part in run if part.name]
        counted = None not in [part.gaps for part in with_rows]
        return Part(
            number=run[-1].number,
            name=name,
            rows=writer.row_count,
            first_seq=with_rows[0].first_seq,
            last_seq=with_rows[-1].last_seq,
            bytes=(self.path / name).stat().st_size,
            sha256=sha256_of(self.path / name),
            until_us=run[-1].until_us,
            until_ns=run[-1].until_ns,
            gaps=sum(part.gaps or 0 for part in with_rows) if counted else None,
            dropped=sum(part.dropped or 0 for part in with_rows) if counted else None,
            first_us=writer.first_us,
            last_us=writer.last_us,
        )


def _together(group: list[Part]) -> Iterator[list[Part]]:
    """This group; each of it alone where a file to name it by is not there, or is all of it."""
    if sum(part.name is not None for part in group) > 1:
        yield group
    else:
        yield from ([part] for part in group)


def sweep(path: Path, index: Index) -> None:
    """Deletes segments of which others were made, their ledgers, and what is not listed yet."""
    for name in folder.names_in(path):
        half = name.startswith(".seg-") and ".from-" in name
        if (
            half
            or (name.startswith("seg-") and index.is_left_over(name))
            or (name.startswith(".state-") and index.is_inside(folder.number_in(name)))
        ):
            (path / name).unlink(missing_ok=True)
