"""What is written down of one connection: OPEN, its commands, at most one UNPARSED, CLOSE.

Nothing that goes wrong here is raised: it ends the observing of this connection, both ways, since
a ledger of one way would be wrong. Whatever passes afterwards passes unseen, up to the CLOSE.
"""

from __future__ import annotations

from pulsar_doctor.columns import CLOSE, OPEN, UNPARSED
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.framing import Frames
from pulsar_doctor.journal import DIRECTIONS, Mask, pack_event
from pulsar_doctor.redaction import redact
from pulsar_doctor.relay.journal_file import JournalFile


class ConnectionJournal:
    """The commands of one connection, masked, as blocks of the journal that all share."""

    def __init__(self, journal: JournalFile, mask: Mask, conn_id: int) -> None:
        self._journal = journal
        self._mask = mask
        self._conn_id = conn_id
        self._observed = True
        self.opened = False

    def open(self, client_addr: str | None, broker_addr: str | None) -> None:
        """The broker is there; or it is known that none will be, then broker_addr is None."""
        self.opened = True
        self._event(OPEN, client_addr=client_addr, broker_addr=broker_addr)

    def frames(self, frames: Frames, direction: int) -> None:
        """What one read has completed. direction: index of journal.DIRECTIONS."""
        if not self._observed:
            return
        try:
            records = self._mask.pack_all(frames)
            self._journal.add(records, self._conn_id, direction, len(frames))
        except Exception as error:
            self.unparsed(error, direction)

    def unparsed(self, error: Exception, direction: int) -> None:
        """From here on nothing can be said of this connection; why is said once."""
        if not self._observed:
            return
        self._observed = False
        why = str(error) if isinstance(error, DoctorError) else type(error).__name__
        why = f"no longer observed: {why}"
        self._event(UNPARSED, direction=DIRECTIONS[direction], error_message=why)

    def close(self, why: str) -> None:
        """The end of the connection."""
        self._event(CLOSE, error_message=redact(why))

    def _event(self, command: str, **values: str | None) -> None:
        self._journal.add([pack_event(command, **values)], self._conn_id)
