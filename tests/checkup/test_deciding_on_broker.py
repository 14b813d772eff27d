"""`stall-check --decide` on real states: most of what one sample leaves open is decided."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.checkup.test_stall_check_on_broker import IN_ORDER, staged
from tests.scenarios import Scenario, Scene, stage
from tests.scenarios.scene import acknowledge
from tests.scenarios.table import DEFAULT, FIRST, SHORT, stalled
from tests.support.command_line import answered, pulsar_doctor

AIM = 0.8  # of the unknown ones
SECONDS = 90
STANDS = 0.6  # of the probability: what a person is told as likely
LIKELY = "likely"
ONE_SAMPLE = ("--window", "0s", "-o", "json")
THRESHOLDS = {"as shipped": DEFAULT, "6 s are long": SHORT}
# Those with much work make the others' states come late, and are decided by one sample.
PLAYED = [each for each in IN_ORDER if each.turn != FIRST]

Row = tuple[str, str, str, str, float]  # thresholds, scenario, one sample, then, seconds


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_most_of_what_one_sample_leaves_open_is_decided_in_time(broker: Sandbox) -> None:
    with ExitStack() as held:
        scenes = staged(broker, held, PLAYED)
        standing = {name: f.result() for name, f in scenes.items() if not f.exception()}
        assert len(standing) >= 15
        with ThreadPoolExecutor(len(THRESHOLDS)) as pool:
            runs = [pool.submit(rows, broker, standing, *each) for each in THRESHOLDS.items()]
            told = [row for run in runs for row in run.result()]
    for row in told:
        print("{:<14}{:<46}{:<9}-> {:<44}{:6.1f} s".format(*row))
    unknown = [row for row in told if row[2] == "unknown"]
    decided = [row for row in unknown if not row[3].startswith("unknown")]
    ended = [row for row in unknown if not row[3].startswith("unknown") or LIKELY in row[3]]
    print(f"{len(decided)} of {len(unknown)} unknown ones are decided within {SECONDS} s")
    print(f"{len(ended)} of them end with a verdict, or with one suspect that stands")
    assert unknown
    assert len(ended) >= AIM * len(unknown)


def rows(
    broker: Sandbox, standing: dict[str, Scene], thresholds: str, settings: tuple[str, ...]
) -> list[Row]:
    """Each state by one sample, and what `--decide` made of it."""
    topics = [scene.topic for scene in standing.values()]
    changed = [argument for setting in settings for argument in ("--set", setting)]
    asked = ("stall-check", *topics, *ONE_SAMPLE, *changed)
    once = by_topic(pulsar_doctor(*asked, broker=broker, timeout=60).stdout)
    more = pulsar_doctor(*asked, "--decide", broker=broker, timeout=2 * SECONDS)
    then = by_topic(more.stdout)
    return [
        (thresholds, name, now["status"], said(after), sum(s["seconds"] for s in after["decided"]))
        for name, scene in standing.items()
        for now, after in [(once[scene.topic], then[scene.topic])]
    ]


def by_topic(out: str) -> dict[str, dict[str, Any]]:
    found = json.loads(out)["subscriptions"]
    return {
        each["topic"] + ("" if each["partition"] is None else f"-partition-{each['partition']}"):
        each for each in found
    }  # fmt: skip


def said(entry: dict[str, Any]) -> str:
    why = [finding["code"] for finding in entry["findings"]] or entry["not_told"]
    first = next(iter(entry["suspects"]), {"probability": 0, "code": ""})
    if entry["status"] == "unknown" and first["probability"] >= STANDS:
        return f"unknown, {LIKELY} {first['code']} {first['probability']:.0%}"
    return f"{entry['status']} {why[0] if why and entry['status'] != 'healthy' else ''}"


@contextmanager
def just_acknowledged(broker: Sandbox) -> Iterator[Scene]:
    """At its limit of unacknowledged messages, and one of them was acknowledged a moment ago."""

    def play(scene: Scene) -> None:
        scene.begin()
        scene.policy("maxUnackedMessagesOnConsumer", 20)
        scene.produce(60)
        messages = scene.take(scene.consume("hangs"), 20)
        scene.until(lambda: scene.consumer("hangs")["blockedConsumerOnUnackedMsgs"])
        acknowledge(scene.kept["hangs"], messages[0])
        scene.until(lambda: scene.consumer("hangs")["unackedMessages"] == 19)

    topic = f"persistent://public/default/decided-{secrets.token_hex(4)}"
    played = Scenario("just-acknowledged", stalled("blocked-on-unacked-consumer"), play)
    with stage(played, broker.service_url, broker.admin_url, topic) as scene:
        yield scene


def test_what_one_sample_leaves_open_is_looked_at_again(broker: Sandbox) -> None:
    with just_acknowledged(broker) as scene:
        soon = ("--set", "blocked-on-unacked-consumer.refill_wait=5s")
        asked = ("stall-check", scene.topic, *ONE_SAMPLE, "--decide", *soon)
        told = answered(*asked, broker=broker)
    [entry] = json.loads(told.stdout)["subscriptions"]
    assert entry["findings"][0]["code"] == "blocked-on-unacked-consumer", told.stderr
    assert {look["before"] for look in entry["decided"]} == {"unknown"}
    assert entry["decided"][-1]["after"] == entry["status"] == "stalled"
    announced, brought = told.stderr.splitlines()[-2:]
    name = f"s on {scene.topic.removeprefix('persistent://')}"
    assert announced == f"{name}: not decided; watches 10 s more, about 10 s"
    turned = "unknown -> stalled blocked-on-unacked-consumer of hangs"
    assert brought.startswith(f"{name}: {turned}; ")
