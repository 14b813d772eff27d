"""Checks whether a trace is complete and unchanged.

Changes nothing in the folder. The ledger columns are computed again from the commands and compared,
so that a trace is its own witness. In a ring they start from those that were saved where it starts.
Columns that the program that sealed it did not know yet are not compared.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.folder import Meta
from pulsar_doctor.trace.graded import taken_back_note
from pulsar_doctor.trace.index import Expired, Index, Part, read_index
from pulsar_doctor.trace.journals import Journal
from pulsar_doctor.trace.later import LaterTimeline
from pulsar_doctor.trace.missing import Loss, Missing, losses, unlisted
from pulsar_doctor.trace.reading import ledgers_at_start, ledgers_of, set_aside_notes
from pulsar_doctor.wire.columns import COLUMN_NAMES, GAP, Row

LIVE, ENDED, KEPT, TORN, DAMAGED = "live", "ended", "kept", "torn", "damaged"
ATTEMPTS = 5  # at a ring that drops segments while they are being read
COMPUTED = (
    "incarnation",
    "available_permits",
    "parked_permits",
    "unsent_permits_min",
    "unacked_messages",
    "flow_gap_us",
    "starved_us",
    "starved_since",
    "ack_delay_us",
    "acknowledged_messages",
    "starved_from",
    "available_permits_min",
    "unacked_messages_min",
)
_computed = attrgetter(*COMPUTED)


@dataclass(slots=True)
class Verification:
    """What was found. Filled in while it is being found."""

    path: Path
    trace_id: str
    # live, ended (whole, every connection closed), kept (from a ring that went on: whole), torn (it
    # did not end cleanly, as after a crash: what is there is sound) or damaged
    status: str = ENDED
    segments: int = 0
    rows: int = 0
    sealed_rows: int = 0
    gaps: int = 0  # rows that are a GAP
    dropped: int = 0  # commands that are missing according to these rows
    set_aside: int = 0  # records that could not be read: rows that are UNPARSED
    expired: Expired = field(default_factory=Expired)  # dropped by a ring earlier
    until_us: int | None = None
    cut_bytes: int = 0  # of half blocks at the ends of journals
    problems: list[str] = field(default_factory=list)  # what is wrong
    notes: list[str] = field(default_factory=list)  # what is missing but is no fault

    @property
    def seen(self) -> int:
        """Commands and events that the relay has seen: written, dropped or expired since.

        A GAP without a number is not in it: they were written and then damaged.
        """
        written = self.rows - self.gaps
        expired = self.expired.rows - self.expired.gaps
        return written + self.dropped + expired + self.expired.dropped

    @property
    def missing(self) -> Missing:
        """What it lacks."""
        damaged = self.status == DAMAGED
        return Missing(damaged, self.gaps, self.cut_bytes, self.set_aside, self.expired.rows)

    def lose(self, loss: Loss) -> None:
        """Something of a journal could not be read."""
        if loss.damaged:
            self.problems.append(loss.text)
            return
        self.status = TORN
        self.cut_bytes += loss.cut_bytes
        self.notes.append(loss.text)


def verify(path: Path) -> Verification:
    """Reads every byte of a trace. Raises TraceError where the folder is none at all."""
    for _ in range(ATTEMPTS):
        found = _verify(path)
        try:
            if read_index(path).expired == found.expired:
                break
        except TraceError:
            break
    else:
        if found.problems:
            found.problems.clear()
            found.notes.append("its ring drops segments faster than they can be read")
            found.status = LIVE
    return found


def _verify(path: Path) -> Verification:
    meta = folder.read_meta(path)
    live = folder.is_live(path)
    found = Verification(path, meta.trace_id)
    journals = folder.journals(path)
    names = folder.names_in(path)
    try:
        index = read_index(path)
    except TraceError as error:
        found.problems.append(str(error))
        index = Index(Expired(), [])
    else:
        found.problems.extend(unlisted(names, index))
    found.expired = index.expired
    timeline = _check_parts(found, meta, index)
    if timeline is not None:
        _check_journals(found, timeline, index.through, journals)
        found.until_us = timeline.now_us or None
        found.set_aside = timeline.set_aside
        found.notes += set_aside_notes(timeline)
        if timeline.retracted:
            found.notes.append(taken_back_note(timeline.retracted, timeline.retracted_rows))
        _judge_end(found, timeline, live=live)
    if found.problems:
        found.status = DAMAGED
    elif live:
        found.status = LIVE
    return found


def _check_parts(found: Verification, meta: Meta, index: Index) -> Timeline | None:
    """Checks what is sealed; the ledgers at its end, or None where they cannot be known."""
    timeline = _start(found, meta, index.expired)
    for loss in losses(index):
        found.lose(loss)
    for part in index.parts:
        if part.name is None:
            continue
        found.segments += 1
        found.sealed_rows += part.rows
        found.gaps += part.gaps or 0
        found.dropped += part.dropped or 0
        timeline = _check_part(found, part, timeline)
    if timeline is None:
        found.notes.append("the ledgers behind the damage could not be checked")
    elif index.parts:
        timeline.pass_time(index.parts[-1].until_us, index.parts[-1].until_ns)
    found.rows = found.sealed_rows
    return timeline


def _start(found: Verification, meta: Meta, expired: Expired) -> Timeline | None:
    """The ledgers where the trace starts."""
    if not expired.through:
        return ledgers_at_start(meta, expired)
    saved = ledgers_of(found.path, meta, expired.through)
    if saved is None:
        found.notes.append("the ledgers where it starts are lost: they could not be checked")
        return ledgers_at_start(meta, expired)
    if saved.next_seq != expired.rows:
        found.problems.append(
            f"{folder.state_name(expired.through)} goes on at row {saved.next_seq}, "
            f"and {expired.rows} have expired"
        )
        return None
    return saved


def _check_part(found: Verification, part: Part, timeline: Timeline | None) -> Timeline | None:
    """A segment and its rows; the ledgers at its end, None where they cannot be known."""
    try:
        columns = _check_file(found, part)
        if columns is not None and timeline is not None:
            return _check_rows(found, part, columns, timeline)
    except (FileNotFoundError, TraceError):
        found.problems.append(f"{part.name} went away while it was being read")
    return None


def _check_file(found: Verification, part: Part) -> list[str] | None:
    """The file as such; its columns, None where its rows cannot be read."""
    name = part.name or ""
    file = found.path / name
    if name != folder.segment_name(part.number):
        found.problems.append(f"part {part.number} bears the wrong name {name}")
        return None
    try:
        folder.require_regular(file)
    except FileNotFoundError:
        found.problems.append(f"{name} is missing")
        return None
    except TraceError as error:
        found.problems.append(str(error))
        return None
    if file.stat().st_size != part.bytes:
        found.problems.append(
            f"{name} has {file.stat().st_size} bytes and should have {part.bytes}"
        )
    elif segments.sha256_of(file) != part.sha256:
        found.problems.append(f"{name} does not agree with its SHA-256: its content has changed")
    try:
        columns = segments.read_names(file)
        if (rows := segments.count_rows(file)) != part.rows:
            found.problems.append(f"{name} has {rows} rows and should have {part.rows}")
    except TraceError as error:
        found.problems.append(str(error))
        return None
    _note_newer(found, columns)
    return columns


def _note_newer(found: Verification, columns: list[str]) -> None:
    newer = ", ".join(name for name in columns if name not in COLUMN_NAMES)
    note = f"columns of a newer program are left alone: {newer}"
    if newer and note not in found.notes:
        found.notes.append(note)


def _check_rows(
    found: Verification, part: Part, columns: Collection[str], timeline: Timeline
) -> Timeline | None:
    """The rows of a segment, in the light of all rows before; None where they do not go on."""
    name = part.name
    first = in_order = True
    gaps = dropped = 0
    for row in segments.read_rows(found.path / (part.name or "")):
        if row.trace_id != timeline.trace_id:
            found.problems.append(f"{name} belongs to the trace {row.trace_id}")
            return None
        if row.seq != timeline.next_seq:
            found.problems.append(
                f"{name}: row {row.seq} comes where {timeline.next_seq} should be"
            )
            return None
        if row.command == GAP:
            gaps += 1
            dropped += row.dropped or 0
        elif row.mono_ns < timeline.now_ns and in_order:
            found.problems.append(f"{name}: row {row.seq} is older than what lies before it")
            in_order = False
        difference = _replay(row, timeline, columns)
        if difference and first:
            found.problems.append(f"{name}: row {row.seq} says {difference}")
            first = False
    if timeline.next_seq != (part.last_seq or 0) + 1:
        found.problems.append(f"{name} ends at row {timeline.next_seq - 1}, not {part.last_seq}")
        return None
    if part.gaps is not None and (gaps, dropped) != (part.gaps, part.dropped):
        found.problems.append(
            f"{name} has {gaps} gaps of {dropped} commands and should have {part.gaps} of "
            f"{part.dropped}"
        )
    return timeline


def _replay(row: Row, timeline: Timeline, columns: Collection[str]) -> str | None:
    """Computes a row's ledger again; what is different in these columns, None where nothing is."""
    stored: tuple[Any, ...] = _computed(row)
    if isinstance(timeline, LaterTimeline):
        timeline.apply_sealed(row)
        return None
    for name in COMPUTED:
        setattr(row, name, None)
    timeline.apply(row)
    again: tuple[Any, ...] = _computed(row)
    for name, was, now in zip(COMPUTED, stored, again, strict=True):
        if was != now and name in columns and was != segments.as_held(name, now):
            return f"{name} {was}, from the commands it follows {now}"
    return None


def _check_journals(
    found: Verification, timeline: Timeline, after: int, journals: list[int]
) -> None:
    waiting = [number for number in journals if number > after]
    for number in waiting:
        try:
            journal = Journal(found.path, number, after=after)
        except FileNotFoundError:
            found.notes.append("segments were sealed meanwhile; verify again to check them too")
            return
        followed = number != waiting[-1]
        over = followed or not folder.is_live(found.path)
        with closing(journal):
            rows = journal.last_rows(timeline, followed=followed, over=over)
            found.rows += sum(1 for _ in rows)
            for loss in journal.losses(over=over):
                found.lose(loss)
        found.gaps += journal.gaps
        found.dropped += journal.dropped
        after = number


def _judge_end(found: Verification, timeline: Timeline, *, live: bool) -> None:
    still_open = len(timeline.connections)
    if (found.path / folder.WHY_KEPT).exists():
        found.status = KEPT
        return
    if still_open and not live:
        found.status = TORN
        found.notes.append(
            f"connections that were open at its end: {still_open}; the relay was killed, and up to "
            "a quarter of a second before that is not recorded, or later files of it are gone"
        )
