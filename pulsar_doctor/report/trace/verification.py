"""Whether a trace is complete, in sentences or as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.report.documents import fields
from pulsar_doctor.report.trace.rows import iso
from pulsar_doctor.trace.missing import gaps_in_words
from pulsar_doctor.trace.verifying import DAMAGED, ENDED, KEPT, LIVE, TORN, Verification
from pulsar_doctor.wording.printable import many

SCHEMA = "pulsar-doctor/trace-verify/1"
MEANINGS = {
    ENDED: "whole and ended cleanly",
    KEPT: "whole, kept of a ring that went on",
    LIVE: "sound so far, and still being written",
    TORN: "sound as far as it goes, but it did not end cleanly",
    DAMAGED: "damaged",
}


VERIFICATION = fields(  # status: live, ended, kept, torn or damaged
    "schema trace_id status segments rows sealed_rows gaps set_aside dropped"
    " expired_rows=expired.rows seen until problems notes",
    schema=lambda of: SCHEMA,
    gaps=lambda of: of.gaps + of.expired.gaps,
    dropped=lambda of: of.dropped + of.expired.dropped,
    until=lambda of: iso(of.until_us) if of.until_us else None,
)


def _verdict(found: Verification) -> str:
    """In a few words; `whole` is used only for what misses nothing."""
    missing = [
        what
        for what, there in (
            ("commands are missing", found.gaps or found.expired.gaps),
            ("its beginning has expired", found.expired.rows),
            ("records could not be read", found.set_aside),
        )
        if there
    ]
    if not missing or found.status not in (ENDED, KEPT):
        return "; ".join((MEANINGS[found.status], *missing))
    return (
        f"sound{', kept of a ring that went on' * (found.status == KEPT)}, but {', '.join(missing)}"
    )


def verification_lines(found: Verification) -> Iterator[str]:
    """The verdict, then a line for each problem and note."""
    yield f"{found.path}: {_verdict(found)}"
    waiting = found.rows - found.sealed_rows
    yield f"  {many(found.rows, 'row')}, {many(found.segments, 'segment')}" + (
        f", {many(waiting, 'row')} not sealed yet" if waiting else ""
    )
    if found.expired.rows:
        yield f"  starts at {iso(found.expired.until_us)}: {found.expired.rows} rows have expired"
    gaps = found.gaps + found.expired.gaps
    if gaps:
        yield f"  {gaps_in_words(gaps, found.dropped + found.expired.dropped)}"
    yield from (f"  problem: {problem}" for problem in found.problems)
    yield from (f"  note: {note}" for note in found.notes)
