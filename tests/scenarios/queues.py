"""Receiver queues that hold what nobody works on: hung, paused, slow, hogging, zero."""

from __future__ import annotations

from tests.scenarios.healthy import reads
from tests.scenarios.scene import Scene, acknowledge
from tests.scenarios.table import SHORT, UNKNOWN, scenario, stalled, warning

EXHAUSTED = "permits-exhausted"


def hung(scene: Scene, kind: str, messages: int) -> None:
    """A consumer with a queue of 10 that took 4 and hangs."""
    scene.begin(kind)
    scene.produce(messages)
    scene.take(scene.consume("hung", kind), 4)
    scene.until(lambda: scene.consumer("hung")["availablePermits"] == 0)


@scenario("permits-exhausted-shared-hung", stalled(EXHAUSTED), settings=SHORT)
def _shared_hung(scene: Scene) -> None:
    hung(scene, "shared", 60)
    scene.until_quiet()


@scenario("permits-exhausted-shared-hung-lately", UNKNOWN)
def _shared_hung_lately(scene: Scene) -> None:
    hung(scene, "shared", 60)


@scenario("permits-exhausted-exclusive-hung", stalled(EXHAUSTED), settings=SHORT)
def _exclusive_hung(scene: Scene) -> None:
    hung(scene, "exclusive", 60)
    scene.until_quiet()


@scenario("permits-exhausted-exclusive-after-acks", stalled(EXHAUSTED), settings=SHORT)
def _exclusive_after_acks(scene: Scene) -> None:
    """It worked well on 22 messages and then hung with its queue full."""
    scene.begin("exclusive")
    scene.produce(60)
    consumer = scene.consume("hung", "exclusive")
    for message in scene.take(consumer, 22):
        consumer.acknowledge(message)
    scene.until(lambda: scene.consumer("hung")["availablePermits"] == 0)
    scene.until(lambda: scene.stats()["msgBacklog"] == 38)
    scene.until_quiet()


@scenario("permits-exhausted-batches-hung", stalled(EXHAUSTED), settings=SHORT)
def _batches_hung(scene: Scene) -> None:
    scene.begin("exclusive")
    scene.produce(12_000, 100)
    scene.take(scene.consume("hung", "exclusive", 1000), 4)
    scene.until(lambda: scene.consumer("hung")["availablePermits"] < 0)
    scene.until_quiet()


@scenario("permits-exhausted-paused-listener", stalled(EXHAUSTED), settings=SHORT)
def _paused_listener(scene: Scene) -> None:
    scene.begin()
    consumer = scene.consume("paused", message_listener=acknowledge)
    consumer.pause_message_listener()
    scene.produce(60)
    scene.until(lambda: scene.consumer("paused")["availablePermits"] <= 0)
    scene.until_quiet()


@scenario("slow-sole-worker", warning("slow-but-progressing"))
def _sole_worker(scene: Scene) -> None:
    """One message a second with a queue of 1000: the next FLOW comes after 500 seconds."""
    slow(scene, 1000, 2500)


@scenario("slow-but-progressing", warning("slow-but-progressing"))
def _slow(scene: Scene) -> None:
    """One message a second with a queue of 400: the next FLOW comes after up to 200 seconds."""
    slow(scene, 400, 2000)


def slow(scene: Scene, queue: int, messages: int) -> None:
    """One message a second from a full queue, with a backlog behind it."""
    scene.begin()
    scene.produce(messages)
    scene.work(scene.consume("slow", queue=queue), 1)
    scene.until(lambda: scene.consumer("slow")["availablePermits"] == 0)
    scene.until(lambda: scene.stats()["msgBacklog"] < messages)


@scenario("prefetch-hogging", stalled("prefetch-hogging"))
def _hog(scene: Scene) -> None:
    """The first got all 500 and needs 3 seconds for each; two neighbours came after it."""
    scene.begin()
    scene.produce(500)
    hog = scene.consume("hog", queue=1000)
    scene.until(lambda: scene.consumer("hog")["unackedMessages"] == 500)
    scene.work(hog, 3)
    for name in ("idle-1", "idle-2"):
        scene.work(scene.consume(name))
    scene.until(lambda: scene.consumer("hog")["unackedMessages"] < 500)


@scenario("prefetch-hogging-hung", stalled("prefetch-hogging"), settings=SHORT)
def _hung_hog(scene: Scene) -> None:
    scene.begin()
    scene.produce(500)
    scene.take(scene.consume("hog", queue=1000), 2)
    scene.until(lambda: scene.consumer("hog")["unackedMessages"] == 500)
    for name in ("idle-1", "idle-2"):
        scene.work(scene.consume(name))
    scene.until_quiet()


@scenario("zero-queue-and-batch", stalled("zero-queue-unsupported"), settings=SHORT)
def _zero_queue_batch(scene: Scene) -> None:
    """receive() gives the first message of the batch and then never returns."""
    scene.begin()
    scene.produce(20, 20)
    consumer = scene.consume("zero", queue=0)

    def run() -> None:
        # One that asks at once again may get the second message too, while the client still splits
        # the batch (seen: 7 of 24).
        while not scene.closing.wait(0.3):
            consumer.acknowledge(consumer.receive())

    scene.background(run)
    scene.until(lambda: scene.consumer("zero")["availablePermits"] < 0)
    scene.until_quiet()


@scenario("zero-queue-long-work", UNKNOWN, settings=SHORT)
def _long_work(scene: Scene) -> None:
    """One message in hand for long: working and hanging look the same."""
    scene.begin()
    scene.produce(20)
    consumer = scene.consume("zero", queue=0)
    scene.background(consumer.receive)
    scene.until(lambda: scene.consumer("zero")["unackedMessages"] == 1)
    scene.until_quiet()


@scenario("all-delivered-none-acknowledged", stalled("not-acknowledging"), settings=SHORT)
def _holds_all(scene: Scene) -> None:
    """It has permits, the broker has nothing left to send, and nothing is acknowledged."""
    scene.begin("exclusive")
    scene.produce(50)
    scene.take(scene.consume("holds", "exclusive", 1000), 50)
    scene.until(lambda: scene.consumer("holds")["msgOutCounter"] == 50)
    scene.until_quiet()


@scenario("reader-stands-still", UNKNOWN)
def _reader(scene: Scene) -> None:
    """It has read 50 of 100, and nobody reads on."""
    reads(scene, 50, of=100, queue=10, sent=60)


@scenario("inactive-failover", stalled("inactive-failover"), settings=SHORT)
def _failover(scene: Scene) -> None:
    """The active one has a full queue and hangs; the standby has permits and waits."""
    scene.on_a_partition()
    scene.begin("failover")
    scene.produce(60)
    scene.take(scene.consume("a-active", "failover"), 4)
    scene.until(lambda: scene.consumer("a-active")["availablePermits"] == 0)
    scene.consume("b-standby", "failover")
    scene.until(lambda: scene.stats().get("activeConsumerName") == "a-active")
    scene.until_quiet()


@scenario("no-consumer", warning("no-consumer"))
def _nobody(scene: Scene) -> None:
    scene.begin()
    scene.produce(30)
    scene.until(lambda: scene.stats()["msgBacklog"] == 30 and not scene.stats()["consumers"])


@scenario(
    "no-consumer-last-left",
    warning("no-consumer"),
    during=lambda scene: scene.kept["last"].close(),
)
def _last_leaves(scene: Scene) -> None:
    scene.begin()
    scene.work(scene.consume("last"), 0.05)
    scene.produce_on(50)
    scene.until(lambda: scene.consumer("last").get("msgOutCounter", 0) > 50)
