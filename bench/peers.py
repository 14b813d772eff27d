"""Peers that speak just enough of the protocol for a relay to be measured between them.

A broker that floods MESSAGE frames and answers PING, a client that counts what comes. Each is a
process of its own and does as little as it can, so that what stands between them is the limit.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google_crc32c import value as crc32c

from pulsar_doctor.wire import pulsar_wire_pb2 as wire

CONSUMERS = 4
DISTINCT = 4_000  # frames that are made; a flood repeats them
PAYLOAD_BYTES = (60, 140)
PIECE_BYTES = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
SPAWN = multiprocessing.get_context("spawn")


def framed(command: Any, behind: bytes = b"") -> bytes:
    """A frame of this command."""
    body: bytes = command.SerializeToString()
    return struct.pack(">II", 4 + len(body) + len(behind), len(body)) + body + behind


def connect(broker: str | None) -> bytes:
    """A CONNECT; broker: what the proxy is to connect to."""
    command = wire.BaseCommand(type=2)
    command.connect.client_version = "bench"
    if broker:
        command.connect.proxy_to_broker_url = broker
    # protocol_version (4), which our subset does not name, inside the CommandConnect at the end
    inner = command.connect.SerializeToString() + b"\x20\x13"
    data = b"\x08\x02\x12" + bytes([len(inner)]) + inner
    return struct.pack(">II", 4 + len(data), len(data)) + data


def connected() -> bytes:
    """The broker's answer."""
    command = wire.BaseCommand(type=3)
    command.connected.server_version = "bench"
    command.connected.max_message_size = 5 * 1024 * 1024
    inner = command.connected.SerializeToString() + b"\x10\x13"  # protocol_version (2)
    data = b"\x08\x03\x1a" + bytes([len(inner)]) + inner
    return struct.pack(">II", 4 + len(data), len(data)) + data


def subscribe(consumer_id: int) -> bytes:
    """A consumer of its own topic."""
    command = wire.BaseCommand(type=4)
    command.subscribe.topic = f"persistent://public/default/bench-{consumer_id}"
    command.subscribe.subscription = "bench"
    command.subscribe.sub_type = 1
    command.subscribe.consumer_id = consumer_id
    command.subscribe.request_id = consumer_id
    command.subscribe.consumer_name = f"bench-{consumer_id}"
    return framed(command)


def text_field(number: int, value: bytes) -> bytes:
    """A field of bytes, as protobuf writes it."""
    return bytes([number << 3 | 2, len(value)]) + value


def message(rng: random.Random, entry_id: int) -> bytes:
    """A single message: properties, broker entry metadata, a payload of 60 to 140 bytes."""
    command = wire.BaseCommand(type=9)
    command.message.consumer_id = rng.randrange(CONSUMERS)
    command.message.message_id.ledger_id = 12
    command.message.message_id.entry_id = entry_id
    command.message.message_id.partition = -1
    metadata = wire.MessageMetadata(publish_time=1_790_000_000_000 + entry_id)
    properties = b"".join(
        text_field(4, text_field(1, name) + text_field(2, os.urandom(8).hex().encode()))
        for name in (b"trace-id", b"content-type")
    )
    known = metadata.SerializeToString()
    # producer_name (1) and sequence_id (2) first, as brokers and clients write them
    data = text_field(1, b"standalone-0-17") + b"\x10" + varint(entry_id) + known + properties
    part = struct.pack(">I", len(data)) + data + os.urandom(rng.randint(*PAYLOAD_BYTES))
    entry = b"\x08" + varint(1_790_000_000_100 + entry_id) + b"\x10" + varint(entry_id)
    head = struct.pack(">HI", 0x0E02, len(entry)) + entry
    return framed(command, head + struct.pack(">HI", 0x0E01, crc32c(part)) + part)


def varint(number: int) -> bytes:
    """A number, as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def flood_pieces() -> list[tuple[bytes, int]]:
    """Pieces of about 1 MiB of whole frames, each with the number of its frames."""
    rng = random.Random(1)
    frames = [message(rng, entry_id) for entry_id in range(DISTINCT)]
    pieces, piece, count = [], bytearray(), 0
    for frame in frames * 8:
        piece += frame
        count += 1
        if len(piece) >= PIECE_BYTES:
            pieces.append((bytes(piece), count))
            piece, count = bytearray(), 0
    return pieces


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError("the other end has closed")
        data += more
    return data


def read_frame(sock: socket.socket) -> bytes:
    """One whole frame."""
    head = read_exactly(sock, 4)
    return head + read_exactly(sock, struct.unpack(">I", head)[0])


def serve(told: Any) -> None:
    """The broker: for each connection CONNECTED, then floods or echoes, as it is asked.

    A FLOW brings so many messages, and some more to the end of a piece; a PING its PONG.
    """
    pieces = flood_pieces()
    server = socket.create_server(("127.0.0.1", 0))
    told.send(server.getsockname()[1])
    while True:
        sock, _ = server.accept()
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                serve_one(sock, pieces)
            except (ConnectionError, OSError):
                continue


PING = b"\0\0\0\x09\0\0\0\x05\x08\x12\x92\x01\0"
PONG = b"\0\0\0\x09\0\0\0\x05\x08\x13\x9a\x01\0"


def serve_one(sock: socket.socket, pieces: list[tuple[bytes, int]]) -> None:
    """One connection, until the client hangs up."""
    read_frame(sock)
    sock.sendall(connected())
    while True:
        frame = read_frame(sock)
        command = wire.BaseCommand.FromString(frame[8:])
        if command.type == 11:
            wanted = command.flow.message_permits
            at = 0
            while wanted > 0:
                data, count = pieces[at % len(pieces)]
                at += 1
                sock.sendall(data)
                wanted -= count
        elif command.type == 18:
            sock.sendall(PONG)


@contextmanager
def broker() -> Iterator[int]:
    """The flooding broker as a process; its port."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def pieces_of(messages: int) -> tuple[int, int]:
    """Frames and bytes that a FLOW of so many permits brings: whole pieces."""
    pieces = flood_pieces()
    frames = sent = at = 0
    while frames < messages:
        data, count = pieces[at % len(pieces)]
        at, frames, sent = at + 1, frames + count, sent + len(data)
    return frames, sent


def greeted(port: int, broker: str | None) -> socket.socket:
    """A client's connection that has subscribed."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(connect(broker))
    read_frame(sock)
    for consumer_id in range(CONSUMERS):
        sock.sendall(subscribe(consumer_id))
    return sock


def drain(port: int, broker: str | None, messages: int, expected_bytes: int) -> float:
    """Seconds that so many messages take."""
    with greeted(port, broker) as sock:
        flow = wire.BaseCommand(type=11)
        flow.flow.consumer_id = 0
        flow.flow.message_permits = messages
        buffer = bytearray(PIECE_BYTES)
        began = time.perf_counter()
        sock.sendall(framed(flow))
        left = expected_bytes
        while left > 0:
            size = sock.recv_into(buffer)
            if not size:
                raise ConnectionError("the connection ended in the middle")
            left -= size
        return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Of PINGs with one in flight, in microseconds."""

    p50: float
    p99: float


def ping(port: int, broker: str | None, count: int) -> RoundTrips:
    """How long an answer takes."""
    with greeted(port, broker) as sock:
        took = []
        for _ in range(count):
            began = time.perf_counter_ns()
            sock.sendall(PING)
            read_exactly(sock, len(PONG))
            took.append((time.perf_counter_ns() - began) / 1000)
    cut = statistics.quantiles(took, n=100)
    return RoundTrips(statistics.median(took), cut[98])


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
