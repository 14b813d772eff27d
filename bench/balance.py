"""Holds `falls-behind` against subscriptions of a real broker that keep up, and that do not.

    python bench/balance.py [--minutes 12] [--service-url URL --admin-url URL]

Lives that keep up and look like falling behind: bursts of 5 s and of 5 min, sinks that acknowledge
at checkpoints, cumulative acks, batches of 1,000, delays, a backlog after an outage, restarts. And
lives that fall behind: an application too slow for what comes in, of each type. All stand on one
broker, and are judged every half a minute: over a window of 10 s, by its first document alone, and
by both ends of it. A line for each life: how often it was called what. The exit code is how many
that keep up were ever found to fall behind, and how many others were not found at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from measured import doctor

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.parts.sandbox.lifetime import running
from tests.scenarios.scene import Scene, scene

EVERY_SECONDS = 30.0
RULES = load()
LIMITS = limits_of(RULES)
Play = Callable[[Scene], None]


def worker(kind: str, rate: float, seconds: float, **more: Any) -> Play:
    """Works so long on each message, of so many that come in each second."""

    def play(on: Scene) -> None:
        on.begin(kind)
        on.work(on.consume("w", kind, more.get("queue", 1000)), seconds)
        on.produce_on(rate, more.get("batch", 1), keys=more.get("keys", ()))

    return play


def bursts(every: float, length: float, rate: int, seconds: float) -> Play:
    """So many a second for so long, and then nothing until the next one."""

    def play(on: Scene) -> None:
        on.begin("shared")
        on.work(on.consume("w", "shared", 1000), seconds)
        producer = on.producer()

        def run() -> None:
            while not on.closing.is_set():
                began = time.monotonic()
                for number in range(round(length * rate)):
                    producer.send_async(b"burst", lambda result, message_id: None)
                    if on.closing.wait(max(0.0, began + number / rate - time.monotonic())):
                        return
                on.closing.wait(max(0.0, began + every - time.monotonic()))

        on.background(run)

    return play


def checkpoints(kind: str, every: float, rate: float) -> Play:
    """Takes all that comes, and acknowledges it at checkpoints, of one active consumer at once."""

    def play(on: Scene) -> None:
        held: list[Any] = []
        on.begin(kind)
        consumer = on.consume("w", kind, 1000)
        on.work(consumer, 0, lambda consumer, message: held.append(message))
        on.produce_on(rate)

        def run() -> None:
            while not on.closing.wait(every):
                done = held[:]
                for message in done if kind == "shared" else ():
                    consumer.acknowledge(message)
                if done and kind != "shared":
                    consumer.acknowledge_cumulative(done[-1])
                del held[: len(done)]

        on.background(run)

    return play


def delayed(on: Scene) -> None:
    """Half of what comes in is due in a minute, or in an hour."""
    worker("shared", 20, 0.01)(on)
    producer = on.producer()

    def run() -> None:
        while not on.closing.wait(0.1):
            for seconds in (60, 3600):
                after = timedelta(seconds=seconds)
                producer.send_async(b"later", lambda result, message_id: None, deliver_after=after)

    on.background(run)


def backlog(messages: int, rate: float, seconds: float) -> Play:
    """So much waits after an outage, and more comes in."""

    def play(on: Scene) -> None:
        on.begin("shared")
        on.produce(messages)
        worker("shared", rate, seconds)(on)

    return play


def restarts(on: Scene) -> None:
    """Its worker is restarted each 40 s, with a backlog, and is down for 5 s."""
    on.begin("shared")
    on.produce(20_000)
    on.produce_on(20)

    def run() -> None:
        while not on.closing.is_set():
            consumer = on.consume("w", "shared", 500)
            began = time.monotonic()
            for message in on.messages(consumer):
                if on.closing.wait(0.02):
                    return
                consumer.acknowledge(message)
                if time.monotonic() - began > 40:
                    break
            consumer.close()
            on.closing.wait(5)

    on.background(run)


KEYS = tuple(f"key-{number}" for number in range(20))
WELL: dict[str, Play] = {
    "bursts-of-5-s": bursts(60, 5, 200, 0.02),
    "bursts-of-1-min": bursts(150, 60, 60, 0.025),
    "burst-of-5-min": bursts(3600, 300, 60, 0.025),
    "checkpoint-sink-20-s": checkpoints("shared", 20, 50),
    "checkpoint-sink-4-min": checkpoints("shared", 240, 50),
    "cumulative-acks": checkpoints("failover", 90, 50),
    "batches-of-1000": worker("shared", 1000, 0.0, batch=1000),
    "delays": delayed,
    "after-an-outage": backlog(30_000, 20, 0.01),
    "restarts": restarts,
    "nearly-busy": worker("shared", 36, 0.025),
}
SLOW: dict[str, Play] = {
    "slow-shared": worker("shared", 60, 0.05),
    "slow-exclusive": worker("exclusive", 60, 0.05),
    "slow-failover": worker("failover", 60, 0.05),
    "slow-key-shared": worker("key_shared", 60, 0.05, keys=KEYS),
    "slow-batches": worker("shared", 60, 0.05, batch=10),
    "slow-20-s-each": worker("shared", 1, 20.0),
    "slow-small-queue": worker("shared", 60, 0.05, queue=1),
}


@dataclass(slots=True)
class Judged:
    """What a life was called, by each way. Changes in place."""

    told: dict[str, Counter[str]] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)

    def add(self, way: str, window: TopicWindow) -> None:
        """One verdict."""
        [observed] = window.subscriptions()
        found = diagnose(by_stats.subscription_view(observed), RULES, LIMITS)
        codes = [each.code for each in found.findings]
        pace = found.balance.pace if found.balance else ""
        named = " ".join((found.status, *codes, pace))
        text = "falls-behind" if "falls-behind" in codes else named
        self.told.setdefault(way, Counter())[text] += 1
        self.last[way] = text

    @property
    def found(self) -> bool:
        """Whether it was ever found to fall behind."""
        return any(counts["falls-behind"] for counts in self.told.values())


def judge(topics: dict[str, str], judged: dict[str, Judged], admin_url: str, folder: str) -> None:
    """All of them once, by each way."""
    file = f"{folder}/samples.jsonl.gz"
    done = doctor("stall-check", *topics.values(), "--window", "10s", "--admin-url", admin_url,
                  "--save", file, "-o", "jsonl")  # fmt: skip
    if done.code not in (0, 1, 3):
        print(done.err, file=sys.stderr)
        return
    names = {topic: name for name, topic in topics.items()}
    for whole in read(SampleFiles([file])).windows:
        samples = whole.window.samples
        parts = {"window": samples, "one": samples[:1], "two": (samples[0], samples[-1])}
        for way, given in parts.items():
            judged[names[whole.topic]].add(
                way, replace(whole, window=replace(whole.window, given=given))
            )


@contextmanager
def broker(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The one that is named, or one of its own."""
    if options.admin_url:
        yield options.service_url, options.admin_url
        return
    with running(reuse=False) as own:
        yield own.service_url, own.admin_url


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--only", help="of this name")
    parser.add_argument("--service-url")
    parser.add_argument("--admin-url")
    options = parser.parse_args()
    run, plays = uuid.uuid4().hex[:6], WELL | SLOW
    plays = {name: play for name, play in plays.items() if options.only in (None, name)}
    topics = {name: f"persistent://public/default/bal-{name}-{run}" for name in plays}
    judged = {name: Judged() for name in plays}
    with ExitStack() as held:
        service_url, admin_url = held.enter_context(broker(options))
        folder = held.enter_context(TemporaryDirectory())
        scenes = {n: held.enter_context(scene(service_url, admin_url, topics[n])) for n in plays}
        with ThreadPoolExecutor(len(plays)) as pool:
            for future in [pool.submit(play, scenes[name]) for name, play in plays.items()]:
                future.result()
        end = time.monotonic() + options.minutes * 60
        while time.monotonic() < end:
            began = time.monotonic()
            judge(topics, judged, admin_url, folder)
            time.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
        for one in scenes.values():
            one.closing.set()
    wrong = 0
    for name, each in judged.items():
        bad = each.found if name in WELL else "falls-behind" not in each.last.values()
        wrong += bad
        ways = "; ".join(f"{way}: {dict(counts)}" for way, counts in each.told.items())
        print(f"{'WRONG' if bad else '':5} {name:22} {ways}", flush=True)
    print(f"{wrong} wrong", flush=True)
    os._exit(min(wrong, 100))  # threads of clients may wait for ever


if __name__ == "__main__":
    main()
