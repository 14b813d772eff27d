"""Real clients that know nothing of proxies: not one of their connections leaves the tap."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from pulsar_doctor.tap.relaying import Relay, relaying
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.clients import RealClient, Watch, starting
from tests.support.cluster import cluster, new_namespace
from tests.support.wanting import wanting
from tests.tap.test_clients import port_of, unload
from tests.tap.test_cluster import place, tapped

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]
VERSIONS = {"flex": "Pulsar-Flex Nodejs Client"}
QUEUE, MESSAGES = 50, 120


def follow(
    language: str,
    relay: Relay,
    topic: str,
    *,
    moves: list[Callable[[], object]],
    brokers: set[int],
) -> None:
    """Moves the topic while this client produces and consumes.

    It may never be connected to one of the brokers' ports, and all that it did is in the trace.
    """
    folder = relay.trace_dir.parent
    taken = 0
    with starting(language, folder, relay.service_url) as client, Watch(client.pid) as watch:
        client.subscribe(topic, type="Shared", queue=QUEUE)
        for number, move in enumerate(moves):
            taken += through(client, topic, MESSAGES * number, move)
        client.close()
    assert watch.looks > 50
    assert port_of(relay.service_url) in watch.ports
    assert not watch.ports & brokers
    relay.flush()
    rows = [row for row in open_trace(relay.trace_dir).rows() if row.topic == topic]
    counts = Counter(row.command for row in rows)
    assert counts["MESSAGE"] >= taken == counts["ACK"], counts
    assert counts["SEND"] >= counts["SEND_RECEIPT"] >= MESSAGES * len(moves), counts
    assert min(counts["SUBSCRIBE"], counts["CLOSE_CONSUMER"]) > len(moves), counts
    assert_granted(rows)
    versions = {row.client_version or "" for row in rows if row.command == "SUBSCRIBE"}
    assert all(version.startswith(VERSIONS[language]) for version in versions), versions
    print(f"{language}: {taken} taken, {dict(counts)}; looked {watch.looks} times at its sockets")


def through(client: RealClient, topic: str, first: int, move: Callable[[], object]) -> int:
    """Messages, and a move in their middle; how many the client took, some perhaps twice."""
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.produce, topic, MESSAGES, first=first)
        move()
        sent.result()
    return len(client.receive(MESSAGES, every_from=first).numbers)


def assert_granted(rows: list[Row]) -> None:
    """Each consumer asked for its whole queue first, and for half of it again and again."""
    granted: dict[int | None, list[int | None]] = {}
    for row in rows:
        if row.command == "FLOW":
            granted.setdefault(row.incarnation, []).append(row.permits)
    for permits in granted.values():
        assert permits == [QUEUE, *[QUEUE // 2] * (len(permits) - 1)]


def test_pulsar_flex_stays_on_the_tap_when_its_topic_is_unloaded(broker, admin, topic, tmp_path):
    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        there = {port_of(broker.service_url)}
        follow("flex", relay, topic, moves=[partial(unload, admin, topic)], brokers=there)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", list(VERSIONS))
def test_a_foreign_client_on_two_brokers_stays_on_the_tap(tmp_path, language):
    with cluster(tmp_path / "pair") as brokers, tapped(brokers, tmp_path) as relay:
        topic = f"persistent://{new_namespace(brokers)}/moves"

        def move() -> None:
            there = brokers.other(brokers.owner(topic))
            place(brokers, topic, there)

        follow(language, relay, topic, moves=[move] * 3, brokers=brokers.ports)
    rows = open_trace(tmp_path / "t.ptrace").rows()
    addresses = {row.broker_addr for row in rows if row.command == "SUBSCRIBE"}
    assert {port_of(f"//{address}") for address in addresses} == brokers.ports
