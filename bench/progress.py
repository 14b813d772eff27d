"""Holds verdicts against progress on a real broker: what was broken a minute ago, and what works.

    python bench/progress.py [--seed 56] [--count 100] {sick,well} ...
    python bench/progress.py table

sick: subscriptions that work, and of each of which one thing is changed at a random moment: a
consumer hangs, keeps what it takes, leaves, gives back, skips, seeks; a limit is set. well: the
same without a change, and what looks like trouble: bursts, checkpoints, batches, delays, long work,
restarts, consumers that come and go once, nights without a message, readers at the end.

table: states in which permits say one thing and progress another, after 11 s, 60 s and 5 min.

All of them are on one broker at the same time, at most ten messages a second each, and are judged
by namespace after twice both laws: a minute, and ten minutes for those to which messages are still
sent. A line for each at each, then how many there are of each status. Wrong is a sick one that is
healthy after the second law or names neither the changed consumer nor its cause then, and one that
is well and stalled at either. The exit code is how many are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import _pulsar
import pulsar
from measured import doctor

from pulsar_doctor.parts.sandbox.lifetime import running
from tests.scenarios.scene import Scene, scene

LAWS = 30.0, 300.0  # seconds for which held messages may rest: in silence, and without an ack
KEYS = tuple(f"key-{number}" for number in range(20))
TOGETHER = 64  # that are brought about at the same time
FIRST = "w0"  # of the workers the one that is changed
Play = Callable[["Life"], None]


@dataclass(slots=True)
class Life:
    """One subscription and its workers. Changes in place."""

    name: str
    what: str  # the change, or the way in which it is well
    random: random.Random
    stage: Scene | None = None
    changed: threading.Event = field(default_factory=threading.Event)
    kind: str = "shared"
    queue: int = 1000
    workers: int = 1
    seconds: float = 0.05  # of work on a message
    rate: float = 10.0  # messages a second
    batch: int = 1
    consumers: list[Any] = field(default_factory=list)

    @property
    def on(self) -> Scene:
        """Its scene."""
        assert self.stage is not None
        return self.stage

    def drawn(self) -> None:
        """Its shape, such that its workers keep up."""
        draw = self.random
        self.kind = draw.choice(["shared", "shared", "exclusive", "failover", "key_shared"])
        self.queue = draw.choice([1, 10, 100, 1000, 1000])
        self.workers = 1 if self.kind == "exclusive" else draw.choice([1, 1, 2, 3])
        self.rate = draw.choice([1, 2, 5, 10])
        self.seconds = draw.choice([0.0, 0.5 / self.rate])
        self.batch = draw.choice([1, 1, 10])

    def begin(self) -> None:
        """It works, and messages come."""
        self.on.begin(self.kind)
        for number in range(self.workers):
            self.attach(f"w{number}")
        self.on.produce_on(self.rate, self.batch, keys=KEYS if self.kind == "key_shared" else ())

    def attach(self, name: str, act: Callable[..., None] | None = None) -> Any:
        """One more consumer that works."""
        settings = {"negative_ack_redelivery_delay_ms": 1000}
        consumer = self.on.consume(name, self.kind, self.queue, **settings)
        self.consumers.append(consumer)
        self.on.work(consumer, self.seconds, act or (lambda c, m: self._done(name, c, m)))
        return consumer

    def _done(self, name: str, consumer: Any, message: Any) -> None:
        change = CHANGES.get(self.what) if self.changed.is_set() else None
        everybody = self.what in EVERYBODY or self.kind == "failover"  # one of them is active
        if change is None or (name != FIRST and not everybody):
            consumer.acknowledge(message)
        else:
            change(self, consumer, message)

    def change(self) -> None:
        """Breaks it."""
        self.changed.set()
        act = AT_ONCE.get(self.what)
        if act is not None:
            act(self)


def hangs(life: Life, consumer: Any, message: Any) -> None:
    """It never comes back from this message."""
    life.on.closing.wait()


def keeps(life: Life, consumer: Any, message: Any) -> None:
    """It takes messages and acknowledges no more."""


def gives_back(life: Life, consumer: Any, message: Any) -> None:
    consumer.negative_acknowledge(message)


def skips(life: Life, consumer: Any, message: Any) -> None:
    """Each fifth stays behind."""
    if life.random.random() > 0.2:
        consumer.acknowledge(message)


def slower(life: Life, consumer: Any, message: Any) -> None:
    """A message takes twenty seconds."""
    if not life.on.closing.wait(20):
        consumer.acknowledge(message)


def everybody_leaves(life: Life) -> None:
    for consumer in life.consumers:
        consumer.close()


def seeks(life: Life) -> None:
    """It goes back to the beginning each second."""

    def run() -> None:
        while not life.on.closing.wait(1):
            with suppress(_pulsar.PulsarException):
                life.consumers[0].seek(pulsar.MessageId.earliest)

    life.on.background(run)


def limited(life: Life) -> None:
    """Its dispatch rate is a tenth of what comes."""
    rate = {"dispatchThrottlingRateInMsg": 1, "dispatchThrottlingRateInByte": -1,
            "relativeToPublishRate": False, "ratePeriodInSecond": 10}  # fmt: skip
    life.on.policy("dispatchRate", rate)


# What a worker does with each message from the change on; of EVERYBODY all of them do.
CHANGES: dict[str, Callable[[Life, Any, Any], None]] = {
    "hangs": hangs, "all-hang": hangs, "keeps": keeps, "gives-back": gives_back, "skips": skips,
    "slower": slower,
}  # fmt: skip
EVERYBODY = frozenset({"all-hang"})
AT_ONCE: dict[str, Play] = {
    "leave": everybody_leaves,
    "seeks": seeks,
    "limited": limited,
}
# Codes that name the change where no consumer is to blame.
NAMES = {
    "leave": {"no-consumer"}, "keeps": {"ack-hole"},
    "seeks": {"consumers-come-and-go", "redelivery-storm"},
    "limited": {"dispatch-throttled", "broker-read-stuck"}, "gives-back": {"redelivery-storm"},
    "skips": {"ack-hole", "acks-held-back", "holes-over-limit"},
    "slower": {"prefetch-hogging", "slow-but-progressing", "falls-behind"}, "reader-hangs": set(),
}  # fmt: skip
SICK = ("hangs", "hangs", "hangs", "all-hang", "keeps", "leave", "gives-back", "skips", "slower",
        "seeks", "limited", "reader-hangs")  # fmt: skip


def works(life: Life) -> None:
    life.begin()


def slow_worker(life: Life) -> None:
    """A message a second, each at once, and a backlog that takes minutes."""
    life.seconds, life.rate, life.batch, life.queue = 1.0, 1.0, 1, life.random.choice([1, 100])
    life.begin()
    life.on.produce(100)


def bursts(life: Life) -> None:
    """A hundred messages each ten seconds or so, and nothing between."""
    life.rate, life.seconds = 0.001, min(life.seconds, 0.02)
    life.begin()
    every = life.random.choice([5, 10, 20])

    def run() -> None:
        while not life.on.closing.wait(every):
            life.on.produce(100)

    life.on.background(run)


def checkpoints(life: Life) -> None:
    """It takes all that comes, and acknowledges at checkpoints."""
    life.kind, life.workers, held = life.random.choice(["shared", "exclusive"]), 1, []
    every, life.seconds = life.random.choice([5, 10, 20]), 0.0
    life.on.begin(life.kind)
    consumer = life.attach(FIRST, lambda consumer, message: held.append(message))
    life.on.produce_on(life.rate)

    def run() -> None:
        while not life.on.closing.wait(every):
            for message in (done := held[:]):
                consumer.acknowledge(message)
            del held[: len(done)]

    life.on.background(run)


def batch_sink(life: Life) -> None:
    """It acknowledges a hundred at once."""
    life.workers, held = 1, []

    def act(consumer: Any, message: Any) -> None:
        held.append(message)
        if len(held) >= 100:
            for each in held:
                consumer.acknowledge(each)
            held.clear()

    life.rate, life.queue, life.seconds = 10, 1000, 0.0
    life.kind = life.random.choice(["shared", "failover"])
    life.on.begin(life.kind)
    life.attach(FIRST, act)
    life.on.produce_on(life.rate)


def long_jobs(life: Life) -> None:
    """Each message takes twenty seconds, one after the other."""
    life.seconds, life.queue, life.rate, life.batch = 20.0, 1, 0.04, 1
    life.begin()


def restarts(life: Life) -> None:
    """Its workers are restarted once, one after the other."""
    life.begin()

    def run() -> None:
        if life.on.closing.wait(life.random.uniform(20, 60)):
            return
        for consumer in list(life.consumers):
            consumer.close()
            life.attach(f"again-{len(life.consumers)}")

    life.on.background(run)


def joins(life: Life) -> None:
    """A consumer joins, and another one leaves later."""
    life.kind = life.random.choice(["shared", "key_shared", "failover"])
    life.begin()

    def run() -> None:
        if not life.on.closing.wait(life.random.uniform(10, 60)):
            life.attach("joins")
        if not life.on.closing.wait(life.random.uniform(5, 20)):
            life.consumers[0].close()

    life.on.background(run)


def delayed(life: Life) -> None:
    """Among others there are messages that are due in an hour, and some in half a minute."""
    life.kind = "shared"
    life.begin()
    for after in (30, 3600):
        life.on.produce(50, deliver_after=timedelta(seconds=after))


def night(life: Life) -> None:
    """It has worked, and nothing comes any more."""
    life.rate = 0.001
    life.begin()
    life.on.produce(200)


def few(life: Life) -> None:
    """A message each ten seconds."""
    life.rate, life.seconds = 0.1, 0.0
    life.begin()


def reader_at_the_end(life: Life) -> None:
    life.on.begin()
    life.on.consume("done").close()
    opened = life.on.client.create_reader(life.on.topic, pulsar.MessageId.earliest)
    life.on.admin.delete(f"{life.on.path}/subscription/s").raise_for_status()
    life.on.produce(50)
    for _ in range(50):
        opened.read_next(20_000)
    life.on.kept["reader"] = opened


def gives_few_back(life: Life) -> None:
    """One of twenty fails at first."""

    def act(consumer: Any, message: Any) -> None:
        if life.random.random() < 0.05:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)

    life.kind = "shared"
    life.on.begin(life.kind)
    life.attach(FIRST, act)
    life.on.produce_on(life.rate)


WELL: tuple[Play, ...] = (
    works, works, slow_worker, bursts, checkpoints, batch_sink, long_jobs, restarts, joins, delayed,
    night, few, reader_at_the_end, gives_few_back,
)  # fmt: skip


def reader_hangs(life: Life) -> None:
    """A reader that reads on, until it reads no more."""
    opened = life.on.client.create_reader(
        life.on.topic, pulsar.MessageId.earliest, receiver_queue_size=10
    )
    life.on.produce_on(life.rate)

    def run() -> None:
        while not (life.on.closing.is_set() or life.changed.is_set()):
            with suppress(_pulsar.Timeout):
                opened.read_next(200)

    life.on.background(run)


def reads_twenty(life: Life) -> None:
    """A reader that reads no more, with no permits left."""
    opened = life.on.client.create_reader(
        life.on.topic, pulsar.MessageId.earliest, receiver_queue_size=10
    )
    life.on.produce(700)
    for _ in range(20):
        opened.read_next(20_000)
    life.on.kept["reader"] = opened


def stops_after(
    kind: str, messages: int, take: int, *, queue: int = 1000, ack: bool = True
) -> Play:
    """It takes so many, acknowledges them, and takes one more and hangs; or takes and keeps."""

    def play(life: Life) -> None:
        life.on.begin(kind)
        life.on.produce(messages, keys=KEYS if kind == "key_shared" else ())
        consumer = life.on.consume(FIRST, kind, 1000)
        for message in life.on.take(consumer, take):
            if ack:
                consumer.acknowledge(message)
        if ack:
            life.on.take(consumer, 1)

    return play


def one_key_stuck(life: Life) -> None:
    """Two workers of twenty keys; one of them never comes back from one key."""

    def act(consumer: Any, message: Any) -> None:
        if message.partition_key() == KEYS[3] and life.changed.is_set():
            life.on.closing.wait()
        consumer.acknowledge(message)

    life.kind = "key_shared"
    life.on.begin(life.kind)
    for number in range(2):
        life.attach(f"w{number}", act)
    life.on.produce_on(20, keys=KEYS)
    life.changed.set()


def a_second_each(workers: int) -> Play:
    """A message a second, from a full queue of 1000, and nobody else."""

    def play(life: Life) -> None:
        life.kind, life.queue, life.seconds = "shared", 1000, 1.0
        life.on.begin(life.kind)
        life.on.produce(3000)
        for number in range(workers):
            life.attach(f"w{number}")

    return play


def seeks_on(life: Life) -> None:
    life.kind = "exclusive"
    life.on.begin(life.kind)
    life.on.produce(500)
    consumer = life.on.consume(FIRST, life.kind, 100)

    def run() -> None:
        while not life.on.closing.is_set():
            with suppress(_pulsar.PulsarException):
                for _ in range(20):
                    consumer.acknowledge(consumer.receive(2000))
                consumer.seek(pulsar.MessageId.earliest)

    life.on.background(run)


def reconnects_on(life: Life) -> None:
    life.on.begin()
    life.on.produce(500)

    def run() -> None:
        while not life.on.closing.is_set():
            with suppress(_pulsar.PulsarException):
                consumer = life.on.consume(FIRST, "shared", 100)
                for _ in range(20):
                    consumer.receive(2000)
                consumer.close()

    life.on.background(run)


TABLE: dict[str, Play] = {
    "a reader hangs with 0 permits": reads_twenty,
    "three acks, then silence, Shared": stops_after("shared", 300, 3),
    "three acks, then silence, Exclusive": stops_after("exclusive", 300, 3),
    "one key of twenty, Key_Shared": one_key_stuck,
    "a message a second, alone": a_second_each(1),
    "a message a second, two of them": a_second_each(2),
    "one taken, then hung": stops_after("shared", 2000, 0),
    "seeks all the time": seeks_on,
    "reconnects all the time": reconnects_on,
    "takes 2000 of 2000, acks none": stops_after("shared", 2000, 2000, ack=False),
}
AGES = (11.0, 60.0, 300.0)


def table() -> None:
    """Each state at each age."""
    with ExitStack() as held:
        broker = held.enter_context(running(reuse=False))
        named = {name.replace(" ", "-").replace(",", ""): play for name, play in TABLE.items()}
        settled = {}

        def bring(name: str, play: Play) -> None:
            life = Life(name, name, random.Random(0))
            topic = f"persistent://public/default/{name}"
            life.stage = held.enter_context(scene(broker.service_url, broker.admin_url, topic))
            play(life)
            settled[name] = time.monotonic()

        with ThreadPoolExecutor(len(named)) as pool:
            for future in [pool.submit(bring, *each) for each in named.items()]:
                future.result()
        for age in AGES:
            time.sleep(max(0, min(settled.values()) + age - time.monotonic()))
            began, verdicts = time.monotonic(), verdicts_by(broker.admin_url)
            for name in named:
                status, blamed = verdict_of(verdicts[name])
                line = f"{began - settled[name]:4.0f} s  {name:36} {status:8} {blamed[:120]}"
                print(line, flush=True)


def lives(part: str, seed: int, count: int) -> Iterator[tuple[Life, Play]]:
    """All of one part, the same for the same seed."""
    for number in range(count):
        own = random.Random(f"{seed} {part} {number}")
        if part == "sick":
            what = SICK[number % len(SICK)]
            play: Play = reader_hangs if what == "reader-hangs" else works
        else:
            play = WELL[number % len(WELL)]
            what = play.__name__.replace("_", "-")
        life = Life(f"{part}-{number:03}-{what}", what, own)
        life.drawn()
        if what == "seeks":
            life.workers = 1
        if what == "limited":
            life.rate, life.kind = 20, "shared"
        if what == "slower":
            life.queue, life.seconds = 1000, 0.0
        yield life, play


def verdict_of(found: dict[str, Any]) -> tuple[str, str]:
    """Its status, and what is to blame by its findings or its first suspect: codes, consumers."""
    suspects = [each for each in found["suspects"] if each["code"] != "healthy"]
    blamed = found["findings"] or suspects[:1]
    if found["status"] == "healthy" or not blamed:
        return found["status"], "; ".join(found["not_told"][:1])
    return found["status"], "; ".join(f"{each['code']} of {each['consumer']}" for each in blamed)


def is_right(life: Life, status: str, blamed: str) -> bool:
    if life.changed.is_set():
        codes = NAMES.get(life.what, set())
        by_code = any(f"{code} of" in blamed for code in codes)
        anyone = "reader" in life.what or life.what in EVERYBODY or life.kind == "failover"
        of_whom = anyone or f"of {FIRST}" in blamed
        return status != "healthy" and (by_code or of_whom)
    return status != "stalled"


def verdicts_by(admin_url: str) -> dict[str, dict[str, Any]]:
    """The verdict on each topic."""
    done = doctor("stall-check", "--namespace", "public/default", "-o", "json", "--window", "10s",
                  "--admin-url", admin_url)  # fmt: skip
    found = json.loads(done.out)["subscriptions"]
    return {str(each["topic"]).rpartition("/")[2]: each for each in found}


def judged(drawn: list[tuple[Life, Play]]) -> int:
    """Brings them about, changes the sick ones at random moments, and asks. How many are wrong."""
    with ExitStack() as held:
        broker = held.enter_context(running(reuse=False))

        def play(life: Life, how: Play) -> None:
            topic = f"persistent://public/default/{life.name}"
            life.stage = held.enter_context(scene(broker.service_url, broker.admin_url, topic))
            how(life)
            time.sleep(life.random.uniform(10, 30))
            if life.name.startswith("sick"):
                life.change()

        with ThreadPoolExecutor(TOGETHER) as pool:
            for future in [pool.submit(play, *each) for each in drawn]:
                future.result()
        changed, wrong = time.monotonic(), set()
        for law in LAWS:  # who is still sent messages may rest for as long as the second one
            time.sleep(max(0, changed + 2 * law + 5 - time.monotonic()))
            verdicts, statuses = verdicts_by(broker.admin_url), Counter[str]()
            for life, _ in drawn:
                found = verdicts.get(life.name)
                status, blamed = verdict_of(found) if found else ("not seen", "")
                right = is_right(life, status, blamed)
                if not right and (law == LAWS[-1] or not life.changed.is_set()):
                    wrong.add(life.name)
                statuses[f"{life.name[:4]} {status}"] += 1
                shape = f"{life.kind} q{life.queue} x{life.workers} {life.rate}/s b{life.batch}"
                line = f"{life.name:30} {shape:34} {2 * law:4.0f} s {status:8} {blamed[:80]}"
                print(f"{'' if right else 'WRONG':5} {line}", flush=True)
            counted = ", ".join(f"{number} {status}" for status, number in statuses.most_common())
            print(f"after {time.monotonic() - changed:.0f} s: {counted}", flush=True)
        print(f"{len(wrong)} wrong", flush=True)
    return len(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=("sick", "well", "table"))
    parser.add_argument("--seed", type=int, default=56)
    parser.add_argument("--count", type=int, default=100, help="of each part")
    options, wrong = parser.parse_args(), 0
    if "table" in options.parts:
        table()
    if parts := [part for part in options.parts if part != "table"]:
        wrong = judged([each for p in parts for each in lives(p, options.seed, options.count)])
    os._exit(min(wrong, 100))  # threads of clients may wait for ever


if __name__ == "__main__":
    main()
