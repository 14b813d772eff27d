"""Asks for every state of a real broker in every way as the state grows old, and prints a table.

    python bench/ways.py [--ages 15,60,300] [--without-analyze] [--keep FOLDER] [STATE ...]

The states: those of tests/scenarios, consumers that never acknowledge, and consumers that
acknowledge at checkpoints. All stand side by side on one broker, behind one tap. The ways: by
topic, by namespace, by one document, by the trace of the tap, and by `analyze` of that trace.
Thresholds are the defaults. An age counts from the moment when the state is settled. The exit code
is the number of sick states that are called healthy from the second age on, and of healthy ones
that are called stalled or more than once unknown.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from measured import doctor, table
from three_stalls import STALLS

from pulsar_doctor.cli import run
from pulsar_doctor.parts.analyze.session import Where, session
from pulsar_doctor.parts.sandbox.lifetime import running
from tests.parts.tap import tap_process
from tests.scenarios import SCENARIOS, Scene, limits
from tests.scenarios.scene import scene
from tests.scenarios.table import TURNS

AT_ONCE = 12  # states that are brought about at the same time
LOOK_SECONDS = 1.0
WAYS = ("topic", "namespace", "document", "trace", "analyze")
SIGNS = {"stalled": "S", "warning": "W", "unknown": "?", "healthy": "H", None: "-"}
# How many seconds a state lasts that ends by itself: a broker closes a dead client, a backlog ends.
LASTS = {
    "exclusive-zombie-key-shared": 15, "exclusive-zombie-failover": 15,
    "dispatch-throttled-subscription": 150, "dispatch-throttled-topic": 150,
}  # fmt: skip
Verdict = dict[str, Any]
Name = tuple[str, str]  # topic, subscription


def keeps_everything(stage: Scene, kind: str, messages: int, take: int, *, queue: int = 10) -> None:
    """It takes some messages, acknowledges none of them, and calls receive() no more."""
    stage.begin(kind)
    stage.produce(messages)
    stage.take(stage.consume("keeps", kind, queue), take)


def at_the_limit(stage: Scene) -> None:
    """Three consumers hold what the subscription may have in all, and have permits left."""
    stage.begin()
    stage.policy("maxUnackedMessagesOnSubscription", 60)
    stage.produce(200)
    for number in range(3):
        stage.work(stage.consume(f"holds-{number}", queue=100), act=lambda consumer, message: None)
    stage.until(lambda: stage.stats()["blockedSubscriptionOnUnackedMsgs"])


def skips_one(stage: Scene) -> None:
    """Ten messages a second, all acknowledged but the twentieth."""
    numbers = iter(range(1_000_000))

    def all_but_one(consumer: Any, message: Any) -> None:
        if next(numbers) != 20:
            consumer.acknowledge(message)

    stage.begin()
    stage.work(stage.consume("skips", queue=100), act=all_but_one)
    stage.produce_on(10)
    stage.until(lambda: stage.consumer("skips").get("msgOutCounter", 0) > 25)


def one_gives_back(stage: Scene) -> None:
    """Of two one acknowledges all, and the other gives back each message that it is sent."""
    stage.begin()
    stage.work(stage.consume("works", queue=100))
    fails = stage.consume("fails", queue=10, negative_ack_redelivery_delay_ms=1000)
    stage.work(fails, act=lambda consumer, message: consumer.negative_acknowledge(message))
    stage.produce_on(50)
    stage.until(lambda: stage.consumer("fails").get("msgOutCounter", 0) > 100)


def pool_without_bound(stage: Scene) -> None:
    """3,000 messages are handed to a pool of threads, which finishes one in 20 seconds."""
    stage.begin()
    stage.produce(3000)
    consumer = stage.consume("pool", queue=1000)
    taken = iter(stage.take(consumer, 3000))

    def finish() -> None:
        while not stage.closing.wait(20):
            consumer.acknowledge(next(taken))

    stage.background(finish)


def closes_with_all(stage: Scene) -> None:
    """It takes 200 messages, acknowledges none, and closes; nobody else is there."""
    stage.begin()
    stage.produce(200)
    consumer = stage.consume("closes", queue=100)
    stage.take(consumer, 200)
    consumer.close()


def checkpoints(stage: Scene, kind: str, every: float, *, delayed: bool = False) -> None:
    """Takes all that comes, and acknowledges it at checkpoints only."""
    stage.begin(kind)
    consumer = stage.consume("checkpoints", kind, 1000)
    held: list[Any] = []

    def checkpoint() -> None:
        while not stage.closing.wait(every):
            done = held[:]
            del held[: len(done)]
            for message in done if kind == "shared" else done[-1:]:
                if kind == "shared":
                    consumer.acknowledge(message)
                else:
                    consumer.acknowledge_cumulative(message)

    stage.work(consumer, act=lambda consumer, message: held.append(message))
    stage.background(checkpoint)
    if delayed:
        stage.produce(50, deliver_after=timedelta(hours=1))
    stage.produce_on(50)
    stage.until(
        lambda: (
            stage.stats()["consumers"] and stage.consumer("checkpoints").get("lastAckedTimestamp")
        )
    )


@dataclass(slots=True)
class State:
    """One state, and what was said of it by age and way. settled: by time.monotonic()."""

    name: str
    healthy: bool
    play: Callable[[Scene], None]
    during: Callable[[Scene], None] | None = None
    turn: int = 1
    stage: Scene | None = None
    settled: float = 0.0
    ages: dict[float, float] = field(default_factory=dict)
    said: dict[tuple[float, str], Verdict | None] = field(default_factory=dict)

    @property
    def full_name(self) -> Name:
        assert self.stage is not None
        return self.stage.topic, self.stage.subscription

    def due(self, age: float) -> bool:
        """Whether it is as old as that, and has not been asked for then."""
        return (
            bool(self.settled) and age not in self.ages and time.monotonic() >= self.settled + age
        )

    def over(self, age: float) -> bool:
        """Whether it has ended by itself by then."""
        return self.ages.get(age, age) > LASTS.get(self.name, 1e9)

    def letters(self, age: float) -> str:
        signs = "".join(_sign(self.said.get((age, way))) for way in WAYS)
        return f"{signs} {self.ages[age]:.0f}s" if age in self.ages else ""

    def status(self, age: float, way: str) -> str | None:
        verdict = self.said.get((age, way))
        return str(verdict["status"]) if verdict else None


def _sign(verdict: Verdict | None) -> str:
    return SIGNS[verdict["status"] if verdict else None]


def states() -> list[State]:
    """All that there are; what is much work first."""
    known = [
        State(each.name, each.expects.status == "healthy", each.play, each.during, each.turn)
        for each in SCENARIOS.values()
    ]
    known += [State(each.name.replace(" ", "-"), False, each.play) for each in STALLS]
    sick: dict[str, Callable[[Scene], None]] = {
        "exclusive-full-queue-never-acked": lambda s: keeps_everything(s, "exclusive", 60, 4),
        "takes-200-and-acks-none": lambda s: keeps_everything(s, "shared", 200, 200, queue=1000),
        "hangs-in-its-first": lambda s: keeps_everything(s, "shared", 200, 1, queue=1000),
        "failover-hangs-in-its-first": lambda s: keeps_everything(
            s, "failover", 200, 1, queue=1000
        ),
        "three-at-the-subscription-limit": at_the_limit,
        "skips-one-of-ten-a-second": skips_one,
        "one-of-two-gives-back": one_gives_back,
        "pool-without-bound": pool_without_bound,
        "closes-with-all-unacknowledged": closes_with_all,
        "compaction-fails": limits.compaction_fails,
    }
    well: dict[str, Callable[[Scene], None]] = {
        "healthy-checkpoints-of-10s-exclusive": lambda s: checkpoints(s, "exclusive", 10),
        "healthy-checkpoints-of-10s-failover": lambda s: checkpoints(s, "failover", 10),
        "healthy-checkpoints-of-30s-shared": lambda s: checkpoints(s, "shared", 30),
        "healthy-checkpoints-and-delayed": lambda s: checkpoints(s, "shared", 10, delayed=True),
    }
    known += [State(name, False, play) for name, play in sick.items()]
    known += [State(name, True, play) for name, play in well.items()]
    return sorted(known, key=lambda each: (each.turn, each.healthy))


@dataclass(frozen=True, slots=True)
class Asking:
    """Where to ask. trace: the folder of the tap's trace. later: what is judged in the end."""

    admin_url: str
    folder: Path
    trace: Path
    analyze: bool
    later: list[tuple[float, list[State], Path]] = field(default_factory=list)

    def ask(self, age: float, due: list[State]) -> None:
        """Asks the broker for them by topic and by namespace, and keeps what else is judged."""
        kept = self.folder / f"round-{len(self.later)}"
        kept.mkdir()
        self.later.append((age, due, kept))
        for state in due:
            assert state.stage is not None
            (kept / f"{state.name}.json").write_text(json.dumps(state.stage.read().document))
        shutil.copytree(self.trace, kept / self.trace.name)
        live = ("-o", "json", "--window", "10s", "--admin-url", self.admin_url)
        scopes = {
            "topic": [state.full_name[0] for state in due],
            "namespace": ["--namespace", "public/default"],
        }
        with ThreadPoolExecutor(2) as pool:
            runs = {w: pool.submit(doctor, "stall-check", *s, *live) for w, s in scopes.items()}
            for way, done in runs.items():
                enter(age, way, due, _by_name(done.result().out))

    def judge(self) -> None:
        """What was kept: the documents, and the trace as it was then, also by Spark."""
        for age, due, kept in self.later:
            for state in due:
                said = _ours("stall-check", "--stats", str(kept / f"{state.name}.json"))
                own = [v for v in _verdicts(said) if v["subscription"] == state.full_name[1]]
                state.said[age, "document"] = own[0] if own else None
            trace = str(kept / self.trace.name)
            enter(age, "trace", due, _by_name(_ours("stall-check", "--trace", trace)))
            if self.analyze:
                enter(age, "analyze", due, _by_name(_ours("analyze", trace)))


def enter(age: float, way: str, due: list[State], verdicts: dict[Name, Verdict]) -> None:
    """Notes what was said of each."""
    for state in due:
        state.said[age, way] = verdicts.get(state.full_name)


def _ours(*arguments: str) -> str:
    """What it writes, run in this process: `analyze` starts Spark once."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run([*arguments, "-o", "json", "-q"])
    return out.getvalue()


def _verdicts(out: bytes | str) -> list[Verdict]:
    document = json.loads(out or "{}")
    found: list[Verdict] = document.get("verdicts") or document.get("subscriptions", [])
    return found


def _by_name(out: bytes | str) -> dict[Name, Verdict]:
    return {(_full(each), each["subscription"]): each for each in _verdicts(out)}


def _full(verdict: Verdict) -> str:
    partition = verdict["partition"]
    return str(verdict["topic"]) + ("" if partition is None else f"-partition-{partition}")


def brought_about(
    all_states: list[State], url: str, admin_url: str, held: ExitStack
) -> Iterator[Any]:
    """Brings them about in the background, many at once; the last turn after the others."""

    def enter(state: State) -> None:
        topic = f"persistent://public/default/{state.name}"
        state.stage = held.enter_context(scene(url, admin_url, topic))
        state.play(state.stage)
        if state.during:
            state.during(state.stage)
        state.settled = time.monotonic()

    for turn in TURNS:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from [pool.submit(enter, state) for state in all_states if state.turn == turn]


def watch(all_states: list[State], ages: list[float], asking: Asking, playing: Future[Any]) -> None:
    """Asks for each state at each age."""
    while True:
        moments = {(s.name, age): s for s in all_states for age in ages if s.due(age)}
        for age in ages:
            due = [state for (_, at), state in moments.items() if at == age]
            if not due:
                continue
            began = time.monotonic()
            for state in due:
                state.ages[age] = began - state.settled
            asking.ask(age, due)
            told = ", ".join(f"{state.name} {state.letters(age)}" for state in due)
            print(f"[{time.monotonic() - began:.0f} s] {told}", file=sys.stderr, flush=True)
        settled = [state for state in all_states if state.settled]
        if playing.done() and all(len(state.ages) == len(ages) for state in settled):
            return
        time.sleep(LOOK_SECONDS)


def wrong(state: State, ages: list[float]) -> Iterator[str]:
    """What should not be, in sentences."""
    if state.healthy:
        said = Counter(state.status(age, way) for age in ages for way in WAYS)
        if said["stalled"]:
            yield f"{state.name}: {said['stalled']} times stalled"
        by_way = [way for way in WAYS if sum(state.status(a, way) == "unknown" for a in ages) > 1]
        if by_way:
            yield f"{state.name}: unknown more than once by {', '.join(by_way)}"
        return
    for age in ages[1:]:
        green = [way for way in WAYS if state.status(age, way) == "healthy"]
        if green and not state.over(age):
            yield f"{state.name} at {state.ages[age]:.0f} s: healthy by {', '.join(green)}"


def printed(all_states: list[State], ages: list[float]) -> int:
    """The table, and how many answers are wrong."""
    rows = [["state", *(f"{age:.0f} s" for age in ages)]]
    for healthy in (False, True):
        rows += [
            [s.name, *(s.letters(age) + (" over" if s.over(age) else "") for age in ages)]
            for s in sorted(all_states, key=lambda s: s.name) if s.healthy == healthy
        ]  # fmt: skip
    signs = ", ".join(f"{sign} {name or 'not seen'}" for name, sign in SIGNS.items())
    print(f"{signs}; by {', '.join(WAYS)}")
    print(table(rows))
    told = [line for state in all_states for line in wrong(state, ages)]
    print("\n".join(told or ["nothing is wrong"]))
    return len(told)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="STATE", help="only these")
    parser.add_argument("--ages", default="15,60,300", help="seconds, with commas between")
    parser.add_argument("--without-analyze", action="store_true", help="start no Spark")
    parser.add_argument("--keep", type=Path, help="a folder for documents, the trace and verdicts")
    asked = parser.parse_args()
    ages = [float(age) for age in asked.ages.split(",")]
    chosen = [state for state in states() if not asked.names or state.name in asked.names]
    with ExitStack() as held:
        folder = asked.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        broker = held.enter_context(running(reuse=False))
        trace = folder / "ways.ptrace"
        tap = held.enter_context(tap_process.running("--trace", str(trace), "-q", broker=broker))
        asking = Asking(broker.admin_url, folder, trace, not asked.without_analyze)
        pool = held.enter_context(ThreadPoolExecutor(1))
        with ExitStack() as scenes:
            playing = pool.submit(
                list, brought_about(chosen, tap.service_url, broker.admin_url, scenes)
            )
            watch(chosen, ages, asking, playing)
            for future in playing.result():
                if future.exception():
                    print(f"failed: {future.exception()!r}", file=sys.stderr)
        if not asked.without_analyze:
            held.enter_context(
                session(Where(master="local[2]", conf={"spark.driver.memory": "1g"}))
            )
        asking.judge()
        told = {s.name: {f"{age:.0f} {way}": v for (age, way), v in s.said.items()} for s in chosen}
        (folder / "verdicts.json").write_text(json.dumps(told))
    return printed(chosen, ages)


if __name__ == "__main__":
    sys.exit(main())
