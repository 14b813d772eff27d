"""Acknowledgements that leave holes behind, and messages that are given back again and again."""

from __future__ import annotations

from typing import Any

from scenarios.scene import Scene
from scenarios.table import FIRST, scenario, warning

OLD_HOLE = ("ack-hole.hole_after=5s",)


@scenario("redelivery-storm", warning("redelivery-storm"))
def _storm(scene: Scene) -> None:
    """It takes each message and gives it back, again and again."""

    def refuse(consumer: Any, message: Any) -> None:
        consumer.negative_acknowledge(message)

    scene.begin()
    scene.produce(20)
    consumer = scene.consume("nacks", negative_ack_redelivery_delay_ms=100)
    scene.work(consumer, act=refuse)
    scene.until(lambda: scene.consumer("nacks").get("msgOutCounter", 0) > 100)


def holding_back(scene: Scene, held: int) -> None:
    """100 messages a second, all acknowledged but the one of that number, which never is."""
    numbers = iter(range(1_000_000))

    def all_but_one(consumer: Any, message: Any) -> None:
        if next(numbers) != held:
            consumer.acknowledge(message)

    scene.begin()
    scene.work(scene.consume("holds", queue=100), act=all_but_one)
    scene.produce_on(100)


@scenario("ack-hole", warning("ack-hole"), settings=OLD_HOLE)
def _hole(scene: Scene) -> None:
    holding_back(scene, 50)

    def stood_for_six_seconds() -> bool:
        reading = scene.read()
        moved: int = reading.document["subscriptions"]["s"]["lastMarkDeleteAdvancedTimestamp"]
        return 0 < moved <= reading.date_ms - 6000

    scene.until(stood_for_six_seconds)


@scenario("ack-hole-at-the-very-first", warning("ack-hole"), settings=OLD_HOLE)
def _first_hole(scene: Scene) -> None:
    """mark-delete never moved, so the broker gives no time for it: 700 messages are 7 seconds."""
    holding_back(scene, 0)
    scene.until(lambda: scene.consumer("holds").get("msgOutCounter", 0) > 700)


@scenario("holes-over-limit", warning("holes-over-limit"), turn=FIRST)
def _holes(scene: Scene) -> None:
    """Of 20,042 messages every second one is acknowledged: 10,021 ranges, 10,000 are kept."""
    scene.begin()
    scene.produce(20_042)
    consumer = scene.consume("every-second", queue=30_000)
    for number, message in enumerate(scene.take(consumer, 20_042)):
        if number % 2:
            consumer.acknowledge(message)
    scene.until(lambda: scene.consumer("every-second")["unackedMessages"] == 10_021)
