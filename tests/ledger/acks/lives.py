"""Random lives of subscriptions on the real broker, through a tap, and what stats-internal says."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pulsar

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.ledger.acks import subscription as acknowledgements
from pulsar_doctor.ledger.acks.ranges import Range
from pulsar_doctor.ledger.acks.subscription import Acknowledgements
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import relaying

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
SUBSCRIPTION = "s"
TAKE_MILLIS = 30
PATIENCE_SECONDS = 3.0
WEIGHTS = {
    "take": 36, "ack": 30, "cumulative": 12, "nack": 8, "again": 3, "reopen": 5, "more": 4,
    "seek": 1, "pause": 5,
}  # fmt: skip
# And what the wire does not show as it is.
WILD = {**WEIGHTS, "again": 6, "seek": 2, "seek_to_a_moment": 1, "unload": 1, "delayed": 4}
LATER_MS = (300, 3_600_000, 3_600_000)  # until a delayed message is due
REFUSED = (pulsar.NotConnected, pulsar.BrokerMetadataError)  # a seek, while a topic is unloaded
RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")

quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


@dataclass
class Life:
    """One subscription of one topic, from its first message to its last consumer."""

    seed: int
    client: pulsar.Client
    admin: httpx2.Client
    topic: str
    weights: dict[str, int] = field(default_factory=lambda: WEIGHTS)
    consumers: list[pulsar.Consumer] = field(default_factory=list)
    held: list[tuple[int, pulsar.Message]] = field(default_factory=list)
    internal: dict[str, Any] = field(default_factory=dict)
    sought: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.type = list(TYPES)[self.seed % 4]
        self.index_acks = self.chance.random() < 0.5
        self.in_order = self.type in acknowledgements.IN_ORDER
        self.two_ledgers = self.chance.random() < 0.3
        self.begun_ms = int(time.time() * 1000)

    def __str__(self) -> str:
        index = ", index acks" if self.index_acks else ""
        ledgers = ", two ledgers" if self.two_ledgers else ""
        return f"seed {self.seed}: {self.type}{index}{ledgers}"

    def live(self) -> None:
        """All of it; what the broker has in the end is in `internal`."""
        for number in range(1 if self.type == "Exclusive" else self.chance.randint(1, 3)):
            self.consumers.append(self.open(number))
        self.more()
        self.more()
        self.wait_for_one()
        for _ in range(self.chance.randint(20, 45)):
            self.act()
        if self.two_ledgers:
            self.unload(0)
            self.more()
            for _ in range(self.chance.randint(10, 20)):
                self.act()
        if self.sought and self.chance.random() < 0.7:  # else nothing may be sent after a seek
            self.wait_for_one()
        for consumer in self.consumers:
            consumer.close()
        self.internal = self.admin.get(f"{self.path}/internalStats").raise_for_status().json()

    def wait_for_one(self) -> None:
        """On Failover nobody is active at first; after a seek there may be nothing to wait for."""
        until, before = time.monotonic() + PATIENCE_SECONDS, len(self.held)
        while len(self.held) == before and time.monotonic() < until:
            for number in range(len(self.consumers)):
                self.take(number)

    @property
    def path(self) -> str:
        return self.topic.replace("persistent://", "/admin/v2/persistent/")

    def open(self, number: int) -> pulsar.Consumer:
        return self.client.subscribe(
            self.topic,
            SUBSCRIPTION,
            TYPES[self.type],
            consumer_name=f"c{number}",
            receiver_queue_size=self.chance.choice((1, 5, 100)),
            negative_ack_redelivery_delay_ms=100,
            batch_index_ack_enabled=self.index_acks,
        )

    def act(self) -> None:
        names = [name for name in self.weights if name != "cumulative" or self.in_order]
        (name,) = self.chance.choices(names, [self.weights[name] for name in names])
        getattr(self, name)(*([] if name in ("more", "delayed") else [self.a_consumer()]))

    def a_consumer(self) -> int:
        return self.chance.randrange(len(self.consumers))

    def more(self) -> None:
        size = self.chance.choice((1, 1, 2, 7, 20))
        producer = self.client.create_producer(
            self.topic,
            batching_enabled=size > 1,
            batching_max_messages=max(2, size),
            batching_max_publish_delay_ms=1000,
            batching_type=pulsar.BatchingType.KeyBased,
        )
        for _ in range(self.chance.randint(5, 40)):
            key = str(self.chance.randrange(5))
            producer.send_async(b"x", lambda result, message_id: None, partition_key=key)
        producer.flush()
        producer.close()

    def delayed(self) -> None:
        """Single messages, some of which are due in an hour."""
        producer = self.client.create_producer(self.topic, batching_enabled=False)
        for _ in range(self.chance.randint(1, 8)):
            later = self.chance.choice(LATER_MS)
            far = int(time.time() * 1000) + later if self.chance.random() < 0.6 else None
            producer.send(b"x", partition_key=str(self.chance.randrange(5)), deliver_at=far)
        producer.close()

    def unload(self, number: int) -> None:
        time.sleep(0.2)  # acks of the client are on their way: the unload would lose them
        self.admin.put(f"{self.path}/unload").raise_for_status()
        self.held.clear()

    def take(self, number: int) -> None:
        with contextlib.suppress(pulsar.Timeout):
            for _ in range(self.chance.randint(1, 20)):
                self.held.append((number, self.consumers[number].receive(TAKE_MILLIS)))

    def some_of(self, number: int, most: int) -> list[pulsar.Message]:
        mine = [message for holder, message in self.held if holder == number]
        return self.chance.sample(mine, min(len(mine), self.chance.randint(1, most)))

    def ack(self, number: int) -> None:
        done = self.some_of(number, 15)
        for message in done:
            self.consumers[number].acknowledge(message)
        if self.chance.random() < 0.9:  # else it may be acknowledged once more
            self.held = [each for each in self.held if each[1] not in done]

    def cumulative(self, number: int) -> None:
        for message in self.some_of(number, 2):
            self.consumers[number].acknowledge_cumulative(message)

    def nack(self, number: int) -> None:
        for message in self.some_of(number, 3):
            self.consumers[number].negative_acknowledge(message)
        if self.chance.random() < 0.5:
            time.sleep(0.15)

    def again(self, number: int) -> None:
        self.consumers[number].redeliver_unacknowledged_messages()

    def seek(self, number: int) -> None:
        for message in self.some_of(number, 1):
            with contextlib.suppress(*REFUSED):
                self.consumers[number].seek(message.message_id())
                self.held.clear()

    def seek_to_a_moment(self, number: int) -> None:
        moment = self.chance.randint(self.begun_ms, int(time.time() * 1000))
        with contextlib.suppress(*REFUSED):
            self.consumers[number].seek(moment)
            self.held.clear()
            self.sought = True

    def pause(self, number: int) -> None:
        time.sleep(0.12)  # longer than a client groups its acks

    def reopen(self, number: int) -> None:
        self.consumers[number].close()
        self.held = [each for each in self.held if each[0] != number]
        self.consumers[number] = self.open(number)

    @property
    def cursor(self) -> dict[str, Any]:
        """The subscription's, as the broker had it in the end."""
        cursor: dict[str, Any] = self.internal["cursors"][SUBSCRIPTION]
        return cursor

    def ranges(self) -> list[Range]:
        """The acknowledged ones."""
        return ranges_of(self.cursor["individuallyDeletedMessages"])

    def agrees_with(self, ours: Acknowledgements) -> str | None:
        """None, or where the two differ."""
        theirs = (
            self.canonical(tuple(map(int, self.cursor["markDeletePosition"].split(":")))),
            self.ranges(),
        )
        found = (self.canonical(ours.mark_delete or (-1, -1)), ours.ranges())
        return None if found == theirs else f"{self}\n  ours   {found}\n  theirs {theirs}"

    def canonical(self, position: tuple[int, ...]) -> tuple[int, int]:
        """The end of a ledger is where the next one begins; a trimmed ledger is not listed."""
        ledgers = [(each["ledgerId"], each["entries"]) for each in self.internal["ledgers"]]
        counts = dict(ledgers)
        ledger_id, entry = position
        if ledger_id in counts:
            last = counts[ledger_id] == 0 and ledger_id == ledgers[-1][0]
            ended = entry + 1 == counts[ledger_id] and ledger_id != ledgers[-1][0]
            if not ended or last:
                return ledger_id, entry
        following = [each for each, _ in ledgers if each > ledger_id]
        return (following[0], -1) if following else (ledger_id, entry)


def ranges_of(text: str) -> list[Range]:
    """As the broker writes them; a range that begins in an earlier ledger holds all of the next."""
    ranges = []
    for words in RANGE.findall(text):
        first_ledger, after, last_ledger, last = map(int, words)
        first = after + 1 if first_ledger == last_ledger else 0
        ranges.append(Range(last_ledger, first, last))
    return ranges


@contextlib.contextmanager
def tapped(
    broker: Sandbox, folder: Path, settings: Settings | None = None
) -> Iterator[tuple[pulsar.Client, httpx2.Client]]:
    """A client that comes through a tap. settings: with which the tap asks the broker."""
    with relaying(broker.service_url, folder, RelayOptions(settings=settings)) as relay:
        client = pulsar.Client(relay.service_url, logger=quiet)
        with httpx2.Client(base_url=broker.admin_url, timeout=30, trust_env=False) as admin:
            try:
                yield client, admin
            finally:
                client.close()


def lived(
    client: pulsar.Client, admin: httpx2.Client, seeds: Sequence[int], weights: dict[str, int]
) -> list[Life]:
    """Lives them one after the other."""
    lives = []
    for seed in seeds:
        topic = f"persistent://public/default/life-{seed}-{random.getrandbits(32):08x}"
        lives.append(Life(seed, client, admin, topic, weights))
        lives[-1].live()
    return lives
