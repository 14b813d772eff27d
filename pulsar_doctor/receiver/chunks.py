"""Puts the chunks of a message together (PIP-37); each is an entry and costs a permit."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.receiver.entries import CHUNKS_MISSING, Entry, Position
from pulsar_doctor.receiver.payloads import UNCOMPRESSED_BYTES_MOST
from pulsar_doctor.receiver.spoken_pb2 import MessageMetadata

UNFINISHED_MOST = 10  # messages, as with the other clients (maxPendingChunkedMessage)


@dataclass(slots=True)
class _Unfinished:
    positions: list[Position] = field(default_factory=list)
    payload: bytearray = field(default_factory=bytearray)


class Chunks:
    """The unfinished messages of one incarnation."""

    def __init__(self) -> None:
        self._unfinished: dict[str, _Unfinished] = {}

    def add(
        self, entry: Entry, metadata: MessageMetadata, payload: memoryview
    ) -> tuple[Entry, memoryview] | None:
        """The message that this chunk completes, as the entry of all its chunks; None: not yet.

        A chunk that does not follow on the one before it is handed out alone, as corrupt.
        """
        if entry.corrupt:
            return entry, payload
        if metadata.chunk_id == 0:
            self._unfinished[metadata.uuid] = _Unfinished()
            if len(self._unfinished) > UNFINISHED_MOST:
                del self._unfinished[next(iter(self._unfinished))]
        message = self._unfinished.get(metadata.uuid)
        size = len(message.payload) + len(payload) if message else 0
        if message is None or len(message.positions) != metadata.chunk_id:
            entry.corrupt = CHUNKS_MISSING
            return entry, payload
        if size > UNCOMPRESSED_BYTES_MOST:
            del self._unfinished[metadata.uuid]
            entry.corrupt = "UncompressedSizeCorruption"
            return entry, payload
        message.positions += entry.positions
        message.payload += payload
        if len(message.positions) < metadata.num_chunks_from_msg:
            return None
        del self._unfinished[metadata.uuid]
        entry.positions = tuple(message.positions)
        return entry, memoryview(message.payload)
