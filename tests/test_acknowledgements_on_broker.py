"""Random lives of subscriptions on the real broker: what we compute is what stats-internal says."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest

from pulsar_doctor.acknowledgements import subscription as acknowledgements
from pulsar_doctor.acknowledgements.subscription import Acknowledgements
from pulsar_doctor.holes.ranges import Range
from pulsar_doctor.sandbox import Sandbox, running
from pulsar_doctor.sealing import open_trace
from pulsar_doctor.tap.relaying import Relay, relaying

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
RUNS = 8
RUNS_BY_HAND = 200
SUBSCRIPTION = "s"
TAKE_MILLIS = 30
WEIGHTS = {
    "take": 36, "ack": 30, "cumulative": 12, "nack": 8, "again": 3, "reopen": 5, "more": 4,
    "seek": 1, "pause": 5,
}  # fmt: skip
RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")

quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


@dataclass
class Life:
    """One subscription of one topic, from its first message to its last consumer."""

    seed: int
    client: pulsar.Client
    admin: httpx.Client
    topic: str
    consumers: list[pulsar.Consumer] = field(default_factory=list)
    held: list[tuple[int, pulsar.Message]] = field(default_factory=list)
    internal: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.type = list(TYPES)[self.seed % 4]
        self.index_acks = self.chance.random() < 0.5
        self.in_order = self.type in acknowledgements.IN_ORDER
        self.two_ledgers = self.chance.random() < 0.3

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
        for _ in range(self.chance.randint(20, 45)):
            self.act()
        if self.two_ledgers:
            time.sleep(0.2)  # acks of the client are on their way: the unload would lose them
            self.admin.put(f"{self.path}/unload").raise_for_status()
            self.held.clear()
            self.more()
            for _ in range(self.chance.randint(10, 20)):
                self.act()
        for consumer in self.consumers:
            consumer.close()
        self.internal = self.admin.get(f"{self.path}/internalStats").raise_for_status().json()

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
        names = [name for name in WEIGHTS if name != "cumulative" or self.in_order]
        (name,) = self.chance.choices(names, [WEIGHTS[name] for name in names])
        getattr(self, name)(*([] if name == "more" else [self.a_consumer()]))

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
            with contextlib.suppress(pulsar.NotConnected):  # it comes back from an unload
                self.consumers[number].seek(message.message_id())
                self.held.clear()

    def pause(self, number: int) -> None:
        time.sleep(0.12)  # longer than a client groups its acks

    def reopen(self, number: int) -> None:
        self.consumers[number].close()
        self.held = [each for each in self.held if each[0] != number]
        self.consumers[number] = self.open(number)

    def agrees_with(self, ours: Acknowledgements) -> str | None:
        """None, or where the two differ."""
        cursor = self.internal["cursors"][SUBSCRIPTION]
        theirs = (
            self.canonical(tuple(map(int, cursor["markDeletePosition"].split(":")))),
            ranges_of(cursor["individuallyDeletedMessages"]),
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
def tapped(broker: Sandbox, folder: Path) -> Iterator[tuple[Relay, pulsar.Client, httpx.Client]]:
    with relaying(broker.service_url, folder) as relay:
        client = pulsar.Client(relay.service_url, logger=quiet)
        with httpx.Client(base_url=broker.admin_url, timeout=30, trust_env=False) as admin:
            try:
                yield relay, client, admin
            finally:
                client.close()


def lives(broker: Sandbox, folder: Path, seeds: range, told: tuple[bool | None, ...]) -> list[str]:
    """Lives them one after the other through one tap; what differs, one text a life."""
    lived = []
    with tapped(broker, folder) as (_, client, admin):
        for seed in seeds:
            topic = f"persistent://public/default/acks-{seed}-{random.getrandbits(32):08x}"
            life = Life(seed, client, admin, topic)
            life.live()
            lived.append(life)
    wrong = []
    for batch_index_acks in told:
        rows = open_trace(folder).rows()
        found = acknowledgements.of_rows(rows, batch_index_acks=batch_index_acks)
        for life in lived:
            wrong.append(life.agrees_with(found[life.topic, SUBSCRIPTION]))
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {sum(map(bool, wrong))} differ")
    return [each for each in wrong if each]


def test_mark_delete_and_ranges_are_those_of_the_broker(broker, tmp_path):
    first = random.randrange(1 << 20) * 4
    wrong = lives(broker, tmp_path / "t.ptrace", range(first, first + RUNS), (None, True))
    assert not wrong, "\n".join(wrong)


def test_a_client_puts_many_cumulative_acks_into_few_commands_and_the_last_one_wins(
    broker, topic, tmp_path
):
    with tapped(broker, tmp_path / "t.ptrace") as (_, client, _):
        consumer = client.subscribe(topic, SUBSCRIPTION, TYPES["Failover"])
        producer = client.create_producer(topic)
        for _ in range(300):
            producer.send_async(b"x", lambda result, message_id: None)
        producer.flush()
        taken = [consumer.receive(5000) for _ in range(300)]
        for message in [*taken[:150], taken[20], *taken[150:]]:
            consumer.acknowledge_cumulative(message)
        consumer.close()
    trace = open_trace(tmp_path / "t.ptrace")
    (ledger,) = (each.ledger for each in trace.timeline().consumers)
    assert ledger.acknowledged == 300
    assert 1 <= ledger.cumulative_acks == ledger.ack_commands < 100
    last = taken[-1].message_id()
    assert ledger.cumulative_highest == (last.ledger_id(), last.entry_id())
    assert ledger.cumulative_back == 0
    (found,) = acknowledgements.of_rows(trace.rows()).values()
    assert found.mark_delete == (last.ledger_id(), last.entry_id())
    assert found.acknowledged == {"cumulative": 300}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mark_delete_and_ranges_are_those_of_the_broker_in_many_runs(broker, tmp_path):
    wrong = lives(broker, tmp_path / "t.ptrace", range(RUNS_BY_HAND), (None, True))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mark_delete_and_ranges_are_those_of_a_broker_without_batch_index_acks(tmp_path):
    with running(batch_index_acks=False, reuse=False) as broker:
        wrong = lives(broker, tmp_path / "t.ptrace", range(1000, 1060), (None, False))
    assert not wrong, "\n".join(wrong)
