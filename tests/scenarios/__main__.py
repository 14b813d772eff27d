"""Plays scenarios on the sandbox and records what brokers say: `python -m tests.scenarios record`.

Each becomes a file tests/states/VERSION/NAME.jsonl.gz, as `stall-check --save` writes them: eleven
samples, a second apart.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pulsar_doctor.broker.admin import Admin
from pulsar_doctor.broker.samples import Recorder, StatsAnswer
from pulsar_doctor.broker.sampling import SamplingPlan, sample
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.stats.observed import NO_LIMITS, TopicWindow
from pulsar_doctor.parts.sandbox.lifetime import Sandbox, running
from pulsar_doctor.wording.sizes import VERSION
from tests.scenarios import SCENARIOS, Scenario, Scene, stage

STATES = Path(__file__).parents[1] / "states"
SAMPLES = 11
DURING_AT = 4  # the sample before which `during` happens


def record(played: Scenario, broker: Sandbox, path: Path) -> None:
    """Stages it, samples the window and writes the file."""
    topic = f"persistent://public/default/{played.name}-{secrets.token_hex(3)}"
    with stage(played, broker.service_url, broker.admin_url, topic) as scene:
        answers = samples(played, scene)
        window = read_once(broker, topic) if played.conf else None
    with Recorder(path) as recorder:
        for each in answers:
            recorder.add(each)
        recorder.limits(answers[0].topic, NO_LIMITS, path.parent.name, window)


def read_once(broker: Sandbox, topic: str) -> TopicWindow:
    """One sample, with what the broker reports of transactions."""

    async def read() -> TopicWindow:
        async with Admin(Settings(admin_url=broker.admin_url)) as admin:
            return (await sample(admin, [topic], SamplingPlan(0))).windows[0]

    return asyncio.run(read())


def samples(played: Scenario, scene: Scene) -> list[StatsAnswer]:
    """One a second; what happens during the window happens on the way."""
    taken = []
    began = time.monotonic()
    for number in range(SAMPLES):
        time.sleep(max(0, began + number - time.monotonic()))
        if number == DURING_AT and played.during:
            played.during(scene)
        stats, internal = scene.read("stats"), scene.read("internalStats")
        taken.append(StatsAnswer(scene.topic, stats.date_ms, stats.document, internal.document))
    return taken


def main(arguments: list[str]) -> int:
    """Records the scenarios named, or all, in parallel; returns how many failed."""
    parser = argparse.ArgumentParser(prog="scenarios", description=__doc__)
    parser.add_argument("action", choices=["record", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--pulsar-version", default=VERSION)
    parser.add_argument("--at-once", type=int, default=8)
    options = parser.parse_intermixed_args(arguments)
    named = [SCENARIOS[name] for name in options.names or SCENARIOS]
    chosen = [each for each in named if each.is_of(options.pulsar_version)]
    if options.action == "list":
        for each in chosen:
            print(each.name, each.expects.status, each.expects.code or "", *each.settings)
        return 0
    conf = {name: value for s in chosen if s.conf for name, value in s.conf().items()}
    into = STATES / options.pulsar_version
    into.mkdir(exist_ok=True)
    with (
        running(reuse=False, version=options.pulsar_version, conf=conf) as broker,
        ThreadPoolExecutor(options.at_once) as pool,
    ):
        recorded = {
            each.name: pool.submit(record, each, broker, into / f"{each.name}.jsonl.gz")
            for each in chosen
        }
        return sum(not kept(name, future) for name, future in recorded.items())


def kept(name: str, future: Future[None]) -> bool:
    """False where the scenario failed, which is told on stderr."""
    if error := future.exception():
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    print(name, flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
