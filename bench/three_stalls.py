"""Plays three stalls on a real broker and prints what stall-check says of them as they grow old.

    python bench/three_stalls.py [--ages 10,30,120,600] [--details]

The stalls: a slow worker with a receiver queue of 1000 beside an idle neighbour; a consumer that
takes everything and never acknowledges, until its limit; a consumer of Key_Shared that never takes
anything, beside one that works. Each is asked at each age in three ways: live for ten seconds, and
from what `pulsar-admin topics stats` prints at that moment, without and with `stats-internal`, with
nobody saying when that was. Printed: the verdict, how long the answer took, the first cause, or the
first suspect, with its consumer and address, and the first thing to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from measured import doctor

from pulsar_doctor.parts.sandbox.lifetime import running
from tests.scenarios.scene import SUBSCRIPTION, Scene, scene

SLOW_SECONDS, SLOW_MESSAGES, SLOW_QUEUE = 30.0, 900, 1000
FLOOD_PER_SECOND = 160.0
KEYED_PER_SECOND, KEYED_QUEUE = 10.0, 10
KEYS = [f"key-{number}" for number in range(40)]
WINDOW = "10s"


@dataclass(frozen=True, slots=True)
class Stall:
    """One of them. culprit: the consumer that an answer has to name."""

    name: str
    culprit: str
    play: Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said of a stall at an age. seconds: from the question to the answer."""

    stall: Stall
    age: float
    way: str
    seconds: float
    code: int
    entry: dict[str, Any]


def slow_hog(stage: Scene) -> None:
    """The slow one gets all there is; its neighbour comes after that."""
    stage.begin()
    stage.produce(SLOW_MESSAGES)
    hog = stage.consume("worker-slow", queue=SLOW_QUEUE)
    stage.until(lambda: stage.consumer("worker-slow")["unackedMessages"] == SLOW_MESSAGES)
    stage.work(hog, SLOW_SECONDS)
    stage.work(stage.consume("worker-idle", queue=SLOW_QUEUE))


def never_acknowledges(stage: Scene) -> None:
    """It takes whatever comes and acknowledges none of it."""
    stage.begin()
    stage.work(stage.consume("keeper", queue=1000), act=lambda consumer, message: None)
    stage.produce_on(FLOOD_PER_SECOND)


def stuck_keys(stage: Scene) -> None:
    """One of two never calls receive(); the other goes on with its own keys."""
    stage.begin("key_shared")
    stage.consume("ks-stuck", "key_shared", KEYED_QUEUE)
    stage.work(stage.consume("ks-ok", "key_shared", KEYED_QUEUE))
    stage.produce_on(KEYED_PER_SECOND, keys=KEYS)
    stage.until(lambda: stage.consumer("ks-stuck")["availablePermits"] == 0)


STALLS = (
    Stall("slow hog", "worker-slow", slow_hog),
    Stall("never acknowledges", "keeper", never_acknowledges),
    Stall("stuck keys", "ks-stuck", stuck_keys),
)


def asked(stall: Stall, age: float, way: str, arguments: list[str]) -> Answer:
    """One question, as a user types it."""
    began = time.monotonic()
    done = doctor("stall-check", *arguments, "-s", SUBSCRIPTION, "-o", "json")
    seconds = time.monotonic() - began
    found = json.loads(done.out)["subscriptions"] if done.out else []
    if not found:
        print(f"{stall.name} at {age:.0f} s, {way}: {done.err}", file=sys.stderr)
    return Answer(stall, age, way, seconds, done.code, found[0] if found else {})


def at_age(stall: Stall, stage: Scene, age: float, folder: Path) -> list[Answer]:
    """Messages now: of two files that are written at once, and of the next ten seconds."""
    files = []
    for what in ("stats", "internalStats"):
        files.append(folder / f"{stall.culprit}-{age:.0f}-{what}.json")
        files[-1].write_text(json.dumps(stage.read(what).document))
    stats, internal = map(str, files)
    one = ["--stats", stats]
    live = [stage.topic, "--window", WINDOW]
    return [
        asked(stall, age, "live", live),
        asked(stall, age, "stats", one),
        asked(stall, age, "stats+internal", [*one, "--internal-stats", internal]),
    ]


def followed(stall: Stall, stage: Scene, ages: list[float], folder: Path) -> list[Answer]:
    """Brings the stall about and asks at each age."""
    stall.play(stage)
    began, answers = time.monotonic(), []
    for age in ages:
        threading.Event().wait(max(0.0, began + age - time.monotonic()))
        answers += at_age(stall, stage, age, folder)
        for answer in answers[-3:]:
            print(line(answer), flush=True)
    return answers


def line(answer: Answer) -> str:
    """The answer in one line."""
    said, entry = first_of(answer.entry), answer.entry
    where = (said.get("where") or {}).get("address") or "no address"
    named = f"{said.get('code', 'nothing')} {said.get('consumer') or '-'} {where}"
    sure = said.get("confidence", said.get("probability"))
    at = f"{answer.stall.name:<18} {answer.age:>4.0f} s {answer.way:<14} {answer.seconds:4.1f} s"
    verdict = f"exit {answer.code} {entry.get('status', 'none'):<8}"
    right = "=" if said.get("consumer") == answer.stall.culprit else "/"
    return f"{at} {verdict} {right} {named} {sure}: {first_action(said)}"


def first_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The worst finding, or the first suspect; empty where there is neither."""
    said = [*entry.get("findings", ()), *entry.get("suspects", ())]
    return said[0] if said else {}


def first_action(said: dict[str, Any]) -> str:
    """What to do first, or what decides."""
    actions, decide = said.get("actions") or [], said.get("decide") or {}
    return (actions[0]["text"] if actions else decide.get("text")) or "nothing to do"


def details(answer: Answer) -> str:
    """All that a person reads of it."""
    said = first_of(answer.entry)
    texts = [
        f"    {name}: {said[name]}" for name in ("summary", "impact", "remedy") if name in said
    ]
    texts += [f"    {each['when']}: {each['text']}" for each in said.get("actions") or ()]
    return "\n".join([line(answer), *texts, *map("    not reported: {}".format, missing(answer))])


def missing(answer: Answer) -> list[str]:
    """Why it is not decided, where it is not."""
    return list(answer.entry.get("not_told", ())) if answer.entry.get("status") == "unknown" else []


def main(arguments: list[str]) -> int:
    """Plays them side by side; returns how many answers do not name the right consumer."""
    parser = argparse.ArgumentParser(prog="three_stalls", description=__doc__)
    parser.add_argument("--ages", default="10,30,120,600", help="seconds, with commas between")
    parser.add_argument("--details", action="store_true", help="all that is said, at the end")
    options = parser.parse_args(arguments)
    ages = [float(age) for age in options.ages.split(",")]
    folder = Path(tempfile.mkdtemp(prefix="pulsar-doctor-stalls-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = stack.enter_context(running(reuse=False))
        os.environ["PULSAR_DOCTOR_ADMIN_URL"] = broker.admin_url
        os.environ["PULSAR_DOCTOR_SERVICE_URL"] = broker.service_url
        stages = [
            stack.enter_context(
                scene(
                    broker.service_url,
                    broker.admin_url,
                    f"persistent://public/default/{s.play.__name__}",
                )
            )
            for s in STALLS
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(STALLS)))
        runs = [
            pool.submit(followed, s, at, ages, folder) for s, at in zip(STALLS, stages, strict=True)
        ]
        answers = [answer for run in runs for answer in run.result()]
    if options.details:
        print("\n\n".join(map(details, answers)))
    wrong = [
        answer
        for answer in answers
        if first_of(answer.entry).get("consumer") != answer.stall.culprit
    ]
    print(f"{len(answers) - len(wrong)} of {len(answers)} answers name the consumer first")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
