"""Traffic that is like Pulsar's, and traffic that is not: made from a seed, sent in pieces."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import COMMANDS
from tests.parts.tap.tapped import frame

MIB = 1024 * 1024
# Messages in them may make the tap write them anew: here they say nothing of the kind.
CALM = {
    2: wire.BaseCommand(type=2, connect=wire.Connect(client_version="test")),
    3: wire.BaseCommand(type=3, connected=wire.Connected(server_version="test")),
    15: wire.BaseCommand(type=15, close_producer=wire.CloseProducer(producer_id=1, request_id=2)),
    16: wire.BaseCommand(type=16, close_consumer=wire.CloseConsumer(consumer_id=1, request_id=2)),
    24: wire.BaseCommand(type=24, lookup_response=wire.LookupResponse(response=2, error=11)),
    68: wire.BaseCommand(type=68, topic_migrated=wire.TopicMigrated(resource_id=1)),
}
UNKNOWN_CODES = (41, 50, 67, 69, 90, 127, 128, 300, 16383)
CODES = (*COMMANDS, *UNKNOWN_CODES)


class Stream(NamedTuple):
    """Bytes to send, and the codes of the frames that they are."""

    data: bytes
    codes: list[int]


def frames(seed: int, size: int) -> Stream:
    """`size` bytes or more of frames of every kind; payloads of 0 B to 1 MiB."""
    chance = random.Random(seed)
    made: list[bytes] = []
    codes: list[int] = []
    total = 0
    while total < size:
        few = len(made) > 5000 or chance.random() < 0.8  # or so many that cuts fall into heads
        for code in chance.choices(CODES, k=chance.randrange(1, 12) if few else 500):
            made.append(frame(command(chance, code)))
            codes.append(code)
        code = chance.choice((6, 9, 6, 9, 90, 11))
        payload = chance.randbytes(int(2 ** chance.uniform(0, 20)))
        made.append(frame(command(chance, code), payload_part(chance, payload)))
        codes.append(code)
        total += len(payload) + 400
    return Stream(b"".join(made), codes)


def command(chance: random.Random, code: int) -> bytes:
    """The bytes of a BaseCommand: as the protocol has it, with fields of a newer one, or broken."""
    if code in CALM:
        return CALM[code].SerializeToString()
    number = bytes([code]) if code < 128 else bytes([code & 0x7F | 0x80, code >> 7])
    fields = b"".join(
        bytes([field << 3 | 2, length]) + chance.randbytes(length)
        for field in range(1, chance.randrange(1, 6))
        for length in (chance.randrange(100),)
    )
    if code in COMMANDS and chance.random() < 0.5:
        whole = wire.BaseCommand(type=code)
        getattr(whole, COMMANDS[code].field).SetInParent()
        return whole.SerializeToString() + b"\xfa\x07" + bytes([len(fields) & 0x7F]) + fields
    return b"\x08" + number + fields


def payload_part(chance: random.Random, payload: bytes) -> bytes:
    """Broker metadata and a checksum may be there or not; what they say is not looked at."""
    metadata = wire.MessageMetadata(publish_time=chance.randrange(2**63)).SerializeToString()
    parts = []
    if chance.random() < 0.5:
        parts.append(struct.pack(">HI", 0x0E02, 3) + b"\x08\x01\x10")
    if chance.random() < 0.5:
        parts.append(struct.pack(">HI", 0x0E01, chance.randrange(2**32)))
    return b"".join([*parts, struct.pack(">I", len(metadata)), metadata, payload])


def nonsense(seed: int, size: int) -> Stream:
    """What cannot be cut into frames."""
    chance = random.Random(seed)
    return Stream(b"\xff" * 4 + b"".join(chance.randbytes(MIB) for _ in range(size // MIB)), [])


def pieces(seed: int, size: int) -> Iterator[int]:
    """Lengths that add up to `size`: 1 B to 1 MiB, at first and now and then many tiny ones."""
    chance = random.Random(seed)
    begun = size
    tiny = True
    while size > 0:
        for _ in range(50 if tiny else 1):
            length = min(size, chance.randrange(1, 16) if tiny else int(2 ** chance.uniform(0, 20)))
            yield length
            size -= length
            if not size:
                return
        tiny = chance.random() < (0.2 if begun - size < 8 * MIB else 0.01)


def send_in_pieces(sock: socket.socket, data: bytes, seed: int) -> None:
    """Sends it all, each piece as a segment of its own where the kernel can."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    view, at = memoryview(data), 0
    for length in pieces(seed, len(data)):
        sock.sendall(view[at : at + length])
        at += length
        if length < 16:
            time.sleep(0.0002)  # lest the next be read together with it


def sha256_until_end(sock: socket.socket) -> str:
    """Of everything that comes, until the other end says that there is no more."""
    summed = hashlib.sha256()
    while more := sock.recv(MIB):
        summed.update(more)
    return summed.hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def at_once(*work: Callable[[], object], seconds: float = 60) -> None:
    """Does all of it side by side; the first error of any is raised here."""
    errors: list[BaseException] = []

    def run(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"not done within {seconds} s"
