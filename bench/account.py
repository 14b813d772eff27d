"""Compares the account of still states of a real broker with the broker's own numbers.

    python bench/account.py [--pulsar-version VERSION] [--only TEXT]

Each state is brought about on one broker with a transaction coordinator. Then the account, with and
without internal statistics, is compared with what is counted here anew: entries by the positions of
stats-internal, analyze-backlog, and what the state's own script knows. A place is exact, inside its
bounds, or OUTSIDE. The exit code is the number of places and totals outside.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import _pulsar

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.sampling import SamplingPlan, sample
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.evidence.account import Account, account_of
from pulsar_doctor.evidence.by_stats import subscription_view
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.parts.sandbox.lifetime import running
from pulsar_doctor.wording.sizes import VERSION
from tests.clients import RealClient, starting
from tests.scenarios import SCENARIOS
from tests.scenarios.healthy import reader
from tests.scenarios.key_shared import KEYS
from tests.scenarios.limits import HOUR
from tests.scenarios.scene import Scene, scene

PLAN = SamplingPlan(1.0, 0.25)
STILL = ("msgBacklog", "unackedMessages", "msgInReplay", "msgDelayed", "msgOutCounter")
PATIENCE_SECONDS = 60
AT_ONCE = 6  # states
OPEN = None  # of a transaction: neither committed nor aborted

Entry = tuple[int, int]  # ledger, entry
Truth = dict[str, int]


@dataclass(frozen=True, slots=True)
class Played:
    """What a state has to play with."""

    scene: Scene
    java: RealClient
    alone: threading.Lock  # with the Java client, which obeys one order after another

    def order(self, **order: Any) -> None:
        """Has the Java client do it."""
        with self.alone:
            self.java.order(**order)

    def called(self, name: str) -> str:
        """The name of a consumer of the Java client, which no other state has."""
        return f"{name}-{self.scene.topic.rpartition('-')[2]}"

    def send(self, count: int, *, commit: bool | None = OPEN) -> None:
        """Sends so many messages in a transaction."""
        self.order(do="transact", topic=self.scene.topic, count=count, commit=commit)

    def acknowledge(self, name: str, count: int) -> None:
        """Takes so many messages and acknowledges them in a transaction that stays open."""
        self.order(do="transact", name=self.called(name), count=count, commit=OPEN)

    def subscribe(self, name: str, kind: str = "Shared", queue: int = 10) -> None:
        """A consumer of the Java client."""
        self.order(do="subscribe", topic=self.scene.topic, subscription=self.scene.subscription,
                   name=self.called(name), type=kind, queue=queue)  # fmt: skip


Play = Callable[[Played], Truth | None]  # what else it knows, if anything


@dataclass(frozen=True, slots=True)
class State:
    """A state, and how many entries are in places of which the broker reports none."""

    play: Play
    knows: Truth = field(default_factory=dict)


STATES: dict[str, State] = {}


def state(name: str, **knows: int) -> Callable[[Play], Play]:
    """Enters the decorated function. knows: entries by place, _ for -."""

    def enter(play: Play) -> Play:
        STATES[name] = State(play, {place.replace("_", "-"): n for place, n in knows.items()})
        return play

    return enter


def of_scenario(name: str) -> None:
    """Enters a scenario of the tests."""
    STATES[name] = State(lambda played: SCENARIOS[name].play(played.scene))


for each in (
    "no-consumer",
    "permits-exhausted-shared-hung",
    "permits-exhausted-batches-hung",
    "permits-exhausted-exclusive-after-acks",
):
    of_scenario(each)


@state("failover, active hung")
def _failover(played: Played) -> None:
    for name in ("a", "b"):
        played.scene.consume(name, "failover")
    played.scene.produce(60)


@state("key-shared, both hung")
def _key_shared(played: Played) -> None:
    for name in ("a", "b"):
        played.scene.consume(name, "key_shared")
    played.scene.produce(200, keys=KEYS)


@state("reader, half way")
def _reader(played: Played) -> None:
    played.scene.produce(50)
    reader(played.scene, 10)
    (played.scene.subscription,) = played.scene.read().document["subscriptions"]


@state("delayed among others", delayed=50)
def _delayed(played: Played) -> None:
    played.scene.consume("hung")
    played.scene.produce(50, deliver_after=HOUR)
    played.scene.produce(30)
    played.scene.until(lambda: played.scene.stats()["msgDelayed"] == 50)


@state("closed with messages in hand", replay=10)
def _replay(played: Played) -> None:
    holder = played.scene.consume("holder")
    played.scene.consume("hung")
    played.scene.produce(60)
    played.scene.until(lambda: played.scene.stats()["unackedMessages"] == 20)
    holder.close()


@state("shared, hung, unloaded")
def _unloaded(played: Played) -> None:
    played.scene.consume("hung")
    played.scene.produce(60)
    played.scene.until(lambda: played.scene.stats()["unackedMessages"] == 10)
    played.scene.unload()
    played.scene.until(lambda: played.scene.stats()["unackedMessages"] == 10)


@state("three ledgers, acks with gaps, nobody attached")
def _ledgers(played: Played) -> None:
    scene, consumer = played.scene, played.scene.consume("c", queue=100)
    for _ in range(3):
        scene.produce(20)
        scene.unload()
        scene.until(lambda: scene.consumer("c"))
    for message in scene.take(consumer, 60)[5:45:4]:
        consumer.acknowledge(message)
    scene.until(lambda: scene.stats()["msgBacklog"] == 50)
    consumer.close()


@state("batches, some acknowledged in part")
def _batches(played: Played) -> None:
    consumer = played.scene.consume("c", queue=100, batch_index_ack_enabled=True)
    played.scene.produce(40, batch=4)
    for message in played.scene.take(consumer, 40)[:6]:
        consumer.acknowledge(message)


@state("a producer's transaction is open", in_transaction=210)
def _producer(played: Played) -> None:
    played.subscribe("waits", queue=100)
    played.send(10)
    played.scene.produce(200)


@state("the same behind 50 readable ones", in_transaction=210)
def _producer_later(played: Played) -> None:
    played.subscribe("hung")
    played.scene.produce(50)
    _producer_of(played)


@state("a producer's transaction is open, nobody attached", in_transaction=210)
def _producer_alone(played: Played) -> None:
    played.scene.begin()
    _producer_of(played)


def _producer_of(played: Played) -> None:
    played.send(10)
    played.scene.produce(200)


@state("a producer's transaction was aborted, nobody attached")
def _aborted(played: Played) -> None:
    played.scene.begin()
    played.scene.produce(20)
    played.send(10, commit=False)


def _pending(name: str, kind: str, batch: int = 1) -> Play:
    def play(played: Played) -> None:
        played.subscribe(name, kind, 10 * batch)
        played.scene.produce(1000, batch=batch)
        played.acknowledge(name, 200)

    return play


state("shared, acks in an open transaction", pending_ack=200)(_pending("shared", "Shared"))
state("exclusive, the same", pending_ack=200)(_pending("exclusive", "Exclusive"))
state("key-shared, the same", pending_ack=200)(_pending("keys", "Key_Shared"))
state("batches of 4, the same", pending_ack=50)(_pending("batches", "Shared", 4))


@state("acks in an open transaction, consumer closed", pending_ack=200)
def _pending_alone(played: Played) -> None:
    consumer = played.scene.consume("leaves", queue=1)
    consumer.close()
    _pending("left", "Shared")(played)
    played.order(do="leave", name=played.called("left"))


@state("acks in an open transaction, another consumer came")
def _pending_after(played: Played) -> Truth:
    """It is sent them again on 2.11.0, and on later versions not."""
    _pending_alone(played)
    consumer, received = played.scene.consume("came", queue=5000), 0
    with suppress(_pulsar.Timeout):
        while consumer.receive(timeout_millis=5000):
            received += 1
    return {"pending-ack": 1000 - received}


# The broker's own numbers, counted here.


@dataclass(frozen=True, slots=True)
class Counted:
    """Of one subscription by stats, stats-internal and analyze-backlog."""

    total: int
    unread: int
    behind: int  # of the unread, behind maxReadPosition
    stats: Mapping[str, Any]


def counted(played: Scene) -> Counted:
    """Entries that are not acknowledged, one by one."""
    internal = played.read("internalStats").document
    topic = played.read().document
    cursor = internal["cursors"][played.subscription]
    waiting = set(entries_of(internal)) - set(acked_of(internal, cursor))
    unread = {each for each in waiting if each >= position(cursor["readPosition"])}
    behind = 0
    if topic.get("ongoingTxnCount"):
        behind = sum(each > readable(played) for each in unread)
    stats = topic["subscriptions"][played.subscription]
    return Counted(len(waiting), len(unread), behind, stats)


def entries_of(internal: Mapping[str, Any]) -> Iterator[Entry]:
    """All that are stored; of the ledger being written, up to the last confirmed one."""
    last = position(internal["lastConfirmedEntry"])
    for ledger in internal["ledgers"]:
        number = ledger["ledgerId"]
        count = last[1] + 1 if number == last[0] else ledger["entries"] if number < last[0] else 0
        yield from ((number, entry) for entry in range(count))


def acked_of(internal: Mapping[str, Any], cursor: Mapping[str, Any]) -> Iterator[Entry]:
    """Up to mark-delete, and in ranges that begin behind their first position."""
    done = position(cursor["markDeletePosition"])
    ranges = re.findall(
        r"\((-?\d+:-?\d+)(?:\.\.|‥)(-?\d+:-?\d+)\]", cursor["individuallyDeletedMessages"]
    )
    bounds = [((-1, -1), done), *((position(a), position(b)) for a, b in ranges)]
    for entry in entries_of(internal):
        if any(begin < entry <= end for begin, end in bounds):
            yield entry


def position(text: str) -> Entry:
    """Of ledger:entry."""
    ledger, entry = text.split(":")
    return int(ledger), int(entry)


def readable(played: Scene) -> Entry:
    """maxReadPosition of the topic."""
    path = played.path.replace("/v2/persistent", "/v3/transactions/transactionBufferStats")
    return position(played.admin.get(path).raise_for_status().json()["maxReadPosition"])


def analyzed(played: Scene) -> int | None:
    """Entries by analyze-backlog, which moves the read position of a cursor on 2.11.0."""
    path = f"{played.path}/subscription/{played.subscription}/analyzeBacklog"
    answer = played.admin.post(path, content="null", headers={"Content-Type": "application/json"})
    return int(answer.json()["entries"]) if answer.is_success else None


def settled(played: Scene) -> Counted:
    """Once nothing has moved for two seconds."""
    before, since = None, time.monotonic()
    until = since + PATIENCE_SECONDS
    while time.monotonic() - since < 2:
        if time.monotonic() > until:
            raise TimeoutError("it does not settle")
        now = [played.stats().get(name) for name in STILL]
        cursor = played.read("internalStats").document["cursors"][played.subscription]
        now += [cursor["readPosition"], cursor["markDeletePosition"]]
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.2)
    return counted(played)


# The comparison.


def truth_of(known: Truth, of: Counted) -> Truth:
    """Entries of each place. What was read and is nowhere else is with consumers.

    Where nobody is attached all of it is read anew by whoever comes.
    """
    behind, delayed = known.get("in-transaction", 0), known.get("delayed", 0)
    if not of.stats["consumers"]:
        return {"in-transaction": behind, "unread": of.total - behind - delayed, "delayed": delayed}
    pending = known.get("pending-ack", 0)
    read = of.total - of.unread - delayed - pending
    replay = known.get("replay", of.stats.get("msgInReplay"))
    if replay is None:  # not reported: of single messages, what is not with consumers
        ordered = of.stats["type"] == "Key_Shared"
        replay = max(0, read - of.stats["unackedMessages"]) if ordered else 0
    return {
        "in-transaction": behind,
        "unread": of.unread - behind,
        "delayed": delayed,
        "replay": replay,
        "held": read - replay,
        "pending-ack": pending,
        "unaccounted": 0,
    }


def compared(account: Account, truth: Truth, total: int) -> Iterator[tuple[str, str]]:
    """Each place and the total: how it is, and a text."""
    yield judged("total", account.total, total)
    truth = dict(truth)
    if any(each.name == "unsent" for each in account.places):
        merged = ("in-transaction", "unread", "pending-ack", "unaccounted")
        truth["unsent"] = sum(truth.pop(name, 0) for name in merged)
    for name, entries in truth.items():
        found = [place.entries for place in account.places if place.name == name]
        if found or entries:
            yield judged(name, summed(found), entries)
    if account.contradiction:
        yield "OUTSIDE", f"contradiction: {account.contradiction}"


def summed(counts: list[Count | None]) -> Count | None:
    """Of all consumers; None where one is not reported."""
    if None in counts:
        return None
    known = [each for each in counts if each is not None]
    most = [each.most for each in known if each.most is not None]
    least = sum(each.least or 0 for each in known)
    return Count(least, sum(most) if len(most) == len(known) else None)


def judged(name: str, count: Count | None, truth: int) -> tuple[str, str]:
    if count is None:
        return "not reported", f"{name} not reported ({truth})"
    if count.exact == truth:
        return "exact", f"{name} {truth}"
    upper = float("inf") if count.most is None else count.most
    how = "inside" if (count.least or 0) <= truth <= upper else "OUTSIDE"
    mark = "" if how == "inside" else " OUTSIDE"
    return how, f"{name} {count.least or 0}..{count.most} ({truth}{mark})"


def observed(played: Scene) -> Observed:
    """As the program reads it."""

    async def reading() -> tuple[TopicWindow, ...]:
        async with Admin(Settings(admin_url=str(played.admin.base_url))) as admin:
            return (await sample(admin, [played.topic], PLAN)).windows

    (window,) = asyncio.run(reading())
    found = {each.subscription: each for each in window.subscriptions()}
    return found[played.subscription]


def without_internal(of: Observed) -> Observed:
    """The same by statistics alone."""
    samples = tuple(replace(each, internal=None) for each in of.window.samples)
    return replace(of, window=replace(of.window, given=samples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pulsar-version", default=VERSION)
    parser.add_argument("--only", default="", help="states with this text in their names")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    conf = {"transactionCoordinatorEnabled": "true"}
    with (
        running(reuse=False, conf=conf, version=asked.pulsar_version) as sandbox,
        tempfile.TemporaryDirectory() as folder,
        starting("java", Path(folder), sandbox.service_url, transactions=True) as java,
    ):
        names = [name for name in STATES if asked.only in name]
        alone = threading.Lock()

        def lines(name: str) -> list[str]:
            topic = f"persistent://public/default/account-{names.index(name)}"
            with scene(sandbox.service_url, sandbox.admin_url, topic) as played:
                return list(lines_of(Played(played, java, alone), STATES[name], counts))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for name, found in zip(names, pool.map(lines, names), strict=True):
                for line in found:
                    print(f"{asked.pulsar_version:8} {name:50} {line}", flush=True)
    print(f"{asked.pulsar_version}: {dict(counts)}")
    sys.exit(counts["OUTSIDE"])


def lines_of(played: Played, of: State, counts: Counter[str]) -> Iterator[str]:
    """One state by both sources."""
    try:
        knows = of.knows | (of.play(played) or {})
        truth = settled(played.scene)
    except Exception as error:  # a version that cannot be in it
        counts["states not had"] += 1
        yield f"not had: {type(error).__name__}: {error}"[:200]
        return
    counts["states"] += 1
    seen = observed(played.scene)
    for source, each in (("internal", seen), ("statistics", without_internal(seen))):
        account = account_of(subscription_view(each))
        found = list(compared(account, truth_of(knows, truth), truth.total))
        counts.update(how for how, _ in found)
        yield f"{source:10} {', '.join(text for _, text in found)}"
    known = analyzed(played.scene)
    yield f"broker     analyze-backlog {known}, positions {truth.total}, behind {truth.behind}"


if __name__ == "__main__":
    main()
