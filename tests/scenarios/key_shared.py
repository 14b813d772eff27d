"""Key_Shared: keys that wait for somebody else's acks, and consumers that are only listed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pulsar

from tests.scenarios.scene import Scene
from tests.scenarios.table import HEALTHY, LAST, SHORT, UNKNOWN, scenario, stalled, warning

ROOT = Path(__file__).parents[2]
KEYS = [f"key-{number}" for number in range(40)]


@scenario("permits-exhausted-key-shared-one-stuck", stalled("permits-exhausted"), settings=SHORT)
def _one_stuck(scene: Scene) -> None:
    """One of two hangs with a full queue; the other works on its own keys."""
    scene.begin("key_shared")
    stuck = scene.consume("stuck", "key_shared")
    scene.work(scene.consume("works", "key_shared"), 0.01)
    scene.produce_on(50, keys=KEYS)
    scene.take(stuck, 4)
    scene.until(lambda: scene.consumer("stuck")["availablePermits"] <= 0)
    scene.until_quiet(name="stuck")


@scenario("key-shared-look-ahead", warning("key-shared-blocked"), since=(4, 0))
def _look_ahead(scene: Scene) -> None:
    """One of two takes a second for a message, and the broker has read ahead as far as it may."""
    scene.begin("key_shared")
    scene.work(scene.consume("slow", "key_shared"), 1)
    scene.work(scene.consume("quick", "key_shared", 100))
    scene.produce(20_000, keys=KEYS)
    seen = [0]

    def reads_no_further() -> bool:
        seen.append(scene.consumer("quick")["msgOutCounter"])
        return scene.stats()["msgInReplay"] >= 4000 and seen[-1] - seen[-2] < 20

    scene.until(reads_no_further)


@scenario("key-shared-blocked", stalled("key-shared-blocked"), settings=SHORT)
def _blocked(scene: Scene) -> None:
    """The first holds 40 keys and acknowledges none; the second owns half of them by now."""
    scene.begin("key_shared")
    first = scene.consume("first", "key_shared", 1000)
    scene.produce(80, keys=KEYS)
    scene.take(first, 80)
    scene.work(scene.consume("second", "key_shared", 1000))
    scene.produce(200, keys=KEYS)
    scene.until(lambda: scene.consumer("first").get("drainingHashesCount", 0) > 0)
    scene.until_quiet()


@scenario("key-shared-never-asked", stalled("permits-exhausted"), settings=SHORT, since=(4, 0))
def _never_asked(scene: Scene) -> None:
    """One of two with a queue of 0 never calls receive; the other works on its own keys."""
    never_asks(scene)
    scene.until(lambda: scene.stats().get("msgInReplay", 0) > 20)
    scene.until_quiet(name="never-asks")


@scenario("key-shared-never-asked-lately", UNKNOWN, since=(4, 0))
def _never_asked_lately(scene: Scene) -> None:
    never_asks(scene)
    scene.until(lambda: scene.stats().get("msgInReplay", 0) > 20)


@scenario("healthy-key-shared-asks-at-last", HEALTHY)
def _asks_at_last(scene: Scene) -> None:
    """It has begun to receive, and takes what had waited for its keys.

    Of a queue of 0 each message takes a request of its own: on a busy machine not many a second.
    """
    consumer = never_asks(scene, per_second=4)
    scene.produce(300, keys=KEYS)

    def run() -> None:
        while not scene.closing.is_set():
            consumer.acknowledge(consumer.receive())

    scene.background(run)
    scene.until(lambda: scene.consumer("never-asks").get("msgOutCounter", 0) > 100)
    scene.until(lambda: scene.stats()["msgBacklog"] < 20)


@scenario(
    "left-in-replay", stalled("left-in-replay"), settings=("left-in-replay.silent_for=5s",),
    since=(4, 0),
)  # fmt: skip
def _left_in_replay(scene: Scene) -> None:
    """One of two has never asked, and is closed: nobody is sent what waits for its keys."""
    closed_before_it_asks(scene)
    scene.until_quiet()


@scenario("healthy-key-shared-sent-on", HEALTHY, since=(4, 0))
def _sent_on(scene: Scene) -> None:
    """The same, and one message more takes all of that along."""
    closed_before_it_asks(scene)
    scene.produce(1, keys=KEYS)
    scene.until(lambda: scene.stats()["msgBacklog"] == 0)


def closed_before_it_asks(scene: Scene) -> None:
    """What waited for the keys of who has left is in the replay queue, beside one with permits."""
    scene.begin("key_shared")
    scene.work(scene.consume("works", "key_shared", 1000))
    consumer = scene.consume("never-asks", "key_shared", 0)
    scene.produce(100, keys=KEYS)
    scene.until(lambda: scene.consumer("works").get("unackedMessages") == 0)
    scene.until(lambda: 20 < scene.stats()["msgBacklog"] == scene.stats()["msgInReplay"])
    scene.until_quiet(2)  # a read that the dispatcher still has before it would send all of it on
    scene.without_queue.remove(consumer)
    consumer.close()


def never_asks(scene: Scene, per_second: float = 50) -> Any:
    """A consumer that has not asked for any, beside one that works; messages come on."""
    scene.begin("key_shared")
    scene.work(scene.consume("works", "key_shared"))
    consumer = scene.consume("never-asks", "key_shared", 0)
    scene.produce_on(per_second, keys=KEYS)
    return consumer


@scenario("key-shared-sticky-gap", stalled("key-shared-blocked"), since=(4, 0))
def _sticky_gap(scene: Scene) -> None:
    """Each of two has a third of the hashes, and nobody the rest."""
    scene.work(scene.consume("low", "key_shared", key_shared_policy=sticky(0, 21_844)))
    scene.work(scene.consume("high", "key_shared", key_shared_policy=sticky(43_690, 65_535)))
    scene.produce(200, keys=KEYS)
    scene.until(lambda: scene.stats()["unackedMessages"] == 0 and scene.stats()["msgOutCounter"])
    scene.until_quiet()


@scenario("healthy-key-shared-sticky", HEALTHY)
def _sticky(scene: Scene) -> None:
    """Two have all of the hashes together."""
    for name, first, last in (("low", 0, 30_000), ("high", 30_001, 65_535)):
        policy = sticky(first, last)
        scene.work(scene.consume(name, "key_shared", key_shared_policy=policy))
    scene.produce_on(50, keys=KEYS)
    scene.until(lambda: scene.consumer("high").get("msgOutCounter", 0) > 50)


def sticky(first: int, last: int) -> Any:
    """The choice of a range of hashes."""
    return pulsar.ConsumerKeySharedPolicy(
        key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=[(first, last)]
    )


@scenario(
    "key-shared-third-joins",
    HEALTHY,
    during=lambda scene: scene.work(scene.consume("third", "key_shared", 100), 0.005),
)
def _third_joins(scene: Scene) -> None:
    scene.begin("key_shared")
    for name in ("first", "second"):
        scene.work(scene.consume(name, "key_shared", 100), 0.005)
    scene.produce_on(100, keys=KEYS)
    scene.until(
        lambda: scene.stats()["consumers"] and scene.consumer("first")["msgOutCounter"] > 99
    )


@scenario("exclusive-zombie-key-shared", stalled("exclusive-zombie"), settings=SHORT, turn=LAST)
def _zombie_key_shared(scene: Scene) -> None:
    zombie(scene, "key_shared")


@scenario("exclusive-zombie-failover", stalled("exclusive-zombie"), settings=SHORT, turn=LAST)
def _zombie_failover(scene: Scene) -> None:
    scene.on_a_partition()
    zombie(scene, "failover")


@scenario("healthy-successor-of-a-zombie", HEALTHY, turn=LAST)
def _successor(scene: Scene) -> None:
    """On a topic without partitions the newer one of equal names becomes the active one."""
    zombie(scene, "failover")


def zombie(scene: Scene, kind: str) -> None:
    """A client that died with messages in hand, and its successor of the same name.

    The broker closes the dead one 30 to 60 seconds after its last sign (keepAliveIntervalSeconds).
    """
    scene.begin(kind)
    scene.produce(60, keys=KEYS)
    frozen = frozen_client(scene, kind)
    scene.stack.enter_context(frozen)  # waits for its end
    scene.stack.callback(frozen.kill)
    scene.work(scene.consume("billing", kind))
    scene.produce(60, keys=KEYS)
    scene.until(lambda: len(scene.stats()["consumers"]) == 2)
    scene.until_quiet()


def frozen_client(scene: Scene, kind: str) -> subprocess.Popen[str]:
    """A process that has taken three messages and is stopped by a signal: no ping is answered."""
    client = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.scenarios.silent_client",
            scene.service_url,
            scene.topic,
            kind,
        ],
        cwd=str(ROOT),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "holding\n"
    client.send_signal(signal.SIGSTOP)
    return client
