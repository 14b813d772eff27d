"""Reads a whole trace in order, also while it grows.

While the relay lives, an observer may seal a journal at any moment: the segment is in the list
before the journal is removed. So a journal that is not there any more has become a segment, and
reading continues with the list. A ring may drop its oldest segments just as well: the list has it
before they are removed, and the trace simply starts later.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, TypeVar

from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.folder import Meta, read_meta
from pulsar_doctor.trace.graded import COLUMNS as GRADED
from pulsar_doctor.trace.graded import Graded, include_too_much, taken_back, taken_back_note
from pulsar_doctor.trace.index import Expired, Index, Part, read_index
from pulsar_doctor.trace.journals import Journal
from pulsar_doctor.trace.later import LaterTimeline
from pulsar_doctor.trace.missing import (
    Loss,
    Missing,
    gaps_in_words,
    losses,
    lost_parts,
    sealed_missing,
    unlisted,
)
from pulsar_doctor.wire.columns import Row

READERS = 8  # at once: a disk in the network answers several as fast as one
CHUNK = 32  # segments that one of them proves in a row
T = TypeVar("T")
SayNote = Callable[[str], object]


class _SealedMeanwhileError(Exception):
    """A journal went away."""

    def __init__(self, after: int) -> None:
        self.after = after  # the last part that was read to its end


class ChangedMeanwhileError(Exception):
    """What the list named has gone: the list has changed."""


class Trace:
    """A trace that can be read. Raises TraceError where the folder is none or is damaged.

    say: takes each note once it is known. proven_only: of a capture, leave out what is likely.
    """

    def __init__(
        self, path: Path, say: SayNote = lambda _: None, *, proven_only: bool = False
    ) -> None:
        self.path = path
        self.meta = read_meta(path)
        self.proven_only = proven_only
        self.notes: list[str] = []  # above all what is missing; complete once it was read
        self._say = say
        self.unsealed_losses: list[Loss] = []  # of what is not sealed, as it was last read
        self.unsealed_gaps = 0
        self.opened = self._check_list()  # with what was sealed on opening it
        self.note(*_why_kept(path), *_starts_later(self.opened.expired))
        self._note_missing()

    def missing(self, set_aside: int) -> Missing:
        """What it lacks, as far as it has been read. set_aside: records that could not be read."""
        names = folder.names_in(self.path)
        index, unsealed = read_index(self.path), self.unsealed_losses
        sealed = sealed_missing(index, set_aside)
        lost = any(loss.damaged for loss in unsealed) or any(unlisted(names, index))
        return replace(
            sealed,
            damaged=sealed.damaged or lost,
            gaps=sealed.gaps + self.unsealed_gaps,
            cut_bytes=sealed.cut_bytes + sum(loss.cut_bytes for loss in unsealed),
        )

    def note(self, *texts: str) -> None:
        """Adds notes; each is shown once."""
        for text in texts:
            if text not in self.notes:
                self.notes.append(text)
                self._say(text)

    def sealed(self) -> None:
        """What a crash left has been sealed."""
        self.opened = read_index(self.path)
        self._note_missing()

    def _note_missing(self) -> None:
        self.note(*(loss.text for loss in losses(self.opened)))
        if gaps := self.opened.gaps:
            words = gaps_in_words(gaps, self.opened.dropped)
            self.note(f"commands are missing: {words}")

    @property
    def live(self) -> bool:
        """Whether it still grows."""
        return folder.is_live(self.path)

    def parts(self) -> list[Part]:
        """What is sealed, by now."""
        return read_index(self.path).parts

    def proved(self, parts: Sequence[Part]) -> Iterator[Part]:
        """The ones of these parts that have rows, proved by their SHA-256, several at a time.

        Those that a ring drops meanwhile are left out; a note says so. Raises TraceError.
        """
        expired = set().union(*_in_chunks(parts, self._prove_all))
        for part in parts:
            if part.number in expired:
                self._note_expired(part)
            elif part.name:
                yield part

    def require(self, parts: Sequence[Part]) -> None:
        """Raises TraceError where the segment of one is not there, and no ring has dropped it."""
        there = folder.names_in(self.path)
        gone = [part for part in parts if part.name and part.name not in there]
        for part in gone:
            with suppress(ChangedMeanwhileError), _may_expire(self.path, part):
                segments.require_there(self.path / (part.name or ""))

    def times(self, parts: Sequence[Part]) -> Iterator[tuple[int, int] | None]:
        """The least and the greatest `ts` of each, by the list or the file's end; None: no rows.

        Also None where a ring has dropped it meanwhile. Raises TraceError.
        """
        return chain.from_iterable(_in_chunks(parts, lambda some: [*map(self._times, some)]))

    def _times(self, part: Part) -> tuple[int, int] | None:
        if part.times is not None or not part.name:
            return part.times
        try:
            with _may_expire(self.path, part):
                return segments.times_of(self.path / part.name, part.bytes)
        except ChangedMeanwhileError:
            return None

    def _prove_all(self, parts: Sequence[Part]) -> set[int]:
        """The numbers of those that have expired."""
        expired = set()
        for part in parts:
            try:
                _prove(self.path, part)
            except ChangedMeanwhileError:
                expired.add(part.number)
        return expired

    def expired(self) -> Expired:
        """What a ring has dropped of it, by now."""
        return read_index(self.path).expired

    def rows(
        self,
        columns: Sequence[str] | None = None,
        *,
        since_us: int | None = None,
        after: int = 0,
        behind: int = -1,
    ) -> Iterator[Row]:
        """Every row that counts, in order, those included that are not sealed yet.

        Of a capture the rows of a join that was taken back do not; a note says how many.
        columns: at least these are filled in. since_us: rows before that moment may be left out.
        after: only parts with a higher number; behind: only rows with a higher number. Rows that a
        ring drops before they are reached are left out: the numbers of the rows show it, and so do
        the notes.
        """
        if not self.meta.capture:
            yield from self._every_row(columns, since_us=since_us, after=after, behind=behind)
            return
        gone = taken_back(self._every_row(GRADED))
        if gone:
            self.note(taken_back_note(len(gone), gone.total()))
        graded = Graded(gone, proven_only=self.proven_only)
        wanted = (
            None if columns is None else list({**dict.fromkeys(columns), **dict.fromkeys(GRADED)})
        )
        for row in self._every_row(wanted, since_us=since_us, after=after, behind=behind):
            if graded.keeps(row):
                yield row

    def _every_row(
        self,
        columns: Sequence[str] | None = None,
        *,
        since_us: int | None = None,
        after: int = 0,
        behind: int = -1,
    ) -> Iterator[Row]:
        if columns is not None and "seq" not in columns:
            columns = ["seq", *columns]  # it shows which rows were read already
        journals, index = self._snapshot()
        for part in index.parts:
            if part.number <= after or not part.name or _older(part, since_us):
                continue
            if (part.last_seq or 0) <= behind:
                continue
            try:
                for row in _sealed_rows(self.path, part, columns, since_us):
                    if row.seq is None or row.seq > behind:
                        yield row
            except ChangedMeanwhileError:
                self._note_expired(part)
            behind = part.last_seq or 0
        after = max(after, index.through)
        if not journals:
            return
        try:
            timeline = self._ledgers(index)
            yield from self._unsealed(timeline, after, journals)
        except _SealedMeanwhileError as sealed:
            yield from self._every_row(columns, since_us=since_us, after=sealed.after)

    def timeline(self, at_us: int | None = None) -> Timeline:
        """The ledgers as they stand at the end, or at this moment where the trace is live.

        at_us: as they stood then, microseconds since 1970, replayed row by row.
        They may have been saved, and then no row is read: so that they are not those of a trace
        that is damaged, every segment is proved by its SHA-256. Raises TraceError.
        """
        if at_us is not None:
            rows = takewhile(lambda row: row.ts <= at_us, self.rows())
            return self._replayed(read_index(self.path), rows)
        while True:
            journals, index = self._snapshot()
            try:
                if any(_in_chunks(index.parts, self._prove_all)):
                    continue  # some have expired
                timeline = self._ledgers(index)
                for _ in self._unsealed(timeline, index.through, journals):
                    pass
            except (_SealedMeanwhileError, ChangedMeanwhileError):
                continue
            self.note(*set_aside_notes(timeline))
            timeline.incomplete = self.missing(timeline.set_aside).is_loss
            return self.of_what_counts(timeline, index)

    def of_what_counts(
        self, whole: Timeline, index: Index, rows_most: int | None = None
    ) -> Timeline:
        """The ledgers as if the rows that do not count had never been there.

        whole: the ledgers of all rows. Raises LookupError where these are more than rows_most.
        """
        if not (self.meta.capture and include_too_much(whole, proven_only=self.proven_only)):
            return whole
        if rows_most is not None and whole.next_seq > rows_most:
            raise LookupError
        rows = takewhile(lambda row: row.seq < whole.next_seq, self.rows())
        timeline = self._replayed(index, rows)
        timeline.pass_time(whole.now_us, whole.now_ns)
        timeline.next_seq, timeline.incomplete = whole.next_seq, whole.incomplete
        return timeline

    def _replayed(self, index: Index, rows: Iterable[Row]) -> Timeline:
        """The ledgers after these rows, from where the trace starts."""
        timeline = ledgers_at_start(self.meta, index.expired)
        apply = timeline.apply_sealed if isinstance(timeline, LaterTimeline) else timeline.apply
        for row in rows:
            timeline.next_seq = row.seq
            apply(row)
        return timeline

    def _ledgers(self, index: Index) -> Timeline:
        """The ledgers at the end of what was sealed by the list."""
        try:
            return ledgers_at(self.path, self.meta, index)
        except ChangedMeanwhileError:
            raise _SealedMeanwhileError(index.through) from None

    def _snapshot(self) -> tuple[list[int], Index]:
        """Journals that are not sealed, and the list of what is."""
        journals = folder.journals(self.path)
        index = read_index(self.path)
        return [number for number in journals if number > index.through], index

    def _unsealed(self, timeline: Timeline, after: int, journals: list[int]) -> Iterator[Row]:
        self.unsealed_losses, self.unsealed_gaps = [], 0
        for number in journals:
            try:
                journal = Journal(self.path, number, after=after)
            except FileNotFoundError:
                raise _SealedMeanwhileError(after) from None
            with closing(journal):
                followed = number != journals[-1]
                over = followed or not self.live
                yield from journal.last_rows(timeline, followed=followed, over=over)
                self._count(journal, over=over)
            after = number

    def _count(self, journal: Journal, *, over: bool) -> None:
        lost = list(journal.losses(over=over))
        self.unsealed_losses += lost
        self.unsealed_gaps += journal.gaps
        self.note(*(loss.text for loss in lost))
        if journal.gaps:
            words = gaps_in_words(journal.gaps, journal.dropped)
            self.note(f"commands are missing in {journal.path.name}: {words}")

    def _note_expired(self, part: Part) -> None:
        self.note(f"{part.rows} rows expired while {self.path} was being read")

    def _check_list(self) -> Index:
        while True:
            names = folder.names_in(self.path)
            index = read_index(self.path)
            known = {part.name for part in index.parts}
            strange = sorted(
                name
                for name in fnmatch.filter(names - known, "seg-*.parquet")
                if folder.number_in(name) > index.expired.through
                and folder.journal_name(folder.number_in(name)) not in names
            )
            if not strange:
                self.note(*lost_parts(names, index))
                return index
            if read_index(self.path) == index:
                raise TraceError(
                    f"{self.path / strange[0]} is not in {folder.INDEX}; "
                    "`pulsar-doctor trace verify` tells more"
                )


def _older(part: Part, since_us: int | None) -> bool:
    return since_us is not None and part.last_us is not None and part.last_us < since_us


def _in_chunks(parts: Sequence[Part], read: Callable[[Sequence[Part]], T]) -> Iterator[T]:
    """What this says of some parts after the other, read several at a time."""
    chunks = [parts[at : at + CHUNK] for at in range(0, len(parts), CHUNK)]
    if len(chunks) < 2:
        yield from map(read, chunks)
        return
    with ThreadPoolExecutor(READERS) as readers:
        yield from readers.map(read, chunks)


def set_aside_notes(timeline: Timeline) -> list[str]:
    """The notes where records could not be read."""
    count = timeline.set_aside
    if not count:
        return []
    were = "1 record was" if count == 1 else f"{count:,} records were"
    return [f"{were} set aside, as UNPARSED: this version cannot read them"]


def ledgers_at(path: Path, meta: Meta, index: Index) -> Timeline:
    """The ledgers at the end of these parts: from the newest that were saved and the rows behind.

    `incomplete` where any of these parts is. Raises ChangedMeanwhileError where the list has
    changed and what is needed has gone.
    """
    timeline = ledgers_behind(path, *nearest_ledgers(path, meta, index))
    timeline.incomplete = sealed_missing(index, timeline.set_aside).is_loss
    return timeline


def nearest_ledgers(path: Path, meta: Meta, index: Index) -> tuple[Timeline, Sequence[Part]]:
    """The newest ledgers that were saved, else those at the start, and the parts behind them.

    Raises ChangedMeanwhileError as `ledgers_at` does.
    """
    for number in reversed(folder.numbers(path, ".state-*[0-9]")):
        if index.expired.through <= number <= index.through:
            timeline = ledgers_of(path, meta, number)
            if timeline is not None:
                return timeline, [part for part in index.parts if part.number > number]
    if read_index(path) != index:
        raise ChangedMeanwhileError
    return ledgers_at_start(meta, index.expired), index.parts


def ledgers_of(path: Path, meta: Meta, number: int) -> Timeline | None:
    """The ledgers that were saved at the end of a part; None where they are not to be had."""
    state = folder.read_state(path, number)
    if state is None:
        return None
    try:
        return Timeline.restore(state, meta.trace_id, meta.told)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None  # damaged: it can do no more than save time


def ledgers_at_start(meta: Meta, expired: Expired) -> Timeline:
    """The ledgers where the trace starts, as far as they are known without having been saved."""
    if expired.through:
        return LaterTimeline(meta, expired)
    # What was captured has had a life before, and others not in it may have had any message.
    return Timeline(meta.trace_id, meta.told, from_start=not meta.capture)


def ledgers_behind(path: Path, timeline: Timeline, parts: Sequence[Part]) -> Timeline:
    """The ledgers at the end of these parts, from those before them and their rows."""
    apply = timeline.apply_sealed if isinstance(timeline, LaterTimeline) else timeline.apply
    for part in parts:
        if part.name:
            for row in _sealed_rows(path, part):
                apply(row)
        timeline.pass_time(part.until_us, part.until_ns)
        if part.name and timeline.next_seq != (part.last_seq or 0) + 1:
            raise TraceError(f"{path / part.name} does not have the rows that it should have")
    return timeline


def _sealed_rows(
    path: Path, part: Part, columns: Sequence[str] | None = None, since_us: int | None = None
) -> Iterator[Row]:
    with _may_expire(path, part):
        yield from segments.read_rows(
            path / (part.name or ""), columns, since_us=since_us, sha256=part.sha256
        )


def _prove(path: Path, part: Part) -> None:
    if part.name and part.sha256:
        with _may_expire(path, part):
            segments.prove(path / part.name, part.sha256)


@contextmanager
def _may_expire(path: Path, part: Part) -> Iterator[None]:
    try:
        yield
    except TraceError:
        if read_index(path).expired.through >= part.number:
            raise ChangedMeanwhileError from None
        raise


def _starts_later(expired: Expired) -> Iterator[str]:
    if expired.through:
        yield f"the trace starts at {_moment(expired.until_us)}: {expired.rows:,} rows have expired"


def _why_kept(path: Path) -> Iterator[str]:
    try:
        why: dict[str, Any] = json.loads(folder.read_bytes(path / folder.WHY_KEPT))
        yield f"kept of a ring at {_moment(int(why['kept_us']))}: {why['reason']}"
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        yield f"{path / folder.WHY_KEPT} is damaged: it does not say why this was kept"


def _moment(us: int) -> str:
    return f"{datetime.fromtimestamp(us / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}"
