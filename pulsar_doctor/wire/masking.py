"""Masks commands before they are written to disk: only allowed fields stay.

- of a known command only the fields that pulsar_wire.proto names: it is the allow-list, and no
  credential, property, key or payload is on it; errors and the versions of clients are shortened
  and redacted;
- of the metadata of MESSAGE and SEND the same; the key becomes a salted hash;
- of an unknown command nothing but field numbers, wire types and lengths; of many new ones in one
  read not even those;
- of a frame that is too long to be held (framing.py) that it was there: an UNPARSED.

The salt lives in the memory of one relay and is written nowhere.

Frames of the frequent kinds that one read brings are one record, a Batch: joined to one protobuf,
parsed once, stripped of what is not on the list, written once. A frame that protobuf refuses sends
its neighbours the other way, too, one by one, where it alone is blanked. Small reads of any
connections that follow each other share a Batch; a line for each says when and where it was.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import SET_ASIDE, UNPARSED
from pulsar_doctor.wire.framing import TOO_LONG, Frame, Frames, code_of
from pulsar_doctor.wire.journal import BATCH, KNOWN, READ_LINE, READS, RECORD, UNKNOWN, pack_event
from pulsar_doctor.wire.redaction import RAW_BYTES_MOST, blanked, redact, redact_version
from pulsar_doctor.wire.text import text_of

# The number of a command's type is also the number of its field in BaseCommand.
KNOWN_CODES = frozenset(field.number for field in wire.BaseCommand.DESCRIPTOR.fields) - {1}
ACK_RESPONSE = 38
FREQUENT_CODES = frozenset(field.number for field in wire.Frequent.DESCRIPTOR.fields)
KEYS_REMEMBERED = 10_000  # hashes of keys, so that a key that comes again costs little
SHAPES_REMEMBERED = 1_000  # of unknown commands
NEW_SHAPES_BYTES = RAW_BYTES_MOST  # of one read: a byte takes as long as twenty of other commands
CONNECT = 2
_ERRORS = {  # commands with a `message` that a broker wrote: its text is redacted
    field.number: field.name
    for field in wire.BaseCommand.DESCRIPTOR.fields
    if field.message_type and "message" in field.message_type.fields_by_name
}
_FREE_TEXTS = ("client_version", "proxy_version", "auth_method_name")  # of CONNECT


class Read(NamedTuple):
    """What one read of a socket has completed, and when."""

    ts: int  # as in Block
    mono_ns: int
    conn_id: int
    direction: int
    frames: Frames


class Mask:
    """Turns frames into records that may be written, with one salt for the keys."""

    def __init__(self, salt: bytes) -> None:
        self.too_long = 0  # frames that were not parsed
        self._salt = salt
        self._hashes: dict[str | bytes, int] = {}
        self._shapes: dict[bytes, bytes] = {}
        self._new_shapes_bytes = 0

    def pack_all(self, frames: Frames) -> list[bytes]:
        """The records of what one read completed. Never raises, as `pack`."""
        self._new_shapes_bytes = 0
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
            READ_LINE.pack(*read[:4], len(read.frames), len(read.frames.metadata)) for read in reads
        )
        count, beside = len(together), beside + lines
        head = RECORD.pack(READS, -1, count, len(reads), len(masked), len(beside))
        return head + masked + beside

    def _batch(self, frames: Frames) -> bytes:
        masked, beside = self._masked(frames)
        return RECORD.pack(BATCH, -1, len(frames), -1, len(masked), len(beside)) + masked + beside

    def _masked(self, frames: Frames) -> tuple[bytes, bytes]:
        """A Batch, and what is beside it: a byte for each code, two u32 for the sizes."""
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
        return masked, bytes(codes) + _u32s(frames.sizes)

    def pack(self, frame: Frame) -> bytes:
        """The record of a frame. Never raises: what cannot be parsed is blanked."""
        code, command, metadata, frame_bytes, payload_bytes, _ = frame
        try:
            if code not in KNOWN_CODES:
                return self._pack_too_long(frame) if code == TOO_LONG else self._pack_unknown(frame)
            known = _only(code, command)
            if code == CONNECT:  # what a client wants may be anything, a password too
                known.connect.ClearField("proxy_to_broker_url")
                for name in _FREE_TEXTS:
                    text = getattr(known.connect, name)
                    if (redacted := redact_version(text)) != text_of(text):
                        setattr(known.connect, name, redacted)
            if code in _ERRORS:
                answer = getattr(known, _ERRORS[code])
                if answer.message:
                    answer.message = redact(answer.message)
            command = bytes(known.SerializeToString())
            metadata = None if metadata is None else self._metadata(metadata)
        except Exception:  # upb's DecodeError, and whatever a hostile frame may bring
            return self._pack_unknown(frame)
        return (
            RECORD.pack(
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

    def _pack_too_long(self, frame: Frame) -> bytes:
        self.too_long += 1
        return pack_event(
            UNPARSED,
            error_code=SET_ASIDE,
            error_message=f"command {code_of(frame.command)} is too long to be looked at",
            frame_bytes=frame.frame_bytes,
        )

    def _pack_unknown(self, frame: Frame) -> bytes:
        raw = self._shape_of(frame.command) if frame.code >= 0 else b""
        payload_bytes = -1 if frame.payload_bytes is None else frame.payload_bytes
        head = RECORD.pack(UNKNOWN, frame.code, frame.frame_bytes, payload_bytes, len(raw), -1)
        return head + raw

    def _shape_of(self, command: bytes) -> bytes:
        """What may be kept of a command that is not known; b"" where too many are new."""
        found = self._shapes.get(command)
        if found is not None:
            return found
        self._new_shapes_bytes += len(command)
        if self._new_shapes_bytes > NEW_SHAPES_BYTES:
            return b""
        if len(self._shapes) >= SHAPES_REMEMBERED:
            self._shapes.clear()
        found = self._shapes[command] = blanked(command)
        return found

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

    def _hash_of(self, key: str | bytes) -> int:
        """key: bytes where it is no UTF-8, as protobuf has it."""
        found = self._hashes.get(key)
        if found is None:
            encoded = key if isinstance(key, bytes) else key.encode()
            digest = hashlib.blake2b(encoded, digest_size=8, key=self._salt).digest()
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


def _u32s(numbers: Sequence[int]) -> bytes:
    """Little-endian; an array is made twice as fast as a struct of so many."""
    packed = array("I", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


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
