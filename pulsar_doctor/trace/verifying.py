"""Whether a trace is whole and unchanged: files against their list, rows against each other.

Changes nothing in the folder. The ledger columns are computed again from the commands and compared,
so that a trace is its own witness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from pulsar_doctor.columns import Row
from pulsar_doctor.errors import TraceError
from pulsar_doctor.timeline import Timeline
from pulsar_doctor.trace import folder, segments
from pulsar_doctor.trace.folder import INDEX, Meta, Part
from pulsar_doctor.trace.journals import Journal

LIVE, ENDED, TORN, DAMAGED = "live", "ended", "torn", "damaged"
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
)
_computed = attrgetter(*COMPUTED)


@dataclass(slots=True)
class Verification:
    """What was found. Filled in while it is being found.

    status: live, ended (whole, every connection closed), torn (a crash cut its end: what is there
    is sound) or damaged. problems: what is wrong. notes: what is missing and could not be helped.
    """

    path: Path
    trace_id: str
    status: str = ENDED
    segments: int = 0
    rows: int = 0
    sealed_rows: int = 0
    until_us: int | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(path: Path) -> Verification:
    """Reads every byte of a trace. Raises TraceError where the folder is none at all."""
    meta = folder.read_meta(path)
    live = folder.is_live(path)
    found = Verification(path, meta.trace_id)
    journals = folder.journals(path)
    try:
        parts = folder.read_parts(path)
    except TraceError as error:
        found.problems.append(str(error))
        parts = []
    else:
        found.problems.extend(_unlisted(path, parts, journals))
    timeline = _check_parts(found, meta, parts)
    if timeline is not None:
        _check_journals(found, timeline, parts, journals)
        found.until_us = timeline.now_us or None
        _judge_end(found, timeline, live=live)
    if found.problems:
        found.status = DAMAGED
    elif live:
        found.status = LIVE
    return found


def _unlisted(path: Path, parts: list[Part], journals: list[int]) -> Iterator[str]:
    listed = {part.name for part in parts}
    listed.update(folder.segment_name(number) for number in journals)  # it is about to be listed
    for file in sorted(path.iterdir()):
        if not file.name.startswith((".", "_")) and file.name not in listed:
            yield f"{file.name} is not in {INDEX}: it is no part of this trace"


def _check_parts(found: Verification, meta: Meta, parts: list[Part]) -> Timeline | None:
    """Checks what is sealed; the ledgers at its end, or None where they cannot be known."""
    timeline: Timeline | None = Timeline(meta.trace_id, meta.told)
    before = 0
    for part in parts:
        if part.number != before + 1:
            found.problems.append(f"nothing is there of what lay before part {part.number}")
        before = part.number
        if part.cut_bytes:
            _cut(found, folder.journal_name(part.number), part.cut_bytes, damaged=part.damaged)
        if part.name is None:
            continue
        found.segments += 1
        found.sealed_rows += part.rows
        if not _check_file(found, part):
            timeline = None
        if timeline is not None:
            timeline = _check_rows(found, part, timeline)
    if timeline is None:
        found.notes.append("the ledgers behind the damage could not be checked")
    elif parts:
        timeline.pass_time(parts[-1].until_us, parts[-1].until_ns)
    found.rows = found.sealed_rows
    return timeline


def _check_file(found: Verification, part: Part) -> bool:
    """The file as such; whether its rows can be read."""
    name = part.name or ""
    file = found.path / name
    if name != folder.segment_name(part.number):
        found.problems.append(f"part {part.number} bears the wrong name {name}")
        return False
    if not file.is_file():
        found.problems.append(f"{name} is missing")
        return False
    if file.stat().st_size != part.bytes:
        found.problems.append(
            f"{name} has {file.stat().st_size} bytes and should have {part.bytes}"
        )
    elif segments.sha256_of(file) != part.sha256:
        found.problems.append(f"{name} does not agree with its SHA-256: its content has changed")
    try:
        if segments.read_schema(file) != segments.SCHEMA:
            found.problems.append(f"{name} does not have the columns of a trace")
            return False
        if (rows := segments.count_rows(file)) != part.rows:
            found.problems.append(f"{name} has {rows} rows and should have {part.rows}")
    except TraceError as error:
        found.problems.append(str(error))
        return False
    return True


def _check_rows(found: Verification, part: Part, timeline: Timeline) -> Timeline | None:
    """The rows of a segment, in the light of all rows before; None where they do not go on."""
    name = part.name
    first = True
    for row in segments.read_rows(found.path / (part.name or "")):
        if row.trace_id != timeline.trace_id:
            found.problems.append(f"{name} belongs to the trace {row.trace_id}")
            return None
        if row.seq != timeline.next_seq:
            found.problems.append(
                f"{name}: row {row.seq} comes where {timeline.next_seq} should be"
            )
            return None
        difference = _replay(row, timeline)
        if difference and first:
            found.problems.append(f"{name}: row {row.seq} says {difference}")
            first = False
    if timeline.next_seq != (part.last_seq or 0) + 1:
        found.problems.append(f"{name} ends at row {timeline.next_seq - 1}, not {part.last_seq}")
        return None
    return timeline


def _replay(row: Row, timeline: Timeline) -> str | None:
    """Computes a row's ledger again; what is different, None where nothing is."""
    stored: tuple[Any, ...] = _computed(row)
    for name in COMPUTED:
        setattr(row, name, None)
    timeline.apply(row)
    again: tuple[Any, ...] = _computed(row)
    for name, was, now in zip(COMPUTED, stored, again, strict=True):
        if was != now:
            return f"{name} {was}, from the commands it follows {now}"
    return None


def _check_journals(
    found: Verification, timeline: Timeline, parts: list[Part], journals: list[int]
) -> None:
    after = parts[-1].number if parts else 0
    waiting = [number for number in journals if number > after]
    for number in waiting:
        try:
            journal = Journal(found.path, number, after=after)
        except FileNotFoundError:
            found.notes.append("segments were sealed meanwhile; verify again to check them too")
            return
        if number != after + 1:
            found.problems.append(f"nothing is there of what lay before part {number}")
        followed = number != waiting[-1]
        found.rows += sum(1 for _ in journal.last_rows(timeline, followed=followed))
        if journal.cut_bytes and (followed or journal.damaged or not folder.is_live(found.path)):
            _cut(found, journal.path.name, journal.cut_bytes, damaged=journal.damaged)
        journal.close()
        after = number


def _cut(found: Verification, name: str, cut_bytes: int, *, damaged: bool) -> None:
    if damaged:
        found.problems.append(f"{name} was damaged: {cut_bytes} bytes of it are lost")
    else:
        found.status = TORN
        found.notes.append(f"{cut_bytes} bytes at the end of {name} were cut off: half a block")


def _judge_end(found: Verification, timeline: Timeline, *, live: bool) -> None:
    still_open = len(timeline.connections)
    if still_open and not live:
        found.status = TORN
        found.notes.append(
            f"the relay was killed, connections that were open: {still_open}; "
            "up to a quarter of a second before its end is not recorded"
        )
