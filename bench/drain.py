"""Measures drains of a real topic: direct, through the relay, through Pulsar's proxy at two levels.

    python bench/drain.py [--runs 7] [--scale 1.0]

Against a live broker, which is the limit: the rates scatter and prove little. What counts is the
CPU time of what stands in between, for a million messages. All in one run, alternating; the client
is pulsar-client with a receiver queue of 1000, a subscription of its own for each drain.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar
from measured import table
from peers import cpu_seconds
from pulsar_proxy import proxy

from pulsar_doctor.parts.sandbox.lifetime import running
from pulsar_doctor.parts.tap.relaying import relaying

RECEIVE_MILLIS = 30_000


@dataclass(frozen=True, slots=True)
class Load:
    """What stands on a topic."""

    name: str
    messages: int
    payload_bytes: int
    batched: bool

    @property
    def topic(self) -> str:
        """Its own."""
        return f"persistent://public/default/{self.name.replace(' ', '-')}"


LOADS = (
    Load("100 B batched", 400_000, 100, True),
    Load("100 B single", 200_000, 100, False),
    Load("10 KB single", 20_000, 10_000, False),
)


@dataclass(slots=True)
class Way:
    """What stands in between, and what was measured of it, by load."""

    name: str
    service_url: str
    pid: int | None
    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)


def produce(service_url: str, load: Load) -> None:
    """Puts the messages there."""
    client = pulsar.Client(service_url, logger=quiet())
    client.subscribe(load.topic, "keeper").close()  # or the broker lets go of what was drained
    producer = client.create_producer(
        load.topic,
        batching_enabled=load.batched,
        batching_max_messages=100,
        max_pending_messages=5_000,
        block_if_queue_full=True,
    )
    payload = os.urandom(load.payload_bytes)
    for _ in range(load.messages):
        producer.send_async(payload, lambda *_: None, properties={"kind": "bench"})
    producer.flush()
    client.close()


def quiet() -> Any:
    """Only what goes wrong."""
    return pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def drain(way: Way, load: Load) -> tuple[float, float]:
    """Messages a second, and CPU seconds of what is in between, for a million."""
    client = pulsar.Client(way.service_url, logger=quiet())
    consumer = client.subscribe(
        load.topic,
        f"s-{uuid.uuid4().hex}",
        receiver_queue_size=1000,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    try:
        consumer.receive(RECEIVE_MILLIS)
        before, began = cpu_seconds(way.pid) if way.pid else 0.0, time.perf_counter()
        for _ in range(load.messages - 1):
            consumer.receive(RECEIVE_MILLIS)
        seconds = time.perf_counter() - began
        spent = cpu_seconds(way.pid) - before if way.pid else 0.0
    finally:
        consumer.unsubscribe()
        client.close()
    return load.messages / seconds, spent / load.messages * 1e6


@contextmanager
def ways(service_url: str, admin_url: str) -> Iterator[list[Way]]:
    """All of them, side by side."""
    folder = Path(tempfile.mkdtemp(prefix="pulsar-doctor-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        relay = stack.enter_context(relaying(service_url, folder / "trace"))
        found = [Way("direct", service_url, None), Way("relay", relay.service_url, relay.pid)]
        for level in (0, 2):
            there = stack.enter_context(proxy(level, service_url, admin_url))
            url = f"pulsar://127.0.0.1:{there.port}"
            found.append(Way(f"proxy, level {level}", url, there.pid))
        yield found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of messages")
    options = parser.parse_args()
    loads = [
        Load(load.name, int(load.messages * options.scale), load.payload_bytes, load.batched)
        for load in LOADS
    ]
    with running() as broker, ways(broker.service_url, broker.admin_url) as all_ways:
        for load in loads:
            produce(broker.service_url, load)
        for run in range(-1, options.runs):
            for load in loads:
                for way in all_ways:
                    rate, cpu = drain(way, load)
                    if run >= 0:  # the first warms Java up
                        way.rates.setdefault(load.name, []).append(rate)
                        way.cpu.setdefault(load.name, []).append(cpu)
            print(f"run {run + 1} of {options.runs} is done", file=sys.stderr, flush=True)
    print(drained(loads, all_ways))


def drained(loads: list[Load], all_ways: list[Way]) -> str:
    """A row for each load and way."""
    rows: list[tuple[str, ...]] = [
        ("drain", "through", "messages/s", "min", "max", "CPU s / million")
    ]
    for load in loads:
        for way in all_ways:
            rates = way.rates[load.name]
            cpu = f"{statistics.median(way.cpu[load.name]):.2f}" if way.pid else "-"
            median = statistics.median(rates)
            each = (f"{rate:,.0f}" for rate in (median, min(rates), max(rates)))
            rows.append((load.name, way.name, *each, cpu))
    return table(rows)


if __name__ == "__main__":
    main()
