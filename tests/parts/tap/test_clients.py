"""Clients of three languages on the real broker: with the tap they see what they see without."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.trace.sealing import open_trace
from tests.clients import HERE, LANGUAGES, RealClient, Watch, starting
from tests.clients.cutting import cut
from tests.parts.tap.relay.traffic import MIB
from tests.parts.tap.tap_process import Tap, running
from tests.support import eventually
from tests.support.cluster import standalone
from tests.support.processes import resident_bytes
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]

KINDS: dict[str, dict[str, Any]] = {
    "single": {"count": 200},
    "batched": {"count": 200, "batched": True},
    "batched, LZ4": {"count": 200, "batched": True, "compression": "LZ4"},
    "batched, ZLIB": {"count": 200, "batched": True, "compression": "ZLIB"},
    "batched, ZSTD": {"count": 200, "batched": True, "compression": "ZSTD"},
    "batched, SNAPPY": {"count": 200, "batched": True, "compression": "SNAPPY"},
    "compressed, not batched": {"count": 50, "compression": "LZ4", "size": 10_000},
    "5 MB": {"count": 2, "size": 5_000_000},
    "chunked": {"count": 1, "size": 12_000_000, "chunked": True},
}
LOST = re.compile(
    "closed|broken pipe|reset by peer|disconnected|not ?connected|connection refused|"
    "ServiceNotReady|temporarily unavailable|ConnectError|Retryable|"
    # While the broker is away the tap takes a connection and hangs up, as Pulsar's proxy does.
    "initial handshake.*EOF",
    re.IGNORECASE,
)


@dataclass
class Pair:
    """The same client twice: straight at the broker, and through the tap."""

    straight: RealClient
    through: RealClient
    tap_port: int

    def both(self, do: Any) -> list[Any]:
        """What came of it without the tap, and with it; at the same time."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(do, (self.straight, self.through)))


@contextmanager
def pair_of(language: str, service_url: str, folder: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        relay = stack.enter_context(relaying(service_url, folder / "t.ptrace"))
        straight = stack.enter_context(starting(language, folder, service_url))
        through = stack.enter_context(starting(language, folder, relay.service_url))
        yield Pair(straight, through, port_of(relay.service_url))


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@pytest.mark.parametrize(
    "language",
    # Java machines and the build of Go take their time; test_on_broker.py has Java in each run.
    ["python", *(pytest.param(each, marks=pytest.mark.slow) for each in ("java", "go"))],
)
@pytest.mark.timeout(300)  # building the Go client takes two minutes on a busy machine
def test_a_client_sees_with_the_tap_what_it_sees_without(broker, admin, topic, tmp_path, language):
    broker_port = port_of(broker.service_url)
    with (
        pair_of(language, broker.service_url, tmp_path) as pair,
        Watch(pair.through.pid) as watch,
    ):
        straight, through = pair.both(lambda client: peace(client, f"{topic}-{client.pid}"))
        assert straight == through
        assert pair.both(lambda client: client.complaints()) == [Counter(), Counter()]
        ports = {pair.straight: broker_port, pair.through: pair.tap_port}
        pair.both(lambda client: trouble(client, f"{topic}-{client.pid}", admin, ports[client]))
        pair.both(lambda client: client.close())
    assert watch.ports & {broker_port, pair.tap_port} == {pair.tap_port}
    assert_no_other_complaints(pair)
    commands = {row.command for row in open_trace(tmp_path / "t.ptrace").rows()}
    assert not commands & {"UNPARSED", "GAP"}


def peace(client: RealClient, topic: str) -> list[Any]:
    """What a client does while nothing goes wrong, and what comes of it."""
    seen: list[Any] = []
    client.subscribe(topic, type="Shared", queue=100)
    for name, kind in KINDS.items():
        sent = client.produce(topic, **kind)
        received = client.receive(kind["count"])
        assert received.sha256 == sent, name
        seen.append(received)
    client.produce(topic, 20)
    seen.append(client.receive(10, ack="nack"))
    seen.append(sorted(client.receive(20).numbers))
    client.order(do="seek", name="c")
    seen.append(client.receive(200))
    return seen


def trouble(client: RealClient, topic: str, admin: httpx2.Client, port: int) -> None:
    """The topic is unloaded, the connection is cut: every message comes nevertheless."""
    for first, strike in (
        (1000, lambda: unload(admin, topic)),
        (2000, lambda: cut(client.pid, port)),
    ):
        client.produce(topic, 50, first=first)
        strike()
        client.receive(50, every_from=first)
        client.produce(topic, 50, first=first + 50)
        client.receive(50, every_from=first + 50)


def assert_no_other_complaints(pair: Pair) -> None:
    """No kind of warning or error through the tap that does not come without.

    Where the moment decides, it may be another one: what was under way when a connection was lost.
    """
    straight, through = pair.both(lambda client: client.complaints())
    other = [kind for kind in through.keys() - straight.keys() if not LOST.search(kind)]
    assert not other, "\n".join(other)


def unload(admin: httpx2.Client, topic: str) -> None:
    admin.put(
        topic.replace("persistent://", "/admin/v2/persistent/") + "/unload"
    ).raise_for_status()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clients_live_on_when_their_broker_is_killed_and_started_again(tmp_path):
    with standalone(tmp_path / "broker") as broker, ExitStack() as stack:
        pairs = []
        for language in LANGUAGES:
            (folder := tmp_path / language).mkdir()
            pairs.append(stack.enter_context(pair_of(language, broker.service_url, folder)))
        clients = [client for pair in pairs for client in (pair.straight, pair.through)]
        watch = stack.enter_context(Watch(*(pair.through.pid for pair in pairs)))
        for client in clients:
            topic = f"persistent://public/default/restart-{client.pid}"
            client.subscribe(topic, type="Shared", queue=10)
            client.produce(topic, 50)
            client.receive(20)
        broker.kill()
        broker.start()
        broker.wait(broker.healthy)
        for client in clients:
            topic = f"persistent://public/default/restart-{client.pid}"
            client.receive(30, every_from=20, timeout_ms=60_000)
            client.produce(topic, 50, first=50)
            client.receive(50, every_from=50, timeout_ms=60_000)
            client.close()
        assert broker.port not in watch.ports
        for pair in pairs:
            assert_no_other_complaints(pair)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_client_lives_on_when_the_relay_is_killed_and_started_again(
    broker, topic, tmp_path, language
):
    """It has looked its topic up before: what the relay has answered is forgotten with it."""
    trace = tmp_path / "t"
    with running("-o", "jsonl", "--trace", str(trace), broker=broker) as tap:
        with starting(language, tmp_path, tap.service_url) as client, Watch(client.pid) as watch:
            client.subscribe(topic, type="Shared", queue=10)
            client.produce(topic, 50)
            client.receive(20)
            for number in (1, 2):
                os.kill(tap.child("pulsar_doctor.parts.tap.relay"), signal.SIGKILL)
                eventually(lambda number=number: len(again(tap)) == number)
                client.receive(15, every_from=5 + 15 * number, timeout_ms=60_000)
            client.produce(topic, 50, first=50)
            client.receive(50, every_from=50, timeout_ms=60_000)
            client.close()
        assert port_of(broker.service_url) not in watch.ports
        assert tap.end() == 0
    gaps = [row for row in open_trace(trace).rows() if row.command == "GAP"]
    print(f"{language}: {tap.of('relay')}, {len(gaps)} gaps")
    assert len(gaps) == 2


def again(tap: Tap) -> list[str]:
    return [line for line in (*tap.out, *tap.err) if "started again at the same address" in line]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_200_000_messages_arrive_equal_and_in_order(broker, topic, tmp_path, language, batched):
    count = 200_000
    with (
        relaying(broker.service_url, tmp_path / "t.ptrace") as relay,
        starting(language, tmp_path, relay.service_url) as client,
    ):
        client.subscribe(topic)
        began = time.monotonic()
        sent = client.produce(topic, count, batched=batched)
        half = time.monotonic()
        received = client.receive(count, ack="cumulative")
        over = time.monotonic()
        print(f"{language}: {count / (half - began):.0f}/s in, {count / (over - half):.0f}/s out")
        assert received.in_order
        assert received.sha256 == sent
        client.close()
        assert not client.complaints()
        counters = eventually(lambda: all_written(relay))
        assert counters["records_dropped"] == counters["unparsed"] == 0
    rows = open_trace(tmp_path / "t.ptrace").rows()
    sizes = Counter(
        (row.command, row.messages) for row in rows if row.command in ("SEND", "MESSAGE")
    )
    for command in ("SEND", "MESSAGE"):
        messages = sum(
            (size or 1) * times for (name, size), times in sizes.items() if name == command
        )
        assert messages == count, command


def all_written(relay: Relay) -> dict[str, int]:
    """The relay's counters, once all that it has seen is in the journal or counted as lost."""
    relay.flush()
    counters = relay.counters()
    settled = counters["records_written"] + counters["records_dropped"]
    return counters if counters["records_seen"] == settled else {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_500_connections_with_2_000_consumers_at_once(broker, client, topic, tmp_path):
    topics, each = [f"{topic}-{number}" for number in range(20)], 1000
    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        before = resident_bytes(relay.pid) // MIB
        command = [sys.executable, str(HERE / "crowd.py"), relay.service_url, ",".join(topics)]
        crowd = subprocess.Popen(
            [*command, "500", "4"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        try:
            assert crowd.stdout.readline() == "ready\n"
            idle = resident_bytes(relay.pid) // MIB
            opened = relay.counters()["connections_open"]
            assert opened >= 500
            for name in topics:
                producer = client.create_producer(name, block_if_queue_full=True)
                for number in range(each):
                    producer.send_async(b"%d" % number, lambda *_: None)
                producer.flush()
            crowd.stdin.write(f"{each * len(topics)}\n")
            crowd.stdin.flush()
            taken = json.loads(crowd.stdout.readline())
            after = resident_bytes(relay.pid) // MIB
            print(f"{opened} connections: {before} MiB before, {idle} idle, {after} after")
            assert taken == {"messages": each * len(topics), "twice": 0}
        finally:
            crowd.communicate(timeout=60)
        eventually(lambda: relay.counters()["connections_open"] == 0)
    rows = open_trace(tmp_path / "t.ptrace").rows()
    messages = Counter(row.incarnation for row in rows if row.command == "MESSAGE")
    rows = open_trace(tmp_path / "t.ptrace").rows()
    subscribed = {row.incarnation for row in rows if row.command == "SUBSCRIBE"}
    assert len(subscribed) == 2000
    assert messages.keys() <= subscribed
    assert messages.total() == each * len(topics)
