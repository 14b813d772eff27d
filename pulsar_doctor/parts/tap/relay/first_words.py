"""Buffers what a client sends before its broker is connected, to find the broker."""

from __future__ import annotations

from pulsar_doctor.errors import FramingError
from pulsar_doctor.parts.tap.relay.passage import Passage
from pulsar_doctor.parts.tap.relay.rewrites import wanted_broker
from pulsar_doctor.wire.framing import Frame, Frames

CONNECT_BYTES_MOST = 1024 * 1024  # of a client that has not shown a whole frame yet


class FirstWords:
    """The first bytes that a client sends."""

    __slots__ = ("_behind", "_held", "_way", "enough", "frames")

    def __init__(self, way: Passage) -> None:
        self._way = way
        self._held: list[Frame] = []
        self._behind = b""  # read after something that cannot be cut
        self.frames: list[Frames] = []  # whole ones, as they came
        self.enough = False  # to know the broker that they are for

    def __bool__(self) -> bool:
        return bool(self._way.waiting)

    def add(self, data: bytes) -> None:
        """More of them."""
        way = self._way
        if way.failed is not None or way.cutter is None:
            self._behind += data
            return
        way.waiting += data
        way.cut(way.cutter, data)
        if len(way.frames):
            self.frames.append(way.frames)
            self._held += way.cutter.held_frames
        self.enough = bool(
            self.frames or way.failed is not None or len(way.waiting) > CONNECT_BYTES_MOST
        )

    @property
    def wanted(self) -> str:
        """The broker that the client names, "" for one of the service URL's."""
        first = next(iter(self.frames[0])) if self.frames else None
        return wanted_broker(first.command) if first is not None else ""

    def release(self) -> bytes:
        """What the broker gets now that it is there, CONNECT without the broker's name in it."""
        way = self._way
        held, self._held = self._held, []
        behind, self._behind = self._behind, b""
        if not (way.failed is None or isinstance(way.failed, FramingError)):
            held, self.frames = [], []  # a mistake of ours: nothing that was cut is sure
        out = way.rest() if way.cutter is None else way.decided(b"", way.cutter, held)
        return out + behind
