"""What a consumer and a broker say on the wire, block by block, as a journal has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import GAP, TO_BROKER, TO_CLIENT, UNPARSED
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
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)
BUSY = 5  # the protocol's ServerError of that name
CHECKSUM = 2  # its ValidationError

Id = int | tuple[int, int]


def message_id(of: Id, open_bits: int | None = None) -> wire.MessageId:
    """open_bits: indexes of the batch that are not acknowledged; None without an ack_set."""
    ledger_id, entry_id = of if isinstance(of, tuple) else (7, of)
    words = [] if open_bits is None else words_of(open_bits)
    return wire.MessageId(ledger_id=ledger_id, entry_id=entry_id, ack_set=words)


def words_of(bits: int) -> list[int]:
    """As the wire has them: signed, 64 bits each."""
    words = [bits >> at & (1 << 64) - 1 for at in range(0, max(1, bits.bit_length()), 64)]
    return [word - (1 << 64) if word >> 63 else word for word in words]


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

    def flow(self, permits: int, consumer_id: int = 1, conn_id: int = 0) -> Self:
        flow = record("FLOW", consumer_id=consumer_id, message_permits=permits)
        return self.say(TO_BROKER, flow, conn_id=conn_id)

    def moment(self) -> Self:
        """Messages next is said at the same microsecond."""
        self.now_us -= self.step_us
        return self

    def asked(
        self,
        consumer_id: int = 1,
        name: str | None = "slow",
        *,
        topic: str = TOPIC,
        subscription: str = "billing",
        sub_type: int = SHARED,
        conn_id: int = 0,
        request_id: int | None = None,
    ) -> Self:
        """SUBSCRIBE, not answered yet."""
        fields: dict[str, Any] = {} if name is None else {"consumer_name": name}
        subscribe = record(
            "SUBSCRIBE",
            topic=topic,
            subscription=subscription,
            sub_type=sub_type,
            consumer_id=consumer_id,
            request_id=consumer_id if request_id is None else request_id,
            **fields,
        )
        return self.say(TO_BROKER, subscribe, conn_id=conn_id)

    def granted(self, request_id: int = 1, conn_id: int = 0) -> Self:
        return self.say(TO_CLIENT, record("SUCCESS", request_id=request_id), conn_id=conn_id)

    def refused(self, request_id: int = 1, conn_id: int = 0) -> Self:
        error = record("ERROR", request_id=request_id, error=BUSY, message="already connected")
        return self.say(TO_CLIENT, error, conn_id=conn_id)

    def attached(self, consumer_id: int = 1, name: str | None = "slow", **settings: Any) -> Self:
        """SUBSCRIBE and its SUCCESS."""
        self.asked(consumer_id, name, **settings)
        return self.granted(consumer_id, settings.get("conn_id", 0))

    def pushed(
        self,
        ids: Iterable[Id],
        consumer_id: int = 1,
        *,
        batch: int = 1,
        open_bits: int | None = None,
        again: int = 0,
        conn_id: int = 0,
    ) -> Self:
        """MESSAGEs in one block. again: redelivery_count; open_bits: of their ack_set."""
        metadata: dict[str, Any] = {"publish_time": self.now_us // 1000}
        if batch > 1:
            metadata["num_messages_in_batch"] = batch
        records = [
            record(
                "MESSAGE",
                metadata,
                consumer_id=consumer_id,
                message_id=message_id(each),
                redelivery_count=again,
                ack_set=[] if open_bits is None else words_of(open_bits),
            )
            for each in ids
        ]
        return self.say(TO_CLIENT, *records, conn_id=conn_id)

    def acked(
        self,
        ids: Sequence[Id],
        consumer_id: int = 1,
        *,
        cumulative: bool = False,
        open_bits: int | None = None,
        corrupt: bool = False,
        transaction: int | None = None,
        conn_id: int = 0,
        **fields: Any,
    ) -> Self:
        fields |= {"validation_error": CHECKSUM} if corrupt else {}
        if transaction is not None:
            fields |= {"txnid_most_bits": 0, "txnid_least_bits": transaction}
        ack = record(
            "ACK",
            consumer_id=consumer_id,
            ack_type=int(cumulative),
            message_id=[message_id(each, open_bits) for each in ids],
            **fields,
        )
        return self.say(TO_BROKER, ack, conn_id=conn_id)

    def given_back(self, ids: Sequence[Id] = (), consumer_id: int = 1, conn_id: int = 0) -> Self:
        """By their ids; without any, all that is not acknowledged."""
        back = record(
            "REDELIVER_UNACKNOWLEDGED_MESSAGES",
            consumer_id=consumer_id,
            message_ids=[message_id(each) for each in ids],
        )
        return self.say(TO_BROKER, back, conn_id=conn_id)

    def closing(
        self, consumer_id: int = 1, conn_id: int = 0, *, command: str = "CLOSE_CONSUMER"
    ) -> Self:
        """The client closes it, or gives up the subscription; not answered yet."""
        close = record(command, consumer_id=consumer_id, request_id=500 + consumer_id)
        return self.say(TO_BROKER, close, conn_id=conn_id)

    def closed(self, consumer_id: int = 1, conn_id: int = 0, **how: Any) -> Self:
        """The client closes it."""
        self.closing(consumer_id, conn_id, **how)
        return self.granted(500 + consumer_id, conn_id)

    def unloaded(self, consumer_id: int = 1, conn_id: int = 0) -> Self:
        """The broker closes it: an unload, or a seek."""
        return self.say(
            TO_CLIENT, record("CLOSE_CONSUMER", consumer_id=consumer_id), conn_id=conn_id
        )

    def seek(self, to: Id, consumer_id: int = 1, conn_id: int = 0) -> Self:
        seek = record("SEEK", consumer_id=consumer_id, request_id=900, message_id=message_id(to))
        self.say(TO_BROKER, seek, conn_id=conn_id)
        return self.granted(900, conn_id).unloaded(consumer_id, conn_id)

    def lost(self, dropped: int = 3) -> Self:
        """Commands are missing from here on."""
        return self.say(TO_BROKER, pack_event(GAP, dropped=dropped), conn_id=NO_CONNECTION)

    def unparsed(self, conn_id: int = 0) -> Self:
        """What follows on this connection cannot be read."""
        return self.say(TO_BROKER, pack_event(UNPARSED), conn_id=conn_id)

    def took(self, of: Id, name: str = "slow", topic: str = TOPIC) -> Self:
        """The application took a message."""
        ledger_id, entry_id = of if isinstance(of, tuple) else (7, of)
        taken = pack_event(
            "TAKEN", consumer_name=name, topic=topic, ledger_id=ledger_id, entry_id=entry_id
        )
        return self.say(TO_BROKER, taken, conn_id=NO_CONNECTION)

    def produced(self, topic: str = TOPIC, conn_id: int = 0) -> Self:
        """What consumers have nothing to do with."""
        return self.say(
            TO_BROKER,
            record("PRODUCER", topic=topic, producer_id=1, request_id=800),
            record("SEND", {"publish_time": self.now_us // 1000}, producer_id=1, num_messages=1),
            record("PING"),
            conn_id=conn_id,
        )

    @property
    def journal(self) -> bytes:
        """The whole as one journal file."""
        return FILE_HEADER + b"".join(self.blocks)


def slow_consumer(entries: int = 40, queue: int = 10) -> Wire:
    """Takes a queue of messages, acknowledges half of it at once, asks for as many, and again."""
    said = Wire().open().attached().flow(queue)
    half = max(1, queue // 2)
    said.pushed(range(queue))
    for first in range(0, entries - queue, half):
        said.wait(0.5).acked(range(first, first + half)).flow(half)
        said.pushed(range(first + queue, first + queue + half))
    return said.wait(2.0)
