"""What is recorded of a connection: OPEN, commands, at most one UNPARSED, CLOSE.

Commands are masked a moment after they have passed, many small reads of all connections at once:
that costs a fraction, and it keeps no byte waiting. No failure here is raised: it ends
the observing of that connection, both ways, since a ledger of one way would be wrong. Whatever
passes afterwards passes unseen, up to the CLOSE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.wire.columns import CLOSE, OPEN, UNPARSED
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import DIRECTIONS, pack_event
from pulsar_doctor.wire.masking import FREQUENT_CODES, Mask, Read
from pulsar_doctor.wire.redaction import redact

UNMASKED_FRAMES_MOST = (
    32  # one by one they cost five times as much; so many keep the loop for 50 us
)


Time = tuple[int, int]  # microseconds since 1970, monotonic nanoseconds


class JournalOfConnection(Protocol):
    """Where all of it is written: see journal_file.JournalFile."""

    before: Callable[[], None]

    def add(
        self,
        records: Sequence[bytes],
        conn_id: int,
        direction: int = 0,
        *,
        now: Time | None = None,
    ) -> None:
        """A block of packed records."""

    def add_block(self, records: Sequence[bytes], count: int, read: Read) -> None:
        """A block of what was read."""


class Unmasked:
    """What all connections have read and nobody has masked yet; in memory only, for 0.1 s at most.

    Masked when there is enough of it, and before anything else is done with the journal.
    """

    def __init__(self, journal: JournalOfConnection, mask: Mask) -> None:
        self._journal = journal
        self._mask = mask
        self._reads: list[tuple[ConnectionJournal, Read]] = []
        self._frames = 0
        journal.before = self.settle

    def add(self, of: ConnectionJournal, frames: Frames, direction: int, now: Time) -> None:
        """What one read has completed."""
        self._reads.append((of, Read(*now, of.conn_id, direction, frames)))
        self._frames += len(frames)
        if self._frames >= UNMASKED_FRAMES_MOST:
            self.settle()

    def settle(self) -> None:
        """Masks and journals all of it. Never raises."""
        reads, self._reads, self._frames = self._reads, [], 0
        for frequent, alike in groupby(reads, _is_frequent):
            run = list(alike)
            if not (frequent and len(run) > 1 and self._together(run)):
                for of, read in run:
                    self._alone(of, read)

    def _together(self, run: list[tuple[ConnectionJournal, Read]]) -> bool:
        reads = [read for of, read in run if of.observed]
        if not reads:
            return True
        try:
            record = self._mask.pack_reads(reads)
        except Exception:  # a hostile frame: read by read, so that only its own suffers
            return False
        count = sum(len(read.frames) for read in reads)
        self._journal.add_block([record], count, reads[-1])
        return True

    def _alone(self, of: ConnectionJournal, read: Read) -> None:
        if not of.observed:
            return
        try:
            records = self._mask.pack_all(read.frames)
            self._journal.add_block(records, len(read.frames), read)
        except Exception as error:
            of.unparsed(error, read.direction, (read.ts, read.mono_ns))


def _is_frequent(read: tuple[ConnectionJournal, Read]) -> bool:
    return FREQUENT_CODES.issuperset(read[1].frames.codes)


class ConnectionJournal:
    """The commands of one connection, as blocks of the journal that all share."""

    def __init__(self, journal: JournalOfConnection, unmasked: Unmasked, conn_id: int) -> None:
        self._journal = journal
        self._unmasked = unmasked
        self.conn_id = conn_id
        self.observed = True  # until something fails
        self.opened = False

    def open(self, client_addr: str | None, broker_addr: str | None, now: Time) -> None:
        """The broker is there; or it is known that none will be, then broker_addr is None."""
        self.opened = True
        self._event(OPEN, now, client_addr=client_addr, broker_addr=broker_addr)

    def frames(self, frames: Frames, direction: int, now: Time) -> None:
        """What one read has completed. direction: index of journal.DIRECTIONS."""
        if self.observed:
            self._unmasked.add(self, frames, direction, now)

    def unparsed(self, error: Exception, direction: int, now: Time) -> None:
        """From here on nothing is known of this connection; the reason is recorded once."""
        if not self.observed:
            return
        self._unmasked.settle()  # what came before it is recorded
        if not self.observed:
            return
        self.observed = False
        why = str(error) if isinstance(error, DoctorError) else type(error).__name__
        why = f"no longer observed: {why}"
        self._event(UNPARSED, now, direction=DIRECTIONS[direction], error_message=why)

    def close(self, why: str, now: Time) -> None:
        """The end of the connection."""
        self._event(CLOSE, now, error_message=redact(why))

    def _event(self, command: str, now: Time, **values: str | None) -> None:
        self._journal.add([pack_event(command, **values)], self.conn_id, now=now)
