"""The verdict on real subscriptions of the real broker: one for each cause, and healthy twins.

All scenarios stand at the same time and are judged in the same window, by one command line for
each set of thresholds.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.scenarios import SCENARIOS, Scenario, Scene, stage
from tests.scenarios.table import LAST
from tests.scenarios.watched import Watched, watched
from tests.support import eventually
from tests.support.command_line import pulsar_doctor

WINDOW = "10s"
ACTS_AFTER_SAMPLES = 2  # so that more than `reconnect_wait` of the window is left on a busy machine
AT_ONCE = 16
CHECK_SECONDS = 90
# Then those that stand still: the busy ones make everything slower.
IN_ORDER = sorted(
    SCENARIOS.values(), key=lambda each: (each.turn, each.expects.status == "healthy")
)
STUCK_KEYS = "permits-exhausted-key-shared-one-stuck"
SEVERITIES = ["stalled", "warning", "info"]

Verdict = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Standing:
    """Scenarios that stand, and the verdict on each set of them that shares its thresholds."""

    scenes: dict[str, Future[Scene]]
    verdicts: dict[tuple[str, ...], Verdict]

    def entry(self, scenario: Scenario) -> dict[str, Any]:
        """What the verdict says of the scenario's subscription."""
        if scenario.name not in self.scenes:
            pytest.skip("this broker cannot be in that state")
        scene = self.scenes[scenario.name].result()
        verdict = self.verdicts[scenario.settings]
        assert verdict.stdout, verdict.stderr
        document = json.loads(verdict.stdout)
        found = [each for each in document["subscriptions"] if names(each) == of(scene)]
        assert len(found) == 1, f"{of(scene)} is listed {len(found)} times: {verdict.stderr}"
        entry: dict[str, Any] = found[0]
        return entry


def names(entry: dict[str, Any]) -> tuple[str, str]:
    partition = "" if entry["partition"] is None else f"-partition-{entry['partition']}"
    return entry["topic"] + partition, entry["subscription"]


def of(scene: Scene) -> tuple[str, str]:
    return scene.topic, scene.subscription


@pytest.fixture(scope="module")
def standing(broker: Sandbox, request: pytest.FixtureRequest) -> Iterator[Standing]:
    """What the tests that run here are about."""
    version = request.config.getoption("--pulsar-version")
    ours: list[Any] = [each for each in request.session.items if each.path == request.path]
    cases = [each.callspec.params["name"] for each in ours if hasattr(each, "callspec")]
    names = {*cases, *([STUCK_KEYS] if len(cases) < len(ours) else ())}
    possible = [s for s in IN_ORDER if s.name in names and s.is_of(version) and not s.conf]
    with ExitStack() as held:
        scenes = staged(broker, held, possible)
        yield Standing(scenes, judged(broker, scenes))


def staged(broker: Sandbox, held: ExitStack, scenarios: list[Scenario]) -> dict[str, Future[Scene]]:
    """Brings them about, many at once; returns when each is settled or has failed."""
    scenes: dict[str, Future[Scene]] = {}

    def enter(scenario: Scenario) -> Scene:
        topic = f"persistent://public/default/{scenario.name}-{secrets.token_hex(4)}"
        return held.enter_context(stage(scenario, broker.service_url, broker.admin_url, topic))

    for last in (False, True):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            now = [each for each in scenarios if (each.turn == LAST) == last]
            scenes |= {each.name: pool.submit(enter, each) for each in now}
    return scenes


def judged(broker: Sandbox, scenes: dict[str, Future[Scene]]) -> dict[tuple[str, ...], Verdict]:
    """One command line for each set of thresholds, all at once; what happens meanwhile happens."""
    standing = {SCENARIOS[name]: f.result() for name, f in scenes.items() if not f.exception()}
    topics: dict[tuple[str, ...], list[str]] = {}
    for scenario, scene in standing.items():
        topics.setdefault(scenario.settings, []).append(scene.topic)
    with watched(broker.admin_url) as way, ThreadPoolExecutor(len(standing) + 1) as pool:
        front = replace(broker, admin_url=way.url)
        runs = {each: pool.submit(stall_check, front, each, topics[each]) for each in topics}
        acts = [pool.submit(act, way, *each) for each in standing.items() if each[0].during]
        for done in acts:
            done.result()
        return {settings: run.result() for settings, run in runs.items()}


def act(way: Watched, scenario: Scenario, scene: Scene) -> None:
    """In the middle of the window, what the scenario says for it."""
    assert scenario.during is not None
    eventually(lambda: way.reads(scene.topic) >= ACTS_AFTER_SAMPLES, CHECK_SECONDS)
    scenario.during(scene)


def stall_check(broker: Sandbox, settings: tuple[str, ...], topics: list[str]) -> Verdict:
    thresholds = [argument for setting in settings for argument in ("--set", setting)]
    return pulsar_doctor(
        "stall-check", *topics, "-o", "json", "--window", WINDOW, *thresholds,
        broker=broker, timeout=CHECK_SECONDS,
    )  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_verdict_is_the_one_that_the_state_deserves(standing: Standing, name: str) -> None:
    scenario = SCENARIOS[name]
    entry = standing.entry(scenario)
    findings = [(found["severity"], found["code"]) for found in entry["findings"]]
    assert entry["status"] == scenario.expects.status, (findings, entry["not_told"])
    if scenario.expects.code is None:
        assert {severity for severity, _ in findings} <= {"info"}
    else:
        assert findings[0][1] == scenario.expects.code
        assert [SEVERITIES.index(severity) for severity, _ in findings] == sorted(
            SEVERITIES.index(severity) for severity, _ in findings
        )


@pytest.mark.parametrize("name", [n for n, s in SCENARIOS.items() if s.expects.status == "stalled"])
def test_a_standstill_comes_with_its_numbers_and_a_remedy(standing: Standing, name: str) -> None:
    first = standing.entry(SCENARIOS[name])["findings"][0]
    assert first["severity"] == "stalled"
    assert first["remedy"]
    assert first["evidence"]
    assert re.search(r"\d", first["summary"])


def test_of_stuck_keys_it_is_told_who_is_stuck_who_waits_and_who_goes_on(
    standing: Standing,
) -> None:
    first = standing.entry(SCENARIOS[STUCK_KEYS])["findings"][0]
    assert re.match(r"stuck has acknowledged none of its \d+ messages for ", first["summary"])
    assert re.search(r"\d entries of its keys wait, while works goes on", first["summary"])
    address = first["where"]["address"].lstrip("/")
    now = [action["text"] for action in first["actions"] if action["when"] == "now"]
    first_look = ("Look inside the process", "Dump the threads")  # the first of them on Linux
    assert any(text.startswith(first_look) and address in text for text in now)
    assert any(text.startswith(f"Restart the process at {address}: ") for text in now)
    assert "queue" not in " ".join(now)


def test_the_worst_of_all_the_verdicts_is_the_exit_code(standing: Standing) -> None:
    for settings, verdict in standing.verdicts.items():
        statuses = {s["status"] for s in json.loads(verdict.stdout)["subscriptions"]}
        expected = 1 if "stalled" in statuses else 3 if "unknown" in statuses else 0
        assert verdict.returncode == expected, settings
