"""The events of a capture, and who receives them, in order of time."""

from __future__ import annotations

from typing import Protocol

from pulsar_doctor.wire.framing import Frames


class CaptureListener(Protocol):
    """Where what happened is written: see writing.TraceWriter."""

    def opened(self, conn_id: int, client: str, broker: str, now_ns: int) -> None:
        """A connection, before its first frames."""

    def joined(self, conn_id: int, direction: int, known_by: str, now_ns: int) -> None:
        """Where its frames begin is known: before the first ones, and again behind an UNPARSED."""

    def retracted(self, conn_id: int, direction: int, why: str, now_ns: int) -> None:
        """What was passed on for one direction since `joined`, as likely, is taken back."""

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there."""

    def unparsed(self, conn_id: int, direction: int, why: str, now_ns: int) -> None:
        """From here on the ledgers of this connection's consumers are not known."""

    def closed(self, conn_id: int, why: str, now_ns: int) -> None:
        """The end of a connection."""
