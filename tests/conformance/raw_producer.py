"""Our own side of the protocol: entries as no client would send them, a FLOW of 0."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from google_crc32c import value as crc32c

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES
from tests.made.frames import command_of, field, frame, frames_from, number

LZ4, ZLIB = 1, 2
CHECKSUM_FOLLOWS = 0x0E01
# What our copy of the protocol leaves out, since it must never reach a trace.
PRODUCER_NAME, SEQUENCE_ID, ENCRYPTION_KEYS, ENCRYPTION_PARAM, UUID, IS_CHUNK = 1, 2, 13, 15, 26, 7


class Raw:
    """One connection to the broker."""

    def __init__(self, service_url: str) -> None:
        host, port = service_url.removeprefix("pulsar://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._heard = frames_from(self._socket)
        self._send("CONNECT", wire.Connect(client_version="raw", protocol_version=19))
        self._read("connected")

    def _send(self, name: str, inner: Any, more: bytes = b"", behind: bytes = b"") -> None:
        command = command_of(CODES[name], inner.SerializeToString() + more)
        self._socket.sendall(frame(command, behind))

    def _read(self, wanted: str) -> Any:
        """The next command of that kind; others are passed over, an error is raised."""
        for _, command in self._heard:
            if command.HasField("error") or command.HasField("send_error"):
                raise AssertionError(f"the broker refused: {command}")
            if command.HasField(wanted):
                return command
        raise AssertionError("the broker has closed the connection")

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._heard.close()
        self._socket.close()


class RawProducer(Raw):
    """One producer on one topic that is loaded in this broker already."""

    def __init__(self, service_url: str, topic: str) -> None:
        super().__init__(service_url)
        self._sequence = 0
        self._send("PRODUCER", wire.Producer(topic=topic, producer_id=1, request_id=1))
        self._read("producer_success")

    def entry(
        self,
        payload: bytes = b"payload",
        *,
        batch: int | None = None,
        encrypted: bool = False,
        compressed: tuple[int, int] | None = None,
        chunk: tuple[str, int, int] | None = None,
    ) -> tuple[int, int]:
        """Sends one entry; returns its ledger and entry id.

        batch: num_messages_in_batch. compressed: codec and uncompressed size that it claims.
        chunk: uuid, chunk id, number of chunks.
        """
        metadata = wire.MessageMetadata(publish_time=time.time_ns() // 10**6)
        if batch is not None:
            metadata.num_messages_in_batch = batch
        if compressed is not None:
            metadata.compression, metadata.uncompressed_size = compressed
        more = field(PRODUCER_NAME, b"raw") + number(SEQUENCE_ID, self._sequence)
        if encrypted:
            key = field(1, b"key-of-nobody") + field(2, bytes(256))
            more += field(ENCRYPTION_KEYS, key) + field(ENCRYPTION_PARAM, bytes(12))
        if chunk is not None:
            uuid, metadata.chunk_id, metadata.num_chunks_from_msg = chunk
            metadata.total_chunk_msg_size = len(payload) * metadata.num_chunks_from_msg
            more += field(UUID, uuid)
        described = more + metadata.SerializeToString()
        send = wire.Send(producer_id=1, sequence_id=self._sequence, num_messages=batch or 1)
        self._sequence += 1
        summed = struct.pack(">I", len(described)) + described + payload
        behind = struct.pack(">HI", CHECKSUM_FOLLOWS, crc32c(summed)) + summed
        self._send("SEND", send, number(IS_CHUNK, 1) if chunk else b"", behind)
        position = self._read("send_receipt").send_receipt.message_id
        return position.ledger_id, position.entry_id


class RawConsumer(Raw):
    """One exclusive consumer on one topic that is loaded in this broker already."""

    def __init__(self, service_url: str, topic: str) -> None:
        super().__init__(service_url)
        subscribe = wire.Subscribe(
            topic=topic, subscription="s", sub_type=0, consumer_id=1, request_id=1
        )
        self._send("SUBSCRIBE", subscribe)
        self._read("success")

    def flow(self, permits: int) -> None:
        self._send("FLOW", wire.Flow(consumer_id=1, message_permits=permits))

    def closed(self, seconds: float) -> bool:
        """Waits so long for the broker to close the connection."""
        self._socket.settimeout(seconds)
        try:
            while self._socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True


def batch_payload(*payloads: bytes) -> bytes:
    """The payload of a batch: each message behind its own metadata (payload_size = 3)."""
    out = b""
    for payload in payloads:
        single = number(3, len(payload))
        out += struct.pack(">I", len(single)) + single + payload
    return out
