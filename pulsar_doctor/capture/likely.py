"""A likely join, whose bytes are kept until they prove its boundaries, or refute them."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_doctor.capture.plausible import SearchBudget, can_be, only_boundary
from pulsar_doctor.wire.framing import Frames

UNREADABLE = "what follows is no frame"
OTHERS_ARE_TRUE = "its frames were in the payload of another"


class LikelyJoin:
    """One direction since it was joined. Changed in place.

    frames: how many were told. used_before: bytes of the direction that were used before it.
    kept: the bytes since then, which begin with a frame; None where they are kept no longer.
    """

    __slots__ = ("_search_at", "frames", "kept", "used_before")

    def __init__(self, kept: bytes, used_before: int, search_at: int) -> None:
        self.frames = 0
        self.used_before = used_before
        self.kept: bytearray | None = bytearray(kept)
        self._search_at = search_at

    @property
    def kept_bytes(self) -> int:
        """What is held until it is known whether the join is true."""
        return 0 if self.kept is None else len(self.kept)

    def tell(self, found: Iterable[Frames]) -> None:
        """These frames are told."""
        self.frames += sum(map(len, found))

    def take(self, data: bytes) -> None:
        """More bytes of the stream, which nothing is missing of."""
        if self.kept is not None:
            self.kept += data

    def proven_at(self, direction: int, most: int, budget: SearchBudget) -> int | None:
        """Where a frame begins for certain among the bytes kept; they are searched once."""
        if self.kept is None or len(self.kept) < self._search_at:
            return None
        found = only_boundary(self.kept, direction, most, budget)
        if found is None:
            self.kept = None
        return found

    def begins_a_frame(self, place: int) -> bool:
        """Whether one of its own frames begins there."""
        at, kept = 0, self.kept or b""
        while at < place:
            at += 4 + int.from_bytes(kept[at : at + 4], "big")
        return at == place


def all_can_be(found: Iterable[Frames], direction: int) -> bool:
    """Whether each of these frames may be one of that direction."""
    return all(can_be(frame, direction) for frames in found for frame in frames)
