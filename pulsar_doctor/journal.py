"""The journal: what the relay writes down of each frame, masked before it reaches the disk.

A journal file is MAGIC, a version, then blocks. A block is what one read of a socket completed (or
something that happened): one time stamp, one CRC-32, then its records. What is masked:

- of a known command only the fields that pulsar_wire.proto names: it is the allow-list, and no
  credential, property, key or payload is on it; errors are shortened and redacted;
- of the metadata of MESSAGE and SEND likewise; the key becomes a salted hash;
- of an unknown command nothing but field numbers, wire types and lengths.

The salt lives in the memory of one relay and is written nowhere.

Frames of the frequent kinds that one read brings are one record, a Batch: joined to one protobuf,
parsed once, stripped of what is not on the list, written once (since version 2). A frame that
protobuf refuses sends its neighbours the other way, too, one by one, where it alone is blanked.
Small reads of any connections that follow each other share a Batch and a block; a line for each
says when and where it was.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pulsar_doctor import pulsar_wire_pb2 as wire
from pulsar_doctor.columns import TO_BROKER, TO_CLIENT
from pulsar_doctor.errors import TraceError
from pulsar_doctor.framing import WITH_METADATA, Frame, Frames
from pulsar_doctor.redaction import blanked, redact

MAGIC = b"PDJRNL"
VERSION = 2
FILE_HEADER = MAGIC + VERSION.to_bytes(2, "little")

KNOWN, UNKNOWN, EVENT, BATCH, READS = 1, 2, 3, 4, 5  # kinds of records
NO_CONNECTION = -1
DIRECTIONS = (TO_BROKER, TO_CLIENT)

# The number of a command's type is also the number of its field in BaseCommand.
KNOWN_CODES = frozenset(field.number for field in wire.BaseCommand.DESCRIPTOR.fields) - {1}
ACK_RESPONSE = 38
FREQUENT_CODES = frozenset(field.number for field in wire.Frequent.DESCRIPTOR.fields)
KEYS_REMEMBERED = 10_000  # hashes of keys, so that a key that comes again costs little

_BLOCK = struct.Struct("<IIqqiB")  # body bytes, crc32, wall us, monotonic ns, connection, direction
_RECORD = struct.Struct("<BhIiIi")  # kind, code, frame, payload or -1, command, metadata or -1
_READ = struct.Struct("<qqiBII")  # wall us, monotonic ns, connection, direction, frames, metadata
CONNECT = 2
_ERRORS = {  # commands whose `message` a broker wrote: what it says is redacted
    8: "send_error",
    14: "error",
    22: "partitioned_metadata_response",
    24: "lookup_response",
    38: "ack_response",
}


class Read(NamedTuple):
    """What one read of a socket has completed, and when."""

    ts: int  # as in Block
    mono_ns: int
    conn_id: int
    direction: int
    frames: Frames


class Record(NamedTuple):
    """One command, or one event, as it was written.

    command: of a known one the parsed BaseCommand (of a batch its Frequent, which has the same
    fields); of others bytes. metadata: the parsed MessageMetadata, None where there is none.
    """

    kind: int
    code: int
    frame_bytes: int
    payload_bytes: int | None
    command: Any
    metadata: Any


class Batch(NamedTuple):
    """Many frequent commands in one record.

    codes: a number each. sizes: two each, `total` and the command size, as on the wire.
    commands: a parsed Frequent each. metadata: a parsed MessageMetadata of each that has some.
    everything: the parsed AllOfBatch, which has each field that any of them has.
    """

    codes: bytes
    sizes: tuple[int, ...]
    commands: Sequence[Any]
    metadata: Sequence[Any]
    everything: Any

    def records(self) -> Iterator[Record]:
        """One by one."""
        metadata = iter(self.metadata)
        sizes = iter(self.sizes)
        for code, command, total, command_bytes in zip(
            self.codes, self.commands, sizes, sizes, strict=False
        ):
            payload_bytes = total - 4 - command_bytes or None
            known = None if payload_bytes is None or code not in WITH_METADATA else next(metadata)
            yield Record(KNOWN, code, total + 4, payload_bytes, command, known)


class Block(NamedTuple):
    """What happened at one moment on one connection; no parts: only the time goes on."""

    ts: int  # wall clock, microseconds since 1970, UTC
    mono_ns: int
    conn_id: int  # NO_CONNECTION where there is none
    direction: int  # index of DIRECTIONS
    parts: tuple[Record | Batch, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """All of them, one by one."""
        parts = (part.records() if isinstance(part, Batch) else (part,) for part in self.parts)
        return tuple(record for records in parts for record in records)


class Mask:
    """Turns frames into records that may be written, with one salt for the keys."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._hashes: dict[str, int] = {}

    def pack_all(self, frames: Frames) -> list[bytes]:
        """The records of what one read completed. Never raises, as `pack`."""
        if not FREQUENT_CODES.issuperset(frames.codes):
            return [record for run in _runs(frames) for record in self._pack_run(run)]
        return self._pack_run(frames)

    def _pack_run(self, frames: Frames) -> list[bytes]:
        if frames and frames.codes[0] in FREQUENT_CODES:
            try:
                return [self._batch(frames)]
            except Exception:  # a hostile frame: one by one, so that only it is blanked
                pass
        return [self.pack(frame) for frame in frames]

    def pack_reads(self, reads: Sequence[Read]) -> bytes:
        """The record of several reads, all of them of the frequent kinds; it is alone in its block.

        Raises where one of their frames cannot be masked together with the others.
        """
        together = Frames()
        for read in reads:
            together.extend(read.frames)
        masked, beside = self._masked(together)
        lines = b"".join(
            _READ.pack(*read[:4], len(read.frames), len(read.frames.metadata)) for read in reads
        )
        count, beside = len(together), beside + lines
        head = _RECORD.pack(READS, -1, count, len(reads), len(masked), len(beside))
        return head + masked + beside

    def _batch(self, frames: Frames) -> bytes:
        masked, beside = self._masked(frames)
        return _RECORD.pack(BATCH, -1, len(frames), -1, len(masked), len(beside)) + masked + beside

    def _masked(self, frames: Frames) -> tuple[bytes, bytes]:
        """A Batch, and what stands beside it: a byte for each code, two u32 for the sizes."""
        codes = frames.codes
        joined = b"\x0a" + b"\x0a".join(frames.commands)  # fields 1 and 2 of a Batch
        if frames.metadata:
            joined = b"%b\x12%b" % (joined, b"\x12".join(frames.metadata))
        batch = wire.Batch.FromString(joined)
        batch.DiscardUnknownFields()
        masked = batch.SerializeToString()
        if frames.metadata or ACK_RESPONSE in codes:
            found = wire.AllOfBatch.FromString(masked)
            if found.commands.ack_response.HasField("message"):
                raise ValueError("an error to be redacted")
            if found.metadata.HasField("partition_key") or found.metadata.HasField("key_hash"):
                for metadata in batch.metadata:
                    self._hash_key(metadata)
                masked = batch.SerializeToString()
        return masked, bytes(codes) + struct.pack(f"<{len(frames.sizes)}I", *frames.sizes)

    def pack(self, frame: Frame) -> bytes:
        """The record of a frame. Never raises: what cannot be parsed is blanked."""
        code, command, metadata, frame_bytes, payload_bytes, _ = frame
        try:
            if code not in KNOWN_CODES:
                return _pack_unknown(frame)
            known = _only(code, command)
            if code == CONNECT:  # what a client wants may be anything, a password too
                known.connect.ClearField("proxy_to_broker_url")
            if code in _ERRORS:
                answer = getattr(known, _ERRORS[code])
                if answer.message:
                    answer.message = redact(answer.message)
            command = bytes(known.SerializeToString())
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
        self._hash_key(known)
        return known.SerializeToString()

    def _hash_key(self, known: wire.MessageMetadata) -> None:
        """Puts a salted hash in the place of the key; a hash that came with it is not ours."""
        known.ClearField("key_hash")
        if known.HasField("partition_key"):
            known.key_hash = self._hash_of(known.partition_key)
            known.ClearField("partition_key")

    def _hash_of(self, key: str) -> int:
        found = self._hashes.get(key)
        if found is None:
            digest = hashlib.blake2b(key.encode(), digest_size=8, key=self._salt).digest()
            found = int.from_bytes(digest, "little", signed=True)
            if len(self._hashes) >= KEYS_REMEMBERED:
                self._hashes.clear()
            self._hashes[key] = found
        return found


def _runs(frames: Frames) -> Iterator[Frames]:
    """Neighbours that can be masked together, and those that cannot."""
    for _, run in groupby(frames, lambda frame: frame.code in FREQUENT_CODES):
        together = Frames()
        for frame in run:
            together.add(frame.code, frame.command, frame.metadata, frame.frame_bytes - 4)
        yield together


def _only(code: int, command: bytes) -> Any:
    """A command with nothing but what belongs to its type."""
    if code in FREQUENT_CODES:  # as strict as for a Batch, where one more field is not looked at
        known: Any = wire.Frequent.FromString(command)
    else:
        known = wire.BaseCommand.FromString(command)
    known.DiscardUnknownFields()
    for field, _ in known.ListFields():
        if field.number not in (1, code):
            known.ClearField(field.name)
    return known


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


def _read_reads(data: bytes, at: int) -> list[Block]:
    """A block for each of several reads; one at least."""
    _, _, count, _, command_bytes, beside_bytes = _RECORD.unpack_from(data, at)
    at += _RECORD.size
    behind = at + command_bytes
    beside = data[behind : behind + beside_bytes]
    batch = _read_batch(data[at:behind], beside, count)
    blocks, frame, known = [], 0, 0
    for ts, mono_ns, conn_id, direction, frames, metadata in _READ.iter_unpack(beside[9 * count :]):
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
        kind, code, frame_bytes, payload, command_bytes, metadata_bytes = _RECORD.unpack_from(
            data, at
        )
        at += _RECORD.size
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
