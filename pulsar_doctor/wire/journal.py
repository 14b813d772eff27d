"""The format of the journal: blocks of records that the relay writes.

A journal file is MAGIC, a version, then blocks. A block is what one read of a socket completed (or
something that happened, or several small reads): a time stamp, one CRC-32, then its records, which
masking.py makes of frames. Version 1 had no records that hold more than one command.

Where a block is damaged, the next one is found by the form of its head and then by its CRC-32: of
random bytes one position in a million resembles a head, and one of these in 4 thousand million
agrees with its checksum.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from pulsar_doctor.errors import TraceError
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import TO_BROKER, TO_CLIENT
from pulsar_doctor.wire.framing import WITH_METADATA

MAGIC = b"PDJRNL"
VERSION = 2
FILE_HEADER = MAGIC + VERSION.to_bytes(2, "little")

KNOWN, UNKNOWN, EVENT, BATCH, READS = 1, 2, 3, 4, 5  # kinds of records
NO_CONNECTION = -1
DIRECTIONS = (TO_BROKER, TO_CLIENT)


_BLOCK = struct.Struct("<IIqqiB")  # body bytes, crc32, wall us, monotonic ns, connection, direction
RECORD = struct.Struct("<BhIiIi")  # kind, code, frame, payload or -1, command, metadata or -1
READ_LINE = struct.Struct(
    "<qqiBII"
)  # wall us, monotonic ns, connection, direction, frames, metadata
# A block may begin before this: from the second highest byte of its wall clock (between 1979 and
# 2255), by a monotonic clock and a connection (not negative, or NO_CONNECTION), to its direction.
# It begins with a set of bytes without 0, for which Python's `re` searches quickly, also in zeros.
MAYBE_BLOCK = re.compile(rb"(?s)[\1-\x1f](?=\0.{7}[\0-\x7f](?:.{3}[\0-\x7f]|\xff{4})[\0\1])")
MAYBE_BEHIND = 14  # bytes of the head before that
CHECKED_TIMES_MOST = 4  # a byte is read again for checksums that do not agree, on average


class Record(NamedTuple):
    """One command, or one event, as it was written."""

    kind: int
    code: int
    frame_bytes: int
    payload_bytes: int | None
    # the parsed BaseCommand (in a batch: Frequent, with the same fields); unknown: bytes
    command: Any
    metadata: Any  # the parsed MessageMetadata; None: there is none


_record = partial(tuple.__new__, Record)  # `__new__` of the class itself takes twice that


class Batch(NamedTuple):
    """Many frequent commands in one record."""

    codes: bytes  # a number each
    sizes: tuple[int, ...]  # two each, `total` and the command size, as on the wire
    commands: Sequence[Any]  # a parsed Frequent each
    metadata: Sequence[Any]  # a parsed MessageMetadata of each that has some
    everything: Any  # the parsed AllOfBatch, with each field that any of them has

    def records(self) -> Iterator[Record]:
        """One by one."""
        metadata = iter(self.metadata)
        sizes = iter(self.sizes)
        for code, command, total, command_bytes in zip(
            self.codes, self.commands, sizes, sizes, strict=False
        ):
            payload_bytes = total - 4 - command_bytes or None
            known = None if payload_bytes is None or code not in WITH_METADATA else next(metadata)
            yield _record((KNOWN, code, total + 4, payload_bytes, command, known))


class Block(NamedTuple):
    """What happened at one moment on one connection; no parts: only time passes."""

    ts: int  # wall clock, microseconds since 1970, UTC
    mono_ns: int
    conn_id: int  # NO_CONNECTION where there is none
    direction: int  # index of DIRECTIONS
    parts: tuple[Record | Batch, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record, one by one."""
        parts = (part.records() if isinstance(part, Batch) else (part,) for part in self.parts)
        return tuple(record for records in parts for record in records)


def pack_event(command: str, **values: Any) -> bytes:
    """A record of no frame: OPEN, CLOSE, UNPARSED, GAP, TAKEN. values: columns of the trace."""
    return pack_json(json.dumps({"command": command, **values}, separators=(",", ":")).encode())


def pack_json(body: bytes) -> bytes:
    """The record of an event that is JSON already, as pack_event writes it."""
    return RECORD.pack(EVENT, -1, 0, -1, len(body), -1) + body


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
        try:
            if body_bytes and data[start] == READS:
                blocks = _read_reads(data, start)
            else:
                parts = tuple(_parts(data, start, end))
                blocks = [Block(ts, mono_ns, conn_id, direction, parts)]
        except Exception as error:  # struct's, upb's DecodeError: it was not us who wrote this
            raise TraceError(f"the block at byte {at} has the checksum of other records") from error
        for block in blocks[:-1]:  # of several in one, those before the last are not the end of it
            yield block, at
        yield blocks[-1], end
        at = end


def next_block(data: bytes, after_ns: int) -> int | None:
    """Where the first sound block begins; None where there is none, or the search takes too long.

    after_ns: by the monotonic clock no block that is wanted is older. The work is linear in the
    size of the data, whatever that is.
    """
    view, checked_bytes = memoryview(data), 0
    for maybe in MAYBE_BLOCK.finditer(data, MAYBE_BEHIND):
        at = maybe.start() - MAYBE_BEHIND
        body_bytes, crc, _, mono_ns, _, _ = _BLOCK.unpack_from(data, at)
        end = at + _BLOCK.size + body_bytes
        if mono_ns < after_ns or end > len(data):
            continue
        checked_bytes += end - at
        if checked_bytes > CHECKED_TIMES_MOST * len(data):
            return None
        if zlib.crc32(view[at + 8 : end]) == crc:
            return at
    return None


def _read_reads(data: bytes, at: int) -> list[Block]:
    """A block for each of several reads; one at least."""
    _, _, count, _, command_bytes, beside_bytes = RECORD.unpack_from(data, at)
    at += RECORD.size
    behind = at + command_bytes
    beside = data[behind : behind + beside_bytes]
    batch = _read_batch(data[at:behind], beside, count)
    blocks, frame, known = [], 0, 0
    lines = READ_LINE.iter_unpack(beside[9 * count :])
    for ts, mono_ns, conn_id, direction, frames, metadata in lines:
        part = Batch(
            batch.codes[frame : frame + frames],
            batch.sizes[2 * frame : 2 * (frame + frames)],
            batch.commands[frame : frame + frames],
            batch.metadata[known : known + metadata],
            batch.everything,
        )
        blocks.append(Block(ts, mono_ns, conn_id, direction, (part,)))
        frame, known = frame + frames, known + metadata
    if frame != count:
        raise ValueError("reads that are not those of their frames")
    return blocks


def _parts(data: bytes, at: int, end: int) -> Iterator[Record | Batch]:
    while at < end:
        kind, code, frame_bytes, payload, command_bytes, metadata_bytes = RECORD.unpack_from(
            data, at
        )
        at += RECORD.size
        behind = at + command_bytes
        last = behind + max(metadata_bytes, 0)
        command = data[at:behind]
        if kind == BATCH:
            yield _read_batch(command, data[behind:last], frame_bytes)
        else:
            known = kind == KNOWN
            yield Record(
                kind,
                code,
                frame_bytes,
                None if payload < 0 else payload,
                wire.BaseCommand.FromString(command) if known else command,
                wire.MessageMetadata.FromString(data[behind:last]) if metadata_bytes >= 0 else None,
            )
        at = last


def _read_batch(masked: bytes, beside: bytes, count: int) -> Batch:
    """beside: a byte for each code, then two u32 for the sizes of each."""
    batch = wire.Batch.FromString(masked)
    sizes = struct.unpack_from(f"<{2 * count}I", beside, count)
    everything = wire.AllOfBatch.FromString(masked)
    return Batch(beside[:count], sizes, batch.commands, batch.metadata, everything)
