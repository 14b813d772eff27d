"""Journals and traces without a relay: what a consumer and a broker say, block by block."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pulsar_doctor.trace.folder import RELAY_LOCK, Meta, journal_name
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import TO_BROKER, TO_CLIENT, Row, values_of
from pulsar_doctor.wire.commands import CODES, COMMANDS
from pulsar_doctor.wire.framing import Frame
from pulsar_doctor.wire.journal import (
    DIRECTIONS,
    FILE_HEADER,
    NO_CONNECTION,
    pack_block,
    pack_event,
)
from pulsar_doctor.wire.masking import Mask

TOPIC = "persistent://public/default/orders"
START_US = 1_790_000_000_000_000  # 2026-09-21T14:13:20Z
MASK = Mask(b"salt")


def record(name: str, metadata: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A command as a journal has it, e.g. record("FLOW", consumer_id=1, message_permits=10)."""
    code = CODES[name]
    known = wire.BaseCommand(type=code)
    command = getattr(known, COMMANDS[code].field)
    command.SetInParent()
    command.MergeFrom(type(command)(**fields))
    encoded = known.SerializeToString()
    head = None if metadata is None else wire.MessageMetadata(**metadata).SerializeToString()
    payload_bytes = None if head is None else 100
    frame_bytes = 8 + len(encoded) + (payload_bytes or 0)
    return MASK.pack(Frame(code, encoded, head, frame_bytes, payload_bytes, 0))


class Wire:
    """What was said on the wire, as the blocks of a journal; each moves the clock by `step_us`."""

    def __init__(self, step_us: int = 1000) -> None:
        self.blocks: list[bytes] = []
        self.now_us = START_US
        self.step_us = step_us
        self.ahead_us = 0  # of the wall clock, once it has been set

    def say(self, direction: str, *records: bytes, conn_id: int = 0) -> Self:
        """One block of any records."""
        self.blocks.append(
            pack_block(
                records,
                ts=self.now_us + self.ahead_us,
                mono_ns=(self.now_us - START_US) * 1000,
                conn_id=conn_id,
                direction=DIRECTIONS.index(direction),
            )
        )
        self.now_us += self.step_us
        return self

    def wait(self, seconds: float) -> Self:
        """Time goes on, and the journal says so."""
        self.now_us += int(seconds * 1_000_000)
        return self.say(TO_BROKER, conn_id=NO_CONNECTION)

    def open(self, conn_id: int = 0) -> Self:
        event = pack_event("OPEN", client_addr="10.0.0.7:5000", broker_addr="10.0.0.1:6650")
        self.say(TO_BROKER, event, conn_id=conn_id)
        connect = record("CONNECT", client_version="Pulsar-CPP-v3.7.0")
        return self.say(TO_BROKER, connect, conn_id=conn_id)

    def close(self, conn_id: int = 0) -> Self:
        return self.say(TO_CLIENT, pack_event("CLOSE"), conn_id=conn_id)

    def subscribe(
        self,
        consumer_id: int = 1,
        name: str = "slow",
        *,
        topic: str = TOPIC,
        subscription: str = "billing",
        sub_type: int = 1,
        conn_id: int = 0,
    ) -> Self:
        subscribe = record(
            "SUBSCRIBE",
            topic=topic,
            subscription=subscription,
            sub_type=sub_type,
            consumer_id=consumer_id,
            consumer_name=name,
            request_id=consumer_id,
        )
        self.say(TO_BROKER, subscribe, conn_id=conn_id)
        return self.say(TO_CLIENT, record("SUCCESS", request_id=consumer_id), conn_id=conn_id)

    def flow(self, permits: int, consumer_id: int = 1, conn_id: int = 0) -> Self:
        flow = record("FLOW", consumer_id=consumer_id, message_permits=permits)
        return self.say(TO_BROKER, flow, conn_id=conn_id)

    def messages(
        self, entries: Iterable[int], consumer_id: int = 1, *, batch: int = 1, conn_id: int = 0
    ) -> Self:
        """All of them in one block, as one read of the socket brings them."""
        metadata = {"publish_time": self.now_us // 1000}
        if batch > 1:
            metadata["num_messages_in_batch"] = batch
        records = [
            record(
                "MESSAGE",
                metadata,
                consumer_id=consumer_id,
                message_id=wire.MessageId(ledger_id=7, entry_id=entry),
            )
            for entry in entries
        ]
        return self.say(TO_CLIENT, *records, conn_id=conn_id)

    def ack(self, entries: Sequence[int], consumer_id: int = 1, conn_id: int = 0) -> Self:
        ids = [wire.MessageId(ledger_id=7, entry_id=entry) for entry in entries]
        ack = record("ACK", consumer_id=consumer_id, ack_type=0, message_id=ids)
        return self.say(TO_BROKER, ack, conn_id=conn_id)

    @property
    def journal(self) -> bytes:
        """The whole as one journal file."""
        return FILE_HEADER + b"".join(self.blocks)


def slow_consumer(entries: int = 40, queue: int = 10) -> Wire:
    """Takes a queue of messages, acknowledges half of it at once, asks for as many, and again."""
    said = Wire().open().subscribe().flow(queue)
    half = max(1, queue // 2)
    said.messages(range(queue))
    for first in range(0, entries - queue, half):
        said.wait(0.5).ack(range(first, first + half)).flow(half)
        said.messages(range(first + queue, first + queue + half))
    return said.wait(2.0)


def write_trace(folder: Path, blocks: Sequence[bytes], *, parts: int = 1, **meta: Any) -> Path:
    """A trace as a relay leaves it: the blocks in so many journals, nothing sealed."""
    folder.mkdir(parents=True, exist_ok=True)
    Meta(**{"trace_id": "trace-1", **meta}).write(folder)
    size = -(-len(blocks) // parts)
    for number in range(1, parts + 1):
        inside = blocks[(number - 1) * size : number * size]
        (folder / journal_name(number)).write_bytes(FILE_HEADER + b"".join(inside))
    return folder


def values(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Rows as values that can be compared."""
    return [values_of(row) for row in rows]


@contextmanager
def relay_alive(folder: Path) -> Iterator[None]:
    """The lock that a relay holds for its life."""
    with (folder / RELAY_LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def rotating(folder: Path, blocks: Sequence[bytes], *, parts: int) -> Iterator[int]:
    """Writes a journal after the other, as a relay does; each yield is a moment to look."""
    size = -(-len(blocks) // parts)
    for number in range(1, parts + 1):
        path = folder / journal_name(number)
        path.write_bytes(FILE_HEADER)
        for block in blocks[(number - 1) * size : number * size]:
            with path.open("ab") as file:
                file.write(block)
            yield number
