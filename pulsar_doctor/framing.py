"""Cuts the bytes of a Pulsar connection into frames, whatever pieces they arrive in.

A frame (binary protocol, "Framing"):

    [total u32][command size u32][command]                          a simple command
    [total u32][command size u32][command] payload part             SEND and MESSAGE

    payload part: ([0x0e02][size u32][broker metadata]) ([0x0e01][crc32c u32])
                  [metadata size u32][metadata][payload]            brackets in () are optional

`total` counts everything after itself. Payload bytes are counted, never kept: what a cutter holds
between two calls is at most the head of one frame.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pulsar_doctor.errors import FramingError

DEFAULT_MAX_MESSAGE_BYTES = 5 * 1024 * 1024  # until CONNECTED says otherwise (maxMessageSize)
FRAME_PADDING_BYTES = 10 * 1024  # what a broker adds to it (Commands.MESSAGE_SIZE_FRAME_PADDING)
BROKER_METADATA_MAGIC = 0x0E02
CHECKSUM_MAGIC = 0x0E01

_U32 = struct.Struct(">I")
_SIZES = struct.Struct(">II")
_MAGIC = struct.Struct(">H")


class Frame(NamedTuple):
    """One whole frame that has passed.

    code: number of the command's type, -1 where its bytes do not begin with one.
    command: the bytes of the BaseCommand. metadata: those of the MessageMetadata, None where the
    frame has no payload part. frame_bytes: with both size fields. payload_bytes: headers and
    payload, None where there are none. end: position in the stream just behind the frame.
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
    """

    __slots__ = (
        "_begun",
        "_held",
        "_rest",
        "_skip",
        "completed_held",
        "max_frame_bytes",
        "position",
        "undecided",
    )

    def __init__(self, held: frozenset[int] = frozenset()) -> None:
        self._held = held
        self._rest = b""  # the unfinished head of a frame
        self._begun: Frame | None = None  # a frame whose head is known and whose payload passes
        self._skip = 0  # bytes of that payload still to come
        self.position = 0  # bytes fed so far
        self.undecided = 0
        self.completed_held = False  # whether a held frame was among the last ones
        self.max_frame_bytes = DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete, in order.

        Raises FramingError where the bytes can be no frame; the cutter is of no use afterwards.
        """
        frames: list[Frame] = []
        self.completed_held = False
        at = 0
        if self._begun is not None:
            if len(data) < self._skip:
                self._skip -= len(data)
                self.position += len(data)
                return frames
            at = self._skip
            frames.append(self._begun)
            self._begun = None
        if self._rest:
            data = self._rest + data
            self.position -= len(self._rest)
        start = self.position
        at = self._whole_frames(data, at, start, frames)
        self._rest = data[at:]
        self.position = start + len(data)
        self._begin_payload(start + at)
        self.undecided = self._undecided()
        return frames

    def _whole_frames(self, data: bytes, at: int, start: int, frames: list[Frame]) -> int:
        size = len(data)
        while size - at >= 8:
            total, command_bytes = _SIZES.unpack_from(data, at)
            if total > self.max_frame_bytes or command_bytes > total - 4 or total < 4:
                raise FramingError(nonsense(total, command_bytes, self.max_frame_bytes))
            end = at + 4 + total
            if end > size:
                break
            behind = at + 8 + command_bytes
            command = data[at + 8 : behind]
            code = code_of(command)
            if code in self._held:
                self.completed_held = True
            if behind == end:
                frames.append(Frame(code, command, None, total + 4, None, start + end))
            else:
                metadata = _metadata(data, behind, end)
                if metadata is None:
                    raise FramingError("the metadata of a frame is longer than the frame")
                frames.append(
                    Frame(code, command, metadata, total + 4, end - behind, start + end)
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
        if behind >= end or len(rest) < behind or code_of(rest[8:behind]) in self._held:
            return
        metadata = _metadata(rest, behind, end)
        if metadata is None:
            return
        command = rest[8:behind]
        self._begun = Frame(
            code_of(command), command, metadata, end, end - behind, frame_start + end
        )
        self._skip = end - len(rest)
        self._rest = b""

    def _undecided(self) -> int:
        rest = self._rest
        if not rest or not self._held:
            return 0
        # The type is the first field of a BaseCommand: its tag (1 byte) and its number (1 or 2).
        if len(rest) < 10 or (rest[9] & 0x80 and len(rest) < 11):
            return len(rest)
        return len(rest) if code_of(rest[8:11]) in self._held else 0


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
    return f"a frame of {total} bytes cannot hold a command of {command_bytes}"


def _metadata(data: bytes, at: int, end: int) -> bytes | None:
    """The MessageMetadata that begins at or behind `at`; None where it is not all here yet."""
    have = min(end, len(data))
    if have - at < 2:
        return None
    if _MAGIC.unpack_from(data, at)[0] == BROKER_METADATA_MAGIC:
        if have - at < 6:
            return None
        at += 6 + _U32.unpack_from(data, at + 2)[0]
        if have - at < 2:
            return None
    if _MAGIC.unpack_from(data, at)[0] == CHECKSUM_MAGIC:
        at += 6
    if have - at < 4:
        return None
    metadata_bytes = _U32.unpack_from(data, at)[0]
    if metadata_bytes > end - at - 4:
        raise FramingError(f"metadata of {metadata_bytes} bytes in a frame of {end} bytes")
    at += 4
    return data[at : at + metadata_bytes] if have - at >= metadata_bytes else None
