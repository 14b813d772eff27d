"""Real clients that know nothing of proxies: not one of their connections leaves the tap."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx2
import pytest

from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.clients import RealClient, Watch, starting
from tests.parts.tap.test_clients import port_of, unload
from tests.parts.tap.test_cluster import tapped
from tests.support import eventually
from tests.support.cluster import cluster, new_namespace, place
from tests.support.command_line import answered
from tests.support.processes import listening_ports
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]
VERSIONS = {"flex": "Pulsar-Flex Nodejs Client", "rust": "pulsar-rs-v6.9.1"}
QUEUE, MESSAGES = 50, 120
REFILLS = {"flex": QUEUE // 2, "rust": QUEUE // 2 + 1}


def follow(
    language: str,
    relay: Relay,
    topic: str,
    *,
    moves: list[Callable[[], object]],
    brokers: set[int],
    meanwhile: bool = True,
) -> None:
    """Moves the topic while this client produces and consumes, or between the two.

    It may never be connected to one of the brokers' ports, and all that it did is in the trace.
    """
    folder = relay.trace_dir.parent
    taken = 0
    with starting(language, folder, relay.service_url) as client, Watch(client.pid) as watch:
        client.subscribe(topic, type="Shared", queue=QUEUE)
        for number, move in enumerate(moves):
            if meanwhile:
                taken += through(client, topic, MESSAGES * number, move)
            else:
                move()
                taken += through(client, topic, MESSAGES * number, lambda: None)
        assert not watch.ports & brokers
        # pulsar-rs sends its acks by and by, and may close before the last ones.
        eventually(lambda: acks(relay, topic) >= taken)
        client.close()
    assert watch.looks > 30
    # That of the service URL may be open for a lookup only, between two looks.
    assert watch.ports
    assert watch.ports <= listening_ports(relay.pid)
    assert not watch.ports & brokers
    rows = rows_on(relay, topic)
    counts = Counter(row.command for row in rows)
    assert counts["MESSAGE"] >= taken == counts["ACK"], counts
    assert counts["SEND"] >= counts["SEND_RECEIPT"] >= MESSAGES * len(moves), counts
    assert min(counts["SUBSCRIBE"], counts["CLOSE_CONSUMER"]) > len(moves), counts
    assert_granted(rows, REFILLS[language])
    versions = {row.client_version or "" for row in rows if row.command == "SUBSCRIBE"}
    assert all(version.startswith(VERSIONS[language]) for version in versions), versions
    print(f"{language}: {taken} taken, {dict(counts)}; looked {watch.looks} times at its sockets")


def rows_on(relay: Relay, topic: str) -> list[Row]:
    """What the trace has of this topic so far.

    With acks of a consumer that the broker has just closed, which are nobody's: pulsar-rs sends on.
    """
    relay.flush()
    of = {"ACK": (topic, None)}
    rows = open_trace(relay.trace_dir).rows()
    return [row for row in rows if row.topic in of.get(row.command, (topic,))]


def acks(relay: Relay, topic: str) -> int:
    return sum(row.command == "ACK" for row in rows_on(relay, topic))


def through(client: RealClient, topic: str, first: int, move: Callable[[], object]) -> int:
    """Messages, and a move in their middle; how many the client took, some perhaps twice."""
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.produce, topic, MESSAGES, first=first)
        move()
        sent.result()
    return len(client.receive(MESSAGES, every_from=first).numbers)


def assert_granted(rows: list[Row], refill: int) -> None:
    """Each consumer asked for its whole queue first, and for so many again and again."""
    granted: dict[int | None, list[int | None]] = {}
    for row in rows:
        if row.command == "FLOW":
            granted.setdefault(row.incarnation, []).append(row.permits)
    for permits in granted.values():
        assert permits == [QUEUE, *[refill] * (len(permits) - 1)]


def unloaded(admin: Any, topic: str) -> None:
    """Unloads it, and waits until its consumer is back."""
    unload(admin, topic)
    stats = topic.replace("persistent://", "/admin/v2/persistent/") + "/stats"

    def back() -> bool:
        there = admin.get(stats).json().get("subscriptions", {})
        return bool(there.get("s", {}).get("consumers"))

    eventually(back, 60)


@pytest.mark.parametrize(
    ("language", "moves"),
    # Its first build takes longer than anything here; then it is quick.
    [("flex", 1), pytest.param("rust", 3, marks=pytest.mark.slow)],
)
@pytest.mark.timeout(600)
def test_a_foreign_client_stays_on_the_tap_when_its_topic_is_unloaded(
    broker, admin, topic, tmp_path, language, moves
):
    with relaying(broker.service_url, tmp_path / "t.ptrace") as relay:
        there = {port_of(broker.service_url)}
        move = partial(unloaded, admin, topic)
        # pulsar-flex gives up what it produces while the broker closes the topic.
        meanwhile = language != "flex"
        follow(language, relay, topic, moves=[move] * moves, brokers=there, meanwhile=meanwhile)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pulsar_rs_refills_six_of_ten_and_a_trace_says_so(broker, topic, tmp_path):
    trace = str(tmp_path / "t.ptrace")
    with (
        relaying(broker.service_url, tmp_path / "t.ptrace") as relay,
        starting("rust", tmp_path, relay.service_url) as client,
    ):
        client.subscribe(topic, type="Shared", queue=10)
        client.produce(topic, 100)
        client.receive(100)
        relay.flush()
        (told,) = json.loads(answered("trace", "summary", trace, "-o", "json").stdout)["consumers"]
        done = answered("stall-check", "--trace", trace, "-o", "json")
    assert (told["receiver_queue_size"], told["refill_threshold"]) == (10, 6)
    assert told["flows"] == [10, *[6] * 16]  # with 100 taken it has 4 more than it has told
    assert (told["available_permits"], told["unsent_permits_min"]) == (6, 4)
    (entry,) = json.loads(done.stdout)["subscriptions"]
    assert entry["status"] == "healthy"
    assert entry["consumers"][0]["next_flow_after"] == {"least": None, "most": 2}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("held", "least", "most"), [(1000, 1000, 1030), (10, 10, 30)])
def test_pulsar_rs_asks_on_until_what_it_holds_for_the_application_is_full(
    broker, admin, topic, tmp_path, held, least, most
):
    """It asks when messages arrive, not when they are taken: its batch size bounds nothing."""
    with starting("rust", tmp_path, broker.service_url) as client:
        client.subscribe(topic, type="Shared", queue=10, held=held)
        client.produce(topic, 1500)
        sent = eventually(lambda: sent_and_no_more(admin, topic))
        print(f"with {held} held for the application it was sent {sent}")
        assert least < sent < most
        assert len(client.receive(1500).numbers) == 1500


def sent_and_no_more(admin: httpx2.Client, topic: str) -> int:
    """How many messages the consumer has; 0 while it asks for more."""
    before = consumer_of(admin, topic)
    time.sleep(0.5)
    now = consumer_of(admin, topic)
    return int(now["msgOutCounter"]) if now == before and not now["availablePermits"] else 0


def consumer_of(admin: httpx2.Client, topic: str) -> dict[str, Any]:
    """The only one, as the broker tells it."""
    told = admin.get(f"/admin/v2/{topic.replace('://', '/')}/stats").json()
    (consumer,) = told["subscriptions"]["s"]["consumers"]
    return dict(consumer)


@pytest.mark.slow
@pytest.mark.timeout(600)
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
