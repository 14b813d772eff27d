"""The events of a capture, and who receives them, in order of time."""

from __future__ import annotations

from typing import Protocol

from pulsar_doctor.wire.framing import Frames


class CaptureListener(Protocol):
    """Where what happened is written: see writing.TraceWriter."""

    def event(
        self, conn_id: int, command: str, now_ns: int, way: int | None = None, **columns: object
    ) -> None:
        """A row that is no frame. way: the direction that it is of. columns: of the trace.

        OPEN: before the first frames. JOINED: where its frames begin is known, before the first
        ones, and again behind an UNPARSED. RETRACTED: what was passed on since then, as likely, is
        taken back. UNPARSED: from here on the ledgers of its consumers are not known. CLOSE: its
        end. STATS: what the broker reports of a consumer.
        """

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there."""
