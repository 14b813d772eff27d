"""A trace that keeps only its newest part, limited by time or bytes.

A ring drops whole segments, the oldest first. Its trace simply starts later: the numbers of its
rows go on without a gap, and the first line of _segments.jsonl says how many rows are gone. What a
crash leaves of a step is a trace that is whole:

1. write the list without the lines of what leaves a crash: nothing has happened, or it is gone
2. delete the segments and the ledgers before them  a crash: whoever seals next deletes them

The ledgers as they stood where the trace now starts stay (.state-N of the last part that went), so
that everything behind them can be worked out again.

With a limit of bytes, room is made before anything is written: for the pieces of a segment too,
while it is being made. The relay has a share of its own for the journals, so neither process needs
to know what the other does. What is kept of a ring is in trace/keeping.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pulsar_doctor.errors import InputError, TraceError
from pulsar_doctor.trace import folder, keeping
from pulsar_doctor.trace.folder import JOURNAL_BYTES_MOST, ROTATE_BYTES
from pulsar_doctor.trace.index import Index, Part, read_index, write_index
from pulsar_doctor.trace.keeping import in_blocks
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.typed_json import of_json

MIB = 1 << 20
RING_SECONDS_LEAST = 5.0
BYTES_LEAST = 8 * MIB
SEGMENTS_A_RING = 10  # so many at least, by time: it keeps at most a tenth more than it should
JOURNALS_AT_ONCE = 8  # so many fit into the share of the journals
OWN_BYTES = 128 * 1024  # locks, descriptions, folders, and the blocks that files do not fill
KEPT_OWN_BYTES = 64 * 1024  # of what was kept: its folder, its list, its description
PART_BYTES = 1024  # of a part's line in the list, which is there twice while it is written anew


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLimits(folder.JournalLimits):
    """What a ring may take. None: no limit."""

    ring_seconds: float | None = None  # always kept, if the bytes allow it
    max_bytes: int | None = None  # of everything
    ring_bytes_most: int | None = None  # of segments, ledgers and list, also while one is made
    kept_bytes_most: int | None = None  # of what `keep` has kept and the ring no longer has

    @property
    def bounded(self) -> bool:
        """Whether there is a ring at all."""
        return self.ring_seconds is not None or self.ring_bytes_most is not None


def shares(
    ring_seconds: float | None, max_bytes: int | None, seal_every_seconds: float
) -> RingLimits:
    """Divides what `--ring` and `--max-bytes` allow among the relay, the ring and what is kept.

    Of the bytes a quarter is the journals', the rest one half each the ring's and of what was
    kept of it: the newest that was kept may be as large as the ring and share nothing with it
    any more. Raises InputError where there is too little of either.
    """
    if ring_seconds is not None and ring_seconds < RING_SECONDS_LEAST:
        raise InputError(f"--ring keeps at least {duration(RING_SECONDS_LEAST)} of a trace")
    if max_bytes is not None and max_bytes < BYTES_LEAST:
        raise InputError(f"--max-bytes takes at least {BYTES_LEAST // MIB} MiB, not {max_bytes}")
    rotate_seconds = seal_every_seconds
    if ring_seconds is not None:
        rotate_seconds = min(seal_every_seconds, ring_seconds / SEGMENTS_A_RING)
    if max_bytes is None:
        return RingLimits(ring_seconds=ring_seconds, rotate_seconds=rotate_seconds)
    journal_bytes = min(max_bytes // 4, JOURNAL_BYTES_MOST)
    ring_bytes = (max_bytes - journal_bytes - OWN_BYTES - KEPT_OWN_BYTES) // 2
    return RingLimits(
        ring_seconds=ring_seconds,
        max_bytes=max_bytes,
        rotate_seconds=rotate_seconds,
        rotate_bytes=min(ROTATE_BYTES, journal_bytes // JOURNALS_AT_ONCE),
        journal_bytes_most=journal_bytes,
        ring_bytes_most=ring_bytes,
        kept_bytes_most=ring_bytes + KEPT_OWN_BYTES,
    )


class Ring:
    """The ring of one trace; for whoever has the right to seal it.

    Raises TraceError for a damaged list, OSError where the disk refuses; nothing is half done then.
    """

    def __init__(self, trace_dir: Path, limits: RingLimits) -> None:
        self.path = trace_dir
        self.limits = limits
        self.index = read_index(trace_dir)  # the list of its parts, which changes as they go
        self._bytes = {part.number: self._bytes_of(part) for part in self.index.parts}
        self._bytes[self.index.expired.through] = in_blocks(
            self._ledger_bytes(self.index.expired.through)
        )
        self._used = sum(self._bytes.values())
        self._writing = 0

    @classmethod
    def of(cls, trace_dir: Path) -> Self | None:
        """The ring that this trace was begun as; None where it keeps everything."""
        try:
            given = json.loads(folder.read_bytes(trace_dir / folder.RING))
            limits = of_json(RingLimits, given)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            raise TraceError(f"{trace_dir / folder.RING} is damaged") from None
        return cls(trace_dir, limits)

    def expire(self, now_ns: int) -> int:
        """Drops what is older than it should be at this monotonic time; how many rows went."""
        if self.limits.ring_seconds is None:
            return 0
        since_ns = now_ns - int(self.limits.ring_seconds * 1e9)
        old = 0
        for part in self.index.parts:
            if part.until_ns > since_ns:
                break
            old += 1
        return self._drop(old)

    def make_room(self, size: int) -> bool:
        """To be called before so many bytes are written to the segment in the making.

        Drops the oldest until they fit, and of what was kept what its share does not allow. False
        where they do not fit even then; they do not count.
        """
        most = self.limits.ring_bytes_most
        if most is None:
            return True
        needed = in_blocks(self._writing + size) + 2 * PART_BYTES
        if self._used + needed > most:
            self._drop(self._oldest(self._used + needed - most))
        if self._used + needed > most:
            return False
        self._writing += size
        return True

    def has_room_for_ledgers(self, size: int) -> bool:
        """Whether the ledgers fit before they are saved: at most an eighth of the ring."""
        most = self.limits.ring_bytes_most
        return most is None or (
            size <= most // 8 and self.make_room(in_blocks(size) + keeping.BLOCK_BYTES)
        )

    def _oldest(self, size: int) -> int:
        """How many parts hold so much, and a little more: each time there is a list to write."""
        size += (self.limits.ring_bytes_most or 0) // 16
        for count, part in enumerate(self.index.parts, 1):
            size -= self._bytes[part.number]
            if size <= 0:
                return count
        return len(self.index.parts)

    def begin_part(self) -> None:
        """What was in the making is no more: the next part is about to be written."""
        self._writing = 0

    def add(self, part: Part) -> None:
        """Adds a part with its line in the list."""
        self.index.parts.append(part)
        self._bytes[part.number] = self._bytes_of(part)
        self._used += self._bytes[part.number]
        self._writing = 0

    def drop_with(self, part: Part) -> None:
        """Drops everything up to a part of which there is no segment: it did not fit."""
        self.index.parts.append(part)
        self._bytes[part.number] = 0
        self._drop(len(self.index.parts))
        self._writing = 0

    def sweep(self) -> None:
        """Deletes what a crash left of what has expired, and of what was about to be kept."""
        through = self.index.expired.through
        folder.remove(self.path, "seg-*.parquet", range(1, through + 1))
        folder.remove(self.path, ".state-*[0-9]", range(1, through))
        keeping.sweep(self.path)

    def keep(self, reason: str, through: int) -> Path:
        """Makes a trace of its own of what the ring holds up to this part, which is sealed.

        reason: why, in a few words without secrets; it is shown to whoever reads it. Of those kept
        earlier the oldest go: there are at most 20, and no more bytes than their share; the
        newest always stays.
        """
        parts = [part for part in self.index.parts if part.number <= through]
        made = keeping.keep(self.path, Index(self.index.expired, parts), reason)
        self._prune()
        return made

    def _bytes_of(self, part: Part) -> int:
        return in_blocks(part.bytes) + in_blocks(self._ledger_bytes(part.number)) + PART_BYTES

    def _ledger_bytes(self, number: int) -> int:
        try:
            return (self.path / folder.state_name(number)).stat().st_size
        except FileNotFoundError:
            return 0

    def dropping_steps(self, count: int) -> Iterator[int]:
        """Drops the oldest parts, step by step as numbered on top of this file."""
        gone, left = self.index.parts[:count], self.index.parts[count:]
        before, expired = self.index.expired.through, self.index.expired
        for part in gone:
            expired = expired.and_part(part)
        write_index(self.path, Index(expired, left))
        self.index = Index(expired, left)
        for number in (before, *(part.number for part in gone)):
            self._used -= self._bytes.pop(number, 0)
        self._used += self._bytes.setdefault(
            expired.through, in_blocks(self._ledger_bytes(expired.through))
        )
        yield 1
        for part in gone:
            (self.path / (part.name or folder.segment_name(part.number))).unlink(missing_ok=True)
        for number in (before, *(part.number for part in gone[:-1])):
            (self.path / folder.state_name(number)).unlink(missing_ok=True)
        yield 2
        self._prune()

    def _drop(self, count: int) -> int:
        """Drops the oldest parts; how many rows went."""
        before = self.index.expired.rows
        for _ in self.dropping_steps(count) if count else ():
            pass
        return self.index.expired.rows - before

    def _prune(self) -> None:
        keeping.prune(self.path, self.limits.kept_bytes_most)


def begin(trace_dir: Path, limits: RingLimits) -> None:
    """Makes a trace a ring, before anything of it is sealed. Whoever seals it finds these limits.

    Raises OSError where the folder cannot be written to.
    """
    folder.write_file(trace_dir / folder.RING, json.dumps(asdict(limits)).encode())
