"""Transactions that stay open, of the Java client: on brokers with a coordinator."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.clients import RealClient, starting
from tests.scenarios.scene import Scene
from tests.scenarios.table import scenario, warning

OPEN = None  # neither committed nor aborted
MINUTE_MS = 60_000


def coordinator() -> Mapping[str, str]:
    """Settings of a broker that has one."""
    return {"transactionCoordinatorEnabled": "true"}


def java(scene: Scene) -> RealClient:
    """A client of the scene that can open transactions."""
    folder = Path(scene.stack.enter_context(tempfile.TemporaryDirectory()))
    client = starting("java", folder, scene.service_url, transactions=True)
    return scene.stack.enter_context(client)


def until_old(scene: Scene) -> None:
    """Waits until the transaction on its topic has been open for a minute."""
    path = f"/admin/v3/transactions/slowTransactions/{MINUTE_MS}"

    def old() -> bool:
        known = scene.admin.get(path).json().values()
        opened = [each["openTimestamp"] for each in known if scene.topic in str(each)]
        return bool(opened) and opened[0] < time.time() * 1000 - MINUTE_MS

    scene.until(old)


@scenario("uncommitted-messages", warning("uncommitted-messages"), conf=coordinator)
def _messages(scene: Scene) -> None:
    """A worker has permits, and 200 messages wait behind 10 of an open transaction."""
    scene.produce(50)
    scene.work(scene.consume("works", queue=100))
    scene.until(lambda: scene.stats()["msgBacklog"] == 0)
    java(scene).order(do="transact", topic=scene.topic, count=10, commit=OPEN)
    scene.produce(200)
    until_old(scene)


@scenario("uncommitted-acks", warning("uncommitted-acks"), conf=coordinator)
def _acks(scene: Scene) -> None:
    """Of 100 messages the first 50 are acknowledged in an open transaction."""
    client, name = java(scene), scene.topic.rpartition("-")[2]
    client.subscribe(scene.topic, name, subscription=scene.subscription, type="Shared", queue=200)
    client.produce(scene.topic, 100)
    client.order(do="transact", name=name, count=50, commit=OPEN)
    client.receive(50, name, ack="individual")
    until_old(scene)
