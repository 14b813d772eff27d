"""The life of an alert: a real stall, the page, a real Prometheus, the remedy."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pulsar

from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.parts.monitoring.made import dashboard, rules_text
from tests.parts.monitoring.prometheus import Prometheus, needing, prometheus
from tests.support import eventually
from tests.support.cluster import free_ports
from tests.support.command_line import environment

SUBSCRIPTION, MESSAGES = "billing", 500


class Hog:
    """A consumer that holds all messages and works three seconds at each; others are idle."""

    def __init__(self, client: Any, topic: str) -> None:
        self._over = threading.Event()
        kind = pulsar.ConsumerType.Shared
        self._hog = client.subscribe(topic, SUBSCRIPTION, kind, receiver_queue_size=1000)
        producer = client.create_producer(topic, batching_enabled=False)
        for _ in range(MESSAGES):
            producer.send_async(b"x", lambda *_: None)
        producer.flush()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        time.sleep(2)
        client.subscribe(
            topic, SUBSCRIPTION, kind, message_listener=lambda one, each: one.acknowledge(each)
        )

    def _work(self) -> None:
        while not self._over.is_set():
            message = self._hog.receive(timeout_millis=10_000)
            self._over.wait(3)
            self._hog.acknowledge(message)

    def remedy(self) -> None:
        """It is restarted, and what it held is sent to the others."""
        self._over.set()
        self._thread.join(15)
        self._hog.close()


@contextmanager
def watching(admin_url: str, topic: str) -> Iterator[int]:
    command = (
        sys.executable, "-m", "pulsar_doctor", "stall-check", topic, "--watch", "--every", "5s",
        "--window", "5s", "--admin-url", admin_url, "--listen", "127.0.0.1:0",
    )  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert process.stderr is not None
        found = re.search(r":(\d+)/metrics", process.stderr.readline())
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        process.communicate()


def seconds_until(condition: Callable[[], object]) -> float:
    began = time.monotonic()
    eventually(condition, 180)
    return time.monotonic() - began


def alert_life(service_url: str, admin_url: str, folder: Path) -> dict[str, float]:
    """Seconds from the stall to its alert, and from the remedy to its end."""
    topic = f"persistent://public/default/metrics-{secrets.token_hex(3)}"
    with ExitStack() as stack:
        client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        stack.callback(client.close)
        client.create_producer(topic).close()
        scraped = stack.enter_context(watching(admin_url, topic))
        there = stack.enter_context(
            prometheus(folder, rules_text(), port=free_ports(1)[0], scraped=scraped)
        )
        eventually(lambda: there.get("query", query="pulsar_doctor_checked_at_seconds")["result"])
        assert there.firing(SUBSCRIPTION) == {}
        hog = Hog(client, topic)
        fires = seconds_until(lambda: "PulsarSubscriptionStalled" in there.firing(SUBSCRIPTION))
        alert = there.firing(SUBSCRIPTION)["PulsarSubscriptionStalled"]
        assert (alert["cause"], alert["severity"]) == ("prefetch-hogging", "critical")
        assert alert["runbook_url"].endswith("docs/causes/prefetch-hogging.md")
        assert alert["topic"] == topic
        assert_panels(there)
        hog.remedy()
        ends = seconds_until(lambda: there.firing(SUBSCRIPTION) == {})
        return {"fires": fires, "ends": ends}


def assert_panels(there: Prometheus) -> None:
    """Each query of the dashboard is one, and those of what is there have a result."""
    empty = set()
    for panel in dashboard()["panels"]:
        query = re.sub(r"\$(cluster|namespace)\b", ".*", panel["targets"][0]["expr"])
        if not there.get("query", query=query)["result"]:
            empty.add(panel["title"])
    assert empty <= {
        "Oldest unacknowledged message", "Until a limit is reached", "Subscriptions without series",
        "Probability of the first suspect", "Growth, messages a second",
    }  # fmt: skip


@needing("prometheus")
def test_an_alert_fires_upon_a_stall_and_ends_after_the_remedy(
    broker: Sandbox, tmp_path: Path
) -> None:
    print(json.dumps(alert_life(broker.service_url, broker.admin_url, tmp_path)))
