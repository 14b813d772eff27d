"""One incident, told by the broker, by the wire and by both: one verdict, whoever is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_doctor.parts.consume import attach
from tests.parts.tap.test_on_broker import QUIET, tap
from tests.support import eventually
from tests.support.command_line import answered

HOGGING = "prefetch-hogging.refill_wait=3s"


def judged(broker: Any, *arguments: str) -> tuple[int, dict[str, Any], str]:
    ran = answered("stall-check", *arguments, "-o", "json", broker=broker)
    assert ran.returncode in (0, 1, 3), ran.stderr
    return ran.returncode, json.loads(ran.stdout), ran.stderr


def told(document: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    (row,) = document["subscriptions"]
    return [(found["code"], found["severity"], found["consumer"]) for found in row["findings"]]


@pytest.fixture
def hoarded(broker, client, topic, tmp_path):
    """a holds 20 messages of a queue of 1000, b has nothing to do, and nobody receives."""
    trace = tmp_path / "hoarded.ptrace"
    with tap(broker, trace) as (url, _):
        through = pulsar.Client(url, logger=QUIET)
        consumers = [through.subscribe(topic, "s", pulsar.ConsumerType.Shared, consumer_name="a")]
        attach.produce(client, topic, 20)
        document = broker_stats(broker, topic)
        eventually(lambda: document()["subscriptions"]["s"]["unackedMessages"] == 20)
        consumers.append(
            through.subscribe(topic, "s", pulsar.ConsumerType.Shared, consumer_name="b")
        )
        yield trace
        through.close()


def broker_stats(broker: Any, topic: str) -> Any:
    import httpx2

    path = topic.replace("://", "/")

    def stats() -> Any:
        return httpx2.get(f"{broker.admin_url}/admin/v2/{path}/stats").json()

    return stats


def test_the_broker_the_wire_and_both_say_the_same(broker, topic, hoarded: Path) -> None:
    stalled = [("prefetch-hogging", "stalled", "a")]
    window = ("--window", "2s", "--set", HOGGING)
    eventually(lambda: told(judged(broker, topic, *window)[1]) == stalled, 30)
    for arguments, source, sources in (
        ((topic, *window), "broker", ["stats"]),
        (("--trace", str(hoarded), "--set", HOGGING), "trace", ["trace"]),
        ((topic, "--trace", str(hoarded), *window), "broker and trace", ["stats", "trace"]),
    ):
        code, document, _ = judged(broker, *arguments)
        assert (code, told(document), document["source"]) == (1, stalled, source)
        assert [each for each in document["sources"] if each != "internal-stats"] == sources
        assert_it_says_where(document["subscriptions"][0])
        cluster = {"name": "standalone", "admin_url": broker.admin_url, "broker_version": "4.0.8"}
        cluster["context"] = None
        assert document["cluster"] == (None if source == "trace" else cluster)
    lines = answered("stall-check", topic, *window, "--consumers", broker=broker).stdout
    assert lines.startswith(f"standalone at {broker.admin_url}, Pulsar 4.0.8; 20")
    assert f"consumers of s on {topic}" in lines


def assert_it_says_where(row: dict[str, Any]) -> None:
    """Of the consumer that is named, and of everybody: by the broker and by the wire."""
    [finding] = row["findings"]
    where = finding["where"]
    assert where["address"].lstrip("/").startswith("127.0.0.1:")
    assert where["client_version"].startswith("Pulsar-CPP-v")
    assert where["connected_since"].startswith("20")
    assert {each["name"]: each["unacked_messages"] for each in row["consumers"]} == {
        "a": 20,
        "b": 0,
    }
    [a] = [each for each in row["consumers"] if each["name"] == "a"]
    assert where.items() <= a.items()


def test_a_trace_goes_with_files_too(broker, topic, hoarded: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    stats.write_text(json.dumps(broker_stats(broker, topic)()))
    alone = judged(broker, topic, "--stats", str(stats))
    assert alone[1]["source"] == "files"
    assert alone[0] == 3  # when that was is not told
    both = ("--stats", str(stats), "--trace", str(hoarded))
    _, document, _ = judged(broker, topic, *both, "--set", "healthy.problem_at_most=100%")
    assert document["source"] == "files and trace"
    (row,) = document["subscriptions"]
    assert row["status"] != "unknown", row["not_told"]


def test_without_a_broker_the_trace_is_judged_alone_and_that_is_said(
    broker, topic, hoarded: Path
) -> None:
    nobody = ("--admin-url", "http://127.0.0.1:1")
    ran = answered(
        "stall-check", topic, "--trace", str(hoarded), "-o", "json", *nobody, broker=broker
    )
    assert json.loads(ran.stdout)["source"] == "trace"
    assert "from the trace alone" in ran.stderr


def test_internal_stats_alone_decide_what_they_can(broker, client, topic, tmp_path: Path) -> None:
    import httpx2

    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    attach.produce(client, topic, 5)
    path = f"{broker.admin_url}/admin/v2/{topic.replace('://', '/')}/internalStats"

    def status(acknowledged: int) -> Any:
        for _ in range(acknowledged):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        file = tmp_path / "internal.json"
        file.write_text(httpx2.get(path).text)
        (row,) = judged(broker, "--internal-stats", str(file))[1]["subscriptions"]
        return row["subscription"], row["status"]

    assert status(2) == ("s", "unknown")
    assert status(3)[0] == "s"
    eventually(lambda: status(0) == ("s", "healthy"), 20)
    consumer.close()
