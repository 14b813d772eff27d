"""How long the sender of one direction has been silent although it could send.

A sender is silent where, for all of a second, everything it had sent was acknowledged, its receiver
had room, and it sent nothing, not even again. The packets show no more than that: a sender that was
stopped in the middle of a frame is the same (see boundaries.py, which believes no single one).

Room: a sender that has data waits while the window is too small for a whole segment, so a window
below half of the widest one seen counts as none.
"""

from __future__ import annotations

SILENCE_NS = 1_000_000_000


class Quiet:
    """One direction. Positions are those of its stream. Changed in place."""

    __slots__ = ("_acked", "_acked_ns", "_room_ns", "_sent", "_sent_ns", "_widest")

    def __init__(self) -> None:
        self._acked: int | None = None
        self._sent = 0  # up to where data was seen
        self._sent_ns = self._acked_ns = 0
        self._widest = 0  # window that the receiver has offered
        self._room_ns: int | None = None  # since when it is open

    def sent(self, end: int, now_ns: int) -> None:
        """Data of its sender, which ends there."""
        self._sent = max(self._sent, end)
        self._sent_ns = now_ns

    def heard(self, acked: int, window: int | None, now_ns: int) -> None:
        """A packet of its receiver. window: None where it is not comparable to others."""
        if self._acked is None or acked > self._acked:
            self._acked, self._acked_ns = acked, now_ns
        if window is None:
            return
        self._widest = max(self._widest, window)
        if not window or 2 * window < self._widest:
            self._room_ns = None
        elif self._room_ns is None:
            self._room_ns = now_ns

    @property
    def silent_ns(self) -> int | None:
        """When it is silent, unless something passes before; None where it will not be."""
        if self._acked is None or self._acked < self._sent or self._room_ns is None:
            return None
        return max(self._acked_ns, self._sent_ns, self._room_ns) + SILENCE_NS

    def silent_at(self, now_ns: int) -> int | None:
        """Where its sender has fallen silent; None where it is not."""
        silent_ns = self.silent_ns
        return self._acked if silent_ns is not None and silent_ns <= now_ns else None
