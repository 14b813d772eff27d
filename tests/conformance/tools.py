"""The command-line tools of the distribution: what their queue options come to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

from tests.conformance.stage import Stage
from tests.conformance.table import NOT_THERE, Measured
from tests.support.tools import tool_environment

START_SECONDS = 120.0  # a busy machine needs 40 s for a tool to subscribe
END_SECONDS = 20.0
COMMANDS: dict[str, tuple[str, ...]] = {
    "pulsar-perf consume -q 10": ("pulsar-perf", "consume", "{topic}", "-q", "10"),
    "pulsar-perf consume -q 0": ("pulsar-perf", "consume", "{topic}", "-q", "0"),
    "pulsar-perf consume": ("pulsar-perf", "consume", "{topic}"),
    "pulsar-client consume -q 10": ("pulsar-client", "consume", "{topic}", "-q", "10"),
    "pulsar-client consume -q 0": ("pulsar-client", "consume", "{topic}", "-q", "0"),
    "pulsar-client consume": ("pulsar-client", "consume", "{topic}"),
}
MORE = {
    "pulsar-perf": ("-ss", "s", "-st", "Shared", "-sp", "Earliest", "-u"),
    "pulsar-client": ("-s", "s", "-t", "Shared", "-p", "Earliest", "-n", "0"),
}


@contextlib.contextmanager
def running(stage: Stage, command: tuple[str, ...], topic: str) -> Iterator[None]:
    """The tool, connected through the relay; ended with its children at the end."""
    tool, *arguments = (part.format(topic=topic) for part in command)
    url = ("--url", stage.service_url) if tool == "pulsar-client" else ()
    more = (*MORE[tool], stage.service_url) if tool == "pulsar-perf" else MORE[tool]
    process = subprocess.Popen(
        ["bash", str(stage.broker.home / "bin" / tool), *url, *arguments, *more],
        env=tool_environment(stage.broker),
        cwd=stage.broker.data,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        for what in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, what)
            try:
                process.wait(END_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue


def measure(stage: Stage, name: str) -> Measured:
    """The FLOWs of one tool: on an empty topic, then while it takes 1,200 single messages."""
    topic = stage.topic("tool")
    with running(stage, COMMANDS[name], topic):
        stage.until(lambda: stage.flows(topic), START_SECONDS)
        stage.quiet(topic)
        first = stage.flows(topic)
        stage.produce(topic, 1200)
        stage.until(lambda: stage.delivered(topic) == 1200)
        stage.quiet(topic, 1.5)  # it prints each message
        flows = stage.flows(topic)
        ledger = stage.ledger(topic)
    refills = flows[len(first) :]
    sizes = "–".join(map(str, sorted({min(refills), max(refills)}))) if refills else NOT_THERE
    text = f"{', '.join(map(str, first))}, then {len(refills)} of {sizes} for 1,200 messages"

    return Measured(
        text, {"first": first, "flows": flows, "available": ledger.granted - ledger.spent}
    )
