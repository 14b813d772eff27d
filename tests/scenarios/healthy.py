"""Healthy subscriptions that look like sick ones for a moment, or by a single number."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pulsar

from tests.scenarios.scene import PATIENCE_SECONDS, Scene
from tests.scenarios.table import HEALTHY, scenario


@scenario("healthy-busy", HEALTHY)
def _busy(scene: Scene) -> None:
    scene.begin()
    scene.work(scene.consume("busy", queue=1000))
    scene.produce_on(1000)
    scene.until(lambda: scene.consumer("busy").get("msgOutCounter", 0) > 1000)


@scenario("healthy-idle", HEALTHY)
def _idle(scene: Scene) -> None:
    scene.begin()
    scene.work(scene.consume("idle"))
    scene.produce(20)
    scene.until(lambda: scene.consumer("idle").get("msgOutCounter", 0) == 20)
    scene.until(lambda: scene.stats()["msgBacklog"] == 0)


@scenario("healthy-slow-and-often-without-permits", HEALTHY)
def _slow(scene: Scene) -> None:
    """200 ms a message, a queue of 10, a long backlog: the next FLOW is a second away."""
    scene.begin()
    scene.produce(1000)
    scene.work(scene.consume("slow"), 0.2)
    scene.until(lambda: scene.consumer("slow").get("msgOutCounter", 0) > 10)


@scenario("healthy-batches-far-below-zero", HEALTHY)
def _batches(scene: Scene) -> None:
    """Hundreds of messages a second; from -9000 the permits come back in twenty seconds."""
    slow_with_batches(scene, 40_000, 100, 0.002)


@scenario("healthy-batches-below-zero-most-of-the-time", HEALTHY)
def _batches_of_twenty(scene: Scene) -> None:
    """100 messages a second; permits go from 500 to -1500 at once and come back in 15 seconds."""
    slow_with_batches(scene, 20_000, 20, 0.01)


@scenario("healthy-batches-below-zero-for-long", HEALTHY)
def _batches_of_hundred(scene: Scene) -> None:
    """As before; from -9000 they come back in 90 seconds, but a FLOW goes out every 5 seconds."""
    slow_with_batches(scene, 15_000, 100, 0.01)


def slow_with_batches(scene: Scene, messages: int, batch: int, seconds: float) -> None:
    """Exclusive, a queue of 1000, so many seconds a message: nearly always below zero."""
    scene.begin("exclusive")
    scene.produce(messages, batch)
    scene.work(scene.consume("works", "exclusive", 1000), seconds)
    scene.until(lambda: scene.consumer("works").get("availablePermits", 0) < 0)
    scene.until(lambda: scene.stats()["msgBacklog"] < messages / batch)


@scenario("healthy-zero-queue", HEALTHY)
def _zero_queue(scene: Scene) -> None:
    scene.begin()
    scene.produce(4000)
    consumer = scene.consume("zero", queue=0)

    def run() -> None:
        while not scene.closing.wait(0.05):
            consumer.acknowledge(consumer.receive())

    scene.background(run)
    scene.until(lambda: scene.consumer("zero").get("msgOutCounter", 0) > 20)


def failover(scene: Scene) -> None:
    """Two consumers, of whom the broker makes one active."""
    scene.on_a_partition()
    scene.begin("failover")
    for name in ("a-active", "b-standby"):
        scene.work(scene.consume(name, "failover"), 0.005)
    scene.until(lambda: scene.stats().get("activeConsumerName") == "a-active")


@scenario("healthy-failover-working", HEALTHY)
def _failover(scene: Scene) -> None:
    failover(scene)
    scene.produce_on(100)
    scene.until(lambda: scene.consumer("a-active")["msgOutCounter"] > 100)


@scenario("healthy-failover-idle", HEALTHY)
def _failover_idle(scene: Scene) -> None:
    failover(scene)


@scenario("healthy-delay-in-the-client", HEALTHY)
def _delay_in_the_client(scene: Scene) -> None:
    """100 messages a second, each worked on 5 seconds after it was sent; a queue of 100."""

    def when_five_seconds_old(consumer: Any, message: Any) -> None:
        scene.closing.wait(message.publish_timestamp() / 1000 + 5 - time.time())
        consumer.acknowledge(message)

    scene.begin()
    scene.work(scene.consume("delays", queue=100), act=when_five_seconds_old)
    scene.produce_on(100)
    scene.until(lambda: scene.consumer("delays").get("msgOutCounter", 0) > 300)


@scenario("healthy-at-its-unacked-limit", HEALTHY)
def _at_its_limit(scene: Scene) -> None:
    """Blocked and released again all the time: 50 messages a second are acknowledged."""
    scene.begin()
    scene.policy("maxUnackedMessagesOnConsumer", 20)
    scene.produce(6000)
    scene.work(scene.consume("works", queue=100), 0.02)
    scene.until(lambda: scene.consumer("works").get("msgOutCounter", 0) > 60)


def reader(scene: Scene, queue: int) -> Any:
    """A reader from the earliest message; its subscription is not durable."""
    opened = scene.client.create_reader(
        scene.topic, pulsar.MessageId.earliest, receiver_queue_size=queue, reader_name="reads"
    )
    scene.until(lambda: scene.read().document["subscriptions"])
    (scene.subscription,) = scene.read().document["subscriptions"]
    scene.kept["reads"] = opened
    return opened


def reads(scene: Scene, messages: int, *, of: int, queue: int, sent: int) -> None:
    """A reader reads so many, and is sent as many as its queue has room for."""
    scene.produce(of)
    opened = reader(scene, queue)
    for _ in range(messages):
        opened.read_next(timeout_millis=PATIENCE_SECONDS * 1000)
    scene.until(lambda: scene.stats()["consumers"][0]["msgOutCounter"] == sent)


@scenario("healthy-not-durable-idle", HEALTHY)
def _not_durable(scene: Scene) -> None:
    reads(scene, 20, of=20, queue=100, sent=20)


@scenario("healthy-a-few-nacks", HEALTHY)
def _few_nacks(scene: Scene) -> None:
    """One in twenty is given back, once, and acknowledged when it comes again."""
    count = itertools.count(1)

    def most(consumer: Any, message: Any) -> None:
        if next(count) % 20 == 0 and not message.redelivery_count():
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)

    scene.begin()
    consumer = scene.consume("works", queue=100, negative_ack_redelivery_delay_ms=200)
    scene.work(consumer, act=most)
    scene.produce_on(100)
    scene.until(lambda: scene.consumer("works").get("msgOutCounter", 0) > 200)


@scenario("healthy-unloaded-in-the-window", HEALTHY, during=Scene.unload)
def _unloaded(scene: Scene) -> None:
    scene.begin()
    scene.work(scene.consume("works", queue=100))
    scene.produce_on(200)
    scene.until(lambda: scene.consumer("works").get("msgOutCounter", 0) > 200)
