"""A watch of a real broker with --keep, and what `fleet` says of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from click.testing import CliRunner

from pulsar_doctor.cli import cli
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.parts.fleet import twin
from tests.support import eventually
from tests.support.command_line import environment

if TYPE_CHECKING:
    import pulsar
    from pyspark.sql import SparkSession


def watched(admin_url: str, records: Path, rounds: int) -> None:
    """Watches all namespaces until so many rounds have ended."""
    command = [
        sys.executable, "-m", "pulsar_doctor", "stall-check", "--all", "--watch", "--every", "5s",
        "--window", "1s", "-o", "jsonl", "--keep", str(records), "--admin-url", admin_url,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as watching:
        assert watching.stdout is not None
        begun: set[str] = set()
        for line in watching.stdout:
            begun.add(json.loads(line)["checked_at"])
            if len(begun) > rounds:
                break
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)


def seen(records: Path, topic: str) -> twin.Rows:
    query = f"FROM '{records}/*/*/*.parquet' WHERE topic = '{topic}' ORDER BY seen_at"
    return twin.rows_of(duckdb.connect(), query)


def test_a_consumer_that_holds_all_is_recorded_with_its_numbers(
    broker: Sandbox, client: pulsar.Client, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    consumer = client.subscribe(topic, "billing", consumer_name="worker", receiver_queue_size=10)
    producer = client.create_producer(topic, batching_enabled=False)
    for _ in range(30):
        producer.send(b"x")
    eventually(lambda: consumer.receive(timeout_millis=5000))
    watched(broker.admin_url, tmp_path, 3)
    rows = seen(tmp_path, topic)
    assert len(rows) >= 2
    assert {row["backlog"] for row in rows} == {30}
    (recorded,) = rows[-1]["consumers"]
    assert (recorded["name"], recorded["version"][:7]) == ("worker", "Pulsar-")
    assert sum(place["least"] for place in rows[-1]["account"]) == 30
    run = CliRunner().invoke(cli, ["-q", "fleet", str(tmp_path), "-o", "json"])
    document = json.loads(run.stdout)
    ours = [row for row in document["episodes"] if row["topic"] == topic]
    assert len(ours) == (rows[-1]["status"] != "healthy")
