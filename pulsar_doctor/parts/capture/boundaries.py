"""Finds where frames begin in one direction of a connection, even in mid-stream or after loss.

A payload may hold whole frames, as many as it has room for, so that a chain of sound frames proves
nothing. A boundary is *proven* by what no payload can fake:

- the beginning: the SYN was seen, and the first frame is a CONNECT, or what answers one;
- a payload that is passing: its head has its end, whatever is lost of it meanwhile;
- size: no frame is longer than the broker allows, so the stream's own frames begin within so many
  bytes, and theirs is a chain that continues; see plausible.only_boundary.

It is *likely* where nothing but whole frames is between two silences of the sender (see
silences.py): a sender that had nothing to say does not stand in the middle of a frame, since frames
are written whole. It may have stalled there, so no single silence is believed; nor do two prove it,
since one that stalls twice in a payload, each time where a frame within it ends, is the same from
outside. It is likely, too, where a chain of sound frames begins with a segment (see likely.py).
What is only likely is passed on and marked, and no verdict relies on it. Size proves the boundaries
from some place on. The join is *retracted* where a frame comes that cannot be, and where a message
that began before it turns out to reach into it, by its checksum (see likely.py).

Until one of these holds, bytes are kept and nothing is passed on; what turns out to be of no use is
counted as skipped. seen = used + skipped + lost, of each direction, once it is finished.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

from pulsar_doctor.errors import FramingError
from pulsar_doctor.parts.capture.likely import (
    UNREADABLE,
    WITHIN_ANOTHER,
    Chains,
    LikelyJoin,
    all_can_be,
)
from pulsar_doctor.parts.capture.plausible import (
    WORK_OF_BYTE,
    SearchBudget,
    are_frames,
    only_boundary,
)
from pulsar_doctor.parts.capture.streams import Hole
from pulsar_doctor.wire.columns import BY_SEGMENT, BY_SILENCE, LIKELY_BY
from pulsar_doctor.wire.framing import FRAME_PADDING_BYTES, Cutter, Frames, code_of

FIRST_CODES = ({2}, {3, 14, 36})  # CONNECT; CONNECTED, ERROR, AUTH_CHALLENGE
FIRST_BYTES = 11
BEGINNING, LENGTH = "beginning", "length"  # by which it is proven
SEARCH_STEP_BYTES = 1 << 20
KEPT_BYTES_MOST = 48 << 20
TLS_RECORDS = range(0x14, 0x18)
ZEROS = bytes(1 << 16)


class Footing(Enum):
    """The state of a direction. FOREIGN, TLS: for good."""

    BEGINS = "begins"
    IN_STEP = "in step"
    SEARCHING = "searching"
    FOREIGN = "not Pulsar"
    TLS = "TLS"


class Boundaries:
    """One direction: bytes in, frames out; changed in place. proven_only: no likely joins."""

    def __init__(
        self, direction: int, max_message_bytes: int, *, proven_only: bool = False
    ) -> None:
        self.standing = Footing.BEGINS
        self.seen = self.used = self.skipped = 0  # bytes
        self.lost: Counter[str] = Counter()  # bytes, by kind of hole
        self.resumed = 0  # how often it came in step again
        self.known_by = BEGINNING  # why it is in step; also LENGTH or one of LIKELY_BY
        # Likely joins; those that were taken back, and the frames of these.
        self.likely_joins = self.retracted = self.retracted_frames = 0
        self.why_retracted = ""  # of the last one
        self.joined = False  # its beginning was not seen
        self.tls_like = False  # what it began with may be TLS
        self._direction = direction
        self._proven_only = proven_only
        self._likely: LikelyJoin | None = None
        self._chains = Chains(direction)
        self._most = max_message_bytes + FRAME_PADDING_BYTES
        self._kept = bytearray()  # while it begins or is searched
        self._silent_at: int | None = None  # where in what is kept the last silence was
        self._search_at = self._first_search
        self._budget = SearchBudget()  # that searches may take yet, by the bytes that came
        self._cutter = Cutter()
        self._fed = self._cut = self._zeros = 0  # bytes; zeros: for holes, of an unfinished frame

    @property
    def _first_search(self) -> int:
        return 2 * self._most + 16

    @property
    def in_step(self) -> bool:
        """Whether no frame of it was missed, or will be, from here on."""
        return self.standing in (Footing.BEGINS, Footing.IN_STEP)

    @property
    def is_proven(self) -> bool:
        """Whether it is in step for certain."""
        return self.in_step and self._likely is None

    @property
    def kept_bytes(self) -> int:
        """What is held until it is known what it is."""
        return len(self._kept) + (self._likely.kept_bytes if self._likely else 0)

    def allow(self, max_message_bytes: int) -> None:
        """Takes the limit that CONNECTED names."""
        self._most = max_message_bytes + FRAME_PADDING_BYTES
        self._cutter.max_frame_bytes = self._most
        self._search_at = max(self._search_at, self._first_search)

    def join(self, first_ns: int) -> bool:
        """Joins a direction in its middle; whether that is news. first_ns: its first bytes."""
        news = self.standing is Footing.BEGINS
        self._chains.first_ns = first_ns
        if news:
            self.standing = Footing.SEARCHING
            self.joined = True
        return news

    def give_up(self, why: Footing) -> None:
        """It is nothing to be read: FOREIGN or TLS."""
        self._leave()
        self.standing = why
        self.drop()

    def drop(self) -> None:
        """Skips what is kept."""
        self.skipped += len(self._kept)
        self._kept = bytearray()
        self._chains.clear()
        if self._likely is not None:
            self._likely.forget()
        self._budget = SearchBudget()
        self._silent_at = None
        self._search_at = self._first_search

    def silence(self) -> None:
        """Takes a silence of its sender; in step where an earlier silence confirms it."""
        since, here = self._silent_at, len(self._kept)
        if self.standing is not Footing.SEARCHING or since == here:
            return
        self._chains.clear()
        self._silent_at = here
        if since is None or self._proven_only:
            return
        if are_frames(self._kept[since:], self._direction, self._most):
            self._begin(here, BY_SILENCE)

    def retract(self, why: str) -> None:
        """What was only likely is not so: none of its frames is believed, and the search begins."""
        likely = self._likely
        if likely is None:
            return
        self._leave()
        self.standing, self._likely = Footing.SEARCHING, None
        self.skipped += self.used - likely.used_before
        self.used = likely.used_before
        self.retracted += 1
        self.retracted_frames += likely.frames
        self.why_retracted = why

    def hole(self, hole: Hole) -> bool:
        """Bytes that are missing; whether it fell out of step by that."""
        self.seen += hole.size
        self.lost[hole.kind] += hole.size
        if self.standing is Footing.IN_STEP and hole.size < self._cutter.passing_bytes:
            if self._likely is not None:
                self._likely.forget()
            left = hole.size
            while left:
                self._feed_zeros(min(left, len(ZEROS)))
                left -= min(left, len(ZEROS))
            return False
        was = self.in_step
        if self.standing in (Footing.FOREIGN, Footing.TLS):
            return False
        self._leave()
        self.standing, self._likely = Footing.SEARCHING, None
        self.drop()
        return was

    def feed(self, data: bytes, now_ns: int) -> list[Frames]:
        """The frames that a segment completes, each read's apart."""
        self.seen += len(data)
        if self.standing is Footing.IN_STEP:
            return self._cut_in_step(data) if self._likely is None else self._cut_likely(data)
        if self.standing in (Footing.FOREIGN, Footing.TLS):
            self.skipped += len(data)
            return []
        start = len(self._kept)
        self._kept += data
        self._budget.left += WORK_OF_BYTE * len(data)
        if self.standing is Footing.BEGINS:
            return self._first() if len(self._kept) >= FIRST_BYTES else []
        if self.joined and len(self._kept) >= 5 and self.skipped == 0 and not self.lost:
            self.tls_like = self.tls_like or _is_tls(self._kept)
        self._chains.grow(self._kept, start, self._most, self._budget, now_ns)
        at = None if self._proven_only else self._chains.boundary(now_ns)
        if at is not None:
            return self._begin(at, BY_SEGMENT)
        if len(self._kept) < self._search_at:
            return []
        found = only_boundary(self._kept, self._direction, self._most, self._budget)
        if found is not None:
            return self._begin(found, LENGTH)
        self._search_at += SEARCH_STEP_BYTES
        if len(self._kept) > min(3 * self._most, KEPT_BYTES_MOST):
            self.drop()
        return []

    def finish(self) -> None:
        """No more will come: what is unfinished is skipped."""
        self._leave()
        self.drop()

    def _first(self) -> list[Frames]:
        kept = bytes(self._kept[:FIRST_BYTES])
        if _is_tls(kept):
            self.give_up(Footing.TLS)
            return []
        if code_of(kept[8:]) not in FIRST_CODES[self._direction]:
            self.give_up(Footing.FOREIGN)
            return []
        return self._begin(0, BEGINNING)

    def _begin(self, at: int, known_by: str) -> list[Frames]:
        """In step from this byte of what is kept, unless a message around it is all there."""
        data, likely = bytes(self._kept[at:]), None
        if known_by in LIKELY_BY:
            likely = LikelyJoin(self._kept, at, self.used, self._first_search)
            likely.look_around(self._direction, self._most, self._budget)
            if likely.is_within_another(self._budget):
                self._chains.clear()
                return []
        if self.standing is Footing.SEARCHING:
            self.resumed += 1
        self.known_by = known_by
        self.skipped += at
        self._kept = bytearray()
        self._chains.clear()
        self._silent_at = None
        self._cutter = Cutter()
        self._cutter.max_frame_bytes = self._most
        self._fed = self._cut = self._zeros = 0
        self.standing = Footing.IN_STEP
        if likely is None:
            return self._cut_in_step(data)
        self.likely_joins, self._likely = self.likely_joins + 1, likely
        return self._likely_frames(self._cut_in_step(data))

    def _cut_likely(self, data: bytes) -> list[Frames]:
        """In step, as far as is known: what comes may prove it, or refute it."""
        assert self._likely is not None
        likely = self._likely
        likely.take(data)
        self._budget.left += WORK_OF_BYTE * len(data)
        if likely.is_within_another(self._budget):
            self.retract(WITHIN_ANOTHER)
            self.skipped += len(data)
            return []
        found = self._likely_frames(self._cut_in_step(data))
        if self.in_step and likely.is_proven(self._direction, self._most, self._budget):
            self._likely, self.known_by = None, LENGTH
            self.resumed += 1
        return found

    def _likely_frames(self, found: list[Frames]) -> list[Frames]:
        """Frames of a likely join, all or none."""
        assert self._likely is not None
        self._likely.tell(found)
        if self.in_step and all_can_be(found, self._direction):
            return found
        self.retract(UNREADABLE)
        return []

    def _cut_in_step(self, data: bytes) -> list[Frames]:
        self._fed += len(data)
        try:
            frames = self._cutter.feed(data)
        except FramingError:
            frames = self._cutter.frames
            self._count(frames)
            self._leave()
            self.standing = Footing.SEARCHING
        else:
            self._count(frames)
        return [frames] if frames else []

    def _feed_zeros(self, size: int) -> None:
        self._cutter.feed(ZEROS[:size])
        self._fed += size
        self._zeros += size

    def _count(self, frames: Frames) -> None:
        if frames:
            size = sum(frames.sizes[::2]) + 4 * len(frames)
            self._cut += size
            self.used += size - self._zeros
            self._zeros = 0

    def _leave(self) -> None:
        """What is unfinished was of no use."""
        if self.standing is Footing.IN_STEP:
            self.skipped += self._fed - self._cut - self._zeros
            self._fed = self._cut = self._zeros = 0


def _is_tls(data: bytes | bytearray) -> bool:
    return data[0] in TLS_RECORDS and data[1] == 3 and data[2] <= 4
