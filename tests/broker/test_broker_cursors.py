"""Cursors that the broker keeps for itself: told apart, and named where they keep storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from pulsar_doctor.broker.stats.cursors import SUBSCRIPTION, CursorOwner, owner_of
from pulsar_doctor.broker.stats.reading import internal_stats
from tests.scenarios.limits import compaction_fails
from tests.scenarios.scene import scene
from tests.support import eventually
from tests.support.command_line import answered

if TYPE_CHECKING:
    import pulsar

    from pulsar_doctor.parts.sandbox.lifetime import Sandbox

RECORDED = Path(__file__).parents[1] / "cursors" / "4.0.8.json"
LOG = "persistent://pulsar/system/__transaction_log_3"
PENDING = "persistent://public/default/orders-billing__transaction_pending_ack"
ORDERS = "persistent://public/default/orders"


@pytest.mark.parametrize(
    ("name", "topic", "kind", "of"),
    [
        ("billing", ORDERS, "subscription", None),
        ("pulsar", ORDERS, "subscription", None),
        ("pulsar.dedup", ORDERS, "deduplication", None),
        ("pulsar.dedup2", ORDERS, "subscription", None),
        ("__compaction", ORDERS, "compaction", None),
        ("pulsar.repl.west", ORDERS, "replicator", "west"),
        ("pulsar.repl.west.1", ORDERS, "replicator", "west.1"),
        ("pulsar.repl-persistent://a/b/c", ORDERS, "shadow-replicator", "persistent://a/b/c"),
        ("transaction.subscription", LOG, "transaction-log", None),
        ("transaction.subscription", None, "transaction-log", None),
        ("transaction.subscription", ORDERS, "subscription", None),
        ("__pending_ack_state", PENDING, "pending-acks", None),
        ("__pending_ack_state", ORDERS, "subscription", None),
        ("transaction-buffer-sub", ORDERS, "transaction-buffer", None),
    ],
)
def test_a_name_tells_whose_a_cursor_is(
    name: str, topic: str | None, kind: str, of: str | None
) -> None:
    assert owner_of(name, topic=topic) == CursorOwner(kind, of)


def test_another_prefix_of_replicators_is_the_brokers_setting_or_seen_by_the_cluster() -> None:
    assert owner_of("geo.west").kind == SUBSCRIPTION
    assert owner_of("geo.west", replicator_prefix="geo") == CursorOwner("replicator", "west")
    assert owner_of("geo.west", clusters=["west"]) == CursorOwner("replicator", "west")
    assert owner_of("pulsar.repl.x", replicator_prefix="geo").kind == SUBSCRIPTION


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    """Stats and internal stats of 4.0.8; ledger 5 is acknowledged by the only subscription."""
    document = json.loads(RECORDED.read_text("utf-8"))
    return document["stats"], document["internal"]


def test_a_subscription_has_its_name_back() -> None:
    _, internal = recorded()
    assert "a%2Fb+c" in internal["cursors"]
    assert "a/b c" in (internal_stats(internal).cursors or {})


@pytest.fixture
def told(tmp_path: Path) -> Any:
    def tell(*, alone: bool = False, table: bool = False, more: tuple[str, ...] = ()) -> Any:
        stats, internal = tell.documents
        files = [tmp_path / "stats.json", tmp_path / "internal.json"]
        for file, document in zip(files, (stats, internal), strict=True):
            file.write_text(json.dumps(document), "utf-8")
        both = ("--internal-stats", str(files[1]), *(() if alone else ("--stats", str(files[0]))))
        done = answered("holes", ORDERS, *both, *more, *(() if table else ("-o", "json")))
        assert done.returncode == 0, done.stderr
        return done.stdout if table else json.loads(done.stdout)

    tell.documents = recorded()  # type: ignore[attr-defined]
    return tell


def kept(document: dict[str, Any]) -> dict[str, Any]:
    names = ("kind", "of", "held_ledgers", "held_bytes", "held_ledgers_alone", "held_with")
    return {each["cursor"]: tuple(each[name] for name in names) for each in document["cursors"]}


HELD = {
    "__compaction": ("compaction", None, 0, 0, 0, []),
    "pulsar.dedup": ("deduplication", None, 1, 2520, 0, ["pulsar.repl.west"]),
    "pulsar.repl.west": ("replicator", "west", 1, 2520, 0, ["pulsar.dedup"]),
}


@pytest.mark.parametrize("alone", [False, True])
def test_what_the_broker_wrote_is_told_apart_and_who_keeps_storage_is_named(
    told: Any, alone: bool
) -> None:
    document = told(alone=alone)
    names = {each["subscription"] for each in document["subscriptions"]}
    assert {name for name in names if not name.startswith("reader-")} == {"a/b c"}
    assert kept(document) == HELD
    connected = {each["cursor"]: each["connected"] for each in document["cursors"]}
    assert connected["pulsar.repl.west"] == (None if alone else False)
    (west,) = (each for each in document["cursors"] if each["of"] == "west")
    assert f"clear-backlog {ORDERS} -s pulsar.repl.west" in west["practice"]
    assert west["not_told"] == []


def test_one_of_them_can_be_asked_for(told: Any) -> None:
    document = told(more=("-s", "pulsar.repl.west"))
    assert document["subscriptions"] == []
    assert list(kept(document)) == ["pulsar.repl.west"]


def test_what_only_one_keeps_is_its_own(told: Any) -> None:
    _, internal = told.documents
    del internal["cursors"]["pulsar.dedup"]
    assert kept(told())["pulsar.repl.west"] == ("replicator", "west", 1, 2520, 1, [])


def test_what_a_subscription_needs_is_not_held_by_the_broker(told: Any) -> None:
    """A reader is not durable, by the stats or by its cursor, and keeps nothing."""
    _, internal = told.documents
    internal["cursors"]["a%2Fb+c"]["markDeletePosition"] = f"{internal['ledgers'][0]['ledgerId']}:3"
    assert {held[2] for held in kept(told()).values()} == {0}


def test_a_hole_of_a_replicator_is_named_with_what_it_keeps(told: Any) -> None:
    """In the broker's form: entries 4 and 5 of the first ledger were not confirmed there."""
    _, internal = told.documents
    first, second = (ledger["ledgerId"] for ledger in internal["ledgers"])
    cursor = internal["cursors"]["pulsar.repl.west"]
    cursor["markDeletePosition"] = f"{first}:3"
    cursor["readPosition"] = f"{second}:20"
    cursor["individuallyDeletedMessages"] = f"[({first}:5..{second}:18]]"
    (west,) = (each for each in told()["cursors"] if each["of"] == "west")
    names = ("ranges", "holes", "oldest_hole", "held_ledgers", "pinned_bytes")
    assert [west[name] for name in names] == [
        1, 1, [f"{first}:4", f"{first}:5"], 1, internal["totalSize"],
    ]  # fmt: skip
    drawn = " ".join(told(table=True).split())
    assert "pulsar.repl.west (replicates to west)" in drawn
    assert f"the oldest begins at {first}:4 and ends at {first}:5" in drawn
    assert "is not connected to west" in drawn
    assert "keeps 1 ledger with 2,520 bytes that no subscription needs" in drawn


def test_a_person_reads_who_keeps_it_and_what_to_do(told: Any) -> None:
    drawn = " ".join(told(table=True).split())
    assert "pulsar.dedup (for deduplication)" in drawn
    assert "alone, the others with pulsar.repl.west" in drawn
    assert "1 cursor of the broker's own: nothing kept for it alone" in drawn
    assert "__compaction (" not in drawn


@pytest.mark.parametrize(("flag", "code"), [("--stats", 1), ("--internal-stats", 3)])
def test_a_replicator_that_is_not_connected_is_never_healthy(
    flag: str, code: int, tmp_path: Path
) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    stats = {**recorded["stats"], "subscriptions": {}}
    cursors = {"pulsar.repl.west": recorded["internal"]["cursors"]["pulsar.repl.west"]}
    documents = {"--stats": stats, "--internal-stats": {**recorded["internal"], "cursors": cursors}}
    file = tmp_path / "document.json"
    file.write_text(json.dumps(documents[flag]), "utf-8")
    done = answered("stall-check", flag, str(file), "-o", "json")
    (verdict,) = json.loads(done.stdout)["subscriptions"]
    assert (done.returncode, verdict["subscription"]) == (code, "pulsar.repl.west")
    assert (verdict["status"] == "stalled") == (code == 1)


@pytest.fixture
def replicated(broker: Sandbox, admin: httpx2.Client) -> Iterator[str]:
    """A namespace that is deduplicated and replicated to a cluster where nobody answers."""
    west = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"}
    tenant, cluster = admin.get("/admin/v2/tenants/public").json(), f"west-{token_hex(4)}"
    namespace = f"public/replicated-{token_hex(4)}"
    policies = {"deduplicationEnabled": True, "replication_clusters": ["standalone", cluster]}
    both = {**tenant, "allowedClusters": [*tenant["allowedClusters"], cluster]}
    admin.put(f"/admin/v2/clusters/{cluster}", json=west).raise_for_status()
    try:
        admin.post("/admin/v2/tenants/public", json=both).raise_for_status()
        admin.put(f"/admin/v2/namespaces/{namespace}", json=policies).raise_for_status()
        yield namespace
    finally:
        home = f"/admin/v2/namespaces/{namespace}"
        admin.post(f"{home}/replication", json=["standalone"])
        admin.delete(home, params={"force": "true"})
        admin.post("/admin/v2/tenants/public", json=tenant)
        admin.delete(f"/admin/v2/clusters/{cluster}")


@pytest.mark.slow
def test_in_a_namespace_they_are_named_too(
    broker: Sandbox, client: pulsar.Client, replicated: str
) -> None:
    """The broker tells a whole namespace what it counted when it last looked, once a minute."""
    done_with(client, f"persistent://{replicated}/orders", 10)

    def kinds() -> set[str]:
        done = answered("holes", "--namespace", replicated, "-o", "json", broker=broker)
        return {each["kind"] for each in json.loads(done.stdout)["cursors"]}

    eventually(lambda: "replicator" in kinds(), 90)


def test_on_a_broker_they_are_named_until_they_move_on(
    broker: Sandbox, admin: httpx2.Client, client: pulsar.Client, replicated: str, tmp_path: Path
) -> None:
    topic = f"persistent://{replicated}/orders"
    path = topic.replace("persistent://", "/admin/v2/persistent/")
    done_with(client, topic, 10)
    admin.put(f"{path}/unload").raise_for_status()
    done_with(client, topic, 10)
    admin.put(f"{path}/compaction").raise_for_status()

    def seen(*arguments: str, at: Sandbox | None = broker) -> dict[str, Any]:
        done = answered("holes", *arguments, "-o", "json", broker=at)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    eventually(lambda: "__compaction" in kept(seen(topic)))
    eventually(lambda: any(each["kind"] == "replicator" for each in seen(topic)["cursors"]))
    document = seen(topic)
    assert [each["subscription"] for each in document["subscriptions"]] == ["billing"]
    (west,) = (each for each in document["cursors"] if each["kind"] == "replicator")
    assert (west["connected"], west["held_ledgers"], west["mark_delete"][-2:]) == (False, 1, "-1")
    assert west["held_bytes"] > 0
    stalled = answered("stall-check", topic, "-s", west["cursor"], "--window=2s", broker=broker)
    assert stalled.returncode == 1, stalled.stdout
    assert "replication-stalled" in stalled.stdout
    file = tmp_path / "internal.json"
    file.write_text(admin.get(f"{path}/internalStats").text, "utf-8")
    (alone,) = (
        each
        for each in seen("--internal-stats", str(file), at=None)["cursors"]
        if each["kind"] == "replicator"
    )
    assert (alone["held_ledgers"], alone["held_bytes"]) == (1, west["held_bytes"])
    skipped = admin.post(f"{path}/subscription/{west['cursor']}/skip_all")  # as `practice` says
    assert skipped.status_code == 204
    eventually(lambda: kept(seen(topic))[west["cursor"]][2] == 0)


def done_with(client: pulsar.Client, topic: str, messages: int) -> None:
    """So many messages, published and acknowledged by the one subscription."""
    consumer, producer = client.subscribe(topic, "billing"), client.create_producer(topic)
    for number in range(messages):
        producer.send(b"%d" % number, partition_key="k")
        consumer.acknowledge(consumer.receive(20_000))
    producer.close()
    consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("ask", ["topic", "namespace", "document"])
def test_a_compaction_that_fails_is_told_however_it_is_asked_for(
    broker: Sandbox, ask: str, tmp_path: Path
) -> None:
    topic = f"persistent://public/default/compacted-{token_hex(4)}"
    with scene(broker.service_url, broker.admin_url, topic) as staged:
        compaction_fails(staged)
        file = tmp_path / "stats.json"
        file.write_text(json.dumps(staged.read().document), "utf-8")
        ways = {
            "topic": (topic, "--window", "1s"),
            "namespace": ("--namespace", "public/default", "--window", "1s"),
            "document": ("--stats", str(file)),
        }
        done = answered("stall-check", *ways[ask], "-o", "json", broker=broker)
    found = json.loads(done.stdout)["subscriptions"]
    named = (each for each in found if each["topic"] in (topic, "unknown"))
    (verdict,) = (each for each in named if each["subscription"] == "__compaction")
    assert [each["code"] for each in verdict["findings"]] == ["compaction-stalled"]
