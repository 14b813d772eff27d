"""Reads a MESSAGE: checksum, metadata, compression, batch; keeps no payload.

    ([0x0e02][size u32][broker metadata]) ([0x0e01][crc32c u32])
    [metadata size u32][metadata][payload]
    a batch: for each message [metadata size u32][SingleMessageMetadata][payload]

What cannot be read is `Corrupt`, with a word of the protocol's CommandAck.ValidationError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from google.protobuf.message import DecodeError
from google_crc32c import value as crc32c

from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata, SingleMessageMetadata
from pulsar_doctor.wire.commands import BATCH_MOST
from pulsar_doctor.wire.framing import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC

UNCOMPRESSED_BYTES_MOST = 256 * 1024 * 1024  # the protocol knows no limit; memory does

_U32 = struct.Struct(">I")
_MAGIC_SIZE = struct.Struct(">HI")


class Corrupt(Exception):
    """Why a message cannot be read: a word of the protocol's ValidationError."""


def opened(part: memoryview) -> tuple[MessageMetadata, memoryview, str | None]:
    """Metadata and payload of a payload part, and why they are not to be trusted; None: they are.

    Where the checksum is wrong the metadata are read all the same: they say what the broker counts.
    """
    metadata = MessageMetadata()
    corrupt = None
    try:
        magic, number = _MAGIC_SIZE.unpack_from(part)
        if magic == BROKER_METADATA_MAGIC:
            part = part[6 + number :]
            magic, number = _MAGIC_SIZE.unpack_from(part)
        if magic == CHECKSUM_MAGIC:
            part = part[6:]
            corrupt = None if crc32c(bytes(part)) == number else "ChecksumMismatch"
        ends = 4 + _U32.unpack_from(part)[0]
        metadata.ParseFromString(part[4:ends].tobytes())
    except (struct.error, DecodeError):
        return metadata, part[:0], "ChecksumMismatch"
    return metadata, part[ends:], corrupt if ends <= len(part) else "ChecksumMismatch"


def uncompressed(metadata: MessageMetadata, payload: memoryview) -> memoryview:
    """The payload as it was before its producer compressed it. Raises Corrupt."""
    if not metadata.compression:
        return payload
    codec = CODECS.get(metadata.compression)
    if codec is None:
        raise Corrupt("DecompressionError")
    size = metadata.uncompressed_size
    if size > UNCOMPRESSED_BYTES_MOST:
        raise Corrupt("UncompressedSizeCorruption")
    return memoryview(codec(payload, size))


def split(payload: memoryview, messages: int) -> list[memoryview | None]:
    """The payloads of a batch; None: compacted away. Raises Corrupt: BatchDeSerializeError."""
    if not 0 < messages <= BATCH_MOST:
        raise Corrupt("BatchDeSerializeError")
    found: list[memoryview | None] = []
    at = 0
    try:
        for _ in range(messages):
            begins = at + 4
            ends = begins + _U32.unpack_from(payload, at)[0]
            single = SingleMessageMetadata.FromString(payload[begins:ends].tobytes())
            at = ends + single.payload_size
            if not ends <= at <= len(payload):
                raise Corrupt("BatchDeSerializeError")
            found.append(None if single.compacted_out else payload[ends:at])
    except (struct.error, DecodeError):
        raise Corrupt("BatchDeSerializeError") from None
    return found


def _zlib(payload: memoryview, size: int) -> bytes:
    """The stream need not be finished: Java's producer flushes it and leaves it open."""
    try:
        data = zlib.decompressobj().decompress(payload, size + 1)
    except zlib.error:
        raise Corrupt("DecompressionError") from None
    if len(data) != size:
        raise Corrupt("UncompressedSizeCorruption")
    return data


def _lz4(payload: memoryview, size: int) -> bytes:
    """A raw block, which does not say its size: where one byte less is enough, it is shorter."""
    data = _arrow("lz4_raw", payload, size)
    if size and _fits("lz4_raw", payload, size - 1):
        raise Corrupt("UncompressedSizeCorruption")
    return data


def _snappy(payload: memoryview, size: int) -> bytes:
    """A raw block; it begins with its size, a varint of at most five bytes."""
    stated = shift = 0
    for byte in payload[:5]:
        stated |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if stated != size:
        raise Corrupt("UncompressedSizeCorruption")
    return _arrow("snappy", payload, size)


def _zstd(payload: memoryview, size: int) -> bytes:
    return _arrow("zstd", payload, size)


def _arrow(codec: str, payload: memoryview, size: int) -> bytes:
    import pyarrow

    try:
        data: bytes = pyarrow.Codec(codec).decompress(payload, size, asbytes=True)
    except (OSError, ValueError):  # ArrowInvalid is a ValueError
        raise Corrupt("DecompressionError") from None
    return data


def _fits(codec: str, payload: memoryview, size: int) -> bool:
    try:
        _arrow(codec, payload, size)
    except Corrupt:
        return False
    return True


# The protocol's enum CompressionType.
CODECS: dict[int, Callable[[memoryview, int], bytes]] = {1: _lz4, 2: _zlib, 3: _zstd, 4: _snappy}
