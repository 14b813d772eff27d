"""Joins busy connections in mid-stream, beside a tap: what a capture tells more, less or otherwise.

    python -m tests.parts.capture.busy [--languages python java go] [--rates 1 10 1000 10000]
                                       [--two] [--only singles|batches] [--drain]

Run by hand, where packets may be read. Each client takes and acknowledges messages through a tap,
at so many a second, singles and then batches, from a broker of its own, or with --two from a topic
of which each of two brokers has partitions. For java both ends are pulsar-perf; the producer of
the others is the one for Python. Captured is what passes between tap and brokers. It is read from
two moments in the middle on, and then with packets dropped. With --drain the topic is full before,
and a consumer takes the messages as fast as it can: so two cores reach the most. A line each:

    rate     messages a second that the consumer was sent, by the tap: on average, and in the second
             in which they were most
    told     rows of the capture; of those that the tap has from that moment on, when nothing is
             joined yet
    strict   whether these are the last rows of the tap, in order, in each direction
    invented rows that the tap does not have in this order
    balances permits told by bounds or exactly, how many are wrong, and the mean width of the bounds
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pulsar

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.capture.asking import BrokerPoll
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.reported import ConsumerSample
from pulsar_doctor.parts.capture.running import RunningCapture
from pulsar_doctor.parts.capture.writing import TraceWriter
from pulsar_doctor.parts.sandbox import distribution, versions
from pulsar_doctor.parts.sandbox.lifetime import running
from pulsar_doctor.parts.sandbox.standalone import own_environment
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.clients import LANGUAGES, command, starting
from tests.parts.capture.beside import listened
from tests.parts.capture.mid_stream import by_stream, compared
from tests.support import eventually
from tests.support.cluster import cluster, new_namespace, partitioned
from tests.support.processes import local_ports
from tests.support.tools import MEMORY

MOMENTS = (0.3, 0.5)
KINDS = {None: (False, True), "singles": (False,), "batches": (True,)}
BATCH = 100  # messages, at most, of pulsar-perf
EVENLY = pulsar.PartitionsRoutingMode.RoundRobinDistribution
QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
DROPPED, SEEDS = (0.01, 0.1), 2
ATTACHED_ROWS = 11  # that pass until a consumer has asked for messages


@dataclass(frozen=True, slots=True)
class Brokers:
    """Where to produce, to ask and to listen, and how to make a topic that nobody has."""

    service_url: str
    admin_url: str
    ports: Sequence[int]
    new_topic: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Case:
    """One client at work."""

    language: str
    rate: int
    batched: bool
    seconds: int
    drains: bool = False

    @property
    def messages(self) -> int:
        """That it takes."""
        return self.rate * self.seconds

    @property
    def queue(self) -> int:
        """Of its receiver: a FLOW twenty times a second at most."""
        return max(10, self.rate // 10)


@contextmanager
def one_broker() -> Iterator[Brokers]:
    """A sandbox of its own."""
    with running(reuse=False) as broker:
        port = int(broker.service_url.rpartition(":")[2])

        def new_topic() -> str:
            return f"persistent://public/default/{time.time_ns()}"

        yield Brokers(broker.service_url, broker.admin_url, [port], new_topic)


@contextmanager
def two_brokers() -> Iterator[Brokers]:
    """Each has some of the partitions of every topic."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "pair") as pair:
        urls = ",".join(each.service_url.removeprefix("pulsar://") for each in pair.brokers)

        def new_topic() -> str:
            return partitioned(pair, new_namespace(pair))

        yield Brokers(f"pulsar://{urls}", pair.brokers[0].admin_url, [*pair.ports], new_topic)


def perf(folder: Path, command: str, topic: str, url: str, *options: object) -> None:
    """pulsar-perf, to its end."""
    environ = own_environment() | {
        "JAVA_HOME": str(distribution.java_home()),
        "PULSAR_MEM": MEMORY,
        "PULSAR_LOG_DIR": str(folder),
    }
    program = str(versions.pulsar_home(None) / "bin" / "pulsar-perf")
    line = [program, command, topic, "-u", url, *map(str, options)]
    subprocess.run(line, env=environ, capture_output=True, check=True, timeout=300)


def produce(url: str, topic: str, case: Case, folder: Path) -> None:
    """At an even pace, straight to the broker."""
    if case.language == "java":
        kind = ["-b", 5, "-bm", BATCH] if case.batched else ["-db"]
        perf(folder, "produce", topic, url, "-r", case.rate, "-m", case.messages, "-s", 100, *kind)
        return
    client = pulsar.Client(url, logger=QUIET)
    producer = client.create_producer(
        topic, batching_enabled=case.batched, batching_max_publish_delay_ms=5,
        block_if_queue_full=True, message_routing_mode=EVENLY,
    )  # fmt: skip
    began = time.monotonic()
    for number in range(case.messages):
        producer.send_async(b"%012d" % number + bytes(88), lambda *_: None)
        late = began + number / case.rate - time.monotonic()
        if late > 0.001:
            time.sleep(late)
    producer.flush()
    client.close()


def consume(case: Case, topic: str, url: str, folder: Path) -> None:
    """Takes and acknowledges all of them; returns then."""
    if case.language == "java":
        options = ["-st", "Shared", "-sp", "Earliest", "-q", case.queue, "-m", case.messages]
        perf(folder, "consume", topic, url, "-ss", "s", *options)
        return
    with starting(case.language, folder, url) as client:
        client.subscribe(topic, type="Shared", queue=case.queue)
        client.receive(case.messages, timeout_ms=60_000)
        client.close()


@dataclass(frozen=True, slots=True)
class Observed:
    """Packets, what the broker said meanwhile, and the trace of the tap.

    clients: the ports from which the tap connects.
    """

    packets: list[Packet]
    samples: list[ConsumerSample]
    trace: Path
    clients: set[int]


def observed(case: Case, brokers: Brokers, folder: Path) -> Observed:
    """A client at work, whose messages come once it is attached."""
    topic, queue = brokers.new_topic(), SimpleQueue[ConsumerSample]()
    client = pulsar.Client(brokers.service_url, logger=QUIET)
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    client.close()
    if case.language != "java":
        command(case.language)  # is built now, and not while messages pass
    producer = multiprocessing.get_context("spawn").Process(
        target=produce, args=(brokers.service_url, topic, case, folder)
    )
    if case.drains:
        producer.start()
        producer.join()
    with (
        relaying(brokers.service_url, folder / "tap") as relay,
        listened(*brokers.ports) as packets,
        ThreadPoolExecutor() as pool,
    ):
        asked = BrokerPoll(Settings(admin_url=brokers.admin_url), [topic], set, queue, print)
        consuming = pool.submit(consume, case, topic, relay.service_url, folder)
        eventually(lambda: relay.counters()["records_seen"] >= ATTACHED_ROWS, 60)
        if not case.drains:
            time.sleep(1)
            producer.start()
        clients = set()
        while not consuming.done():
            clients |= local_ports(relay.pid)
            time.sleep(0.5)
        consuming.result()
        producer.join()
        asked.close()
    samples = []
    while not queue.empty():
        samples.append(queue.get()._replace(complete=True))  # there is no other topic
    samples = [each for each in samples if each.consumers]
    return Observed(packets, samples, folder / "tap", clients)


def read(
    packets: Sequence[Packet], samples: Sequence[ConsumerSample], folder: Path, ports: Sequence[int]
) -> tuple[list[Row], RunningCapture]:
    """The rows of a capture of these packets."""
    queue, waiting = SimpleQueue[ConsumerSample](), list(samples)
    with TraceWriter(folder, {"files": []}) as writer:
        capture = RunningCapture(writer, lambda out: CaptureFollowing(out, ports), samples=queue)
        for packet in packets:
            while waiting and waiting[0].consumers[0].until_ns <= packet.time_ns:
                queue.put(waiting.pop(0))
            capture.packet(packet)
        capture.finish()
    rows = list(open_trace(folder).rows()) if folder.exists() else []  # nothing was joined
    return rows, capture


def rate(rows: Sequence[Row]) -> str:
    """How many messages a second the tap has passed on."""
    sent = [row for row in rows if row.command == "MESSAGE"]
    each = Counter[int]()
    for row in sent:
        each[row.ts // 1_000_000] += row.messages or 0
    average = each.total() / ((sent[-1].ts - sent[0].ts) / 1e6)
    return f"{average:,.0f} messages/s, {max(each.values()):,} in one second"


def shown(case: Case, brokers: Brokers, folder: Path) -> bool:
    """Prints what came of one; whether all is as it must be."""
    seen = observed(case, brokers, folder)
    packets, samples, fine = seen.packets, seen.samples, bool(seen.packets)
    rows = list(open_trace(seen.trace).rows())
    tapped = by_stream(rows)
    print(f"{case}: {len(packets):,} packets, {len(samples)} samples, {rate(rows)}", flush=True)
    begun_ns = 1000 * next(row.ts for row in rows if row.command == "MESSAGE")
    for share in MOMENTS:
        moment = begun_ns + round(share * (packets[-1].time_ns - begun_ns))
        late = [packet for packet in packets if packet.time_ns >= moment]
        rows, _ = read(late, samples, folder / f"from-{share}", brokers.ports)
        found = compared(rows, tapped, moment // 1000, seen.clients)
        print(f"    from {share:.0%}: {found}", flush=True)
        fine &= found.strict and not found.wrong and found.told > 0
    for share in DROPPED:
        told, invented = 0, 0
        for seed in range(SEEDS):
            chance = random.Random(seed)
            left = [each for each in late if chance.random() >= share]
            rows, _ = read(left, (), folder / f"without-{share}-{seed}", brokers.ports)
            found = compared(rows, tapped, moment // 1000, seen.clients)
            told, invented = told + found.told, invented + found.invented
        print(f"    {share:.0%} dropped: {told:,} told, {invented} invented", flush=True)
        fine &= not invented
    return fine


def main() -> None:
    """Ends with 1 where a capture of any case was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    parser.add_argument("--rates", nargs="+", type=int, default=[1, 10, 1000, 10_000])
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--two", action="store_true", help="two brokers")
    parser.add_argument("--only", choices=("singles", "batches"))
    parser.add_argument("--drain", action="store_true")
    wanted = parser.parse_args()
    fine = True
    with (two_brokers if wanted.two else one_broker)() as brokers:
        for language in wanted.languages:
            for rate in wanted.rates:
                for batched in KINDS[wanted.only]:
                    case = Case(language, rate, batched, wanted.seconds, wanted.drain)
                    with tempfile.TemporaryDirectory() as folder:
                        fine &= shown(case, brokers, Path(folder))
    raise SystemExit(not fine)


if __name__ == "__main__":
    main()
