"""Splits the bytes of a connection into frames.

A frame (binary protocol, "Framing"):

    [total u32][command size u32][command]                          a simple command
    [total u32][command size u32][command] payload part             SEND and MESSAGE

    payload part: ([0x0e02][size u32][broker metadata]) ([0x0e01][crc32c u32])
                  [metadata size u32][metadata][payload]            brackets in () are optional

`total` counts everything after itself. Payload bytes are counted, never kept: what a cutter holds
between two calls is at most the head of one frame (all of it, where somebody wants to change it).
Heads longer than any real one are not held either: such a frame is TOO_LONG, its bytes pass.

Not frozen values but the tap's hot path: what the frames of one read have in common is in four
flat lists, which masking takes as they are, and a `Frame` is made only for whoever asks for one.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from pulsar_doctor.errors import FramingError

DEFAULT_MAX_MESSAGE_BYTES = 5 * 1024 * 1024  # until CONNECTED says otherwise (maxMessageSize)
FRAME_PADDING_BYTES = 10 * 1024  # what a broker adds to it (Commands.MESSAGE_SIZE_FRAME_PADDING)
BROKER_METADATA_MAGIC = 0x0E02
CHECKSUM_MAGIC = 0x0E01
SEND, MESSAGE = 6, 9
WITH_METADATA = frozenset({SEND, MESSAGE})  # the payload part of others is not looked into
NOTHING: frozenset[int] = frozenset()
HELD_BYTES_MOST = 64 * 1024  # of a frame that somebody wants to change; a real LOOKUP is shorter
HEAD_BYTES_MOST = 1024 * 1024  # of any other, up to where its payload begins
STRETCH_BYTES = 32 * 1024  # cut before the frames are counted
TOO_LONG = -2  # instead of the code of a frame that is longer there; its command is its first bytes

_U32 = struct.Struct(">I")
_HEAD = struct.Struct(">IIH")  # total, command size, the command's first two bytes
_SIZES = struct.Struct(">II")
_MAGIC = struct.Struct(">H")
_MAGIC_SIZE = struct.Struct(">HI")
_CHECKED = struct.Struct(">H4xI")  # magic, (checksum), metadata size
_TYPE_IS = 0x0800  # the first field of a command, as every client writes it: this tag, its code
_PREFIXES_READY = 1 << 10


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_PREFIXES = tuple(varint(size) for size in range(_PREFIXES_READY))


class Frame(NamedTuple):
    """One whole frame that has passed."""

    code: int  # number of the command type; -1: its bytes do not begin with one; or TOO_LONG
    command: bytes  # bytes of the BaseCommand
    metadata: bytes | None  # bytes of the MessageMetadata of a SEND or MESSAGE; None: there is none
    frame_bytes: int  # size of the frame with both size fields
    payload_bytes: int | None  # of headers and payload; None: there are none
    end: int  # position in the stream just behind the frame


class Frames:
    """The frames that one feed has completed; a Frame is made of each as it is iterated."""

    __slots__ = ("codes", "commands", "metadata", "sizes", "start")

    def __init__(self, start: int = 0) -> None:
        self.codes: list[int] = []
        self.sizes: list[int] = []  # two each: `total` and the command size, as on the wire
        self.commands: list[bytes] = []  # each behind its size as a varint: a field without its tag
        self.metadata: list[bytes] = []  # the same, of frames that have some
        self.start = start  # position of the first frame

    def __len__(self) -> int:
        return len(self.codes)

    def add(self, code: int, command: bytes, metadata: bytes | None, total: int) -> None:
        """Another frame behind the last one."""
        self.codes.append(code)
        self.sizes += (total, len(command))
        self.commands.append(prefixed(command))
        if metadata is not None:
            self.metadata.append(prefixed(metadata))

    def extend(self, more: Frames) -> None:
        """Adds the frames of another read behind these."""
        self.codes += more.codes
        self.sizes += more.sizes
        self.commands += more.commands
        self.metadata += more.metadata

    def __iter__(self) -> Iterator[Frame]:
        metadata = iter(self.metadata)
        sizes = iter(self.sizes)
        end = self.start
        for code, command, total, command_bytes in zip(
            self.codes, self.commands, sizes, sizes, strict=False
        ):
            end += total + 4
            payload_bytes = total - 4 - command_bytes or None
            has_metadata = payload_bytes is not None and code in WITH_METADATA
            yield Frame(
                code,
                command[-command_bytes:] if command_bytes else b"",
                unprefixed(next(metadata)) if has_metadata else None,
                total + 4,
                payload_bytes,
                end,
            )


class Cutter:
    """Cuts one direction of one connection.

    `held` lists the codes of frames that somebody wants to change before they are passed on:
    these are kept whole, and `undecided` says how many bytes at the end of what was fed may not
    be passed on yet (their type is not known, or they belong to an unfinished held frame). SEND
    and MESSAGE cannot be held. What waits to be whole is appended to, and examined again when
    there is enough of it: the work is linear in the bytes, whatever pieces they come in.

    A feed stops soon after `frames_most` frames. Then `more` is true, and a feed of nothing
    continues with what has not been looked at.
    """

    __slots__ = (
        "_begun",
        "_held",
        "_needed",
        "_rest",
        "_skip",
        "frames",
        "frames_most",
        "held_frames",
        "max_frame_bytes",
        "more",
        "position",
        "undecided",
    )

    def __init__(self, held: frozenset[int] = NOTHING, frames_most: int = sys.maxsize) -> None:
        if held & WITH_METADATA:
            raise ValueError("SEND and MESSAGE cannot be held")
        self._held = held
        self._rest = bytearray()  # the unfinished head of a frame
        self._needed = 0  # bytes of it with which more is known
        self._begun: Frames | None = None  # one frame with a known head and a payload that passes
        self._skip = 0  # bytes of that payload still to come
        self.frames = Frames()  # of the last feed, also where it raised at what came behind
        self.frames_most = frames_most
        self.more = False
        self.held_frames: list[Frame] = []  # the held ones among them
        self.position = 0  # bytes fed so far
        self.undecided = 0
        self.max_frame_bytes = DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES

    @property
    def between_frames(self) -> bool:
        """Whether all that may have been passed on so far ends with a whole frame."""
        return not self._skip and self.undecided == len(self._rest)

    @property
    def passing_bytes(self) -> int:
        """Payload bytes still to come of a frame of which all is known that is looked at."""
        return self._skip

    def feed(self, data: bytes) -> Frames:
        """The frames that these bytes complete, in order.

        Raises FramingError where the bytes can be no frame; the cutter cuts no more afterwards.
        """
        start = self.position - len(self._rest)
        self.position += len(data)
        self.held_frames = []
        self.more = False
        if self._rest:
            if len(self._rest) + len(data) < self._needed:
                self._rest += data
                if self.undecided:
                    self.undecided = len(self._rest)
                self.frames = Frames(start)
                return self.frames
            data, self._rest = b"".join((self._rest, data)), bytearray()
        self.undecided = 0
        at, self._skip = self._skip, 0
        if at > len(data):
            self._skip = at - len(data)
            self.frames = Frames(start)
            return self.frames
        frames = self.frames = self._begun or Frames(start)
        self._begun = None
        at = self._cut(data, at, frames)
        if self.more:
            self._rest += data[at:]
            self._needed = 0
            self.undecided = len(self._rest) if self._held else 0
        elif at < len(data):
            self._keep(data[at:])
        return frames

    def _cut(self, data: bytes, at: int, frames: Frames) -> int:
        """Cuts what is whole, all or enough of it; returns where the rest begins."""
        last = len(data) - _HEAD.size
        while at <= last:
            until = min(at + STRETCH_BYTES, last)
            at = self._whole_frames(data, at, until, frames)
            if at <= until:
                return at
            if len(frames) >= self.frames_most:
                self.more = at < len(data)
                return at
        return self._short_frame(data, at, frames) if len(data) - at >= 8 else at

    def _whole_frames(self, data: bytes, at: int, until: int, frames: Frames) -> int:
        """Cuts the whole frames that begin up to `until`; returns where the next one begins."""
        most, size = self.max_frame_bytes, len(data)
        head, magic_size, checked = _HEAD.unpack_from, _MAGIC_SIZE.unpack_from, _CHECKED.unpack_from
        one_size, prefixes = _U32.unpack_from, _PREFIXES
        sizes, add_code = frames.sizes, frames.codes.append
        add_command, add_metadata = frames.commands.append, frames.metadata.append
        checksum, broker_metadata, ready = CHECKSUM_MAGIC, BROKER_METADATA_MAGIC, _PREFIXES_READY
        held, looked_into = self._held, (MESSAGE, SEND)
        while at <= until:
            total, command_bytes, type_field = head(data, at)
            room = total - 4 - command_bytes
            if total > most or room < 0:
                raise FramingError(nonsense(total, command_bytes, most))
            end = at + 4 + total
            if end > size:
                return at
            behind = at + 8 + command_bytes
            code = type_field - _TYPE_IS
            if code in looked_into and room >= 16 and 1 < command_bytes < ready:
                magic, length = magic_size(data, behind)
                begins = behind + 10
                if magic == checksum:
                    (length,) = one_size(data, behind + 6)
                elif magic == broker_metadata and length <= room - 16 and length < ready:
                    begins += 6 + length
                    magic, length = checked(data, begins - 10)
                ends = begins + length
                if length < 0x80 and magic == checksum and ends <= end:
                    # Its size, a byte before it, is the varint wanted here.
                    add_metadata(data[begins - 1 : ends])
                elif length < ready and magic == checksum and ends <= end:
                    add_metadata(prefixes[length] + data[begins:ends])
                else:
                    self._add_rarer(data, at, end, frames)
                    at = end
                    continue
            else:
                if command_bytes < 2 or not 0 <= code < 0x80:
                    code = code_of(data[at + 8 : min(behind, at + 11)])
                if code in held or command_bytes >= ready or (room and code in WITH_METADATA):
                    self._add_rarer(data, at, end, frames)
                    at = end
                    continue
            add_code(code)
            if command_bytes < 0x80:
                add_command(data[at + 7 : behind])
            else:
                add_command(prefixed(data[at + 8 : behind]))
            sizes += (total, command_bytes)
            at = end
        return at

    def _add_rarer(self, data: bytes, at: int, end: int, frames: Frames) -> None:
        """A whole frame that is long, held or unusual."""
        total, command_bytes = _SIZES.unpack_from(data, at)
        behind = at + 8 + command_bytes
        code = code_of(data[at + 8 : min(behind, at + 11)])
        found = behind, behind
        if behind < end and code in WITH_METADATA:
            span = _metadata(data, behind, end)
            if not isinstance(span, tuple):
                raise FramingError(f"a payload part of {end - behind} bytes is too short")
            found = span
        if self._is_too_long(code, found[1] - at, total):
            frames.add(TOO_LONG, data[at + 8 : min(behind, at + 11)], None, total)
            return
        command = data[at + 8 : behind]
        metadata = None if found[0] == behind else data[slice(*found)]
        frames.add(code, command, metadata, total)
        if code in self._held:
            ends = self.position - len(data) + end
            held = Frame(code, command, None, total + 4, end - behind or None, ends)
            self.held_frames.append(held)

    def _is_too_long(self, code: int, head_bytes: int, total: int) -> bool:
        return total > HELD_BYTES_MOST if code in self._held else head_bytes > HEAD_BYTES_MOST

    def _short_frame(self, data: bytes, at: int, frames: Frames) -> int:
        """What may end before it could say its type."""
        total, command_bytes = _SIZES.unpack_from(data, at)
        if total > self.max_frame_bytes or command_bytes > total - 4:
            raise FramingError(nonsense(total, command_bytes, self.max_frame_bytes))
        end = at + 4 + int(total)
        if end > len(data):
            return at
        frames.add(-1, data[at + 8 : at + 8 + command_bytes], None, total)
        return end

    def _keep(self, rest: bytes) -> None:
        """An unfinished frame: it waits until more is known, or its payload passes already."""
        self._rest += rest
        self._needed = 8
        if len(rest) < 8:
            self.undecided = len(rest) if self._held else 0
            return
        total, command_bytes = _SIZES.unpack_from(rest)
        end, behind = 4 + total, 8 + command_bytes
        first = rest[8 : min(behind, 11)]
        code = code_of(first)
        # The type is the first field of a BaseCommand: its tag (1 byte) and its number (1 or 2).
        known = code >= 0 or len(rest) >= min(behind, 11) or first[:1] not in (b"", b"\x08")
        if not known or (code in self._held and total <= HELD_BYTES_MOST):
            self._needed = end if known else len(rest) + 1
            self.undecided = len(rest) if self._held else 0
            return
        found: int | tuple[int, int] = (behind, behind) if behind < end else end
        if code in WITH_METADATA and len(rest) >= behind < end:
            found = _metadata(rest, behind, end)
        elif len(rest) < behind < end:
            found = behind
        head_bytes = found[1] if isinstance(found, tuple) else found
        if self._is_too_long(code, head_bytes, total):
            self._begin(TOO_LONG, first, None, total)
        elif isinstance(found, tuple):
            metadata = rest[slice(*found)] if found[0] > behind else None
            self._begin(code, rest[8:behind], metadata, total)
        else:
            self._needed = min(found, end)

    def _begin(self, code: int, command: bytes, metadata: bytes | None, total: int) -> None:
        """Lets go of an unfinished frame of which all is known that is looked at."""
        self._begun = Frames(self.position - len(self._rest))
        self._begun.add(code, command, metadata, total)
        self._skip = 4 + total - len(self._rest)
        self._rest = bytearray()


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


def prefixed(field: bytes) -> bytes:
    """The bytes of a field behind their size, as protobuf writes them."""
    size = len(field)
    return (_PREFIXES[size] if size < _PREFIXES_READY else varint(size)) + field


def unprefixed(field: bytes) -> bytes:
    """A field without the size before it."""
    at = 0
    while field[at] & 0x80:
        at += 1
    return field[at + 1 :]


def _metadata(data: bytes, at: int, end: int) -> tuple[int, int] | int:
    """Where the metadata of the payload part from `at` to `end` begins and ends.

    While it is not all here: up to where it must be for more to be known, which may be behind the
    end of a frame that is too short. Raises FramingError where it is longer than the frame.
    """
    have = min(end, len(data))
    if have - at < 2:
        return at + 2
    if _MAGIC.unpack_from(data, at)[0] == BROKER_METADATA_MAGIC:
        if have - at < 6:
            return at + 6
        broker_metadata_bytes = _U32.unpack_from(data, at + 2)[0]
        at += 6
        _fits("broker metadata", broker_metadata_bytes, end - at)
        at += int(broker_metadata_bytes)
        if have - at < 2:
            return at + 2
    if _MAGIC.unpack_from(data, at)[0] == CHECKSUM_MAGIC:
        at += 6
    if have - at < 4:
        return at + 4
    metadata_bytes = int(_U32.unpack_from(data, at)[0])
    at += 4
    _fits("metadata", metadata_bytes, end - at)
    return (at, at + metadata_bytes) if have - at >= metadata_bytes else at + metadata_bytes


def _fits(what: str, size: int, room: int) -> None:
    if size > room:
        raise FramingError(f"{what} of {size} bytes, where the frame has {room} left")
