"""stall-check --watch on the real broker: rounds go on where the last one ended."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import threading
from typing import Any

from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.scenarios import Scenario, Scene, stage
from tests.scenarios.table import HEALTHY
from tests.support.command_line import environment

EVERY_SECONDS = 5
ROUNDS_MOST = 12


def play(scene: Scene) -> None:
    """One that has taken three messages of sixty, and goes on when it is told to."""
    scene.begin()
    scene.produce(60)
    scene.kept["taken"] = scene.take(scene.consume("worker"), 3)
    scene.until(lambda: scene.consumer("worker").get("availablePermits") == 0)
    scene.until_quiet(2)


def test_a_watch_sees_what_happens_between_its_rounds(broker: Sandbox) -> None:
    topic = f"persistent://public/default/watched-{secrets.token_hex(4)}"
    scenario = Scenario("watched", HEALTHY, play)
    arguments = (
        "stall-check", topic, "--watch", "--every", f"{EVERY_SECONDS}s", "--window", "1s",
        "-o", "json", "--set", "permits-exhausted.refill_wait=1s",
    )  # fmt: skip
    with stage(scenario, broker.service_url, broker.admin_url, topic) as scene:
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_doctor", *arguments],
            env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        ends = threading.Timer(90, process.kill)
        ends.start()
        try:
            first, second = document(process), document(process)
            consumer = scene.kept["worker"]
            for message in scene.kept["taken"]:
                consumer.acknowledge(message)
            scene.work(consumer)
            rounds = [document(process)]
            while steady(rounds[-1])["status"] != "healthy" and len(rounds) < ROUNDS_MOST:
                rounds.append(document(process))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            ends.cancel()
            process.kill()
    assert steady(first) == {"status": "stalled", "before": None}
    assert second["window_seconds"] >= EVERY_SECONDS - 1 > first["window_seconds"]
    own = [each["subscriptions"][0]["status"] for each in rounds]
    assert own[-2:] == ["healthy", "healthy"], "two rounds in a row say so"
    assert steady(rounds[-2])["status"] != "healthy"
    assert process.returncode == 0
    assert f"s on {topic.removeprefix('persistent://')}: stalled -> " in err
    assert err.rstrip().endswith("-> healthy")


def document(process: subprocess.Popen[str]) -> Any:
    """The next one that it writes."""
    assert process.stdout is not None
    text = ""
    while '"notes"' not in text.rpartition("\n], ")[2] or not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, "it has ended"
        text += line
    return json.loads(text)


def steady(of: Any) -> Any:
    return of["subscriptions"][0]["steady"]
