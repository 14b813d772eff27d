"""Holes on the real broker: each origin made on purpose, and forecasts held against a reload."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pulsar
import pytest

from pulsar_doctor.ledger.acks.persisting import Storing, record_bytes
from pulsar_doctor.ledger.acks.ranges import ranges_of
from pulsar_doctor.ledger.acks.written import parse_written
from pulsar_doctor.parts.sandbox.lifetime import Sandbox, running
from tests.checkup.holes.holed import (
    EVERY,
    MESSAGES,
    ORIGINS,
    SUBSCRIPTION,
    cursor_of,
    delivered,
    in_odd_order,
    path_of,
    position,
    published,
    settled,
    unloaded,
)
from tests.scenarios import SCENARIOS, stage
from tests.support import eventually
from tests.support.command_line import answered, pulsar_doctor
from tests.support.documented import bounded

HOLES = {
    "unacked": MESSAGES // EVERY,
    "delayed": MESSAGES // 2,
    "individual-acks": MESSAGES // EVERY,
}


@contextmanager
def standing(broker: Sandbox) -> Iterator[dict[str, str]]:
    """A topic for each origin; all stand at the same time."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.service_url, logger=quiet)
    try:
        with (
            ExitStack() as held,
            httpx2.Client(base_url=broker.admin_url, trust_env=False) as admin,
        ):
            topics = {
                origin: f"persistent://public/default/holes-{origin}-{secrets.token_hex(4)}"
                for origin in ORIGINS
            }
            for origin, (made, ranges) in ORIGINS.items():
                held.enter_context(made(client, topics[origin]))
                settled(admin, topics[origin], ranges - 1)
            yield topics
    finally:
        client.close()


@pytest.fixture(scope="module")
def scene(broker: Sandbox) -> Iterator[dict[str, str]]:
    with standing(broker) as topics:
        yield topics


@pytest.fixture(scope="module")
def told(broker: Sandbox, scene: dict[str, str]) -> dict[str, dict[str, Any]]:
    return told_of_each(broker, scene)


def told_of_each(broker: Sandbox, scene: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What one command line says of each."""
    done = answered("holes", *scene.values(), "-o", "json", broker=broker)
    assert done.returncode == 0, done.stderr
    found = {each["topic"]: each for each in json.loads(done.stdout)["subscriptions"]}
    return {origin: found[topic] for origin, topic in scene.items()}


@pytest.mark.parametrize("origin", list(ORIGINS))
def test_each_origin_is_attributed_to_what_was_done(
    origin: str, told: dict[str, dict[str, Any]]
) -> None:
    entry = told[origin]
    assert entry["origin"] == origin
    assert entry["origins"][0]["entries_least"] == entry["hole_entries"] > 0
    assert entry["holes"] == HOLES.get(origin, entry["holes"])
    assert entry["redelivered_at_load"] == 0
    assert (entry["persisted_limit"], entry["persisted_limit_assumed"]) == (10_000, False)


def in_place(entry: dict[str, Any], name: str, what: str) -> Any:
    there = [each[what] for each in entry["account"]["places"] if each["place"] == name]
    return there[0] if there else 0


def test_unacked_and_holes_are_two_numbers(told: dict[str, dict[str, Any]]) -> None:
    numbers = {
        origin: (
            in_place(entry, "held", "messages"),
            in_place(entry, "delayed", "entries"),
            entry["hole_entries"],
        )
        for origin, entry in told.items()
    }
    tenth, half = MESSAGES // EVERY, MESSAGES // 2
    assert numbers["unacked"] == (tenth, 0, tenth)
    assert numbers["delayed"] == (0, half, half)
    assert numbers["individual-acks"] == (tenth, 0, tenth)  # by positions: Exclusive counts none


def test_each_is_drawn(broker: Sandbox, scene: dict[str, str]) -> None:
    done = answered("holes", *scene.values(), broker=broker)
    assert done.returncode == 0, done.stderr
    drawn = done.stdout
    for origin in ORIGINS:
        assert f"origin: {origin}" in drawn
    assert "D in a hole: delayed" in drawn
    assert "U in a hole: sent or to be sent again, not acknowledged" in drawn
    assert "\x1b" not in drawn


def test_a_trace_tells_the_same_and_what_became_of_each_entry(
    broker: Sandbox, client: pulsar.Client, admin: httpx2.Client, topic: str, tmp_path: Path
) -> None:
    client.subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared).close()
    published(client, topic, 60, lambda _: False)
    trace = str(tmp_path / "t.ptrace")
    run = ("-s", SUBSCRIPTION, "--take-messages", "--ack-every", "3", "-n", "60")
    done = pulsar_doctor(
        "consume", topic, *run, "--timeout", "20s", "--trace", trace, broker=broker
    )
    assert done.returncode == 0, done.stderr
    live = holes_of(broker, topic)
    done = answered("holes", "--trace", trace, "-o", "json")
    (entry,) = json.loads(done.stdout)["subscriptions"]
    same = ("topic", "mark_delete", "ranges", "holes", "hole_entries", "oldest_hole")
    assert [entry[name] for name in same] == [live[name] for name in same]
    assert (entry["ranges"], entry["hole_entries"], entry["origin"]) == (20, 40, "unacked")
    lives = entry["biographies"]
    assert len(lives) == 40
    assert {(life["deliveries"], life["first_consumer"]) for life in lives} == {(1, "consumer-1")}
    assert all(life["acknowledged"] is None for life in lives)
    before = answered("holes", "--trace", trace, "--at", lives[0]["first_delivered"])
    assert "no holes is it stalled?" in " ".join(before.stdout.split()), before.stderr


def test_a_subscription_without_holes_has_nothing_wrong(
    broker: Sandbox, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, SUBSCRIPTION)
    client.create_producer(topic).send(b"x")
    consumer.acknowledge_cumulative(consumer.receive(10_000))
    consumer.close()
    done = answered("holes", topic, "-s", SUBSCRIPTION, broker=broker)
    assert done.returncode == 0, done.stderr
    assert "no holes (mark-delete" in " ".join(done.stdout.split())


def test_the_whole_document_of_a_live_subscription(
    broker: Sandbox, client: pulsar.Client, admin: httpx2.Client, topic: str
) -> None:
    """Of 30 entries 0, 5, 6 and 20 to 29 stay open: three ranges, two holes with three entries."""
    consumer = client.subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared)
    published(client, topic, 30, lambda _: False)
    messages = [consumer.receive(10_000) for _ in range(30)]
    for number in {*range(20)} - {0, 5, 6}:
        consumer.acknowledge(messages[number])
    settled(admin, topic, 2)
    eventually(lambda: holes_of(broker, topic)["acknowledged_entries"] == 17)
    entry = holes_of(broker, topic)
    ledger, stored = position(messages[0])[0], told_of(admin, topic, "internalStats")["totalSize"]
    record = told_of(admin, topic, "stats")["subscriptions"][SUBSCRIPTION][SIZE]
    assert entry.pop("mark_delete_stood_seconds") >= 0
    assert entry.pop("record_bytes") == (record or _record_bytes(ledger, [(0, 4), (6, 19)]))
    assert entry.pop("record_bytes_told") == bool(record)
    (origin,) = entry.pop("origins")
    (held,) = entry.pop("account")["places"]
    assert (held["place"], held["entries"]) == ("held", 13)
    assert entry == bounded({
        "topic": topic, "partition": None, "subscription": SUBSCRIPTION, "type": "Shared",
        "durable": True, "status": "healthy", "backlog": 13, "backlog_by_positions": 13,
        "backlog_counter_wrong": False, "ack_hole": None, "mark_delete": f"{ledger}:-1",
        "mark_delete_stood_at_least": True, "read_position": f"{ledger}:30", "ranges": 2,
        "acknowledged_entries": 17, "holes": 2, "holes_least": 2, "holes_most": 2,
        "hole_entries": 3, "hole_entries_least": 3, "hole_entries_not_sent": 0,
        "oldest_hole": [f"{ledger}:0", f"{ledger}:0"], "persisted_limit": 10_000,
        "persisted_limit_assumed": False, "share_of_limit": 0.0002, "stored_as": "ranges",
        "record_bytes_limit": 5_242_880, "redelivered_at_load": 0, "redelivered_at_load_least": 0,
        "redelivered_at_load_most": 0, "pinned_ledgers": 1, "pinned_bytes": stored,
        "pinned_bytes_without_oldest_hole": stored, "pinned_bytes_without_holes": stored,
        "origin": "unacked", "not_told": [],
    })  # fmt: skip
    assert (origin["origin"], origin["entries_least"], origin["entries_most"]) == ("unacked", 3, 3)
    assert origin["because"] == (
        "13 messages delivered and unacknowledged, 0 entries waiting to be sent again"
    )


def test_of_an_empty_backlog_the_positions_are_told(
    broker: Sandbox, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, SUBSCRIPTION)
    client.create_producer(topic).send(b"x")
    message = consumer.receive(10_000)
    consumer.acknowledge_cumulative(message)
    consumer.close()
    ledger, last = position(message)
    told = {
        "backlog": 0, "backlog_by_positions": 0, "backlog_counter_wrong": False,
        "mark_delete": f"{ledger}:{last}", "read_position": f"{ledger}:{last + 1}",
        "redelivered_at_load": 0, "ranges": 0, "holes": 0, "not_told": [],
    }  # fmt: skip
    entry = holes_of(broker, topic)
    assert {name: entry[name] for name in told} == told


def test_a_counter_that_drifted_to_0_is_not_believed_and_an_unload_mends_it(
    broker: Sandbox, admin: httpx2.Client, topic: str
) -> None:
    drifted = SCENARIOS["backlog-counter-wrong"]
    with stage(drifted, broker.service_url, broker.admin_url, topic):
        assert told_of(admin, topic, "stats")["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0
        precise = told_of(admin, topic, "stats", getPreciseBacklog="true")
        right = precise["subscriptions"][SUBSCRIPTION]["msgBacklog"]
        wrong = {
            "status": "warning", "backlog": 0, "backlog_by_positions": right,
            "backlog_counter_wrong": True, "ranges": 10, "holes": 10, "not_told": [],
        }  # fmt: skip
        entry = holes_of(broker, topic)
        assert right == 10
        assert {name: entry[name] for name in wrong} == wrong
        told = answered("holes", topic, "--fail-on", "warning", broker=broker)
        assert (told.returncode, "\n▲ WARNING" in told.stdout) == (1, True), told.stderr
        unloaded(admin, topic)
        entry = eventually(lambda: _mended(broker, topic))
        assert (entry["backlog"], entry["backlog_by_positions"], entry["status"]) == (
            10, 10, "healthy",
        )  # fmt: skip


def _mended(broker: Sandbox, topic: str) -> dict[str, Any]:
    entry = holes_of(broker, topic)
    return entry if entry["backlog_counter_wrong"] is False else {}


def _record_bytes(ledger: int, ranges: list[tuple[int, int]]) -> int:
    """Two positions for each, of two numbers of seven bits a byte; entry numbers take one here."""
    return sum(8 + 2 * (1 + (ledger > 127)) + 2 for _ in ranges)


def told_of(admin: httpx2.Client, topic: str, what: str, **asked: str) -> dict[str, Any]:
    answer = admin.get(f"/admin/v2/{path_of(topic)}/{what}", params=asked).raise_for_status()
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize(
    ("runs", "ledgers", "kept"),
    [
        pytest.param(150, 1, 101, id="as ranges, one more than the limit"),
        pytest.param(260, 4, 65, id="as bit arrays, the first of four ledgers"),
    ],
)
def test_a_reload_where_few_ranges_are_persisted_delivers_again_what_was_foretold(
    default_broker: Sandbox, default_client: pulsar.Client, topic: str,
    runs: int, ledgers: int, kept: int,
) -> None:  # fmt: skip
    with httpx2.Client(base_url=default_broker.admin_url, timeout=30, trust_env=False) as admin:
        acknowledged = in_odd_order(default_client, admin, topic, runs, ledgers, 3)
        settled(admin, topic, runs)
        if ledgers > 1:  # bit arrays go to a ledger of the cursor's own, which is there in a second
            eventually(lambda: cursor_of(admin, topic)["state"] == "Open", timeout=30)
        foretold = holes_of(default_broker, topic)
        unloaded(admin, topic)
        again = [each for each in delivered(default_client, topic) if each in acknowledged]
        after = holes_of(default_broker, topic)
    assert foretold["persisted_limit"] == 100
    assert len(again) == len(set(again)) == foretold["redelivered_at_load"] > 0
    assert abs(after["ranges"] - kept) < ledgers  # a ledger's end cuts a run
    assert after["redelivered_at_load"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("runs", "ledgers", "seed"),
    [(1_500, 1, 1), (10_001, 1, 2), (10_500, 1, 3), (12_345, 3, 4), (11_111, 4, 5)],
)
def test_a_reload_delivers_again_what_was_foretold(
    broker: Sandbox, client: pulsar.Client, admin: httpx2.Client, topic: str,
    runs: int, ledgers: int, seed: int,
) -> None:  # fmt: skip
    acknowledged = in_odd_order(client, admin, topic, runs, ledgers, seed)
    settled(admin, topic, runs)
    foretold = holes_of(broker, topic)
    assert runs <= foretold["ranges"] < runs + ledgers  # a ledger's end cuts a run
    assert foretold["acknowledged_entries"] == len(acknowledged)
    unloaded(admin, topic)
    again = [each for each in delivered(client, topic) if each in acknowledged]
    print(f"ranges {foretold['ranges']}, ledgers {ledgers}, foretold "
          f"{foretold['redelivered_at_load']}, again {len(again)}")  # fmt: skip
    assert len(again) == len(set(again)) == foretold["redelivered_at_load"]
    assert (foretold["redelivered_at_load"] > 0) == (foretold["ranges"] > 10_001)
    after = holes_of(broker, topic)
    assert after["ranges"] == min(foretold["ranges"], 10_001)
    assert after["redelivered_at_load"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_second_reload_forgets_nothing_more(
    broker: Sandbox, client: pulsar.Client, admin: httpx2.Client, topic: str
) -> None:
    in_odd_order(client, admin, topic, 10_200, 1, 9)
    settled(admin, topic, 10_200)
    for _ in range(2):
        unloaded(admin, topic)
        assert holes_of(broker, topic)["ranges"] == 10_001


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_records_size_is_what_the_broker_says(
    broker: Sandbox, client: pulsar.Client, admin: httpx2.Client, topic: str
) -> None:
    in_odd_order(client, admin, topic, 2_000, 2, 7)
    settled(admin, topic, 2_000)
    assert eventually(lambda: is_told(admin, topic, RANGES), timeout=90)  # flushed once a minute


@pytest.mark.slow
def test_parts_of_batches_come_again_and_are_no_part_of_the_forecast(
    broker: Sandbox, client: pulsar.Client, admin: httpx2.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, SUBSCRIPTION, pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
    )
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=10, batching_max_publish_delay_ms=2000
    )
    for _ in range(20):
        producer.send_async(b"x", lambda *_: None)
    producer.flush()
    for _ in range(5):
        consumer.acknowledge(consumer.receive(10_000))
    consumer.close()
    foretold = holes_of(broker, topic)
    assert (foretold["backlog"], foretold["ranges"], foretold["redelivered_at_load"]) == (2, 0, 0)
    unloaded(admin, topic)
    assert len(delivered(client, topic)) == 20  # it would be 15, had the broker read what it wrote


@pytest.fixture(scope="module")
def in_bits() -> Iterator[Sandbox]:
    """A broker that stores bit arrays, and few of them."""
    conf = {
        "managedLedgerPersistIndividualAckAsLongArray": "true",
        "managedLedgerMaxUnackedRangesToPersist": "2000",
        "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "100",
    }
    with running(conf=conf, reuse=False) as sandbox:
        yield sandbox


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("runs", "ledgers", "seed"), [(3_000, 1, 1), (3_000, 4, 2), (90, 3, 3)])
def test_bit_arrays_keep_what_was_foretold(
    in_bits: Sandbox, topic: str, runs: int, ledgers: int, seed: int
) -> None:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(in_bits.service_url, logger=quiet)
    try:
        with httpx2.Client(base_url=in_bits.admin_url, timeout=30, trust_env=False) as admin:
            acknowledged = in_odd_order(client, admin, topic, runs, ledgers, seed)
            settled(admin, topic, runs)
            foretold = holes_of(in_bits, topic)
            assert foretold["stored_as"] == "bit arrays"
            assert eventually(lambda: is_told(admin, topic, BITS), timeout=90)
            unloaded(admin, topic)
            again = [each for each in delivered(client, topic) if each in acknowledged]
    finally:
        client.close()
    print(f"ranges {foretold['ranges']}, entries {len(acknowledged)}, ledgers {ledgers}, "
          f"foretold {foretold['redelivered_at_load']}, again {len(again)}")  # fmt: skip
    assert len(again) == foretold["redelivered_at_load"]
    assert (len(again) > 0) == (ledgers == 4)


def test_a_namespace_is_read_and_nothing_is_woken(
    default_broker: Sandbox, default_client: pulsar.Client
) -> None:
    """Where the broker refreshes each second what it has loaded, and not once a minute."""
    asleep = f"persistent://public/default/holes-asleep-{secrets.token_hex(4)}"
    later = asleep.replace("asleep", "later")
    with (
        standing(default_broker) as scene,
        httpx2.Client(base_url=default_broker.admin_url, timeout=30, trust_env=False) as admin,
    ):
        default_client.create_producer(asleep).close()
        unloaded(admin, asleep)
        told = told_of_each(default_broker, scene)
        eventually(lambda: {*scene.values()} <= loaded(admin) and asleep not in loaded(admin))
        asked = ("holes", "--namespace", "public/default", "-o", "json")
        document = json.loads(answered(*asked, broker=default_broker).stdout)
        default_client.create_producer(later).close()
        eventually(lambda: later in loaded(admin))  # it has been refreshed since
        assert asleep not in loaded(admin)
    assert asleep in document["not_loaded"]
    found = {each["topic"]: each for each in document["subscriptions"]}
    assert asleep not in found
    for origin, topic in scene.items():
        assert topic not in document["not_loaded"]
        names = ("ranges", "holes", "hole_entries", "backlog", "origin")
        assert [found[topic][name] for name in names] == [told[origin][name] for name in names]


def loaded(admin: httpx2.Client) -> set[str]:
    """The topics of public/default that the broker says it has loaded."""
    bundles = admin.get("/admin/v2/broker-stats/topics").json().get("public/default", {})
    return {topic for bundle in bundles.values() for topic in bundle.get("persistent", {})}


RANGES = Storing((4, 0), 10_000, 1000, bit_arrays=False)
BITS = Storing((4, 0), 2000, 100, bit_arrays=True)
SIZE = "nonContiguousDeletedMessagesRangesSerializedSize"


def is_told(admin: httpx2.Client, topic: str, storing: Storing) -> bool:
    """Whether the broker's figure for the record is ours."""
    stats = admin.get(f"/admin/v2/{path_of(topic)}/stats").json()
    text = cursor_of(admin, topic)["individuallyDeletedMessages"]
    ours = record_bytes(parse_written(text), ranges_of(parse_written(text)), storing)
    told: int = stats["subscriptions"][SUBSCRIPTION][SIZE]
    return told == ours


def holes_of(broker: Sandbox, topic: str) -> dict[str, Any]:
    done = answered("holes", topic, "-s", SUBSCRIPTION, "-o", "json", broker=broker)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)["subscriptions"]
    return dict(entry)
