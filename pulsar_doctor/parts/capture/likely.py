"""A connection joined at a likely boundary, until later bytes prove or refute it.

A payload that consists of frames to its very end cannot be distinguished from commands by what
follows: the next frame begins where the last one within it ends, so both read alike for ever. What
comes before can refute it, where it is in the capture: a message that begins there, reaches into
the join, and has the checksum that it names. To fake that, a payload would have to know what others
say after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pulsar_doctor.parts.capture.plausible import (
    SearchBudget,
    WorkExhaustedError,
    agrees_with_checksum,
    can_be,
    messages_around,
    only_boundary,
)
from pulsar_doctor.wire.framing import Frames

UNREADABLE = "what follows is no frame"
WITHIN_ANOTHER = "its frames are in the payload of a message, by the checksum of that"
AROUND_MOST = 16  # messages that may be around one join


class LikelyJoin:
    """One direction since it was joined. Changed in place."""

    __slots__ = ("_around", "_at", "_kept", "_search_bytes", "frames", "used_before")

    def __init__(self, kept: bytearray, at: int, used_before: int, search_bytes: int) -> None:
        """kept: bytes of the stream, of which it begins with the one at `at`."""
        self.frames = 0  # how many were reported
        self.used_before = used_before  # bytes of the direction, before the join
        self._kept: bytearray | None = kept
        self._at = at
        self._search_bytes = search_bytes
        self._around: list[tuple[int, int]] = []  # where each may end, and where it begins

    @property
    def kept_bytes(self) -> int:
        """What is held until it is known whether the join is true."""
        return len(self._kept or b"")

    def tell(self, found: Iterable[Frames]) -> None:
        """Takes the frames of this direction."""
        self.frames += sum(map(len, found))

    def take(self, data: bytes) -> None:
        """More bytes of the stream, which nothing is missing of."""
        if self._kept is not None:
            self._kept += data

    def forget(self) -> None:
        """Bytes are missing, or were searched: those that are kept prove nothing any more."""
        self._kept = None
        self._around.clear()

    def look_around(self, direction: int, most: int, budget: SearchBudget) -> None:
        """Finds the messages that may have begun before it and reach into it."""
        kept = self._kept or bytearray()
        with suppress(WorkExhaustedError):
            found = messages_around(kept, self._at, direction, most, budget)
            self._around = sorted(found)[:AROUND_MOST]
        if not self._around:
            del kept[: self._at]
            self._at = 0

    def is_within_another(self, budget: SearchBudget) -> bool:
        """Whether one of these is all there by now, and has the right checksum."""
        kept = self._kept or b""
        while self._around and self._around[0][0] <= len(kept):
            end, begins = self._around.pop(0)
            with suppress(WorkExhaustedError):
                budget.spend_on_checksum(end - begins)
                if agrees_with_checksum(bytes(kept[begins:end])):
                    return True
        return False

    def is_proven(self, direction: int, most: int, budget: SearchBudget) -> bool:
        """Whether its frames begin for certain where they do, from here on; searched once.

        Its own chain is among those that size leaves, so that it is the one where they all meet.
        """
        if self._kept is None or len(self._kept) < self._at + self._search_bytes:
            return False
        kept = self._kept[self._at :]
        self.forget()
        place = only_boundary(kept, direction, most, budget)
        return place is not None and _begins_a_frame(kept, place)


def _begins_a_frame(kept: bytearray, place: int) -> bool:
    """Whether one of the frames from the first byte on begins there."""
    at = 0
    while at < place:
        at += 4 + int.from_bytes(kept[at : at + 4], "big")
    return at == place


def all_can_be(found: Iterable[Frames], direction: int) -> bool:
    """Whether each of these frames may be one of that direction."""
    return all(can_be(frame, direction) for frames in found for frame in frames)
