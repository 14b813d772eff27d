"""A likely join: the bytes since then, until they prove its boundaries or refute them.

A payload that consists of frames to its very end cannot be told from commands by what follows: the
next frame begins where the last one within it ends, so both read alike for ever. What comes before
can refute it, where it is in the capture: a message that begins there, reaches into the join, and
has the checksum that it says. To fake that, a payload would have to know what others say after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pulsar_doctor.capture.plausible import (
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


class Around:
    """Messages that may have begun before a join and reach into it. Changed in place."""

    __slots__ = ("_kept", "_messages")

    def __init__(
        self, kept: bytearray, at: int, direction: int, most: int, budget: SearchBudget
    ) -> None:
        self._messages: list[tuple[int, int]] = []  # where each ends, and where it begins
        with suppress(WorkExhaustedError):
            self._messages = sorted(messages_around(kept, at, direction, most, budget))
        del self._messages[AROUND_MOST:]
        self._kept = bytearray(kept) if self._messages else bytearray()

    @property
    def kept_bytes(self) -> int:
        """What is held until they are all there."""
        return len(self._kept)

    def take(self, data: bytes) -> None:
        """More bytes of the stream."""
        if self._messages:
            self._kept += data

    def forget(self) -> None:
        """Bytes are missing, or none of these is one."""
        self._messages.clear()
        self._kept.clear()

    def is_message(self, budget: SearchBudget) -> bool:
        """Whether one of them is all there by now, and has the right checksum."""
        with suppress(WorkExhaustedError):
            while self._messages and self._messages[0][0] <= len(self._kept):
                end, begins = self._messages.pop(0)
                budget.spend_on_checksum(end - begins)
                if agrees_with_checksum(bytes(self._kept[begins:end])):
                    return True
            if self._messages:
                return False
        self.forget()
        return False


class LikelyJoin:
    """One direction since it was joined. Changed in place.

    frames: how many were told. used_before: bytes of the direction that were used before it.
    around: messages that it may lie within.
    """

    __slots__ = ("_kept", "_search_at", "around", "frames", "used_before")

    def __init__(self, kept: bytes, around: Around, used_before: int, search_at: int) -> None:
        self.frames = 0
        self.around = around
        self.used_before = used_before
        self._kept: bytearray | None = bytearray(kept)  # begins with a frame; None: not any more
        self._search_at = search_at

    @property
    def kept_bytes(self) -> int:
        """What is held until it is known whether the join is true."""
        return len(self._kept or b"") + self.around.kept_bytes

    def tell(self, found: Iterable[Frames]) -> None:
        """These frames are told."""
        self.frames += sum(map(len, found))

    def take(self, data: bytes) -> None:
        """More bytes of the stream, which nothing is missing of."""
        if self._kept is not None:
            self._kept += data
        self.around.take(data)

    def forget(self) -> None:
        """Bytes are missing: those that are kept prove nothing any more."""
        self._kept = None
        self.around.forget()

    def is_proven(self, direction: int, most: int, budget: SearchBudget) -> bool:
        """Whether its frames begin for certain where they do, from here on; searched once.

        Its own chain is among those that size leaves, so that it is the one where they all meet.
        """
        if self._kept is None or len(self._kept) < self._search_at:
            return False
        kept, self._kept = self._kept, None
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
