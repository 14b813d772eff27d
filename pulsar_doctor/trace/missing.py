"""What is missing from a trace: sentences, one exit code, and whether anything was lost.

Every reader says these sentences (they are the notes of a Trace), and `trace verify` ends with the
code. Where something was lost (`is_loss`) no verdict over the trace is healthy, in any subcommand,
and `tap` ends with 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pulsar_doctor.trace import folder
from pulsar_doctor.trace.folder import journal_name, number_in
from pulsar_doctor.trace.index import Index

DAMAGED_CODE, GAPS_CODE, EXPIRED_CODE, SET_ASIDE_CODE = 2, 4, 5, 6


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing from a trace."""

    damaged: bool = False  # some of what was recorded is lost
    gaps: int = 0  # rows that are a GAP, without those that a ring has dropped
    cut_bytes: int = 0  # of half blocks at the ends of journals
    set_aside: int = 0  # records that could not be read
    expired_rows: int = 0  # dropped by a ring

    @property
    def exit_code(self) -> int:
        """The exit code of `trace verify`: the first of these that applies; 0: nothing missing."""
        if self.damaged:
            return DAMAGED_CODE
        if self.gaps or self.cut_bytes:
            return GAPS_CODE
        if self.set_aside:
            return SET_ASIDE_CODE
        return EXPIRED_CODE if self.expired_rows else 0

    @property
    def is_loss(self) -> bool:
        """Whether more is missing than what a ring was to drop."""
        return self.exit_code not in (0, EXPIRED_CODE)


@dataclass(frozen=True, slots=True)
class Loss:
    """Something of a journal that could not be read."""

    text: str
    damaged: bool  # more than half a block at its end
    cut_bytes: int = 0


def losses(index: Index) -> Iterator[Loss]:
    """What the sealed parts say of the journals that they were."""
    before = index.expired.through
    for part in index.parts:
        if part.number != before + 1:
            yield nothing_before(part.number)
        if part.cut_bytes or part.damaged:
            yield loss_of(journal_name(part.number), part.cut_bytes, damaged=part.damaged)
        before = part.number


def sealed_missing(index: Index, set_aside: int) -> Missing:
    """What is missing from the sealed parts. set_aside: records that could not be read."""
    lost = list(losses(index))
    return Missing(
        damaged=any(loss.damaged for loss in lost),
        gaps=index.gaps - index.expired.gaps,
        cut_bytes=sum(loss.cut_bytes for loss in lost),
        set_aside=set_aside,
        expired_rows=index.expired.rows,
    )


def unlisted(names: Collection[str], index: Index) -> Iterator[str]:
    """Files in the folder of a trace that are no part of it, and parts that it has lost.

    names: in the folder, read before the index, so that what is sealed meanwhile is listed.
    """
    listed = {part.name for part in index.parts}
    for name in sorted(names):
        if name.startswith((".", "_")) or name in listed:
            continue
        number = number_in(name)
        moving = 0 < number <= index.expired.through or journal_name(number) in names
        if not moving or name != folder.segment_name(number):  # about to go, or to be listed
            yield f"{name} is not in {folder.INDEX}: it is no part of this trace"
    yield from lost_parts(names, index)


def lost_parts(names: Collection[str], index: Index) -> Iterator[str]:
    """Parts of which only the ledgers are left. names: as in `unlisted`."""
    for name in sorted(names):
        number = number_in(name)
        sealing = journal_name(number) in names  # the ledgers are saved before the part is listed
        if name == folder.state_name(number) and number > index.through and not sealing:
            yield f"part {number} is lost: {name} is there, and {folder.INDEX} does not list it"


def nothing_before(number: int) -> Loss:
    """A part is not there at all."""
    return Loss(f"nothing is there of what lay before part {number}", True)


def loss_of(journal: str, cut_bytes: int, *, damaged: bool) -> Loss:
    """Bytes of one journal that could not be read."""
    if damaged and not cut_bytes:
        return Loss(f"{journal} was damaged: what it tells is not in order", True)
    if damaged:
        return Loss(f"{journal} was damaged: {cut_bytes} bytes of it are lost", True)
    text = f"{cut_bytes} bytes at the end of {journal} were cut off: half a block"
    return Loss(text, False, cut_bytes)


def gaps_in_words(gaps: int, dropped: int) -> str:
    """Rows that are a GAP, and how many commands these say are missing."""
    many = f"{gaps} gap{'s' * (gaps > 1)}: "
    if not dropped:
        return f"{many}nobody knows of how many"
    return f"{many}{dropped} commands were not recorded"
