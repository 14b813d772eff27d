"""A connection joined at a likely boundary, until later bytes prove or refute it.

A payload that consists of frames to its very end cannot be distinguished from commands by what
follows: the next frame begins where the last one within it ends, so both read alike for ever. What
comes before can refute it, where it is in the capture: a message that begins there, reaches into
the join, and has the checksum that it names. To fake that, a payload would have to know what others
say after it.

A chain of whole frames at the start of a segment makes a boundary likely. A sender that had nothing
to send before begins a segment with a frame, so that in the middle of a stream such a chain is
probably its commands. A payload may hold one, too: what follows from it is likely and never proven
(see boundaries.py). A chain is believed where it has FRAMES_LEAST frames, has lasted for JOIN_NS,
and no other one is left that disagrees. A frame within a payload ends with it at the latest, so
that the frame around it wins where both are seen. Checksums are compared in the first frames that
carry them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pulsar_doctor.parts.capture.plausible import (
    NOT_ALL,
    NOT_ONE,
    SearchBudget,
    WorkExhaustedError,
    agrees_with_checksum,
    can_be,
    end_of_frame,
    messages_around,
    needed_until,
    only_boundary,
)
from pulsar_doctor.wire.framing import WITH_METADATA, Frames, code_of

UNREADABLE = "what follows is no frame"
WITHIN_ANOTHER = "its frames are in the payload of a message, by the checksum of that"
AROUND_MOST = 16  # messages that may be around one join
FRAMES_LEAST = 3
JOIN_NS = 1_000_000_000
CHAINS_MOST = 16  # that are followed at once
CHECKED_FRAMES = 3  # of a chain: 5 MB take a third of a second


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


class Chain:
    """Frames one behind the other."""

    __slots__ = ("at", "begins", "checked", "frames", "needs", "since_ns")

    def __init__(self, begins: int, now_ns: int) -> None:
        self.begins = self.at = begins  # positions of the first frame and of the next one
        self.since_ns = now_ns  # when the first bytes came
        self.needs = begins + 8  # as many bytes must be there to know more
        self.frames = self.checked = 0


class Chains:
    """The chains that may be those of one direction. Positions are those of the bytes kept."""

    def __init__(self, direction: int) -> None:
        self.first_ns: int | None = None  # when the first of these bytes came; None: just now
        self._direction = direction
        self._alive: list[Chain] = []

    def clear(self) -> None:
        """What was kept is not kept any more."""
        self._alive, self.first_ns = [], None

    def grow(
        self, data: bytearray, start: int, most: int, budget: SearchBudget, now_ns: int
    ) -> None:
        """A segment has come. start: where it begins in the data that is kept."""
        known = any(chain.at == start for chain in self._alive)
        if not known and len(self._alive) < CHAINS_MOST:
            since_ns = now_ns if start or self.first_ns is None else self.first_ns
            self._alive.append(Chain(start, since_ns))
        try:
            left = [each for each in self._alive if self._continues(each, data, most, budget)]
        except WorkExhaustedError:
            left = []
        self._alive = list(_outermost(left))

    def boundary(self, now_ns: int) -> int | None:
        """Where the only chain that is left begins; None while nothing makes it likely."""
        if len(self._alive) != 1:
            return None
        (chain,) = self._alive
        lasts = now_ns - chain.since_ns >= JOIN_NS
        return chain.begins if lasts and chain.frames >= FRAMES_LEAST else None

    def _continues(self, chain: Chain, data: bytearray, most: int, budget: SearchBudget) -> bool:
        """Follows one as far as the data reaches; False where it ends in what is no frame."""
        while chain.needs <= len(data):
            end = end_of_frame(data, chain.at, self._direction, most, budget)
            if end == NOT_ONE:
                return False
            if end == NOT_ALL:
                chain.needs = max(len(data) + 1, needed_until(data, chain.at))
                return True
            if chain.checked < CHECKED_FRAMES and not self._is_sound(chain, data, end, budget):
                return False
            chain.at, chain.needs, chain.frames = end, end + 8, chain.frames + 1
        return True

    def _is_sound(self, chain: Chain, data: bytearray, end: int, budget: SearchBudget) -> bool:
        if code_of(bytes(data[chain.at + 8 : chain.at + 11])) not in WITH_METADATA:
            return True
        chain.checked += 1
        budget.spend_on_checksum(end - chain.at)
        return agrees_with_checksum(bytes(data[chain.at : end])) is not False


def _outermost(chains: Iterable[Chain]) -> Iterable[Chain]:
    """The outermost of those that have become one: the one that began first."""
    by_place: dict[int, Chain] = {}
    for chain in chains:
        other = by_place.setdefault(chain.at, chain)
        if chain.begins < other.begins:
            by_place[chain.at] = chain
    return by_place.values()
