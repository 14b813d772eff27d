"""What passes on the connections of a process while it is examined, and where that is not read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.parts.capture.packing import may_capture
from tests.parts.examine.java_client import running
from tests.support.command_line import environment
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]
WINDOW = ("--window", "9s", "--interval", "1s")
# Its network is its own; it has a connection, to itself.
ALONE = """
import fcntl, socket, struct, sys
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
there = socket.create_server(("127.0.0.1", 6650))
near = socket.create_connection(("127.0.0.1", 6650))
far, _ = there.accept()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def examining(pid: int, *more: str, before: Any = (), broker: Any) -> Iterator[dict[str, Any]]:
    """`examine` while something goes on; its document, once the with-block is left."""
    line = [*before, sys.executable, "-m", "pulsar_doctor", "examine", str(pid), *more]
    document: dict[str, Any] = {}
    with subprocess.Popen(
        [*line, "-o", "json"],
        env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as examine:  # fmt: skip
        yield document
        out, err = examine.communicate(timeout=60)
    assert out, err
    print(out, err)
    document |= json.loads(out)


def only_consumer(document: dict[str, Any]) -> dict[str, Any]:
    [subscription] = document["subscriptions"]
    [consumer] = subscription["consumers"]
    return dict(consumer)


@pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))
def test_its_packets_say_how_far_it_is_without_a_question_to_it(broker, topic):
    with running(broker.service_url) as application:
        application.order("produce", topic, 60)
        application.order("subscribe", "slow", 20, "plain", topic)
        application.order("take", "slow", 7)
        taken = 7
        with examining(application.pid, topic, *WINDOW, broker=broker) as document:
            time.sleep(2)  # until it captures
            for _ in range(6):
                application.order("take", "slow", 2)
                taken += 2
                time.sleep(1.2)
    assert document["sources"] == ["stats", "internal-stats", "capture"]
    assert not any("packets" in each for each in document["process"]["not_told"])
    [subscription] = document["subscriptions"]
    assert subscription["not_told"] == []  # rules that need the wire are asked
    consumer = only_consumer(document)
    assert consumer["available_permits"] == 0
    until = consumer["next_flow_after"]
    bounds = until if isinstance(until, dict) else {"least": until, "most": until}
    assert (bounds["least"] or 0) <= 10 - taken % 10 <= bounds["most"] <= 10


@pytest.mark.skipif(shutil.which("setpriv") is None, reason=wanting("setpriv"))
def test_without_the_right_to_capture_that_is_said_and_the_broker_is_asked(broker, topic):
    less = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]
    with running(broker.service_url) as application:
        application.order("subscribe", "slow", 20, "plain", topic)
        asked = (topic, "--window", "1s", "--interval", "500ms")
        with examining(application.pid, *asked, before=less, broker=broker) as document:
            pass
        with examining(application.pid, *asked, "--no-capture", broker=broker) as quiet:
            pass
    (why,) = [each for each in document["process"]["not_told"] if "packets" in each]
    assert "CAP_NET_RAW" in why
    assert not any("packets" in each for each in quiet["process"]["not_told"])
    for each in (document, quiet):
        assert each["sources"] == ["stats"]
        assert only_consumer(each)["name"] == "slow"


@pytest.mark.skipif(
    not may_capture() or not shutil.which("unshare"), reason=wanting("the right to a network")
)
def test_of_a_network_of_its_own_it_says_where_to_run_it(broker):
    with subprocess.Popen(
        ["unshare", "--net", sys.executable, "-c", ALONE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as alone:  # fmt: skip
        try:
            assert alone.stdout is not None
            assert alone.stdout.readline() == "ready\n"
            asked = ("--window", "1s", "--interval", "500ms")
            with examining(alone.pid, *asked, broker=broker) as document:
                pass
        finally:
            alone.kill()
    (why,) = [each for each in document["process"]["not_told"] if "packets" in each]
    assert "network of its own" in why
