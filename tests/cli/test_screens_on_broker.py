"""The laws of a screen, of the subcommands that need a broker: on a narrow terminal without UTF-8.

Sixty columns and the C locale are the hardest together: what fits there, unbroken and in ASCII,
fits anywhere. What colours change is in test_screens.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest

from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.cli.test_screens import ESCAPED, may_be_long
from tests.support.command_line import environment
from tests.support.terminals import terminal

WIDTH = 60
NAME = "persistent://public/default/"
QUEUE = ("consume", "{topic}", "-n", "3", "--timeout", "20s", "--receiver-queue-size", "10")
SCREENS = {
    "consume": QUEUE,
    "tap": ("tap", "--listen", "127.0.0.1:0", "--", sys.executable, "-m", "pulsar_doctor", *QUEUE,
            "--service-url", "{{service_url}}"),
    "produce": ("produce", "{topic}-new", "-n", "5"),
    "bundle": ("bundle", "{topic}", "--window", "1s", "--interval", "500ms", "-o", "{folder}/b"),
    "examine": ("examine", "{pid}", "--no-capture", "--no-attach", "--window", "1s"),
    "stall-check": ("stall-check", "{topic}", "--consumers", "--window", "1s"),
}  # fmt: skip


def on_a_terminal(*arguments: str, broker: Sandbox) -> str:
    """What is on stdout, a terminal of its own; stderr is elsewhere."""
    told = {name: value for name, value in environment(broker).items() if name != "COLUMNS"}
    narrow = {"LC_ALL": "C", "NO_COLOR": "1", "TERM": "xterm-256color", "PYTHONUTF8": "0"}
    with terminal(WIDTH) as (out, seen):
        ran = subprocess.run(
            [sys.executable, "-m", "pulsar_doctor", *arguments], check=False,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, env=told | narrow,
        )  # fmt: skip
    assert ran.returncode in (0, 1, 3), arguments
    return b"".join(seen).decode("ascii").replace("\r\n", "\n")


@pytest.fixture
def held(client: pulsar.Client, topic: str) -> str:
    """A topic with 50 messages, of which a consumer of this process holds ten."""
    consumer = client.subscribe(topic, "billing", receiver_queue_size=10, consumer_name="worker-1")
    producer = client.create_producer(topic)
    for _ in range(50):
        producer.send(b"")
    consumer.receive(10_000)
    return topic


@pytest.mark.parametrize("name", SCREENS)
def test_a_narrow_screen_keeps_its_laws(
    name: str, broker: Sandbox, held: str, tmp_path: Path
) -> None:
    named = {"topic": held, "folder": tmp_path, "pid": os.getpid()}
    shown = on_a_terminal(*(each.format(**named) for each in SCREENS[name]), broker=broker)
    lines = shown.splitlines()
    assert lines
    assert "\x1b" not in shown
    assert ESCAPED.search(shown) is None
    short = held.removeprefix(NAME)
    long = [line for line in lines if len(line) > WIDTH and not may_be_long(line, WIDTH)]
    assert [line for line in long if short not in line] == []
    assert any(short in line for line in lines)
    cut = ("127.0.", "127.0.0.", "worker-", "consumer-")
    assert [line for line in lines if line.endswith(cut)] == []
