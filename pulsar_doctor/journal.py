"""The journal: what the relay writes down of each frame, masked before it reaches the disk.

A journal file is MAGIC, a version, then blocks. A block is what one read of a socket completed (or
something that happened): one time stamp, one CRC-32, then its records. What is masked:

- of a known command only the fields that pulsar_wire.proto names: it is the allow-list, and no
  credential, property, key or payload is on it; errors are shortened and redacted;
- of the metadata of MESSAGE and SEND likewise; the key becomes a salted hash;
- of an unknown command nothing but field numbers, wire types and lengths.

The salt lives in the memory of one relay and is written nowhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.columns import TO_BROKER, TO_CLIENT
from pulsar_doctor.errors import TraceError
from pulsar_doctor.framing import Frame

MAGIC = b"PDJRNL"
VERSION = 1
FILE_HEADER = MAGIC + VERSION.to_bytes(2, "little")

KNOWN, UNKNOWN, EVENT = 1, 2, 3  # kinds of records
NO_CONNECTION = -1
DIRECTIONS = (TO_BROKER, TO_CLIENT)

# The number of a command's type is also the number of its field in BaseCommand.
KNOWN_CODES = frozenset(field.number for field in wire.BaseCommand.DESCRIPTOR.fields) - {1}
RAW_BYTES_MOST = 65536
ERROR_CHARACTERS = 200

_BLOCK = struct.Struct("<IIqqiB")  # body bytes, crc32, wall us, monotonic ns, connection, direction
_RECORD = struct.Struct("<BhIiIi")  # kind, code, frame, payload or -1, command, metadata or -1
_ERRORS = {  # commands whose `message` a broker wrote: what it says is redacted
    8: "send_error",
    14: "error",
    22: "partitioned_metadata_response",
    24: "lookup_response",
    38: "ack_response",
}
_SECRETS = re.compile(
    r"ey[JA][\w-]+(?:\.[\w-]*)*"  # a JSON web token, or what is left of one
    r"|(?<=//)[^/\s@]+(?=@)"  # the user of a URL
    r"|(?i:(?:token|passw(?:or)?d|secret|credentials?|authorization|key)[\"']?\s*[=:]\s*"
    r"(?:(?:bearer|basic)\s+)?\S+)"
    r"|(?i:bearer|basic|passw(?:or)?d|secret)\s+\S+"
    r"|(?i:token|key)\s+(?=\S*\d)\S+"  # "token expired" may stay
)


class Record(NamedTuple):
    """One command, or one event, as it was written."""

    kind: int
    code: int
    frame_bytes: int
    payload_bytes: int | None
    command: bytes
    metadata: bytes | None


class Block(NamedTuple):
    """What happened at one moment on one connection; no records: only the time goes on."""

    ts: int  # wall clock, microseconds since 1970, UTC
    mono_ns: int
    conn_id: int  # NO_CONNECTION where there is none
    direction: int  # index of DIRECTIONS
    records: tuple[Record, ...]


class Mask:
    """Turns frames into records that may be written, with one salt for the keys."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def pack(self, frame: Frame) -> bytes:
        """The record of a frame. Never raises: what cannot be parsed is blanked."""
        code, command, metadata, frame_bytes, payload_bytes, _ = frame
        try:
            if code not in KNOWN_CODES:
                return _pack_unknown(frame)
            known = wire.BaseCommand.FromString(command)
            known.DiscardUnknownFields()
            if code in _ERRORS:
                answer = getattr(known, _ERRORS[code])
                if answer.message:
                    answer.message = redact(answer.message)
            command = known.SerializeToString()
            metadata = None if metadata is None else self._metadata(metadata)
        except Exception:  # upb's DecodeError, and whatever a hostile frame may bring
            return _pack_unknown(frame)
        return (
            _RECORD.pack(
                KNOWN,
                code,
                frame_bytes,
                -1 if payload_bytes is None else payload_bytes,
                len(command),
                -1 if metadata is None else len(metadata),
            )
            + command
            + (metadata or b"")
        )

    def _metadata(self, metadata: bytes) -> bytes:
        known = wire.MessageMetadata.FromString(metadata)
        known.DiscardUnknownFields()
        known.ClearField("key_hash")
        if known.HasField("partition_key"):
            key = known.partition_key.encode()
            digest = hashlib.blake2b(key, digest_size=8, key=self._salt).digest()
            known.ClearField("partition_key")
            known.key_hash = int.from_bytes(digest, "little", signed=True)
        return known.SerializeToString()


def _pack_unknown(frame: Frame) -> bytes:
    raw = blanked(frame.command) if frame.code >= 0 else b""
    payload_bytes = -1 if frame.payload_bytes is None else frame.payload_bytes
    return _RECORD.pack(UNKNOWN, frame.code, frame.frame_bytes, payload_bytes, len(raw), -1) + raw


def pack_event(command: str, **values: Any) -> bytes:
    """The record of something that is no frame: OPEN, CLOSE, UNPARSED, GAP, TAKEN.

    values: columns of the trace, by name.
    """
    return pack_told(json.dumps({"command": command, **values}, separators=(",", ":")).encode())


def pack_told(body: bytes) -> bytes:
    """The record of an event that is JSON already, as pack_event writes it."""
    return _RECORD.pack(EVENT, -1, 0, -1, len(body), -1) + body


def pack_block(
    records: Sequence[bytes],
    *,
    ts: int,
    mono_ns: int,
    conn_id: int = NO_CONNECTION,
    direction: int = 0,
) -> bytes:
    """A block of packed records. ts: microseconds since 1970; mono_ns: nanoseconds."""
    body = b"".join(records)
    head = _BLOCK.pack(len(body), 0, ts, mono_ns, conn_id, direction)
    crc = zlib.crc32(body, zlib.crc32(head[8:]))
    return head[:4] + crc.to_bytes(4, "little") + head[8:] + body


def check_header(data: bytes) -> bool:
    """Whether this begins a journal; False while too little is there.

    Raises TraceError where it is something else, or newer than this program.
    """
    if not FILE_HEADER.startswith(data[: len(MAGIC)]) and not data.startswith(MAGIC):
        raise TraceError("this is no journal of pulsar-doctor")
    if len(data) < len(FILE_HEADER):
        return False
    version = int.from_bytes(data[len(MAGIC) : len(FILE_HEADER)], "little")
    if version > VERSION:
        raise TraceError(
            f"the journal has version {version}, this program reads {VERSION}: use a newer one"
        )
    return True


def read_blocks(data: bytes, at: int = 0) -> Iterator[tuple[Block, int]]:
    """Whole blocks from position `at`, each with the position behind it.

    Ends at an incomplete block ("not yet", or the torn tail of a crash). Raises TraceError where a
    whole block does not agree with its checksum.
    """
    size = len(data)
    while size - at >= _BLOCK.size:
        body_bytes, crc, ts, mono_ns, conn_id, direction = _BLOCK.unpack_from(data, at)
        start, end = at + _BLOCK.size, at + _BLOCK.size + body_bytes
        if end > size:
            return
        if zlib.crc32(data[at + 8 : end]) != crc:
            raise TraceError(f"the block at byte {at} does not agree with its checksum")
        yield Block(ts, mono_ns, conn_id, direction, tuple(_records(data, start, end))), end
        at = end


def _records(data: bytes, at: int, end: int) -> Iterator[Record]:
    while at < end:
        kind, code, frame_bytes, payload, command_bytes, metadata_bytes = _RECORD.unpack_from(
            data, at
        )
        at += _RECORD.size
        behind = at + command_bytes
        last = behind + max(metadata_bytes, 0)
        yield Record(
            kind,
            code,
            frame_bytes,
            None if payload < 0 else payload,
            data[at:behind],
            None if metadata_bytes < 0 else data[behind:last],
        )
        at = last


def redact(message: str) -> str:
    """An error as it may be kept: one line, short, without what looks like a credential."""
    line = " ".join(message.split())[: 4 * ERROR_CHARACTERS]
    line = _SECRETS.sub("[redacted]", line)
    return line if len(line) <= ERROR_CHARACTERS else line[: ERROR_CHARACTERS - 1] + "…"


def blanked(command: bytes) -> bytes:
    """The shape of an unknown command: field numbers, wire types and lengths, values all zero.

    b"" where it is no protobuf or too long to be worth its room.
    """
    if len(command) > RAW_BYTES_MOST:
        return b""
    try:
        return _blank_message(command, inside=True)
    except (IndexError, ValueError):
        return b""


def _blank_message(data: bytes, *, inside: bool) -> bytes:
    out = bytearray()
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        if not 8 <= tag < 1 << 32:
            raise ValueError("a field number that cannot be")
        out += data[start:at]
        wire_type = tag & 7
        if wire_type == 0:
            start = at
            _, at = _varint(data, at)
            out += b"\x80" * (at - start - 1) + b"\x00"
        elif wire_type in (1, 5):
            width = 8 if wire_type == 1 else 4
            out += bytes(width)
            at += width
        elif wire_type == 2:
            start = at
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ValueError("a field that ends behind its message")
            out += data[start:at]
            out += _blank_nested(data[at : at + length]) if inside else bytes(length)
            at += length
        else:
            raise ValueError("a wire type that nothing uses")
    if at != len(data):
        raise ValueError("a field that ends behind its message")
    return bytes(out)


def _blank_nested(data: bytes) -> bytes:
    # Every field of BaseCommand is a message; what is inside may be text, so it is not opened.
    try:
        return _blank_message(data, inside=False)
    except (IndexError, ValueError):
        return bytes(len(data))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number that is too long")
