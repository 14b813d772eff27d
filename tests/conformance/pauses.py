"""Listeners and pauses: when a message counts as taken, and what a pause holds back."""

from __future__ import annotations

from functools import partial

from tests.conformance.driver import Client, Wanted
from tests.conformance.stage import STEP_SECONDS, Stage
from tests.conformance.table import Measured, balance, behaviour


def listened(partitions: int, queue: int, stage: Stage, client: Client) -> Measured:
    """Callbacks that are let on one by one until the first refill."""
    topic = stage.topic("listener", partitions)
    stage.produce(topic, 4 * queue + 20)
    consumer = client.subscribe(Wanted(topic, queue, listener=True))
    stage.quiet(topic)
    ahead = sum(stage.flows(topic)[1:])
    before = len(stage.flows(topic))
    finished = 0
    while len(stage.flows(topic)) == before and finished < 3 * queue:
        consumer.let(1)
        finished += 1
        stage.quiet(topic, STEP_SECONDS)
    begun = consumer.begun()
    flows = stage.flows(topic)
    consumer.close()
    size = flows[before] if len(flows) > before else None
    text = f"{flows[0]}, then {size} when {finished} are finished and {begun} begun"
    if ahead:
        text += f"; {ahead} more with none finished"
    return Measured(
        text,
        {"first": flows[0], "size": size, "finished": finished, "begun": begun, "ahead": ahead},
    )


for _title, _name, _partitions, _queue in (
    ("listener, RQS 10", "listener-10", 0, 10),
    ("listener, RQS 1", "listener-1", 0, 1),
    ("listener, one partition, RQS 10", "listener-partition", 1, 10),
):
    behaviour(_name, _title, needs="listener")(partial(listened, _partitions, _queue))


@behaviour("listener-zero", "listener, RQS 0: FLOWs of three callbacks", needs="listener")
def listener_zero(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("listener-zero")
    stage.produce(topic, 10)
    consumer = client.subscribe(Wanted(topic, 0, listener=True))
    stage.quiet(topic)
    shown = [stage.flows(topic)]
    for _ in range(2):
        consumer.let(1)
        stage.quiet(topic)
        shown.append(stage.flows(topic))
    consumer.close()
    counts = [len(flows) for flows in shown]
    return Measured(
        f"{counts[0]} FLOW(1) at first, {counts[1]} and {counts[2]} after one and two",
        {"flows": shown},
    )


@behaviour("pause", "paused: 10 of 30 taken, RQS 10; resumed", needs="pause")
def pause(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("pause")
    stage.produce(topic, 30)
    consumer = client.subscribe(Wanted(topic, 10))
    stage.quiet(topic)
    consumer.pause()
    taken = len(consumer.receive(12, 1.0))
    stage.quiet(topic)
    paused = stage.flows(topic)
    consumer.resume()
    stage.quiet(topic)
    resumed = stage.flows(topic)[len(paused) :]
    off = stage.imbalance(topic, consumer, 10)
    consumer.close()
    return Measured(
        f"{taken} taken, no FLOW; resume sends {resumed}; {balance(off)}"
        if paused == [10]
        else f"{taken} taken, FLOWs {paused}; resume sends {resumed}; {balance(off)}",
        {"taken": taken, "paused": paused, "resumed": resumed, "imbalance": off},
    )


@behaviour("start-paused", "subscribed paused, RQS 10; resumed", needs="start_paused")
def start_paused(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("start-paused")
    stage.produce(topic, 30)
    consumer = client.subscribe(Wanted(topic, 10, paused=True))
    stage.quiet(topic)
    paused = stage.flows(topic)
    consumer.resume()
    stage.quiet(topic)
    resumed = stage.flows(topic)[len(paused) :]
    consumer.close()
    return Measured(
        f"FLOWs {paused}; resume sends {resumed}", {"paused": paused, "resumed": resumed}
    )


@behaviour(
    "listener-paused", "listener paused, then 30 messages, RQS 10; resumed", needs="listener_pause"
)
def listener_paused(stage: Stage, client: Client) -> Measured:
    """It is paused with nothing taken; then 30 messages come."""
    topic = stage.topic("listener-paused")
    consumer = client.subscribe(Wanted(topic, 10, listener=True))
    consumer.let(100)
    consumer.pause()
    stage.produce(topic, 30)
    stage.quiet(topic)
    paused, begun = stage.flows(topic), consumer.begun()
    delivered = stage.delivered(topic)
    consumer.resume()
    stage.until(lambda: consumer.begun() == 30)
    stage.quiet(topic)
    flows = stage.flows(topic)[len(paused) :]
    ledger = stage.ledger(topic)
    consumer.close()
    return Measured(
        f"FLOWs {paused}, {delivered} delivered, {begun} callbacks; resumed: {flows}",
        {"paused": paused, "begun": begun, "delivered": delivered, "resumed": flows,
         "available": ledger.granted - ledger.spent},
    )  # fmt: skip
