"""Cuts the bytes of a Pulsar connection into frames, whatever pieces they arrive in.

A frame (binary protocol, "Framing"):

    [total u32][command size u32][command]                          a simple command
    [total u32][command size u32][command] payload part             SEND and MESSAGE

    payload part: ([0x0e02][size u32][broker metadata]) ([0x0e01][crc32c u32])
                  [metadata size u32][metadata][payload]            brackets in () are optional

`total` counts everything after itself. Payload bytes are counted, never kept: what a cutter holds
between two calls is at most the head of one frame (all of it, where somebody wants to change it).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pulsar_doctor.errors import FramingError

DEFAULT_MAX_MESSAGE_BYTES = 5 * 1024 * 1024  # until CONNECTED says otherwise (maxMessageSize)
FRAME_PADDING_BYTES = 10 * 1024  # what a broker adds to it (Commands.MESSAGE_SIZE_FRAME_PADDING)
BROKER_METADATA_MAGIC = 0x0E02
CHECKSUM_MAGIC = 0x0E01
WITH_METADATA = frozenset({6, 9})  # SEND, MESSAGE: the payload part of others is not looked into

_U32 = struct.Struct(">I")
_SIZES = struct.Struct(">II")
_MAGIC = struct.Struct(">H")


class Frame(NamedTuple):
    """One whole frame that has passed.

    code: number of the command's type, -1 where its bytes do not begin with one.
    command: the bytes of the BaseCommand. metadata: those of the MessageMetadata of a SEND or
    MESSAGE, None where there is none. frame_bytes: with both size fields. payload_bytes: headers
    and payload, None where there are none. end: position in the stream just behind the frame.
    """

    code: int
    command: bytes
    metadata: bytes | None
    frame_bytes: int
    payload_bytes: int | None
    end: int


class Cutter:
    """Cuts one direction of one connection.

    `held` lists the codes of frames that somebody wants to change before they are passed on:
    these are kept whole, and `undecided` says how many bytes at the end of what was fed may not
    be passed on yet (their type is not known, or they belong to an unfinished held frame).

    frames: those that the last feed completed, also where it raised at what came behind them.
    position: bytes fed so far.
    """

    __slots__ = (
        "_begun",
        "_held",
        "_rest",
        "_skip",
        "completed_held",
        "frames",
        "max_frame_bytes",
        "position",
        "undecided",
    )

    def __init__(self, held: frozenset[int] = frozenset()) -> None:
        self._held = held
        self._rest = b""  # the unfinished head of a frame
        self._begun: Frame | None = None  # a frame whose head is known and whose payload passes
        self._skip = 0  # bytes of that payload still to come
        self.frames: list[Frame] = []
        self.position = 0
        self.undecided = 0
        self.completed_held = False  # whether a held frame was among the last ones
        self.max_frame_bytes = DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete, in order.

        Raises FramingError where the bytes can be no frame; the cutter cuts no more afterwards.
        """
        frames = self.frames = []
        self.completed_held = False
        self.undecided = 0
        start = self.position - len(self._rest)
        self.position += len(data)
        if self._skip > len(data):
            self._skip -= len(data)
            return frames
        at, self._skip = self._skip, 0
        if self._begun is not None:
            frames.append(self._begun)
            self._begun = None
        if self._rest:
            data, self._rest = self._rest + data, b""
        at = self._whole_frames(data, at, start)
        if at < len(data):
            self._rest = data[at:]
            self._begin_payload(start + at)
            self.undecided = self._undecided()
        return frames

    def _whole_frames(self, data: bytes, at: int, start: int) -> int:
        size, most = len(data), self.max_frame_bytes
        while size - at >= 8:
            total, command_bytes = _SIZES.unpack_from(data, at)
            if total > most or command_bytes > total - 4:
                raise FramingError(nonsense(total, command_bytes, most))
            end = at + 4 + total
            if end > size:
                break
            behind = at + 8 + command_bytes
            command = data[at + 8 : behind]
            code = code_of(command)
            metadata = payload_bytes = None
            if behind < end:
                payload_bytes = end - behind
                if code in WITH_METADATA:
                    metadata = _metadata(data, behind, end)
                    if metadata is None:
                        raise FramingError(f"a payload part of {payload_bytes} bytes is too short")
            if code in self._held:
                self.completed_held = True
            self.frames.append(
                Frame(code, command, metadata, total + 4, payload_bytes, start + end)
            )
            at = end
        return at

    def _begin_payload(self, frame_start: int) -> None:
        """Lets go of an unfinished frame once everything before its payload is here."""
        rest = self._rest
        if len(rest) < 8:
            return
        total, command_bytes = _SIZES.unpack_from(rest)
        end, behind = 4 + total, 8 + command_bytes
        if behind >= end or len(rest) < behind:
            return
        command = rest[8:behind]
        code = code_of(command)
        if code in self._held:
            return
        metadata = _metadata(rest, behind, end) if code in WITH_METADATA else None
        if metadata is None and code in WITH_METADATA:
            return
        self._begun = Frame(code, command, metadata, end, end - behind, frame_start + end)
        self._skip = end - len(rest)
        self._rest = b""

    def _undecided(self) -> int:
        rest = self._rest
        if not rest or not self._held:
            return 0
        # The type is the first field of a BaseCommand: its tag (1 byte) and its number (1 or 2).
        if len(rest) < 10 or (rest[9] & 0x80 and len(rest) < 11):
            return len(rest)
        command = rest[8 : 8 + min(_U32.unpack_from(rest, 4)[0], 3)]
        return len(rest) if code_of(command) in self._held else 0


def code_of(command: bytes) -> int:
    """The number of a command's type: the first field of every BaseCommand; -1 where it is not."""
    if len(command) < 2 or command[0] != 0x08:
        return -1
    if command[1] < 0x80:
        return command[1]
    if len(command) < 3 or command[2] & 0x80:
        return -1
    return command[1] & 0x7F | command[2] << 7


def nonsense(total: int, command_bytes: int, most: int) -> str:
    """Why these two size fields are not the beginning of a frame."""
    if total > most:
        return f"a frame of {total} bytes is longer than the {most} that the broker allows"
    return f"a frame of {total} bytes cannot hold a command of {command_bytes} bytes"


def _metadata(data: bytes, at: int, end: int) -> bytes | None:
    """The MessageMetadata of the payload part from `at` to `end`; None while it is not all here.

    Raises FramingError where it would be longer than the frame.
    """
    have = min(end, len(data))
    if have - at < 2:
        return None
    if _MAGIC.unpack_from(data, at)[0] == BROKER_METADATA_MAGIC:
        if have - at < 6:
            return None
        broker_metadata_bytes = _U32.unpack_from(data, at + 2)[0]
        at += 6
        _fits("broker metadata", broker_metadata_bytes, end - at)
        at += broker_metadata_bytes
        if have - at < 2:
            return None
    if _MAGIC.unpack_from(data, at)[0] == CHECKSUM_MAGIC:
        at += 6
    if have - at < 4:
        return None
    metadata_bytes = _U32.unpack_from(data, at)[0]
    at += 4
    _fits("metadata", metadata_bytes, end - at)
    return data[at : at + metadata_bytes] if have - at >= metadata_bytes else None


def _fits(what: str, size: int, room: int) -> None:
    if size > room:
        raise FramingError(f"{what} of {size} bytes, where the frame has {room} left")
