"""Acknowledgements that leave holes behind, and messages that are given back again and again."""

from __future__ import annotations

import queue
from typing import Any

import pulsar

from tests.scenarios.scene import Scene
from tests.scenarios.table import FIRST, SHORT, scenario, stalled, warning

OLD_HOLE = ("ack-hole.hole_after=5s",)
MENDED = (4, 1)  # a seek counts the backlog anew (seen on 4.2.4 and 5.0.0-M1)
YOUNG_HANDOFF = ("handoff-unbounded.lasting=1s",)


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


@scenario("handoff-unbounded", warning("handoff-unbounded"), settings=YOUNG_HANDOFF)
def _handoff(scene: Scene) -> None:
    """It takes all that comes at once, and finishes one in two seconds.

    The last of it comes when two seconds have passed: so the broker's statistics show that its last
    FLOW is not its first. In one millisecond with the last message it would show nothing.
    """
    taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
    scene.begin()
    consumer = scene.consume("hands-off", queue=100)
    scene.work(consumer, act=lambda consumer, message: taken.put(message))

    def finish() -> None:
        while not scene.closing.wait(2):
            consumer.acknowledge(taken.get())

    scene.produce(500)
    scene.background(finish)
    scene.until(lambda: scene.consumer("hands-off")["lastAckedTimestamp"])
    scene.produce(500)
    scene.until(lambda: taken.qsize() > 900)


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


def one_more(scene: Scene) -> None:
    """Who holds messages in silence for long is a suspect of its own."""
    scene.produce(1)


@scenario(
    "holes-over-limit",
    warning("holes-over-limit"),
    during=one_more,
    turn=FIRST,
    until=(5, 0),
)
def _holes(scene: Scene) -> None:
    """Of 20,042 messages every second one is acknowledged: 10,021 ranges, 10,000 are kept."""
    scene.begin()
    scene.produce(20_042)
    consumer = scene.consume("every-second", queue=30_000)
    for number, message in enumerate(scene.take(consumer, 20_042)):
        if number % 2:
            consumer.acknowledge(message)
    scene.until(lambda: scene.consumer("every-second")["unackedMessages"] == 10_021)


def drifted(scene: Scene, kind: str) -> Any:
    """20 entries of which 10 are acknowledged, and the broker's counter tells a backlog of 0.

    The seek forgets the first ten acknowledgements, the counter does not. Returns the consumer,
    which holds the other ten.
    """
    scene.begin(kind)
    consumer = scene.consume("seeks", kind, queue=100)
    scene.produce(20)
    for message in scene.take(consumer, 20)[10:]:
        consumer.acknowledge(message)
    scene.until(lambda: scene.stats()["msgBacklog"] == 10)
    consumer.seek(pulsar.MessageId.earliest)
    for message in scene.take(consumer, 20)[1::2]:
        consumer.acknowledge(message)
    scene.until(lambda: scene.stats()["nonContiguousDeletedMessagesRanges"] == 10)
    assert scene.stats()["msgBacklog"] == 0
    return consumer


@scenario(
    "backlog-counter-wrong",
    warning("backlog-counter-wrong"),
    during=one_more,
    until=MENDED,
)
def _counter(scene: Scene) -> None:
    """Ten entries are with a consumer that could be sent more."""
    drifted(scene, "shared")


@scenario("backlog-counter-zero-shared", stalled("permits-exhausted"), settings=SHORT, until=MENDED)
def _zero_shared(scene: Scene) -> None:
    hanging(scene, "shared")


@scenario(
    "backlog-counter-zero-exclusive", stalled("permits-exhausted"), settings=SHORT, until=MENDED
)
def _zero_exclusive(scene: Scene) -> None:
    hanging(scene, "exclusive")


def hanging(scene: Scene, kind: str) -> None:
    """One takes a message and hangs, with entries that the counter does not count."""
    drifted(scene, kind).close()
    scene.take(scene.consume("hangs", kind, queue=2), 1)
    scene.until_quiet()
