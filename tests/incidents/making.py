"""A script from a seed: who consumes what and how, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from pulsar_doctor.model.scenario import ProducedEntry
from tests.incidents.script import SECOND, Acks, Goes, Script, Worker

QUEUES = (0, 1, 1, 2, 3, 5, 10, 10, 20, 50, 100, 100, 500, 1000, 1000, 1000, 5000)
CLIENTS = ("java", "java", "pulsar-client", "pulsar-client", "pulsar-client-listener", "go")
TYPES = ("shared",) * 9 + ("key_shared",) * 4 + ("failover",) * 4 + ("exclusive",) * 3
ACKS: tuple[Acks, ...] = ("each", "each", "each", "groups")
IN_ORDER: tuple[Acks, ...] = ("each", "cumulative", "cumulative")  # one consumer has them all
GOES: tuple[Goes, ...] = ("closes", "loses")
ENTRIES_MOST = 400
LOOKS = 2

Trouble = Callable[[Random, Script, int], Script]


def made(seed: int, soonest: float = 2) -> Script:
    """The script of this seed; the same one, always. soonest: seconds before anybody looks."""
    random = Random(seed)
    script = healthy(random, seed)
    at_ns = int(log(random, 1, 600) * SECOND)
    trouble = random.choice(list(TROUBLES))
    script = replace(TROUBLES[trouble](random, script, at_ns), trouble=trouble)
    from_ns = 0 if trouble == "none" else at_ns
    return replace(script, moments_ns=moments(random, from_ns, soonest=soonest))


def log(random: Random, least: float, most: float) -> float:
    """A number whose logarithm is even: as often from 1 to 10 as from 10 to 100."""
    return float(least * (most / least) ** random.random())


def moments(
    random: Random, from_ns: int, oldest: float = 7200, soonest: float = 2
) -> tuple[int, ...]:
    """When it is looked at: soon and late after the trouble. Odd, so that nothing coincides."""
    ages = sorted(log(random, soonest, oldest) for _ in range(LOOKS))
    return tuple(sorted({from_ns + int(age * SECOND) + 137_111 for age in ages}))


def healthy(random: Random, seed: int) -> Script:
    """A subscription on which nothing is wrong."""
    type_ = random.choice(TYPES)
    count = 1 if type_ == "exclusive" else random.choice((1, 1, 2, 2, 3, 5))
    batch = random.choice((1, 1, 1, 1, 1, 2, 10, 50, 100))
    worker = _worker(random, type_, batch)
    workers = [replace(worker, name=f"worker-{number + 1}") for number in range(count)]
    if random.random() < 0.2:
        workers = [
            replace(_worker(random, type_, batch), name=each.name, client=each.client)
            for each in workers
        ]
    workers = [replace(each, attach_ns=random.randrange(SECOND)) for each in workers]
    script = Script(seed, type_, tuple(workers), (), (), delay_ns=_delay_ns(random))
    return replace(script, entries=_entries(random, script, batch))


def _delay_ns(random: Random) -> int:
    return random.choice((10, 60, 600)) * SECOND if random.random() < 0.04 else 0


def _worker(random: Random, type_: str, batch: int) -> Worker:
    queue = random.choice(QUEUES)
    client = random.choice(CLIENTS)
    if not queue and client == "go":
        client = "java"
    if not queue and batch > 1:
        client = "pulsar-client"
    acks: Acks = random.choice(ACKS)
    if type_ in ("exclusive", "failover"):
        acks = random.choice(IN_ORDER)
    group = 1 if acks == "each" else random.choice((1, 2, 5, 20))
    hands = random.choice((1, 1, 1, 1, 4, 16)) if queue and acks != "cumulative" else 1
    if not queue:
        group = 1
    return Worker(
        "", client, queue, int(log(random, 0.1, 600) * SECOND), random.choice((0.0, 0.0, 0.3)),
        hands, acks, min(group, max(1, queue)),
    )  # fmt: skip


def _entries(random: Random, script: Script, batch: int) -> tuple[ProducedEntry, ...]:
    """A burst, two of them, or a steady stream; at most so many that it stays quick."""
    room = sum(worker.queue or 1 for worker in script.workers)
    most = 1500 if random.random() < 0.08 else ENTRIES_MOST
    wanted = int(room * log(random, 0.1, 8)) + random.choice((0, 1, 3, 10, 30))
    count = max(1, min(most, wanted // batch))
    if random.random() < 0.05:
        count = 0
    times = _times(random, script, count)
    keys = random.choice((1, 3, 8))
    return tuple(
        ProducedEntry(number, at, at, number * batch, batch, random.randrange(keys))
        for number, at in enumerate(times)
    )


def _times(random: Random, script: Script, count: int) -> list[int]:
    kind = random.choice(("burst", "burst", "late", "two", "steady"))
    if kind == "burst":
        return [0] * count
    if kind == "late":
        return [2 * SECOND] * count
    if kind == "two":
        second = int(log(random, 3, 1800) * SECOND)
        return [0] * (count // 2) + [second] * (count - count // 2)
    per_second = sum(worker.hands * SECOND / worker.work_ns for worker in script.workers)
    step = int(SECOND / (per_second * log(random, 0.2, 3)))
    return [step * number for number in range(count)]


# What goes wrong, from a moment on.


def some(random: Random, script: Script, change: Callable[[Worker], Worker], all_: float) -> Script:
    """One worker changes, or all of them."""
    chosen = random.randrange(len(script.workers))
    everybody = random.random() < all_
    workers = [
        change(worker) if everybody or number == chosen else worker
        for number, worker in enumerate(script.workers)
    ]
    return replace(script, workers=tuple(workers))


def _hangs(random: Random, script: Script, at_ns: int) -> Script:
    return some(random, script, lambda worker: replace(worker, hangs_ns=at_ns), 0.3)


def _hung_from_the_start(random: Random, script: Script, at_ns: int) -> Script:
    return some(random, script, lambda worker: replace(worker, hangs_ns=0), 0.3)


def _paused(random: Random, script: Script, at_ns: int) -> Script:
    at_ns = random.choice((0, at_ns))
    return some(random, script, lambda worker: replace(worker, paused_ns=at_ns), 0.3)


def _slows(random: Random, script: Script, at_ns: int) -> Script:
    work_ns = int(log(random, 0.1, 600) * SECOND)
    return some(random, script, lambda worker: replace(worker, slows=(at_ns, work_ns)), 0.3)


def _never_acks(random: Random, script: Script, at_ns: int) -> Script:
    return some(random, script, lambda worker: replace(worker, acks="never"), 0.5)


def _nacks(random: Random, script: Script, at_ns: int) -> Script:
    if script.type in ("exclusive", "failover"):
        return script
    share, after = random.choice((0.1, 0.5, 1.0)), random.choice((5, 20, 60)) * SECOND
    return replace(
        some(random, script, lambda worker: replace(worker, nacks=share, nack_ns=after), 0.5),
        entries=script.entries[:20],
    )


def _leaves(random: Random, script: Script, at_ns: int) -> Script:
    goes: Goes = random.choice(GOES)
    chosen = random.randrange(len(script.workers))
    leaver = replace(script.workers[chosen], leave_ns=at_ns + SECOND, goes=goes)
    workers = [*script.workers]
    workers[chosen] = leaver
    if random.random() < 0.5:
        back_ns = at_ns + SECOND + int(log(random, 0.1, 100) * SECOND)
        name = random.choice((leaver.name, f"{leaver.name}-again"))
        again = replace(leaver, name=name, attach_ns=back_ns, leave_ns=None)
        workers.append(again)
    return replace(script, workers=tuple(workers))


def _joins(random: Random, script: Script, at_ns: int) -> Script:
    """Somebody comes late, perhaps beside one that hangs."""
    if script.type == "exclusive":
        return script
    if random.random() < 0.5:
        script = _hung_from_the_start(random, script, at_ns)
    late = replace(
        script.workers[0], name="late", attach_ns=at_ns, hangs_ns=None, work_ns=SECOND // 2
    )
    return replace(script, workers=(*script.workers, late))


def _limit(random: Random, script: Script, at_ns: int) -> Script:
    """A limit of unacknowledged messages that is reached, with or without a hang."""
    limit = random.choice((5, 10, 20, 50))
    if random.choice(("consumer", "subscription")) == "consumer":
        script = replace(script, consumer_limit=limit)
    else:
        script = replace(script, subscription_limit=limit)
    return random.choice((_hangs, _never_acks, _slows))(random, script, at_ns)


def _none(random: Random, script: Script, at_ns: int) -> Script:
    return script


TROUBLES: dict[str, Trouble] = {
    "none": _none,
    "hangs": _hangs,
    "hung from the start": _hung_from_the_start,
    "paused": _paused,
    "slows": _slows,
    "never acks": _never_acks,
    "nacks": _nacks,
    "leaves": _leaves,
    "joins": _joins,
    "limit": _limit,
}
