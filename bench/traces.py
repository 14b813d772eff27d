"""Makes big traces in the real format, with stalls planted in them that are known.

    python bench/traces.py FOLDER --events 1000000 [--traces K] [--seed S] [--shape even]

FOLDER gets trace-1.ptrace, trace-2.ptrace … and planted.json: one object a planted stall, with
trace_id, incarnation, topic, subscription, consumer_name, start_us and end_us (µs since 1970),
duration_us, ended_by (flow, reconnect, close or end_of_trace) and unacked_at_start. Every stall
that was planted lasts at least 40 s; every other time without permits lasts less than a second.

A trace is made of tiles: half a million rows, forty minutes, a hundred consumers on twenty topics.
A few tiles go the whole way, from commands over the journal and the ledgers to a sealed segment.
In a tile every connection is opened and closed, so that it may follow itself: all others are copies
with moments and numbers moved on. In the last tile of a trace the connections stay open.

--shape heavy: one consumer more, which has half of all rows and lives as long as its trace: what it
says to subscribe is in the first tile only. Its numbers begin anew with each tile. --shape many:
consumers come and go, one for about 14 rows: a million in 15 million.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import accumulate, cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent))

from observer import Said, said

from pulsar_doctor.trace.folder import Meta, journal_name, segment_name
from pulsar_doctor.trace.index import Expired, Index, Part, write_index
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.trace.segments import (
    GROUP_ROWS,
    SCHEMA,
    SegmentWriter,
    sha256_of,
)
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import TO_BROKER, TO_CLIENT
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import pack_event
from tests.made.wire import MASK, START_US, Wire

TILE_ROWS = 500_000
LEAST_ROWS = 20_000  # of a tile: fewer hold no stalls
TILE_US = 2_400_000_000
VARIANTS = 4  # tiles that are made, beside the last one
CONNECTIONS = 16
HEAVY_ROWS = 5  # with which the heavy consumer comes: OPEN, CONNECT, CONNECTED, SUBSCRIBE, SUCCESS
CLOSES = {"even": 0.003, "heavy": 0.003, "many": 0.6}  # of the steps that are no producer's
HEAVY_STEPS = 0.47  # of all steps, for half of all rows
CLOSING_ROWS = 4_000  # kept free for what a tile needs to come to its end
STALL_SECONDS = (40.0, 1800.0)
ROWS_A_STALL = 40_000
STALLS = (3, 12)  # of a tile, at least and at most
PROCESSES = 2

SHARED, KEY_SHARED, FAILOVER, EXCLUSIVE = 1, 3, 2, 0  # sub_type
KINDS = (SHARED, KEY_SHARED, SHARED, FAILOVER, SHARED, EXCLUSIVE)
CONSUMERS = {SHARED: 5, KEY_SHARED: 5, FAILOVER: 3, EXCLUSIVE: 1}
QUEUES = (1000, 100, 1000, 10, 1000, 1000, 100, 0)  # receiver_queue_size
VERSIONS = ("Pulsar-Java-v3.0.7", "Pulsar-CPP-v3.5.1", "Pulsar-Go-v0.12.1")
TOPICS = [
    *(
        f"payments-prod/settlement-eu-central/card-authorisations-v2-partition-{n}"
        for n in range(6)
    ),
    *(f"orders-prod/checkout-eu-central/order-lifecycle-events-v3-partition-{n}" for n in range(6)),
    *(f"logistics-prod/tracking-eu-west/parcel-position-updates-partition-{n}" for n in range(4)),
    "payments-prod/settlement-eu-central/chargebacks-received",
    "orders-prod/checkout-eu-central/basket-abandoned-reminders",
    "customers-prod/profiles-global/address-changes-validated",
    "customers-prod/profiles-global/newsletter-preferences",
]
SUBSCRIPTIONS = (
    *("ledger-posting", "fraud-scoring", "data-warehouse-export", "search-indexing", "invoicing"),
    *("notification-dispatch", "audit-archive", "stock-reservation", "recommendations", "crm-sync"),
)

Held = tuple[int, int, int, int]  # entry, open bits, messages in it, redelivery_count


@dataclass(frozen=True, slots=True)
class Planted:
    """A stall of a tile. Times: µs from the start of the tile. ended_by: flow, closed, not_yet."""

    incarnation: int
    topic: str
    subscription: str
    consumer_name: str
    start_us: int
    end_us: int
    ended_by: str
    unacked_at_start: int


@dataclass(eq=False)
class Queue:
    """A subscription: where it stands in its topic, and what was given back."""

    number: int
    consumers: list[Client] = field(default_factory=list)
    next_entry: int = 0
    returned: deque[Held] = field(default_factory=deque)

    @property
    def topic_number(self) -> int:
        return self.number % len(TOPICS)

    @property
    def topic(self) -> str:
        return f"persistent://{TOPICS[self.topic_number]}"

    @property
    def name(self) -> str:
        return SUBSCRIPTIONS[(self.number + self.number // len(TOPICS)) % len(SUBSCRIPTIONS)]

    @property
    def sub_type(self) -> int:
        return KINDS[self.number % len(KINDS)]

    @property
    def cumulative(self) -> bool:
        return self.sub_type in (FAILOVER, EXCLUSIVE)

    def next(self) -> Held:
        """What the broker sends next. Half of the topics have batches, of 1 to 20 messages."""
        if self.returned:
            return self.returned.popleft()
        entry = self.next_entry
        self.next_entry += 1
        batch = 1 + entry * 7919 % 20 if self.topic_number % 4 < 2 else 1
        return entry, (1 << batch) - 1, batch, 0


@dataclass(eq=False)
class Client:
    """A consumer as its application uses it. received: not taken yet; held: not acknowledged."""

    queue: Queue
    consumer_id: int
    name: str
    conn_id: int
    receiver_queue_size: int
    acks_in_one: int
    leaves: int  # that many entries stay in its receiver queue
    incarnation: int = 0
    permits: int = 0
    unsent: int = 0
    received: deque[Held] = field(default_factory=deque)
    held: list[Held] = field(default_factory=list)
    forgotten: list[Held] = field(default_factory=list)
    stalled_us: int | None = None
    unacked_at_start: int = 0

    @property
    def unacked(self) -> int:
        return sum(h[1].bit_count() for h in (*self.received, *self.held, *self.forgotten))


class Tile:
    """What goes over the wire in forty minutes; the same for the same seed."""

    def __init__(self, seed: int, rows: int, *, last: bool, shape: str = "even") -> None:
        self.chance = random.Random(seed)
        self.row_most = rows
        self.last = last
        self.rows = self.incarnations = self.conn_ids = self.requests = self.receipts = 0
        self.wire = Wire()
        self.last_us = 0
        self.opened: set[int] = set()
        self.planted: list[Planted] = []
        self.subscribed_us: dict[str, int] = {}  # the last time, by topic, subscription, name
        self.due: list[tuple[int, int, Callable[[], None]]] = []
        self.queues = [Queue(n) for n in range(26)]
        self.weights = list(accumulate(1 / (1 + 0.3 * n) for n in range(len(self.queues))))
        self.clients = [
            self.client(queue, number, seed)
            for queue in self.queues
            for number in range(CONSUMERS[queue.sub_type])
        ]
        heavy = shape == "heavy"
        # The same one in every tile: its name is not of the seed.
        self.heavy = self.client(Queue(len(self.queues)), 0, seed=0) if heavy else None
        self.closes = 0.27 + CLOSES[shape]

    def client(self, queue: Queue, number: int, seed: int) -> Client:
        pod = f"{(seed * 2654435761 + queue.number) % 2**32:08x}"
        client = Client(
            queue,
            consumer_id=queue.number * 10 + number,
            name=f"{queue.name}-{pod}-{number}",
            conn_id=(queue.number * 5 + number) % CONNECTIONS,
            receiver_queue_size=QUEUES[queue.number % len(QUEUES)],
            acks_in_one=(1, 30, 10)[(queue.number + number) % 3],
            leaves=(0, 3, 0, 200)[(queue.number + number) % 4],
        )
        queue.consumers.append(client)
        return client

    def played(self) -> bytes:
        """The whole tile as one journal."""
        if self.heavy is not None:
            self.heavy.conn_id = self.open()
            self.subscribe(self.heavy)
            self.opened.clear()  # it stays
        first = self.conn_ids
        for client in self.clients:
            client.conn_id += first
        for _ in range(CONNECTIONS):
            self.open()
        self.producers = self.open()
        for number, topic in enumerate(TOPICS):
            request = self.request()
            producer = said(
                "PRODUCER", request_id=request, topic=f"persistent://{topic}", producer_id=number
            )
            self.say(self.producers, TO_BROKER, producer)
            self.say(self.producers, TO_CLIENT, said("PRODUCER_SUCCESS", request_id=request))
        for client in self.clients:
            self.subscribe(client)
        self.plan()
        us_a_row = 0.95 * TILE_US / (self.row_most - CLOSING_ROWS)
        while self.rows < self.row_most - CLOSING_ROWS:
            self.wire.now_us = max(self.wire.now_us, START_US + int(self.rows * us_a_row))
            while self.due and self.due[0][0] <= self.wire.now_us:
                heapq.heappop(self.due)[2]()
            self.step()
        self.finish()
        return self.wire.journal

    def step(self) -> None:
        chance = self.chance.random()
        if self.heavy is not None and self.chance.random() < HEAVY_STEPS:
            self.deliver(self.heavy, self.chance.randrange(1, 40))
            self.work(self.heavy)
            return
        (queue,) = self.chance.choices(self.queues, cum_weights=self.weights)
        serving = [client for client in queue.consumers if client.stalled_us is None]
        if chance < 0.25:
            self.produce(queue)
        elif chance < 0.27:
            self.ping(self.producers)
        elif serving and serving[0] is not queue.consumers[0] and queue.cumulative:
            pass  # the active consumer does not take anything
        elif serving:
            client = serving[0] if queue.cumulative else self.chance.choice(serving)
            if chance < self.closes:
                self.close(client)
                self.subscribe(client)
            elif chance < self.closes + 0.001:
                self.reconnect(client.conn_id)
            elif chance < self.closes + 0.007:
                self.give_back(client)
            else:
                self.deliver(client, self.chance.randrange(1, 40))
                self.work(client)

    # Messages

    def say(self, conn_id: int, direction: str, *commands: Said | bytes) -> int:
        """What one read brought, as the relay masks and packs it; when it was."""
        self.last_us = now_us = self.wire.now_us
        self.wire.step_us = self.chance.randrange(100, 1500)
        self.rows += len(commands)
        if isinstance(commands[0], bytes):
            self.wire.say(direction, commands[0], conn_id=conn_id)
            return now_us
        frames = Frames()
        for command in commands:
            frames.add(*command)
        self.wire.say(direction, *MASK.pack_all(frames), conn_id=conn_id)
        return now_us

    def request(self) -> int:
        self.requests += 1
        return self.requests

    def open(self) -> int:
        conn_id = self.conn_ids
        self.conn_ids += 1
        self.opened.add(conn_id)
        port = 40_000 + conn_id
        opened = pack_event(
            "OPEN", client_addr=f"10.20.{conn_id % 7}.9:{port}", broker_addr="10.30.0.4:6650"
        )
        self.say(conn_id, TO_BROKER, opened)
        version = VERSIONS[conn_id % len(VERSIONS)]
        self.say(conn_id, TO_BROKER, said("CONNECT", client_version=version))
        self.say(conn_id, TO_CLIENT, said("CONNECTED"))
        return conn_id

    def ping(self, conn_id: int) -> None:
        self.say(conn_id, TO_CLIENT, said("PING"))
        self.say(conn_id, TO_BROKER, said("PONG"))

    def produce(self, queue: Queue) -> None:
        many, now_ms = self.chance.randrange(1, 12), self.wire.now_us // 1000
        number = queue.topic_number
        sent = [said("SEND", {"publish_time": now_ms}, producer_id=number) for _ in range(many)]
        self.say(self.producers, TO_BROKER, *sent)
        self.receipts += many
        ids = [
            wire.MessageId(ledger_id=4711 + number, entry_id=self.receipts - n - 1)
            for n in reversed(range(many))
        ]
        got = [said("SEND_RECEIPT", producer_id=number, message_id=each) for each in ids]
        self.say(self.producers, TO_CLIENT, *got)

    def subscribe(self, client: Client) -> None:
        queue, request = client.queue, self.request()
        self.incarnations += 1
        client.incarnation = self.incarnations
        subscribe = said(
            "SUBSCRIBE",
            topic=queue.topic,
            subscription=queue.name,
            sub_type=queue.sub_type,
            consumer_id=client.consumer_id,
            consumer_name=client.name,
            request_id=request,
        )
        known = json.dumps([queue.topic, queue.name, client.name])
        self.subscribed_us[known] = self.say(client.conn_id, TO_BROKER, subscribe)
        self.say(client.conn_id, TO_CLIENT, said("SUCCESS", request_id=request))
        self.flow(client, client.receiver_queue_size or 1)

    def flow(self, client: Client, permits: int) -> int:
        client.permits += permits
        flow = said("FLOW", consumer_id=client.consumer_id, message_permits=permits)
        return self.say(client.conn_id, TO_BROKER, flow)

    # What the broker sends

    def deliver(self, client: Client, most: int) -> int:
        """As many entries as there are permits, `most` at most; when that was."""
        if client.receiver_queue_size == 0:
            most = 1
        messages: list[Said] = []
        while client.permits > 0 and len(messages) < most:
            held = client.queue.next()
            client.received.append(held)
            client.permits -= held[1].bit_count()
            messages.append(self.message(client, held))
        return self.say(client.conn_id, TO_CLIENT, *messages) if messages else self.wire.now_us

    def message(self, client: Client, held: Held) -> Said:
        entry, bits, batch, redelivered = held
        number = client.queue.topic_number
        metadata: dict[str, Any] = {"publish_time": self.wire.now_us // 1000 - entry % 50}
        fields: dict[str, Any] = {"redelivery_count": redelivered} if redelivered else {}
        if batch > 1:
            metadata["num_messages_in_batch"] = batch
        elif client.queue.sub_type == KEY_SHARED:
            metadata["partition_key"] = f"customer-{entry % 5000}"
        if bits != (1 << batch) - 1:
            fields["ack_set"] = [bits]
        if number == len(TOPICS) - 1:
            metadata["deliver_at_time"] = self.wire.now_us // 1000 - 1
        message_id = wire.MessageId(ledger_id=4711 + number, entry_id=entry)
        return said(
            "MESSAGE", metadata, consumer_id=client.consumer_id, message_id=message_id, **fields
        )

    # What the application does

    def work(self, client: Client) -> None:
        """Takes what is there, gives the permits back, acknowledges. Never left without permits."""
        left = client.leaves if client.permits > 0 and client.leaves < client.permits else 0
        self.take(client, len(client.received) - left)
        size = client.receiver_queue_size
        if client.permits <= 0 or client.unsent >= max(1, size // 2):
            self.flow(client, client.unsent if size else 1)
            client.unsent = 0
        self.acknowledge(client)

    def take(self, client: Client, entries: int) -> None:
        for _ in range(entries):
            held = client.received.popleft()
            client.unsent += held[1].bit_count()
            forgets = not client.queue.cumulative and self.chance.random() < 0.0005
            (client.forgotten if forgets else client.held).append(held)

    def acknowledge(self, client: Client) -> None:
        """What it has taken; of some batches half of it now and the rest the next time."""
        if not client.held:
            return
        held, client.held = client.held, []
        if client.queue.cumulative:
            self.say(client.conn_id, TO_BROKER, self.ack(client, held[-1:]))
            return
        acks, whole = [], []
        for entry, bits, batch, redelivered in held:
            half = bits & 0xAAAAA
            if batch > 1 and 0 < half < bits and self.chance.random() < 0.03:
                acks.append(self.ack(client, [(entry, half, batch, redelivered)], half))
                client.held.append((entry, half, batch, redelivered))
            else:
                whole.append((entry, bits, batch, redelivered))
        for at in range(0, len(whole), client.acks_in_one):
            acks.append(self.ack(client, whole[at : at + client.acks_in_one]))
        for at in range(0, len(acks), 50):
            self.say(client.conn_id, TO_BROKER, *acks[at : at + 50])

    def ack(self, client: Client, held: Sequence[Held], still_open: int | None = None) -> Said:
        ids = [
            wire.MessageId(
                ledger_id=4711 + client.queue.topic_number,
                entry_id=entry,
                ack_set=None if still_open is None else [still_open],
            )
            for entry, *_ in held
        ]
        return said(
            "ACK",
            consumer_id=client.consumer_id,
            ack_type=int(client.queue.cumulative),
            message_id=ids,
        )

    def give_back(self, client: Client) -> None:
        """Messages that were taken go back; with cumulative acks all that it has, as clients do."""
        queue = client.queue
        if queue.cumulative:
            client.unsent += sum(held[1].bit_count() for held in client.received)
            back, ids = [*client.held, *client.received], []
            client.held.clear()
            client.received.clear()
        else:
            self.deliver(client, 3)
            self.take(client, min(3, len(client.received)))
            back, client.held = client.held, []
            ids = [
                wire.MessageId(ledger_id=4711 + queue.topic_number, entry_id=held[0])
                for held in back
            ]
        if back:
            again = said(
                "REDELIVER_UNACKNOWLEDGED_MESSAGES",
                consumer_id=client.consumer_id,
                message_ids=ids,
            )
            self.say(client.conn_id, TO_BROKER, again)
            self.returned(queue, back)
        self.work(client)

    def returned(self, queue: Queue, back: Sequence[Held]) -> None:
        queue.returned.extend((e, bits, batch, count + 1) for e, bits, batch, count in back)
        queue.returned = deque(sorted(queue.returned))

    # How consumers go

    def close(self, client: Client) -> None:
        request = self.request()
        closing = said("CLOSE_CONSUMER", consumer_id=client.consumer_id, request_id=request)
        self.say(client.conn_id, TO_BROKER, closing)
        now_us = self.say(client.conn_id, TO_CLIENT, said("SUCCESS", request_id=request))
        self.gone(client, now_us)

    def reconnect(self, conn_id: int) -> None:
        """The connection is lost, with all its consumers, and they come back on a new one."""
        lost = [client for client in self.clients if client.conn_id == conn_id]
        if any(client.stalled_us is not None for client in lost):
            return
        self.lose(lost)

    def lose(self, lost: Sequence[Client]) -> None:
        now_us = self.say(lost[0].conn_id, TO_CLIENT, pack_event("CLOSE"))
        self.opened.discard(lost[0].conn_id)
        conn_id = self.open()
        for client in lost:
            self.gone(client, now_us)
            client.conn_id = conn_id
            self.subscribe(client)

    def gone(self, client: Client, now_us: int) -> None:
        """What it had goes back to its subscription."""
        self.stall_ends(client, now_us, "closed")
        self.returned(client.queue, [*client.received, *client.held, *client.forgotten])
        client.received.clear()
        client.held.clear()
        client.forgotten.clear()
        client.permits = client.unsent = 0

    # The stalls

    def plan(self) -> None:
        """Spreads the stalls over the tile. Of the last one some do not end."""
        many = min(STALLS[1], max(STALLS[0], self.row_most // ROWS_A_STALL))
        ends = ("flow", "reconnect", "connection", "gone", "flow", "flow")
        least, most = STALL_SECONDS
        for number in range(many):
            us = int(1e6 * least * 1.02 * (most / least) ** (0.97 * self.chance.random()))
            latest = 0.85 * TILE_US - us
            start_us = START_US + int(self.chance.uniform(0.02 * TILE_US, latest))
            end = ends[number % len(ends)]
            if self.last and number % 4 == 0:
                us, end = 0, "not_yet"
            self.at(start_us, partial(self.stall, us, end))

    def at(self, us: int, action: Callable[[], None]) -> None:
        heapq.heappush(self.due, (us, len(self.due) + self.rows, action))

    def stall(self, us: int, end: str) -> None:
        """A consumer with a large queue stops taking, or slows down, and its permits run out."""
        stalled = {client.conn_id for client in self.clients if client.stalled_us is not None}
        ready = [
            client
            for queue in self.queues
            for client in (queue.consumers[:1] if queue.cumulative else queue.consumers[:-1])
            if client.receiver_queue_size >= 100 and client.conn_id not in stalled
        ]
        client = self.chance.choice(ready)
        while client.permits > 0:
            client.stalled_us = self.deliver(client, 100)
        client.unacked_at_start = client.unacked
        if end == "not_yet":
            return
        start_us = client.stalled_us or 0
        if self.chance.random() < 0.5:
            for part in range(1, 6):
                self.at(start_us + us * part // 6, lambda: self.dawdle(client))
        self.at(start_us + us, lambda: self.end_stall(client, end))

    def dawdle(self, client: Client) -> None:
        """Takes one and acknowledges it: so slow that it does not come to a FLOW."""
        next_one = client.received[0][1].bit_count()
        if client.unsent + next_one < client.receiver_queue_size // 2:
            self.take(client, 1)
            self.acknowledge(client)

    def end_stall(self, client: Client, end: str) -> None:
        if end == "flow":
            self.take(client, len(client.received))
            self.stall_ends(client, self.flow(client, client.unsent), "flow")
            client.unsent = 0
            self.acknowledge(client)
        elif end == "connection":
            self.lose([other for other in self.clients if other.conn_id == client.conn_id])
        else:
            self.close(client)
            if end == "reconnect":
                self.subscribe(client)
            else:
                self.clients.remove(client)
                client.queue.consumers.remove(client)

    def stall_ends(self, client: Client, now_us: int, ended_by: str) -> None:
        if client.stalled_us is None:
            return
        stall = Planted(
            client.incarnation,
            client.queue.topic,
            client.queue.name,
            client.name,
            client.stalled_us - START_US,
            now_us - START_US,
            ended_by,
            client.unacked_at_start,
        )
        client.stalled_us = None
        self.planted.append(stall)

    # The end

    def finish(self) -> None:
        """All comes to its end; pings fill what is left of the rows."""
        for client in [*self.clients, *filter(None, [self.heavy])]:
            if client.stalled_us is None:
                self.take(client, len(client.received))
                self.acknowledge(client)
                self.acknowledge(client)
        if not self.last:
            for client in self.clients:
                self.close(client)
        closing = [] if self.last else sorted(self.opened)
        while self.rows < self.row_most - len(closing) - 1:
            self.ping(self.producers)
        if self.rows < self.row_most - len(closing):
            self.say(self.producers, TO_CLIENT, said("PING"))
        for conn_id in closing:
            self.say(conn_id, TO_CLIENT, pack_event("CLOSE"))
        for client in self.clients:
            self.stall_ends(client, self.last_us, "not_yet")
        if self.rows != self.row_most or self.last_us >= START_US + TILE_US:
            raise RuntimeError(f"{self.rows} rows until {self.last_us} do not fit in a tile")


@dataclass(frozen=True, slots=True)
class Made:
    """A tile that is sealed, and how far a copy that follows it must be moved on."""

    segment: Path
    rows: int
    last_us: int
    incarnations: int
    conn_ids: int
    entries: int
    planted: list[Planted]
    subscribed_us: dict[str, int]
    heavy: bool


def make(path: Path, seed: int, rows: int, last: bool, shape: str) -> Made:
    """Plays a tile and seals it, as an observer does."""
    path.mkdir()
    Meta("tile").write(path)
    tile = Tile(seed, rows, last=last, shape=shape)
    journal = path / journal_name(1)
    journal.write_bytes(tile.played())
    with Sealer(path) as sealer:
        sealer.finish()
    segment = path / segment_name(1)
    if (sealed := pq.read_metadata(segment).num_rows) != rows:
        raise RuntimeError(f"a tile of {rows} rows has become {sealed}")
    return Made(
        segment,
        rows,
        tile.last_us - START_US,
        tile.incarnations,
        tile.conn_ids,
        max(tile.receipts, *(queue.next_entry for queue in tile.queues)),
        tile.planted,
        {known: us - START_US for known, us in tile.subscribed_us.items()},
        shape == "heavy",
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a copy of a tile goes: which part of which trace, and what its numbers start from."""

    folder: Path
    trace_id: str
    number: int
    seq: int
    start_us: int
    incarnation: int
    conn_id: int
    entry_id: int

    def skipped(self, made: Made) -> int:
        """The rows at the beginning of a tile that its copy here does without."""
        return HEAVY_ROWS if made.heavy and self.number > 1 else 0

    def after(self, made: Made) -> Place:
        """Where the tile goes that follows this one."""
        return replace(
            self,
            number=self.number + 1,
            seq=self.seq + made.rows - self.skipped(made),
            start_us=self.start_us + TILE_US,
            incarnation=self.incarnation + made.incarnations,
            conn_id=self.conn_id + made.conn_ids,
            entry_id=self.entry_id + made.entries,
        )


def moved(tile: pa.Table, made: Made, place: Place) -> pa.Table:
    """The rows of a tile with its moments and numbers moved on."""
    skipped = place.skipped(made)
    tile = tile.slice(skipped).combine_chunks()
    stays = pc.fill_null(pc.equal(tile["conn_id"], 0), False) if made.heavy else None
    later_us = place.start_us - START_US
    more = {
        "seq": place.seq - skipped,
        "mono_ns": later_us * 1000,
        "incarnation": place.incarnation,
        "conn_id": place.conn_id,
        "entry_id": place.entry_id,
    }
    columns = []
    for name, column in zip(tile.column_names, tile.columns, strict=True):
        if name == "trace_id":
            moved_on = pa.repeat(place.trace_id, len(tile))
        elif name in more:
            moved_on = pc.add(column, pa.scalar(more[name], column.type))
            if stays is not None and name in ("incarnation", "conn_id"):
                moved_on = pc.if_else(stays, column, moved_on)
        elif pa.types.is_timestamp(column.type):
            moved_on = pc.add(column, pa.scalar(later_us, pa.duration("us")))
        elif name == "message_ids":
            moved_on = _ids_moved(column.chunk(0), place.entry_id)
        else:
            moved_on = column
        columns.append(moved_on)
    return pa.table(columns, schema=tile.schema)


def _ids_moved(lists: pa.ListArray, entry_id: int) -> pa.Array:
    ids = lists.values
    ledger_ids, entry_ids, ack_sets = (ids.field(n) for n in range(3))
    entry_ids = pc.add(entry_ids, pa.scalar(entry_id, pa.int64()))
    structs = pa.StructArray.from_arrays([ledger_ids, entry_ids, ack_sets], fields=list(ids.type))
    buffers, offset = lists.buffers()[:2], lists.offset  # of a slice: as of what it was cut from
    return pa.Array.from_buffers(
        lists.type, len(lists), buffers, lists.null_count, offset, children=[structs]
    )


def write_copies(made: Made, places: Sequence[Place]) -> list[Part]:
    """Writes a tile into each of these places; the lines for the lists of their traces."""
    tile = pq.read_table(made.segment, schema=SCHEMA).combine_chunks()
    return [write_copy(tile, made, place) for place in places]


def write_copy(tile: pa.Table, made: Made, place: Place) -> Part:
    path = place.folder / segment_name(place.number)
    writer = SegmentWriter(path)
    writer._parquet.write_table(moved(tile, made, place), row_group_size=GROUP_ROWS)
    writer.close()
    until_us, rows = place.start_us + made.last_us, made.rows - place.skipped(made)
    return Part(
        number=place.number,
        name=path.name,
        rows=rows,
        first_seq=place.seq,
        last_seq=place.seq + rows - 1,
        bytes=path.stat().st_size,
        sha256=sha256_of(path),
        until_us=until_us,
        until_ns=(until_us - START_US) * 1000,
        gaps=0,
        dropped=0,
    )


def planted_in(layout: Sequence[tuple[Made, Place]]) -> Iterator[dict[str, Any]]:
    """The stalls of a trace. A closed consumer has reconnected if its like subscribes later."""
    later: dict[str, int] = {}
    for made, place in reversed(layout):
        for known, us in made.subscribed_us.items():
            later.setdefault(known, us + place.start_us)
        for stall in made.planted:
            start_us, end_us = stall.start_us + place.start_us, stall.end_us + place.start_us
            known = json.dumps([stall.topic, stall.subscription, stall.consumer_name])
            closed = "reconnect" if later[known] >= end_us else "close"
            ended_by = {"closed": closed, "not_yet": "end_of_trace"}.get(stall.ended_by, "flow")
            yield {
                "trace_id": place.trace_id,
                **asdict(stall),
                "incarnation": stall.incarnation + place.incarnation,
                "start_us": start_us,
                "end_us": end_us,
                "duration_us": end_us - start_us,
                "ended_by": ended_by,
            }


def laid_out(
    folder: Path, number: int, tiles: Sequence[Made], last: Made, many: int
) -> list[tuple[Made, Place]]:
    """The tiles of one trace, each with its place. Traces begin some seconds after each other."""
    start_us = START_US + number * 17_000_000
    place = Place(folder / f"trace-{number}.ptrace", f"trace-{number}", 1, 0, start_us, 0, 0, 0)
    layout = []
    for made in [*islice(cycle(tiles), many - 1), last]:
        layout.append((made, place))
        place = place.after(made)
    return layout


def write(
    folder: Path, events: int, traces: int = 1, seed: int = 1, *, shape: str = "even"
) -> None:
    """Writes so many traces with so many events together, and planted.json beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    each = events // traces
    many = -(-each // TILE_ROWS)
    left = each - (many - 1) * TILE_ROWS
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        ProcessPoolExecutor(PROCESSES) as processes,
    ):
        ahead = [
            processes.submit(make, Path(scratch) / str(n), seed + n, TILE_ROWS, False, shape)
            for n in range(min(VARIANTS, many - 1))
        ]
        ending = processes.submit(make, Path(scratch) / "last", seed + VARIANTS, left, True, shape)
        tiles, last = [made.result() for made in ahead], ending.result()
        layouts = [laid_out(folder, n + 1, tiles, last, many) for n in range(traces)]
        for layout in layouts:
            place = layout[0][1]
            place.folder.mkdir()
            clocks = {"wall_us": place.start_us, "mono_ns": (place.start_us - START_US) * 1000}
            Meta(place.trace_id, clocks=clocks).write(place.folder)
        copies = []
        for made in (*tiles, last):
            places = [place for layout in layouts for its, place in layout if its is made]
            halves = [half for half in (places[::2], places[1::2]) if half]
            copies += [(half, processes.submit(write_copies, made, half)) for half in halves]
        parts: dict[Place, Part] = {}
        for places, written in copies:
            parts.update(zip(places, written.result(), strict=True))
    planted: list[dict[str, Any]] = []
    for layout in layouts:
        write_index(layout[0][1].folder, Index(Expired(), [parts[place] for _, place in layout]))
        planted += planted_in(layout)
    planted.sort(key=lambda stall: (stall["trace_id"], stall["start_us"]))
    (folder / "planted.json").write_text(json.dumps(planted, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000, help="of all traces together")
    parser.add_argument("--traces", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shape", choices=CLOSES, default="even")
    options = parser.parse_args()
    rest = options.events // options.traces % TILE_ROWS
    if options.events // options.traces < LEAST_ROWS or 0 < rest < LEAST_ROWS:
        parser.error(f"the last of the tiles of {TILE_ROWS:,} needs {LEAST_ROWS:,} events or more")
    began = time.monotonic()
    write(options.folder, options.events, options.traces, options.seed, shape=options.shape)
    paths = sorted(options.folder.glob("trace-*.ptrace"))
    size = sum(file.stat().st_size for path in paths for file in path.iterdir())
    seconds = time.monotonic() - began
    print(f"{options.events:,} events, {size / 2**20:,.0f} MiB, {seconds:.0f} s: {paths[0]} …")


if __name__ == "__main__":
    main()
