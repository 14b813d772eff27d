"""Finds chains of whole frames at the start of a segment, which make a boundary likely.

A sender that had nothing to send before begins a segment with a frame, so that in the middle of a
stream a chain of sound frames from the start of a segment is probably its commands. A payload may
hold such a chain, too: what follows from one is likely and never proven (see boundaries.py). A
chain is believed where it has FRAMES_LEAST frames, has lasted for JOIN_NS, and no other one is left
that disagrees. A frame within a payload ends with it at the latest, so that the frame around it
wins where both are seen. Checksums are compared in the first frames that carry them.
"""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_doctor.parts.capture.plausible import (
    NOT_ALL,
    NOT_ONE,
    SearchBudget,
    WorkExhaustedError,
    agrees_with_checksum,
    end_of_frame,
    needed_until,
)
from pulsar_doctor.wire.framing import WITH_METADATA, code_of

FRAMES_LEAST = 3
JOIN_NS = 1_000_000_000
CHAINS_MOST = 16  # that are followed at once
CHECKED_FRAMES = 3  # of a chain: 5 MB take a third of a second


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
