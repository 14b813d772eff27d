"""The first FLOW, and when the next one follows."""

from __future__ import annotations

from functools import partial

from tests.conformance.driver import Client, Refused, Wanted
from tests.conformance.stage import Stage
from tests.conformance.table import Measured, behaviour

QUEUES = (1, 2, 3, 10, 1000)
LOOK_FROM = 15  # messages before half of the queue: from here on each one is watched


def refill(queue: int, stage: Stage, client: Client) -> Measured:
    """Single messages, taken one after the other until two refills have passed."""
    topic = stage.topic(f"refill-{queue}")
    stage.produce(topic, 2 * queue + 60)
    consumer = client.subscribe(Wanted(topic, queue))
    stage.quiet(topic)
    first, *ahead = stage.flows(topic)
    steps = [
        stage.take_until_flow(
            topic, consumer, at_once=queue // 2 - LOOK_FROM, most=queue + LOOK_FROM
        )
        for _ in range(2)
    ]
    consumer.close()
    after, size = steps[1]  # the first one may still owe to what was taken ahead
    text = f"{first}, then {size} after {after} taken"
    if ahead:
        text += f"; {sum(ahead)} more with none taken"
    return Measured(text, {"first": first, "ahead": sum(ahead), "steps": steps})


for _queue in QUEUES:
    behaviour(f"refill-{_queue}", f"FLOW at RQS {_queue:,}")(partial(refill, _queue))


@behaviour("zero", "RQS 0: FLOWs of three receives", needs="zero")
def zero(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("zero")
    stage.produce(topic, 5)
    consumer = client.subscribe(Wanted(topic, 0))
    stage.quiet(topic)
    before = stage.flows(topic)
    taken = sum(len(consumer.receive()) for _ in range(3))
    stage.quiet(topic)
    flows = stage.flows(topic)[len(before) :]
    consumer.close()
    text = f"{before or 'none'} before, then {', '.join(map(str, flows))}"
    return Measured(text, {"before": before, "flows": flows, "taken": taken})


@behaviour("zero-timeout", "RQS 0: three receives that time out", needs="zero_timeout")
def zero_timeout(stage: Stage, client: Client) -> Measured:
    """On an empty topic; then five messages come and nobody asks for one."""
    topic = stage.topic("zero-timeout")
    consumer = client.subscribe(Wanted(topic, 0))
    for _ in range(3):
        consumer.receive(1, 0.3)
    stage.quiet(topic)
    flows = stage.flows(topic)
    stage.produce(topic, 5)
    stage.quiet(topic)
    delivered = stage.delivered(topic)
    consumer.close()
    text = f"FLOWs {flows}; of 5 messages {delivered} are delivered with no receive waiting"
    return Measured(text, {"flows": flows, "delivered": delivered})


@behaviour("plain-zero", "RQS 0 without EnableZeroQueueConsumer", needs="plain_zero")
def plain_zero(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("plain-zero")
    consumer = client.subscribe(Wanted(topic, -1))
    stage.quiet(topic)
    flows = stage.flows(topic)
    consumer.close()
    return Measured(f"FLOW {flows[0]}", {"flows": flows})


@behaviour("zero-batch", "RQS 0 and a batch of 20", needs="zero")
def zero_batch(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("zero-batch")
    stage.batches(topic, 1, 20)
    consumer = client.subscribe(Wanted(topic, 0))
    taken, said = 0, ""
    try:
        for _ in range(3):
            taken += len(consumer.receive(1, 1.0))
    except Refused as error:
        said = f", then refused: {str(error)[:60]}"
    stage.quiet(topic)
    closed = bool(stage.of(topic, "CLOSE_CONSUMER"))
    flows = stage.flows(topic)
    available = stage.ledger(topic).granted - stage.ledger(topic).spent
    consumer.close()
    end = "; the client closes the consumer" if closed else f"; available {available}"
    return Measured(
        f"{taken} of 3 receives return, {len(flows)} FLOW(1){said}{end}",
        {"taken": taken, "flows": flows, "closed": closed, "available": available},
    )


@behaviour("zero-partitioned", "RQS 0 on a partitioned topic", needs="zero")
def zero_partitioned(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("zero-partitioned", 2)
    try:
        client.subscribe(Wanted(topic, 0)).close()
    except Refused as error:
        return Measured(f"refused: {str(error).split(': ')[-1][:70]}", {"refused": True})
    return Measured(f"accepted, FLOWs {stage.flows(topic)}", {"refused": False})


@behaviour("partitioned", "4 partitions, RQS 10: first FLOWs; delivered with none taken")
def partitioned(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("partitioned", 4)
    stage.produce(topic, 400)
    consumer = client.subscribe(Wanted(topic, 10))
    stage.quiet(topic)
    by_partition = stage.flows_by_incarnation(topic)
    first = [flows[0] for flows in by_partition]
    delivered = stage.delivered(topic)
    consumer.close()
    text = f"{first[0]} each; {delivered} delivered, FLOWs of {sum(map(sum, by_partition))}"
    return Measured(text, {"first": first, "delivered": delivered, "beyond_queues": delivered > 40})


@behaviour("max-total", "4 partitions, RQS 10, at most 8 in all", needs="max_total")
def max_total(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("max-total", 4)
    consumer = client.subscribe(Wanted(topic, 10, max_total=8))
    stage.quiet(topic)
    flows = stage.flows(topic)
    consumer.close()
    return Measured(f"{flows[0]} each", {"flows": flows})


@behaviour("auto", "auto-scaled queue, RQS 1,000: FLOWs", needs="auto")
def auto(stage: Stage, client: Client) -> Measured:
    """Without a message, then while 400 are taken as fast as they come."""
    topic = stage.topic("auto")
    consumer = client.subscribe(Wanted(topic, 1000, auto=True))
    stage.quiet(topic)
    first = stage.flows(topic)
    stage.produce(topic, 400)
    taken = len(consumer.receive(400))
    stage.quiet(topic)
    flows = stage.flows(topic)
    ledger = stage.ledger(topic)
    consumer.close()
    shown = ", ".join(map(str, flows[:12]))
    return Measured(
        f"{shown}, … (largest {max(flows)}); available {ledger.granted - ledger.spent}",
        {"first": first, "flows": flows, "taken": taken},
    )
