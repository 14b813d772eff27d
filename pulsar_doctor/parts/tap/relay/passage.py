"""One direction of a connection: bytes in, bytes out, except for held frames.

What cannot be parsed passes as it comes; what can be cut is, seen or not, so that the client stays
on the tap. No socket, no event loop and no clock are known here: sides.py has those.

Not frozen values but the tap's hot path: every byte comes through `Passage.receive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pulsar_doctor.errors import FramingError
from pulsar_doctor.wire.framing import Cutter, Frame, Frames

TO_BROKER, TO_CLIENT = 0, 1  # as in journal.DIRECTIONS
FRAMES_MOST = 1024  # looked at before the others have their turn
NOTHING = Frames()

# What to pass on instead of a held frame, given it, its bytes and its direction. Never raises.
Decide = Callable[[Frame, bytes, int], bytes]


class Passage:
    """The bytes of one direction. held: codes of the frames that `decide` gets."""

    __slots__ = (
        "_decide",
        "cutter",
        "direction",
        "ended",
        "failed",
        "frames",
        "insertion",
        "news",
        "waiting",
    )

    def __init__(self, held: frozenset[int], direction: int, decide: Decide) -> None:
        self.direction = direction
        self.cutter: Cutter | None = Cutter(held, FRAMES_MOST)
        self.waiting = bytearray()  # read, and not to be passed on yet
        self.insertion = b""  # frames of our own, to go between two of this way's
        self.frames = NOTHING  # that the last bytes completed
        self.failed: Exception | None = None  # why no more can be cut: give it nothing more, let go
        self.news = False  # there is one of the two
        self.ended = False  # the end was seen: nothing comes behind it
        self._decide = decide

    def receive(self, data: bytes) -> bytes:
        """What is to be passed on now that these bytes have come."""
        cutter = self.cutter
        if cutter is None:
            return data
        self.cut(cutter, data)
        if self.waiting or self.insertion or cutter.undecided or cutter.held_frames:
            return self.decided(data, cutter, cutter.held_frames)
        return data

    @property
    def more(self) -> bool:
        """Whether some of what was received has not been decided: to receive nothing continues."""
        return self.cutter is not None and self.cutter.more

    def cut(self, cutter: Cutter, data: bytes) -> None:
        """Has the cutter cut; what cannot be cut is no reason to stop."""
        try:
            frames = self.frames = cutter.feed(data)
            self.news = bool(frames.codes)
        except FramingError as error:
            self.frames, self.failed, self.news = cutter.frames, error, True
        except Exception as error:  # a mistake of ours: what the cutter says is worth nothing
            cutter.held_frames, cutter.undecided, cutter.more = [], 0, False
            self.frames, self.failed, self.news = NOTHING, error, True

    def decided(self, data: bytes, cutter: Cutter, held: Sequence[Frame]) -> bytes:
        """What is passed on where some of it is to be rewritten, or its type is not known yet."""
        if cutter.undecided == len(self.waiting) + len(data) and not (held or self.insertion):
            self.waiting += data  # of one frame; nothing is copied again until it is whole
            return b""
        buffer = bytes(self.waiting) + data if self.waiting else data
        start = cutter.position - len(buffer)
        edits = [
            (frame.end - frame.frame_bytes, frame.end, self._instead(frame, buffer, start))
            for frame in held
        ]
        frames = self.frames
        if self.insertion and len(frames):  # the first one was in the middle, and so not held
            first_ends = frames.start + frames.sizes[0] + 4
            edits.insert(0, (first_ends, first_ends, self.insertion))
            self.insertion = b""
        passed = 0
        out: list[bytes] = []
        for begin, end, instead in edits:
            out += (buffer[passed : begin - start], instead)
            passed = end - start
        until = len(buffer) - cutter.undecided
        out.append(buffer[passed:until])
        self.waiting = bytearray(buffer[until:])
        return b"".join(out)

    def _instead(self, frame: Frame, buffer: bytes, start: int) -> bytes:
        original = buffer[frame.end - frame.frame_bytes - start : frame.end - start]
        return self._decide(frame, original, self.direction)

    def insert(self, frames: bytes) -> bytes | None:
        """Has frames of our own follow what has passed, as soon as no other is in the middle.

        What of them is to be passed on now; None where that cannot be, since nothing is cut or
        nothing comes any more.
        """
        if self.cutter is None or self.ended:
            return None
        if self.cutter.between_frames and not self.insertion:
            return frames
        self.insertion += frames
        return b""

    def rest(self) -> bytes:
        """What was kept back, since nothing that it waits for will come."""
        kept, self.waiting = bytes(self.waiting), bytearray()
        return kept

    def let_go(self) -> bytes:
        """From now on everything passes as it comes; what was kept back."""
        self.cutter = self.failed = None
        self.frames, self.news = NOTHING, False
        return self.rest()

    def allow(self, frame_bytes: int) -> None:
        """Sets how long a frame may be."""
        if self.cutter is not None:
            self.cutter.max_frame_bytes = frame_bytes
