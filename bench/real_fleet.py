"""Measures stall-check on a real broker: thousands of topics, and one topic of 100 partitions.

Starts a sandbox of its own. Which topics are loaded is told by the broker's metrics, and what was
asked by its request log, so by nothing of ours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from measured import Run, doctor, table

if TYPE_CHECKING:
    import httpx2

    from pulsar_doctor.parts.sandbox.standalone import Sandbox

ASKED = re.compile(r'"GET /admin/v2/(\S+) HTTP[^"]*" \d+ \d+ "[^"]*" "pulsar-doctor/')
SAMPLES = {"stats", "internalStats", "partitioned-stats", "partitioned-internalStats"}
BUNDLES = 16
STUCK = 6
PARTITIONS = 100
AT_ONCE = 24
QUIET_LOAD = 2.0
PATIENCE_SECONDS = 20.0
SOON = ("--set", "permits-exhausted.refill_wait=30s")  # they have not been stuck for long


def kind(path: str) -> str:
    """What a question is about, without the names in it."""
    parts = path.partition("?")[0].split("/")
    if parts[0] in ("persistent", "non-persistent"):
        return parts[4] if len(parts) > 4 else "topic lists"
    return "/".join(parts[:2]) if parts[0] in ("broker-stats", "brokers") else parts[0]


@contextmanager
def asked(sandbox: Sandbox) -> Iterator[Counter[str]]:
    """What pulsar-doctor asked the broker within the with-block, by kind, once it has ended."""
    with sandbox.log.open("rb") as log:
        log.seek(0, os.SEEK_END)
        counted: Counter[str] = Counter()
        yield counted
        time.sleep(0.5)  # the log is written by a thread of its own
        counted.update(kind(path) for path in ASKED.findall(log.read().decode("utf-8", "replace")))


def loaded(admin: httpx2.Client, namespace: str) -> int:
    """How many topics of a namespace the broker has loaded at this moment, by its metrics."""
    label = f'namespace="{namespace}"'
    for line in admin.get("/metrics/").text.splitlines():
        if line.startswith("pulsar_topics_count{") and label in line:
            return int(float(line.split("}")[1].split()[0]))
    return 0


def in_broker_stats(admin: httpx2.Client, namespace: str) -> int:
    """How many topics of a namespace broker-stats tells, at most a minute old."""
    told = admin.get("/admin/v2/broker-stats/topics").json().get(namespace, {})
    return sum(len(kind) for bundle in told.values() for kind in bundle.values())


async def create(url: str, namespace: str, topics: int) -> None:
    """Topics with two subscriptions each."""
    import httpx2

    slots = asyncio.Semaphore(AT_ONCE)
    limits = httpx2.Limits(max_connections=AT_ONCE)
    base = f"{url}/admin/v2/persistent/{namespace}"
    async with httpx2.AsyncClient(timeout=60, trust_env=False, limits=limits) as admin:

        async def one(number: int) -> None:
            async with slots:
                topic = f"{base}/topic-{number:05}"
                (await admin.put(topic)).raise_for_status()
                for subscription in ("one", "two"):
                    path = f"{topic}/subscription/{subscription}"
                    (await admin.put(path)).raise_for_status()

        await asyncio.gather(*(one(number) for number in range(topics)))


@contextmanager
def stuck(sandbox: Sandbox, topics: list[str], messages: int) -> Iterator[None]:
    """Consumers that take nothing: a queue of 10 each, and messages behind it."""
    import pulsar

    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(sandbox.service_url, logger=quiet)
    try:
        for topic in topics:
            client.subscribe(
                topic, "one", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=10,
                max_total_receiver_queue_size_across_partitions=10 * PARTITIONS,
            )  # fmt: skip
            producer = client.create_producer(
                topic, batching_enabled=False,
                message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
            )  # fmt: skip
            for _ in range(messages):
                producer.send_async(b"waits", lambda *_: None)
            producer.flush()
            producer.close()
        yield
    finally:
        client.close()


def unload_some(admin: httpx2.Client, namespace: str) -> None:
    """Unloads every fourth bundle of a namespace."""
    edges = admin.get(f"/admin/v2/namespaces/{namespace}").json()["bundles"]["boundaries"]
    for low, high in list(pairwise(edges))[::4]:
        admin.put(f"/admin/v2/namespaces/{namespace}/{low}_{high}/unload").raise_for_status()


def until(done: Callable[[], bool], seconds: float, what: str) -> None:
    """Waits for it; ends the program where it does not come."""
    give_up = time.monotonic() + seconds
    while not done():
        if time.monotonic() > give_up:
            sys.exit(f"{what}: not within {seconds:g} s")
        time.sleep(1)


def many_topics(sandbox: Sandbox, admin: httpx2.Client, topics: int, window: str) -> None:
    """A namespace of thousands of topics, some of them not loaded: what a fleet run costs."""
    namespace = f"public/fleet-{secrets.token_hex(4)}"
    policies: dict[str, Any] = {"bundles": {"numBundles": BUNDLES}}
    admin.put(f"/admin/v2/namespaces/{namespace}", json=policies).raise_for_status()
    began = time.monotonic()
    asyncio.run(create(sandbox.admin_url, namespace, topics))
    print(f"{topics} topics with 2 subscriptions each made in {time.monotonic() - began:.0f} s")
    names = [f"persistent://{namespace}/topic-{number:05}" for number in range(STUCK)]
    with stuck(sandbox, names, 60):
        unload_some(admin, namespace)
        time.sleep(5)
        until(
            lambda: in_broker_stats(admin, namespace) == loaded(admin, namespace),
            180, "broker-stats as the metrics have it",
        )  # fmt: skip
        rows = [["-o", "seconds", "CPU s", "peak MiB", "requests", "loaded before", "after"]]
        for output in ("json", "table"):
            before = loaded(admin, namespace)
            with asked(sandbox) as questions:
                run = doctor(
                    "stall-check", "--namespace", namespace, "-o", output,
                    "--window", window, "--admin-url", sandbox.admin_url, *SOON,
                )  # fmt: skip
            after = loaded(admin, namespace)
            tell(run, output, questions)
            rows.append(
                [output, f"{run.seconds:.1f}", f"{run.cpu_seconds:.1f}", f"{run.peak_mib:.0f}"]
                + [str(number) for number in (questions.total(), before, after)]
            )
        print(table(rows))


def tell(run: Run, output: str, questions: Counter[str]) -> None:
    """What was asked, and what the verdicts are."""
    print(f"-o {output}: exit {run.code}; asked {dict(questions)}")
    if output == "json" and run.out:
        document = json.loads(run.out)
        status = Counter(each["status"] for each in document["subscriptions"])
        codes = Counter(f["code"] for each in document["subscriptions"] for f in each["findings"])
        rest = {name: len(document[name]) for name in ("not_loaded", "unreachable")}
        print(f"  {len(document['subscriptions'])} judged: {dict(status)}; {dict(codes)}; {rest}")
    elif run.code not in (0, 1):
        print(run.err[-500:])


def one_topic(sandbox: Sandbox, admin: httpx2.Client, runs: int) -> None:
    """One plain topic, and one of 100 partitions: requests, and how long an answer takes."""
    suffix = secrets.token_hex(4)
    plain = f"persistent://public/default/plain-{suffix}"
    parts = f"persistent://public/default/parts-{suffix}"
    path = f"/admin/v2/persistent/public/default/parts-{suffix}/partitions"
    admin.put(path, json=PARTITIONS).raise_for_status()
    rows = [["topic", "--window", "seconds: min", "median", "max", "CPU s: median", "load"]]
    with stuck(sandbox, [plain, parts], 60 * PARTITIONS):
        for topic, called in ((plain, "plain"), (parts, f"{PARTITIONS} partitions")):
            for window in ("1s", "10s"):
                rows.append([called, window, *timed(sandbox, topic, window, runs)])
    print(table(rows))


def timed(sandbox: Sandbox, topic: str, window: str, runs: int) -> list[str]:
    """One row: several runs, each after the machine has become quiet."""
    done, load = [], 0.0
    for number in range(runs):
        load = max(load, quiet_machine())
        with asked(sandbox) as questions:
            done.append(run := doctor(
                "stall-check", topic, "-o", "json", "--window", window,
                "--admin-url", sandbox.admin_url, *SOON,
            ))  # fmt: skip
        if number == 0:
            tell(run, "json", questions)
            outside = sum(count for name, count in questions.items() if name not in SAMPLES)
            print(f"  {outside} requests outside the samples of {topic}, --window {window}")
    seconds = sorted(run.seconds for run in done)
    cpu = statistics.median(run.cpu_seconds for run in done)
    told = [f"{n:.2f}" for n in (seconds[0], statistics.median(seconds), seconds[-1], cpu)]
    return [*told, f"{load:.1f}"]


def quiet_machine() -> float:
    """Waits for a load below 2, for a while; returns the load."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while os.getloadavg()[0] > QUIET_LOAD and time.monotonic() < give_up:
        time.sleep(2)
    return os.getloadavg()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=2000, help="real ones (default %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="of one topic (default %(default)s)")
    parser.add_argument("--window", default="10s", help="of the many (default %(default)s)")
    wanted = parser.parse_args()
    import httpx2

    from pulsar_doctor.parts.sandbox.lifetime import running

    with (
        running(reuse=False) as sandbox,
        httpx2.Client(base_url=sandbox.admin_url, timeout=60, trust_env=False) as admin,
    ):
        doctor("stall-check", "nosuch", "--window", "0s", "--admin-url", sandbox.admin_url)
        if wanted.topics:
            many_topics(sandbox, admin, wanted.topics, wanted.window)
        if wanted.runs:
            one_topic(sandbox, admin, wanted.runs)


if __name__ == "__main__":
    main()
