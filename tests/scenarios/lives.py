"""What ends too early: consumers that come and go, messages that expire, a full backlog quota."""

from __future__ import annotations

import pulsar

from tests.scenarios.scene import PATIENCE_SECONDS, Scene
from tests.scenarios.table import scenario, warning


@scenario("consumers-come-and-go", warning("consumers-come-and-go"))
def _seeks(scene: Scene) -> None:
    """An application that goes back to the beginning all the time."""
    scene.begin("exclusive")
    scene.produce(100)
    consumer = scene.consume("seeks", "exclusive", queue=1000)

    def run() -> None:
        while not scene.closing.wait(0.3):
            consumer.receive(timeout_millis=PATIENCE_SECONDS * 1000)
            consumer.seek(pulsar.MessageId.earliest)

    scene.seeking.append(scene.background(run))
    scene.until(lambda: scene.stats()["msgOutCounter"] > 300)


@scenario("messages-expired-in-hand", warning("messages-expired"))
def _expired_in_hand(scene: Scene) -> None:
    """A slow worker with all messages in its queue, which the time to live has ended."""
    scene.begin()
    scene.produce(500)
    scene.work(scene.consume("slow", queue=1000), 0.5)
    scene.until(lambda: scene.consumer("slow").get("unackedMessages", 0) > 400)
    expire = f"{scene.path}/subscription/{scene.subscription}/expireMessages/1"

    def expired() -> bool:
        scene.admin.post(expire)
        return bool(scene.stats()["msgBacklog"] == 0)

    scene.until(expired)


@scenario("backlog-quota-reached", warning("backlog-quota-reached"))
def _quota(scene: Scene) -> None:
    """Nobody consumes, and the topic may not hold that much."""
    scene.begin()
    scene.produce(100)
    quota = {"limitSize": 1000, "limitTime": -1, "policy": "producer_request_hold"}
    answer = scene.admin.post(f"{scene.path}/backlogQuota", json=quota)
    answer.raise_for_status()
    scene.until(lambda: scene.read().document.get("backlogQuotaLimitSize") == 1000)
