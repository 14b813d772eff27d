"""Reads a trace as a whole: what is sealed, then what is not, in order, also while it grows.

While the relay lives, an observer may seal a journal at any moment: the segment is in the list
before the journal goes. So a journal that is not there any more has become a segment, and reading
goes on with the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pulsar_doctor.columns import Row
from pulsar_doctor.errors import TraceError
from pulsar_doctor.timeline import Timeline
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.folder import Meta, Part, read_meta
from pulsar_doctor.trace.journals import Journal

State = dict[str, Any] | None


class _SealedMeanwhileError(Exception):
    """A journal went away. after: the last part that was read to its end."""

    def __init__(self, after: int) -> None:
        self.after = after


class Trace:
    """A trace that can be read. Raises TraceError where the folder is none or is damaged.

    notes: what whoever reads it should be told.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.meta = read_meta(path)
        self.notes: list[str] = []
        self._check_list()

    @property
    def live(self) -> bool:
        """Whether it still grows."""
        return folder.is_live(self.path)

    def parts(self) -> list[Part]:
        """What is sealed, by now."""
        return folder.read_parts(self.path)

    def rows(
        self, columns: Sequence[str] | None = None, *, since_us: int | None = None, after: int = 0
    ) -> Iterator[Row]:
        """All rows in order, those included that are not sealed yet.

        columns: at least these are filled in. since_us: rows before that moment may be left out.
        after: only parts with a higher number.
        """
        journals, parts, state = self._snapshot()
        for part in parts:
            if part.number > after and part.name:
                yield from segments.read_rows(
                    self.path / part.name, columns, since_us=since_us, sha256=part.sha256
                )
        after = max(after, parts[-1].number if parts else 0)
        if not journals:
            return
        timeline = timeline_at(self.path, self.meta, parts, state)
        try:
            yield from self._unsealed(timeline, after, journals)
        except _SealedMeanwhileError as sealed:
            yield from self.rows(columns, since_us=since_us, after=sealed.after)

    def timeline(self) -> Timeline:
        """The ledgers as they stand at the end, or at this moment where the trace is live."""
        while True:
            journals, parts, state = self._snapshot()
            timeline = timeline_at(self.path, self.meta, parts, state)
            try:
                for _ in self._unsealed(timeline, parts[-1].number if parts else 0, journals):
                    pass
            except _SealedMeanwhileError:
                continue
            return timeline

    def _snapshot(self) -> tuple[list[int], list[Part], State]:
        """Journals that are not sealed, sealed parts, and the ledgers between the two."""
        while True:
            journals = folder.journals(self.path)
            parts = self.parts()
            done = parts[-1].number if parts else 0
            state = folder.read_state(self.path, done)
            if state is not None or self.parts() == parts:
                return [number for number in journals if number > done], parts, state

    def _unsealed(self, timeline: Timeline, after: int, journals: list[int]) -> Iterator[Row]:
        for number in journals:
            try:
                journal = Journal(self.path, number, after=after)
            except FileNotFoundError:
                raise _SealedMeanwhileError(after) from None
            with closing(journal):
                yield from journal.last_rows(timeline, followed=number != journals[-1])
            after = number

    def _check_list(self) -> None:
        journals = folder.journals(self.path)
        there = folder.numbers(self.path, "seg-*.parquet")
        listed = {part.number for part in self.parts()}
        for number in there:
            if number not in listed and number not in journals:
                raise TraceError(
                    f"{self.path / folder.segment_name(number)} is not in {folder.INDEX}; "
                    "`pulsar-doctor trace verify` tells more"
                )


def timeline_at(path: Path, meta: Meta, parts: list[Part], state: State) -> Timeline:
    """The ledgers at the end of what is sealed: from their saved state, or from the rows."""
    if not parts:
        return Timeline(meta.trace_id, meta.told)
    try:
        if state is not None:
            return Timeline.restore(state, meta.trace_id, meta.told)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        pass  # damaged: it can do no more than save time
    return replayed(path, meta, parts)


def replayed(path: Path, meta: Meta, parts: list[Part]) -> Timeline:
    """The ledgers at the end of these parts, from their rows."""
    timeline = Timeline(meta.trace_id, meta.told)
    for part in parts:
        if part.name:
            for row in segments.read_rows(path / part.name, sha256=part.sha256):
                timeline.apply(row)
        timeline.pass_time(part.until_us, part.until_ns)
        if part.name and timeline.next_seq != (part.last_seq or 0) + 1:
            raise TraceError(f"{path / part.name} does not have the rows that it should have")
    return timeline
