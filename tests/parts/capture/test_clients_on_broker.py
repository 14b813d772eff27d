"""Clients of every language on the real broker: a capture tells what a tap of the same tells."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.clients import LANGUAGES, RealClient, starting
from tests.parts.capture.beside import assert_same, captured, tcpdump, told
from tests.parts.tap.test_clients import port_of, unload
from tests.parts.tap.test_cluster import tapped
from tests.support import eventually
from tests.support.cluster import cluster, new_namespace, place
from tests.support.processes import listening_ports
from tests.support.tools import tool_environment
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason=wanting("tcpdump")),
]
NAMES = ("one", "two", "three")  # consumers of one client, so of one connection
FOREIGN = ("flex", "rust")  # these do neither batches nor redeliveries alike


def work(client: RealClient, topic: str, relay: Relay, move: Callable[[], object]) -> None:
    """Three consumers on one connection, messages of all sizes, and a move.

    Not while an ACK is on its way: it and CLOSE_CONSUMER would pass the relay in one order, and the
    wire in another.
    """
    for name in NAMES:
        client.subscribe(topic, name, subscription=name, type="Shared", queue=10)
    kinds = [{}] if client.language in FOREIGN else [{}, {"batched": True}, {"size": 100_000}]
    for first, kind in enumerate(kinds):
        client.produce(topic, 40, first=100 * first, **kind)
        for name in NAMES:
            client.receive(40, name, every_from=100 * first)
    eventually(lambda: at_rest(relay), 30)
    move()
    client.produce(topic, 40, first=1000)
    for name in NAMES:
        client.receive(40, name, every_from=1000)


def rows_of(trace: Path, topic: str) -> list[Row]:
    return [row for row in open_trace(trace).rows() if row.topic == topic]


def at_rest(relay: Relay) -> bool:
    """Whether all acks have been sent: pulsar-rs sends them by and by."""
    seen = relay.counters()["records_seen"]
    time.sleep(1)
    return relay.counters()["records_seen"] == seen


@pytest.mark.parametrize(
    "language",
    ["python", *(pytest.param(each, marks=pytest.mark.slow) for each in ("java", "go", "flex")),
     pytest.param("rust", marks=pytest.mark.slow)],  # its first build takes long
)  # fmt: skip
def test_a_capture_of_a_client_tells_what_the_tap_tells(broker, admin, topic, tmp_path, language):
    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        with (
            tcpdump(None, tmp_path / "lo.pcap"),
            starting(language, tmp_path, relay.service_url) as client,
        ):
            work(client, topic, relay, partial(unload, admin, topic))
            eventually(lambda: at_rest(relay), 30)
            client.close()
        ports = listening_ports(relay.pid)  # more than one for clients that know no proxy
    trace = captured(tmp_path / "lo.pcap", tmp_path / "c", *ports)
    assert_same(told(tmp_path / "t.ptrace"), told(trace))
    counts = Counter(row.command for row in rows_of(trace, topic))
    assert min(counts["MESSAGE"], counts["ACK"]) > len(NAMES), counts
    assert counts["SUBSCRIBE"] > len(NAMES), counts
    print(f"{language}: {len(list(open_trace(trace).rows()))} rows, {dict(counts)}")


@pytest.mark.slow
def test_a_capture_of_pulsar_perf_tells_what_the_tap_tells(broker, topic, tmp_path):
    environ = tool_environment(broker)
    perf = str(broker.home / "bin" / "pulsar-perf")

    def run(*arguments: str) -> None:
        ran = subprocess.run(
            [perf, *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]

    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        port = port_of(relay.service_url)
        with tcpdump(port, tmp_path / "lo.pcap"):
            run("produce", "-r", "2000", "-m", "4000", topic, "-u", relay.service_url)
            run("consume", "-m", "2000", "-ss", "s", "-n", "2", "-sp", "Earliest", "-q", "20",
                topic, "-st", "Shared", "-u", relay.service_url)  # fmt: skip
    trace = captured(tmp_path / "lo.pcap", tmp_path / "c", port)
    assert_same(told(tmp_path / "t.ptrace"), told(trace))
    counts = Counter(row.command for row in rows_of(trace, topic))
    assert counts["SUBSCRIBE"] == 2, counts
    assert counts["SEND"] > 10, counts


def by_consumer(trace: Path, topic: str) -> dict[tuple[object, ...], list[tuple[object, ...]]]:
    """What each consumer of a topic was sent, granted and gave back, whatever connection it had."""
    found: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for row in rows_of(trace, topic):
        if row.command in ("SUBSCRIBE", "FLOW", "MESSAGE", "ACK"):
            said = (row.command, row.permits, row.ledger_id, row.entry_id, row.payload_bytes,
                    row.messages, row.redelivery_count)  # fmt: skip
            found.setdefault((row.consumer_name, row.direction), []).append(said)
    return found


@pytest.mark.slow
def test_on_two_brokers_a_capture_of_either_side_tells_what_the_tap_tells(tmp_path):
    with (
        cluster(tmp_path / "pair") as brokers,
        tapped(brokers, tmp_path) as relay,
        tcpdump(None, tmp_path / "lo.pcap"),
    ):
        namespace = new_namespace(brokers)
        topics = {name: f"persistent://{namespace}/{name}" for name in LANGUAGES}
        for language, topic in topics.items():
            with starting(language, tmp_path, relay.service_url) as client:

                def move(topic: str = topic) -> None:
                    place(brokers, topic, brokers.other(brokers.owner(topic)))

                work(client, topic, relay, move)
                client.close()
        ports = listening_ports(relay.pid)
        relay.flush()
    tapped_trace = tmp_path / "t.ptrace"
    before = captured(tmp_path / "lo.pcap", tmp_path / "clients", *ports)
    assert_same(told(tapped_trace), told(before))
    behind = captured(tmp_path / "lo.pcap", tmp_path / "brokers", *brokers.ports)
    for topic in topics.values():
        expected = by_consumer(tapped_trace, topic)
        assert len(expected) == 2 * len(NAMES)
        assert by_consumer(behind, topic) == expected
        subscribed = [row for row in rows_of(behind, topic) if row.command == "SUBSCRIBE"]
        where = {port_of(f"//{row.broker_addr}") for row in subscribed}
        assert where == brokers.ports
