"""Measures the observer: the journal of a busy relay -> rows with ledgers -> sealed Parquet.

    python bench/observer.py stages                     what each stage costs, in this process
    python bench/observer.py process 1 2 5              the observer as a process, millions
    python bench/observer.py lag 20000 50000 80000      lag behind a relay of so many rows/s
    python bench/observer.py journal FOLDER             only the trace, to be looked at otherwise

The journal: eight connections with three consumers each, Shared, Key_Shared, Failover and
Exclusive, some of them slow; 85 % are single messages of 100 B with their metadata; FLOWs, ACKs of
one and of many ids, producers, batches, half-acknowledged batches, messages given back, and now and
then a consumer that comes and goes. A block is what one read of a socket brings: from one to some
hundred commands. Time is CPU time of the process, all its threads together.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measured import run, table

sys.path.insert(0, str(Path(__file__).parent.parent))

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.tap.observer.following import POLL_SECONDS
from pulsar_doctor.trace.folder import Meta, journal_name
from pulsar_doctor.trace.reading import Trace, ledgers_behind
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import TO_BROKER, TO_CLIENT
from pulsar_doctor.wire.commands import CODES, COMMANDS, rows_of
from pulsar_doctor.wire.framing import Frames
from pulsar_doctor.wire.journal import FILE_HEADER, Block, pack_block, read_blocks
from tests.made.traces import relay_alive
from tests.made.wire import MASK, Wire

CONNECTIONS = 8
CONSUMERS = 3  # of a connection
ROWS_A_JOURNAL = 400_000
TYPES = (1, 3, 2, 0)  # sub_type: Shared, Key_Shared, Failover, Exclusive
QUEUES = (1000, 100, 1000, 10)
BLOCK_MOST = 200  # commands
FEED_SECONDS = 0.02


Said = tuple[int, bytes, bytes | None, int]  # a frame: code, command, metadata, size


def said(name: str, metadata: dict[str, Any] | None = None, **fields: Any) -> Said:
    """A command as it is on the wire, with 100 B of payload where it has some."""
    code = CODES[name]
    whole = wire.BaseCommand(type=code)
    command = getattr(whole, COMMANDS[code].field)
    command.MergeFrom(type(command)(**fields))
    encoded = whole.SerializeToString()
    if metadata is None:
        return code, encoded, None, 4 + len(encoded)
    head = wire.MessageMetadata(**metadata).SerializeToString()
    return code, encoded, head, 4 + len(encoded) + 10 + len(head) + 100


@dataclass(eq=False)
class Client:
    """A consumer as its application uses it. number: of its partition, and of its kind."""

    conn_id: int
    consumer_id: int
    number: int
    acks_in_one: int
    permits: int = 0
    unsent: int = 0
    held: deque[tuple[int, int]] = field(default_factory=deque)  # entry, messages in it

    @property
    def queue(self) -> int:
        return QUEUES[self.number % len(QUEUES)]

    @property
    def sub_type(self) -> int:
        return TYPES[self.number % len(TYPES)]

    @property
    def cumulative(self) -> bool:
        return self.sub_type in (0, 2)

    @property
    def subscription(self) -> str:
        return f"billing-{self.conn_id}" if self.sub_type == 0 else "billing"


class Load:
    """Blocks without end, the same for the same seed; `rows` counts what is in them."""

    def __init__(self, seed: int = 5) -> None:
        self.chance = random.Random(seed)
        self.wire = Wire(step_us=200)
        self.rows = 0
        self.entries = 0
        self.returned: dict[int, deque[int]] = {}
        self.clients = [
            Client(
                conn_id,
                consumer_id,
                conn_id % 4 + 4 * consumer_id,
                1 if 2 * conn_id + consumer_id < 2 else 30,
            )
            for conn_id in range(CONNECTIONS)
            for consumer_id in range(CONSUMERS)
        ]

    def blocks(self) -> Iterator[bytes]:
        """Yields block after block."""
        for conn_id in range(CONNECTIONS):
            self.wire.open(conn_id)
            self.rows += 2
            producer = said("PRODUCER", topic="orders-in", producer_id=1, request_id=900)
            self.say(conn_id, TO_BROKER, [producer])
        for client in self.clients:
            self.subscribe(client)
        while True:
            yield from self.wire.blocks
            self.wire.blocks.clear()
            self.step(self.chance.choice(self.clients))

    def step(self, client: Client) -> None:
        chance = self.chance.random()
        if chance < 0.001:
            self.come_and_go(client)
        elif chance < 0.003:
            self.give_back(client)
        elif chance < 0.25:
            self.produce(client.conn_id)
        else:
            self.deliver(client)
            self.work(client)

    def say(self, conn_id: int, direction: str, commands: list[Said]) -> None:
        """What one read brought, masked and packed as the relay does it."""
        self.rows += len(commands)
        frames = Frames()
        for command in commands:
            frames.add(*command)
        self.wire.say(direction, *MASK.pack_all(frames), conn_id=conn_id)

    def subscribe(self, client: Client) -> None:
        self.wire.attached(
            client.consumer_id,
            f"worker-{client.conn_id}-{client.consumer_id}",
            topic=f"persistent://public/default/orders-partition-{client.number}",
            subscription=client.subscription,
            sub_type=client.sub_type,
            conn_id=client.conn_id,
        )
        self.rows += 2
        self.flow(client, client.queue)

    def flow(self, client: Client, permits: int) -> None:
        client.permits += permits
        flow = said("FLOW", consumer_id=client.consumer_id, message_permits=permits)
        self.say(client.conn_id, TO_BROKER, [flow])

    def deliver(self, client: Client) -> None:
        records: list[Said] = []
        for _ in range(self.chance.choice((1, 5, 20, 60, BLOCK_MOST))):
            if client.permits <= 0:
                break
            records.append(self.message(client))
        if records:
            self.say(client.conn_id, TO_CLIENT, records)

    def message(self, client: Client) -> Said:
        metadata: dict[str, Any] = {"publish_time": self.wire.now_us // 1000 - 3}
        again = self.returned.get(client.number)
        fields: dict[str, Any] = {}
        if again:
            entry, fields["redelivery_count"] = again.popleft(), 1
        else:
            self.entries += 1
            entry = self.entries
        batch = 1
        if entry % 29 == 0:
            batch = metadata["num_messages_in_batch"] = 10
            if fields:
                fields["ack_set"] = [0b1111100000]
        elif client.sub_type == 3:
            metadata["partition_key"] = f"customer-{entry % 1000}"
        left = 5 if "ack_set" in fields else batch
        client.permits -= left
        client.held.append((entry, batch))
        return said(
            "MESSAGE",
            metadata,
            consumer_id=client.consumer_id,
            message_id=wire.MessageId(ledger_id=7, entry_id=entry, partition=client.number),
            **fields,
        )

    def work(self, client: Client) -> None:
        """The application takes what is there and acknowledges it; slow ones leave some."""
        acks: list[Said] = []
        ids: list[wire.MessageId] = []
        left = 300 if client.number == 0 else 3
        while len(client.held) > left:
            entry, messages = client.held.popleft()
            client.unsent += messages
            ids.append(wire.MessageId(ledger_id=7, entry_id=entry))
            if len(ids) == client.acks_in_one:
                acks.append(self.ack(client, ids))
                ids = []
        if ids:
            acks.append(self.ack(client, ids))
        if acks:
            self.say(client.conn_id, TO_BROKER, acks)
        if client.unsent >= max(1, client.queue // 2):
            self.flow(client, client.unsent)
            client.unsent = 0

    def ack(self, client: Client, ids: list[wire.MessageId]) -> Said:
        return said(
            "ACK",
            consumer_id=client.consumer_id,
            ack_type=int(client.cumulative),
            message_id=ids[-1:] if client.cumulative else ids,
        )

    def give_back(self, client: Client) -> None:
        back = [client.held.popleft()[0] for _ in range(min(3, len(client.held)))]
        ids = [wire.MessageId(ledger_id=7, entry_id=entry) for entry in back]
        again = said(
            "REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=client.consumer_id, message_ids=ids
        )
        self.say(client.conn_id, TO_BROKER, [again])
        if back:
            self.returned.setdefault(client.number, deque()).extend(back)

    def produce(self, conn_id: int) -> None:
        many = self.chance.randrange(1, 8)
        sent = [
            said("SEND", {"publish_time": self.wire.now_us // 1000}, producer_id=1)
            for _ in range(many)
        ]
        self.say(conn_id, TO_BROKER, sent)
        receipts = [
            said(
                "SEND_RECEIPT",
                producer_id=1,
                message_id=wire.MessageId(ledger_id=9, entry_id=self.rows + n),
            )
            for n in range(many)
        ]
        self.say(conn_id, TO_CLIENT, receipts)

    def come_and_go(self, client: Client) -> None:
        close = said("CLOSE_CONSUMER", consumer_id=client.consumer_id, request_id=77)
        self.say(client.conn_id, TO_BROKER, [close])
        self.say(client.conn_id, TO_CLIENT, [said("SUCCESS", request_id=77)])
        client.permits = client.unsent = 0
        client.held.clear()
        self.subscribe(client)


def write_trace(folder: Path, rows: int) -> int:
    """A trace as a relay leaves it, with at least so many rows; how many they are."""
    folder.mkdir(parents=True, exist_ok=True)
    Meta("bench").write(folder)
    load, written, number = Load(), 0, 0
    blocks = load.blocks()
    while written < rows:
        until = min(rows, written + ROWS_A_JOURNAL)
        number += 1
        with (folder / journal_name(number)).open("wb") as journal:
            journal.write(FILE_HEADER)
            while written < until:
                block = next(blocks)
                journal.write(block)
                written += sum(len(found.records) for found, _ in read_blocks(block))
    return written


def _journals(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob(".journal-*")):
        yield path.read_bytes()


def only_blocks(folder: Path) -> None:
    for data in _journals(folder):
        for _ in read_blocks(data, len(FILE_HEADER)):
            pass


def decoded(folder: Path) -> None:
    for data in _journals(folder):
        for block, _ in read_blocks(data, len(FILE_HEADER)):
            for _row in rows_of(block):
                pass


def with_ledgers(folder: Path) -> None:
    timeline = Timeline()
    for data in _journals(folder):
        for block, _ in read_blocks(data, len(FILE_HEADER)):
            for row in rows_of(block):
                timeline.apply(row)


def sealed(folder: Path) -> None:
    with Sealer(folder) as sealer:
        sealer.finish()


def read_again(folder: Path) -> None:
    deque(Trace(folder).rows(), 0)


def replayed_from(folder: Path) -> None:
    trace = Trace(folder)
    first = Timeline(trace.meta.trace_id, trace.meta.told, from_start=not trace.meta.capture)
    ledgers_behind(folder, first, trace.parts())


STAGES: dict[str, Callable[[Path], None]] = {
    "blocks and records": only_blocks,
    "+ rows": decoded,
    "+ ledgers": with_ledgers,
    "+ sealing": sealed,
    "reading what is sealed": read_again,
    "ledgers from what is sealed": replayed_from,
}


def stages(options: argparse.Namespace) -> None:
    """Prints what each stage costs, with those before it; the median of all runs."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        whole = Path(scratch) / "whole"
        rows = write_trace(whole, options.rows)
        seconds: dict[str, list[float]] = {name: [] for name in STAGES}
        for _ in range(options.runs):
            copy = shutil.copytree(whole, Path(scratch) / "copy")
            for name, stage in STAGES.items():
                began = time.process_time()
                stage(copy)
                seconds[name].append(time.process_time() - began)
            shutil.rmtree(copy)
    lines = [("stage", "rows/s of CPU", "us a row", "slowest")]
    for name, taken in seconds.items():
        each = statistics.median(taken) / rows
        lines.append(
            (name, f"{1 / each:,.0f}", f"{each * 1e6:.2f}", f"{max(taken) / rows * 1e6:.2f}")
        )
    print(f"{rows:,} rows, {options.runs} runs")
    print(table(lines))


def process(options: argparse.Namespace) -> None:
    """Prints what the observer's own process takes for a trace that is there, start included."""
    lines = [("rows", "rows/s of CPU", "rows/s", "peak MiB", "segments")]
    for millions in options.millions:
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            folder = Path(scratch)
            rows = write_trace(folder, int(millions * 1e6))
            found = run([sys.executable, "-m", "pulsar_doctor.parts.tap.observer", str(folder)])
            if found.code:
                sys.exit(found.err)
            segments = len(list(folder.glob("seg-*.parquet")))
            lines.append(
                (
                    f"{rows:,}",
                    f"{rows / found.cpu_seconds:,.0f}",
                    f"{rows / found.seconds:,.0f}",
                    f"{found.peak_mib:.0f}",
                    str(segments),
                )
            )
    print(table(lines))


def feed(folder: Path, rate: int, seconds: float) -> None:
    """Writes journals as a relay at so many rows a second does, stamped with the real time."""
    load = Load()
    load.wire.step_us = 0
    blocks = load.blocks()
    number, waiting = 1, 0
    ready: list[tuple[bytes, Block]] = []
    while waiting < rate * seconds:
        packed = next(blocks)
        ((found, _),) = read_blocks(packed)
        ready.append((packed[len(packed) - int.from_bytes(packed[:4], "little") :], found))
        waiting += len(found.records)
    ready.reverse()
    with relay_alive(folder):
        journal = (folder / journal_name(number)).open("wb")
        journal.write(FILE_HEADER)
        began, written, in_this = time.monotonic(), 0, 0
        while ready:
            due = (time.monotonic() - began) * rate
            piece = []
            while ready and written < due:
                body, block = ready.pop()
                piece.append(_stamped(body, block))
                written += len(block.records)
                in_this += len(block.records)
            journal.write(b"".join(piece))
            journal.flush()
            if in_this > ROWS_A_JOURNAL:
                journal.close()
                number, in_this = number + 1, 0
                journal = (folder / journal_name(number)).open("wb")
                journal.write(FILE_HEADER)
            time.sleep(FEED_SECONDS)
        journal.close()


def _stamped(body: bytes, block: Block) -> bytes:
    return pack_block(
        [body],
        ts=time.time_ns() // 1000,
        mono_ns=time.monotonic_ns(),
        conn_id=block.conn_id,
        direction=block.direction,
    )


def lag(options: argparse.Namespace) -> None:
    """Prints how old the newest row is when a look at the journal ends, at a rate of rows/s."""
    lines = [("rows/s written", "lag p50 ms", "p99", "most", "at the end", "CPU of a core")]
    for rate in options.rates:
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            folder = Path(scratch)
            Meta("bench").write(folder)
            this = [sys.executable, __file__, "feed", scratch, str(rate), str(options.seconds)]
            feeder = subprocess.Popen(this)
            while not (folder / journal_name(1)).exists():
                time.sleep(0.01)
            began, cpu = time.monotonic(), time.process_time()
            observer, behind = Sealer(folder), []
            while feeder.poll() is None:
                rows = observer.follow()
                behind.append(time.time() * 1e3 - observer.timeline.now_us / 1e3)
                if not rows:
                    time.sleep(POLL_SECONDS)
            share = (time.process_time() - cpu) / (time.monotonic() - began)
            at_the_end = time.monotonic()
            observer.finish()
            rest = (time.monotonic() - at_the_end) * 1e3
            observer.close()
            behind.sort()
            lines.append(
                (
                    f"{rate:,}",
                    f"{statistics.median(behind):.0f}",
                    f"{behind[int(len(behind) * 0.99)]:.0f}",
                    f"{behind[-1]:.0f}",
                    f"{rest:.0f}",
                    f"{share:.0%}",
                )
            )
    print(table(lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scratch", help="folder for the traces; as the system has it")
    kinds = parser.add_subparsers(required=True)
    kind = kinds.add_parser("stages", help=stages.__doc__)
    kind.add_argument("--rows", type=int, default=400_000)
    kind.add_argument("--runs", type=int, default=7)
    kind.set_defaults(run=stages)
    kind = kinds.add_parser("process", help=process.__doc__)
    kind.add_argument("millions", type=float, nargs="*", default=[1, 2, 5])
    kind.set_defaults(run=process)
    kind = kinds.add_parser("lag", help=lag.__doc__)
    kind.add_argument("rates", type=int, nargs="*", default=[20_000, 50_000, 80_000])
    kind.add_argument("--seconds", type=float, default=10.0)
    kind.set_defaults(run=lag)
    kind = kinds.add_parser("journal", help="Writes a trace that is not sealed.")
    kind.add_argument("folder", type=Path)
    kind.add_argument("--rows", type=int, default=1_000_000)
    kind.set_defaults(run=lambda options: write_trace(options.folder, options.rows))
    kind = kinds.add_parser("feed", help="Writes a journal at a rate (for lag).")
    kind.add_argument("folder", type=Path)
    kind.add_argument("rate", type=int)
    kind.add_argument("seconds", type=float)
    kind.set_defaults(run=lambda options: feed(options.folder, options.rate, options.seconds))
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
