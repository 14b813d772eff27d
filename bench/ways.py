"""Says what each way of asking says of the same states of a real broker, and prints a table.

    python bench/ways.py [--ages 20,90] [--keep FOLDER] [STATE ...]

The states: those of tests/scenarios that stand beside others, on one broker of their own and behind
one tap. An age counts from the moment when the last of them is settled. At each one all are read
once, for ten seconds: the ways by statistics are that window, and what is left of it where somebody
has less in hand. The others are the last round of a watch that began with the first state, and, at
the last age, the trace of the tap. Thresholds are the defaults. A line for each state, then how
many of the healthy and of the others each way calls what. The exit code is how many states are
called wrong: healthy ones stalled, and others healthy at the last age, by any way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from calibration.states import cuts
from measured import doctor, table

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.parts.sandbox.lifetime import running
from tests.incidents.asking import LIMITS, RULES
from tests.parts.tap import tap_process
from tests.scenarios import SCENARIOS
from tests.scenarios.scene import SUBSCRIPTION, Scene, scene
from tests.scenarios.table import TURNS, Scenario

TOGETHER = 48  # states that are brought about at the same time
NAMESPACE = "public/default"
BY_STATS = ("window 10 s", "window, stats alone", "two documents", "one document, --at",
            "one document, internal, --at", "one document", "one document, internal")  # fmt: skip
WAYS = (*BY_STATS, "watch", "trace")
SIGNS = {"healthy": "H", "unknown": "?", "warning": "W", "stalled": "S", None: "-"}
# How many seconds a state lasts that ends by itself: a broker closes a dead client, a backlog ends.
LASTS = {
    "exclusive-zombie-key-shared": 15, "exclusive-zombie-failover": 15,
    "dispatch-throttled-subscription": 150, "dispatch-throttled-topic": 150,
}  # fmt: skip


@dataclass(slots=True)
class State:
    """One state, and what was said of it by age and way. settled: by time.monotonic()."""

    of: Scenario
    settled: float = 0.0
    over: set[float] = field(default_factory=set)  # ages at which it has ended by itself
    said: dict[tuple[float, str], str] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        return self.of.expects.status == "healthy"

    def signs(self, age: float) -> str:
        known = "".join(SIGNS[self.said.get((age, way))] for way in WAYS)
        return known + (" over" if age in self.over else "")

    def wrong(self, age: float, *, last: bool) -> list[str]:
        """The ways that say what they should not."""
        never = "stalled" if self.healthy else "healthy" if last and age not in self.over else ""
        return [way for way in WAYS if self.said.get((age, way)) == never]


def brought_about(
    states: dict[str, State], url: str, admin_url: str, held: ExitStack
) -> list[Scene]:
    """Brings them about, many at once; the last turn after the others. What fails is left out."""
    stages: list[Scene] = []

    def enter(name: str, state: State) -> None:
        topic = f"persistent://{NAMESPACE}/{name}"
        stage = held.enter_context(scene(url, admin_url, topic))
        stages.append(stage)
        state.of.play(stage)
        if state.of.during:
            state.of.during(stage)
        state.settled = time.monotonic()

    for turn in TURNS:
        with ThreadPoolExecutor(TOGETHER) as pool:
            due = {n: pool.submit(enter, n, s) for n, s in states.items() if s.of.turn == turn}
        for name, done in due.items():
            if error := done.exception():
                print(f"left out: {name}: {error!r}"[:200], file=sys.stderr)
                del states[name]
    return stages


def judge_stats(states: dict[str, State], age: float, samples: Path) -> None:
    """Enters what is said by the window, and by what is left of it."""
    for topic in read(SampleFiles([str(samples)])).windows:
        if (state := states.get(_state(topic.topic))) is None:
            continue
        ours_last = sorted(topic.subscriptions(), key=lambda one: one.subscription == SUBSCRIPTION)
        for way, cut in (each for observed in ours_last for each in cuts(observed)):
            verdict = diagnose(by_stats.subscription_view(cut), RULES, LIMITS)
            state.said[age, way] = verdict.status


def enter(states: dict[str, State], age: float, way: str, verdicts: list[dict[str, Any]]) -> None:
    """Enters the last verdict on each topic; a reader is on one alone."""
    for each in sorted(verdicts, key=lambda each: each["subscription"] == SUBSCRIPTION):
        if state := states.get(_state(str(each["topic"]))):
            state.said[age, way] = each["status"]


def _state(topic: str) -> str:
    return topic.rpartition("/")[2].partition("-partition-")[0]


def lines_of(out: str) -> Iterator[dict[str, Any]]:
    """The verdicts of -o jsonl; a line may not be whole yet."""
    for line in out.splitlines():
        with suppress(json.JSONDecodeError):
            document = json.loads(line)
            if "topic" in document and "status" in document:
                yield document


def asked(states: dict[str, State], ages: list[float], folder: Path) -> None:
    """Brings all about, and asks at each age; what needs no broker is judged at the end."""
    trace, kept = folder / "ways.ptrace", [folder / f"{age:g}" for age in ages]
    with ExitStack() as held:
        broker = held.enter_context(running(reuse=False))
        tap = held.enter_context(tap_process.running("--trace", str(trace), "-q", broker=broker))
        live = ("--namespace", NAMESPACE, "--admin-url", broker.admin_url)
        command = (sys.executable, "-m", "pulsar_doctor", "stall-check", "--watch", "--every",
                   "15s", "--window", "5s", "-o", "jsonl", *live)  # fmt: skip
        scenes = ExitStack()  # never closed: that takes minutes, and they end with this process
        rounds = folder / "watch.jsonl"
        with rounds.open("w") as out, (folder / "watch.err").open("w") as err:
            watch = subprocess.Popen(command, stdout=out, stderr=err)
        held.callback(watch.wait)
        held.callback(watch.terminate)
        stages = brought_about(states, tap.service_url, broker.admin_url, scenes)
        settled = time.monotonic()
        for age, kept_at in zip(ages, kept, strict=True):
            kept_at.mkdir()
            time.sleep(max(0.0, settled + age - time.monotonic()))
            doctor("stall-check", *live, "--window", "10s", "--save", str(kept_at / "samples"))
            now = time.monotonic()
            for name, state in states.items():
                if now - state.settled > LASTS.get(name, 1e9):
                    state.over.add(age)
            enter(states, age, "watch", [*lines_of(rounds.read_text())])
            if age == ages[-1]:
                shutil.copytree(trace, kept_at / trace.name)
            print(f"asked {now - settled:.0f} s after all were settled", file=sys.stderr)
        for stage in stages:
            stage.closing.set()  # before the broker ends
    for age, kept_at in zip(ages, kept, strict=True):
        judge_stats(states, age, kept_at / "samples")
    said = doctor("stall-check", "--trace", str(kept[-1] / trace.name), "-o", "jsonl")
    enter(states, ages[-1], "trace", [*lines_of(said.out.decode())])


def printed(states: dict[str, State], ages: list[float]) -> int:
    """The tables, and how many states are called wrong."""
    signs = ", ".join(f"{sign} {name or 'not seen'}" for name, sign in SIGNS.items())
    print(f"{signs}; in this order: {'; '.join(WAYS)}")
    ordered = sorted(states.items(), key=lambda each: (each[1].healthy, each[0]))
    rows = [[name, *(state.signs(age) for age in ages)] for name, state in ordered]
    print(table([["state", *(f"{age:g} s" for age in ages)], *rows]))
    counts = [["way", *(f"{part} at {a:g} s" for a in ages for part in ("healthy", "others"))]]
    for way in WAYS:
        told = [
            Counter(SIGNS[s.said.get((age, way))] for _, s in ordered
                    if s.healthy == healthy and age not in s.over)
            for age in ages for healthy in (True, False)
        ]  # fmt: skip
        counts.append([way, *(" ".join(f"{n} {s}" for s, n in sorted(t.items())) for t in told)])
    print(table(counts))
    wrong = 0
    for name, state in ordered:
        for age in ages:
            if ways := state.wrong(age, last=age == ages[-1]):
                wrong += 1
                print(f"WRONG {name} at {age:g} s: {', '.join(ways)}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="STATE", help="only these")
    parser.add_argument("--ages", default="20,90", help="seconds, with commas between")
    parser.add_argument("--keep", type=Path, help="a folder for samples, traces and the watch")
    options = parser.parse_args()
    ages = [float(age) for age in options.ages.split(",")]
    states = {
        each.name: State(each)
        for each in SCENARIOS.values()
        if each.is_of(None) and each.conf is None and each.name in (options.names or SCENARIOS)
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        asked(states, ages, folder)
    return printed(states, ages)


if __name__ == "__main__":
    wrong = main()
    sys.stdout.flush()
    os._exit(min(wrong, 100))
