"""Reassembles chunked messages (PIP-37), where each chunk is an entry and costs a permit."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.parts.consume.receiver.entries import CHUNKS_MISSING, Entry
from pulsar_doctor.parts.consume.receiver.payloads import UNCOMPRESSED_BYTES_MOST
from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata

UNFINISHED_MOST = 10  # messages, as with the other clients (maxPendingChunkedMessage)


@dataclass(slots=True)
class _Unfinished:
    entries: list[Entry] = field(default_factory=list)
    payloads: list[memoryview] = field(default_factory=list)
    size: int = 0

    def give_up(self) -> None:
        """Gives the chunks up: they keep nothing in memory, wherever they are remembered."""
        for entry in self.entries:
            entry.chunk, entry.given_up = None, True


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
                self._unfinished.pop(next(iter(self._unfinished))).give_up()
        message = self._unfinished.get(metadata.uuid)
        if message is None or len(message.entries) != metadata.chunk_id:
            entry.corrupt = CHUNKS_MISSING
            return entry, payload
        message.size += len(payload)
        if message.size > UNCOMPRESSED_BYTES_MOST:
            self._unfinished.pop(metadata.uuid).give_up()
            entry.corrupt = "UncompressedSizeCorruption"
            return entry, payload
        message.entries.append(entry)
        message.payloads.append(payload)
        if len(message.entries) < metadata.num_chunks_from_msg:
            return None
        del self._unfinished[metadata.uuid]
        entry.positions = tuple(place for each in message.entries for place in each.positions)
        return entry, memoryview(b"".join(message.payloads))
