"""One tap in front of a cluster of several brokers: clients of three languages stay on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from pulsar_doctor.parts.tap.relaying import Relay, relaying
from tests.clients import LANGUAGES, RealClient, Watch, starting
from tests.parts.tap.talking import CONNECT_TO, REDIRECT, connecting, looked_up, talking
from tests.parts.tap.tapped import blocks_in, command_frame, rows_in
from tests.support import eventually
from tests.support.cluster import (
    EXTENSIBLE,
    HOST,
    MODULAR,
    PARTITIONS,
    Broker,
    Cluster,
    cluster,
    leader,
    new_namespace,
    partitioned,
    place,
    standalone,
)
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]

SUBSCRIBE, SUCCESS, CLOSE_PRODUCER, CLOSE_CONSUMER = 4, 13, 15, 16


@pytest.fixture(scope="module", params=[EXTENSIBLE, MODULAR], ids=["extensible", "modular"])
def brokers(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(folder, load_manager=request.param) as running:
        if request.param == MODULAR:
            eventually(lambda: leader(running), 30)
        yield running


@pytest.fixture
def namespace(brokers: Cluster) -> str:
    return new_namespace(brokers)


@contextmanager
def tapped(brokers: Cluster, folder: Path, first: Broker | None = None) -> Iterator[Relay]:
    """A tap whose service URL names both brokers; `first` is asked first."""
    order = sorted(brokers.brokers, key=lambda broker: broker is not first)
    url = "pulsar://" + ",".join(f"{HOST}:{broker.port}" for broker in order)
    with relaying(url, folder / "t.ptrace") as relay:
        yield relay


@contextmanager
def all_languages(
    brokers: Cluster, folder: Path, relay: Relay, languages: tuple[str, ...] = LANGUAGES
) -> Iterator[list[RealClient]]:
    """One client of each language, and the proof that none of them ever left the tap."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(starting(language, folder, relay.service_url))
            for language in languages
        ]
        with Watch(*(client.pid for client in clients)) as watch:
            yield clients
        assert watch.looks > 10
        assert tap_port(relay) in watch.ports
        assert not watch.ports & brokers.ports


def tap_port(relay: Relay) -> int:
    return int(relay.service_url.rpartition(":")[2])


def test_clients_reach_the_topics_of_all_brokers_through_one_tap(brokers, namespace, tmp_path):
    topic = partitioned(brokers, namespace)
    with (
        tapped(brokers, tmp_path) as relay,
        all_languages(brokers, tmp_path, relay) as clients,
    ):
        for client in clients:
            client.subscribe(topic, subscription=client.language, type="Shared", queue=100)
        for client in clients:
            client.produce(topic, 200)
            for reader in clients:
                assert sorted(reader.receive(200).numbers) == list(range(200))
        for client in clients:
            client.close()
        assert relay_reached(relay) >= brokers.ports
    for client in clients:
        assert not client.complaints()


def relay_reached(relay: Relay) -> set[int]:
    """The ports of the brokers that clients were connected to, as the trace tells."""
    relay.flush()
    return {
        int(row.broker_addr.rpartition(":")[2])
        for row in rows_in(relay.trace_dir)
        if row.broker_addr
    }


def test_a_redirect_of_a_lookup_is_followed_by_the_tap(brokers, namespace, tmp_path):
    if brokers.load_manager == EXTENSIBLE:
        pytest.skip("it redirects nobody")
    head = leader(brokers)
    assert head is not None
    follower = brokers.other(head)
    topics = iter(f"persistent://{namespace}/t{number}" for number in range(100))

    def redirected_topic() -> str:
        """One whose bundle nobody owns yet: the follower does not decide, it redirects."""
        for topic in topics:
            answer = looked_up(follower.service_url, topic)
            if answer.response == REDIRECT:
                assert str(head.port) in answer.broker_service_url
                return topic
        raise AssertionError("no lookup was redirected")

    with tapped(brokers, tmp_path, follower) as relay:
        answer = looked_up(relay.service_url, redirected_topic())
        assert answer.response == CONNECT_TO
        assert answer.proxy_through_service_url
        assert int(answer.broker_service_url.rpartition(":")[2]) not in brokers.ports
        with all_languages(brokers, tmp_path, relay) as clients:
            for client in clients:
                topic = redirected_topic()
                client.subscribe(topic, type="Shared")
                client.produce(topic, 50)
                client.receive(50)
                client.close()
                assert not client.complaints()
        assert relay.counters()["redirects_followed"] > len(clients)


def test_a_topic_that_moves_to_another_broker_takes_its_clients_along_on_the_tap(
    brokers, namespace, tmp_path
):
    with (
        tapped(brokers, tmp_path) as relay,
        all_languages(brokers, tmp_path, relay) as clients,
    ):
        topics = {client: f"persistent://{namespace}/moves-{client.language}" for client in clients}
        for client, topic in topics.items():
            client.subscribe(topic, type="Shared", queue=10)
            for round_ in range(2):
                there = brokers.other(brokers.owner(topic))
                client.produce(topic, 50, first=100 * round_)
                place(brokers, topic, there)
                client.receive(50, every_from=100 * round_)
                client.produce(topic, 50, first=100 * round_ + 50)
                client.receive(50, every_from=100 * round_ + 50)
                assert consumers_at(there, topic) == ["c"]
            client.close()
        relay.flush()
        named = assigned_brokers(relay.trace_dir)
    if brokers.load_manager == EXTENSIBLE:
        assert {url for url in named if url} >= {b.service_url for b in brokers.brokers}
    else:
        assert named == {""}


def test_a_consumer_is_not_told_the_broker_that_its_topic_moves_to(brokers, namespace, tmp_path):
    """Older clients would connect to it directly, as they do without a proxy."""
    topic = f"persistent://{namespace}/moves"
    with tapped(brokers, tmp_path) as relay:
        named = looked_up(relay.service_url, topic).broker_service_url
        connect = connecting(broker=named.removeprefix("pulsar://"))
        with talking(relay.service_url, connect) as (sock, commands):
            wanted = {"topic": topic, "subscription": "s", "sub_type": 1, "consumer_id": 3}
            sock.sendall(command_frame(SUBSCRIBE, "subscribe", request_id=1, **wanted))
            assert next(commands).type == SUCCESS
            place(brokers, topic, brokers.other(brokers.owner(topic)))
            closed = next(one for one in commands if one.type == CLOSE_CONSUMER).close_consumer
        relay.flush()
        told = assigned_brokers(relay.trace_dir)
    assert closed.consumer_id == 3
    assert not closed.assigned_broker_service_url
    assert not closed.assigned_broker_service_url_tls
    assert told == (
        {brokers.owner(topic).service_url} if brokers.load_manager == EXTENSIBLE else {""}
    )


def test_a_client_that_knows_nothing_of_proxies_stays_on_the_tap_at_either_broker(
    brokers, namespace, tmp_path
):
    """Some read the broker's URL of an answer and nothing else, pulsar-flex for one."""
    topic = partitioned(brokers, namespace)
    wanted = {"subscription": "s", "sub_type": 1, "consumer_id": 3}
    with tapped(brokers, tmp_path) as relay:
        for part in range(PARTITIONS):
            name = f"{topic}-partition-{part}"
            url = looked_up(relay.service_url, name).broker_service_url
            assert int(url.rpartition(":")[2]) not in brokers.ports
            with talking(url, connecting()) as (sock, commands):
                subscribe = {"topic": name, "request_id": 1, **wanted}
                sock.sendall(command_frame(SUBSCRIBE, "subscribe", **subscribe))
                assert next(commands).type == SUCCESS
                assert consumers_at(brokers.owner(name), name)
        assert relay_reached(relay) >= brokers.ports
    rows = [row for row in rows_in(tmp_path / "t.ptrace") if row.command == "SUBSCRIBE"]
    assert len(rows) == PARTITIONS


def assigned_brokers(trace: Path) -> set[str]:
    """What the brokers said in CLOSE_CONSUMER and CLOSE_PRODUCER about where the topic goes."""
    return {
        getattr(record.command, field).assigned_broker_service_url
        for block in blocks_in(trace)
        for record in block.records
        for code, field in ((CLOSE_CONSUMER, "close_consumer"), (CLOSE_PRODUCER, "close_producer"))
        if block.direction == 1 and record.code == code
    }


def consumers_at(broker: Broker, topic: str) -> list[str]:
    url = f"{broker.admin_url}/admin/v2/{topic.replace('://', '/')}/stats"
    answer = httpx2.get(url, timeout=30, trust_env=False, follow_redirects=True)
    if answer.status_code == 404:  # no such topic here
        return []
    consumers = answer.raise_for_status().json()["subscriptions"].get("s", {"consumers": []})
    return [one["consumerName"] for one in consumers["consumers"]]


def test_clients_of_a_broker_that_dies_go_over_to_the_other_one_on_the_tap(
    brokers, namespace, tmp_path
):
    with (
        tapped(brokers, tmp_path) as relay,
        all_languages(brokers, tmp_path, relay) as clients,
    ):
        topics = {client: f"persistent://{namespace}/falls-{client.language}" for client in clients}
        victim = brokers.brokers[0]  # the first of the service URL, too
        for client, topic in topics.items():
            client.subscribe(topic, type="Shared", queue=10)
            if brokers.owner(topic) is not victim:
                place(brokers, topic, victim)
            client.produce(topic, 50)
        victim.kill()
        for client, topic in topics.items():
            client.receive(50, every_from=0, timeout_ms=60_000)
            client.produce(topic, 50, first=50)
            client.receive(50, every_from=50, timeout_ms=60_000)
        victim.start()
        victim.wait(victim.healthy)
        for client, topic in topics.items():
            place(brokers, topic, victim)
            client.produce(topic, 50, first=100)
            client.receive(50, every_from=100, timeout_ms=60_000)
            assert consumers_at(victim, topic) == ["c"]
            client.close()


def test_a_topic_that_migrates_to_another_cluster_takes_its_clients_along_on_the_tap(tmp_path):
    conf = {"clusterMigrationCheckDurationSeconds": "1"}
    with (
        standalone(tmp_path / "blue", conf=conf) as blue,
        standalone(tmp_path / "green", conf=conf) as green,
        relaying(blue.service_url, tmp_path / "t.ptrace") as relay,
        ExitStack() as stack,
    ):
        clients = [
            stack.enter_context(starting(language, tmp_path, relay.service_url))
            for language in LANGUAGES
        ]
        watch = stack.enter_context(Watch(*(client.pid for client in clients)))
        topics = {client: f"persistent://public/default/{client.language}" for client in clients}
        for client, topic in topics.items():
            client.subscribe(topic, type="Shared", queue=10)
            client.produce(topic, 20)
            client.receive(20)
            assert consumers_at(blue, topic) == ["c"]
        migrate(blue, green)
        for client, topic in topics.items():
            eventually(lambda topic=topic: consumers_at(green, topic) == ["c"], 60)
            client.produce(topic, 20, first=20)
            client.receive(20, every_from=20)
            client.close()
        assert not watch.ports & {blue.port, green.port}
        relay.flush()
        rows = rows_in(relay.trace_dir)
    assert "TOPIC_MIGRATED" in {row.command for row in rows}
    assert {int(row.broker_addr.rpartition(":")[2]) for row in rows if row.broker_addr} == {
        blue.port,
        green.port,
    }


def migrate(blue: Broker, green: Broker) -> None:
    """Has all topics of a cluster go over to another one."""
    there = {"serviceUrl": green.admin_url, "brokerServiceUrl": green.service_url}
    with blue.admin() as admin:
        url = "/admin/v2/clusters/standalone/migrate"
        admin.post(url, params={"migrated": "true"}, json=there).raise_for_status()
