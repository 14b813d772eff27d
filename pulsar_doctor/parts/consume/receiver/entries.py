"""One received entry: its messages, its permits, and what was acknowledged.

Chunked messages (PIP-37) are put together again: each chunk is an entry and costs a permit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pulsar_doctor.parts.consume.receiver import payloads
from pulsar_doctor.parts.consume.receiver.payloads import UNCOMPRESSED_BYTES_MOST, Corrupt
from pulsar_doctor.parts.consume.receiver.spoken_pb2 import MessageMetadata
from pulsar_doctor.wire.commands import BATCH_MOST, ack_words, open_indexes

ENCRYPTED = "DecryptionError"
CHUNKS_MISSING = "ChunksMissing"  # ours: the protocol has no word for it

Position = tuple[int, int]  # ledger id, entry id
UNFINISHED_MOST = 10  # messages, as with the other clients (maxPendingChunkedMessage)


@dataclass(slots=True)
class Entry:
    """An entry, or the chunks of one message."""

    positions: tuple[Position, ...]  # of the entry, or of each chunk
    published_ms: int
    redelivery_count: int
    debit: int
    batch_size: int | None = None  # None: not a batch
    indexes: list[int] = field(default_factory=list)  # of messages that are to be handed out
    open: int = 0  # a bit for each index of a batch that is not acknowledged
    corrupt: str | None = None
    before: Position | None = None  # the entry before it; None: none since SUBSCRIBE or REDELIVER
    chunk: tuple[MessageMetadata, memoryview] | None = None  # of a message that needs others too
    given_up: bool = False  # a chunk of a message that can never be complete

    @property
    def shares(self) -> list[tuple[int | None, int]]:
        """Each message that is handed out, by index, and the permits that it gives back."""
        if self.batch_size is None or self.corrupt:
            return [(None, self.debit)]
        indexes = [index for index in self.indexes if self.open >> index & 1]
        last = len(indexes) - 1
        return [
            (index, max(0, self.debit - last) if at == last else int(at < self.debit))
            for at, index in enumerate(indexes)
        ]

    def acknowledge(self, index: int | None, *, and_before: bool = False) -> None:
        """One message of it; and_before: and those before it in the batch."""
        bits = (2 << index) - 1 if index is not None and and_before else 1 << (index or 0)
        self.open &= ~bits

    @property
    def ack_set(self) -> list[int]:
        """What is open still, in the protocol's words of 64 bits, signed; empty: nothing."""
        data = self.open.to_bytes(-(-self.open.bit_length() // 64) * 8, "little")
        return [
            int.from_bytes(data[at : at + 8], "little", signed=True)
            for at in range(0, len(data), 8)
        ]


def read(command: Any, part: memoryview) -> tuple[Entry, MessageMetadata, memoryview]:
    """The entry of a MESSAGE, not unpacked yet; its metadata and its payload as it was sent.

    What is wrong with it is in `corrupt`.
    """
    metadata, payload, corrupt = payloads.opened(part)
    batch = min(max(metadata.num_messages_in_batch, 1), BATCH_MOST)
    still_open = (1 << batch) - 1
    if command.ack_set:
        still_open &= int.from_bytes(ack_words(command.ack_set), "little")
    debit = batch
    if command.ack_set:
        debit = open_indexes(ack_words(command.ack_set), batch)
    if command.HasField("message_permits"):
        debit = min(command.message_permits, BATCH_MOST)
    message_id = command.message_id
    entry = Entry(
        positions=((message_id.ledger_id, message_id.entry_id),),
        published_ms=metadata.publish_time,
        redelivery_count=command.redelivery_count,
        debit=debit,
        batch_size=batch if metadata.HasField("num_messages_in_batch") else None,
        open=still_open,
        corrupt=corrupt or (ENCRYPTED if metadata.encryption_keys else None),
    )
    return entry, metadata, payload


def look_into(entry: Entry, metadata: MessageMetadata, payload: memoryview) -> None:
    """Uncompresses and splits, to know whether it can be read and what is in it."""
    if entry.corrupt:
        return
    try:
        payload = payloads.uncompressed(metadata, payload)
        if entry.batch_size is not None:
            found = payloads.split(payload, metadata.num_messages_in_batch)
            entry.indexes = [
                index
                for index, one in enumerate(found)
                if one is not None and entry.open >> index & 1
            ]
            entry.open = sum(1 << index for index in entry.indexes)
    except Corrupt as error:
        entry.corrupt = str(error)


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
