"""Limits and delays that the cluster or the producer set: unacked limits, rates, later delivery."""

from __future__ import annotations

from datetime import timedelta

from tests.scenarios.scene import Scene
from tests.scenarios.table import FIRST, HEALTHY, SHORT, Expected, scenario, stalled, warning

HOUR = timedelta(hours=1)
TEN_A_SECOND = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
ONE_AN_HOUR = {"dispatchThrottlingRateInMsg": 1, "ratePeriodInSecond": 3600}


@scenario("blocked-on-unacked-consumer", stalled("blocked-on-unacked-consumer"), settings=SHORT)
def _consumer(scene: Scene) -> None:
    scene.begin()
    scene.policy("maxUnackedMessagesOnConsumer", 20)
    scene.produce(60)
    scene.take(scene.consume("never-acks"), 20)
    scene.until(lambda: scene.consumer("never-acks")["blockedConsumerOnUnackedMsgs"])
    scene.until_quiet()


@scenario(
    "blocked-on-unacked-subscription", stalled("blocked-on-unacked-subscription"), settings=SHORT
)
def _subscription(scene: Scene) -> None:
    """Two consumers that never acknowledge."""
    scene.begin()
    scene.policy("maxUnackedMessagesOnSubscription", 20)
    scene.produce(60)
    for name in ("never-acks-1", "never-acks-2"):
        scene.work(scene.consume(name), act=lambda consumer, message: None)
    scene.until(lambda: scene.stats()["blockedSubscriptionOnUnackedMsgs"])
    scene.until_quiet()


def throttled(scene: Scene, policy: str) -> None:
    """A worker that could do far more than the 10 messages a second that the policy allows."""
    scene.begin()
    scene.policy(policy, TEN_A_SECOND)
    scene.produce(2000)
    scene.work(scene.consume("quick", queue=100))
    scene.until(lambda: scene.consumer("quick").get("msgOutCounter", 0) > 30)


@scenario("dispatch-throttled-subscription", warning("dispatch-throttled"))
def _subscription_rate(scene: Scene) -> None:
    throttled(scene, "subscriptionDispatchRate")


@scenario("dispatch-throttled-topic", warning("dispatch-throttled"))
def _topic_rate(scene: Scene) -> None:
    throttled(scene, "dispatchRate")


def compaction_fails(scene: Scene) -> None:
    """Its reader gets one message an hour; after 30 seconds without any the compaction fails.

    No entry of the list, since it is about a cursor of the broker's own.
    """
    scene.produce(30, keys=["a", "b"])
    scene.policy("dispatchRate", TEN_A_SECOND | ONE_AN_HOUR)
    scene.admin.put(f"{scene.path}/compaction").raise_for_status()
    scene.subscription = "__compaction"
    scene.until(lambda: scene.read().document["compaction"]["lastCompactionFailedTimestamp"])


@scenario("delayed-messages", Expected("healthy", "delayed-messages"))
def _delayed(scene: Scene) -> None:
    """Nothing is due for an hour: information, not a fault."""
    scene.begin()
    scene.work(scene.consume("waits"))
    scene.produce(50, deliver_after=HOUR)
    scene.until(lambda: scene.stats()["msgDelayed"] == 50)


@scenario("delayed-look-ahead", Expected("healthy", "delayed-messages"), turn=FIRST)
def _delayed_look_ahead(scene: Scene) -> None:
    """As many as the broker reads ahead are not due: it reads no further, on purpose."""
    scene.begin()
    scene.work(scene.consume("waits"))
    scene.produce(50_500, deliver_after=HOUR)
    scene.until(lambda: scene.stats()["msgDelayed"] >= 50_000)


@scenario("delayed-messages-among-others", HEALTHY)
def _delayed_among_others(scene: Scene) -> None:
    """What is due is worked on, what is not due waits."""
    scene.begin()
    scene.work(scene.consume("works"))
    scene.produce(50, deliver_after=HOUR)
    scene.produce_on(50)
    scene.until(lambda: scene.consumer("works").get("msgOutCounter", 0) > 50)
