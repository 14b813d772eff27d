"""Batches: how far they overshoot, and what becomes of their acknowledged indexes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.conformance.driver import Client, Consumer, Taken, Wanted
from tests.conformance.stage import Stage
from tests.conformance.table import Measured, balance, behaviour

ROUNDS = 4


def overshoot(queue: int, batches: int, stage: Stage, client: Client) -> Measured:
    """Batches of 100 that nobody takes; then all are taken."""
    topic = stage.topic(f"batches-{queue}")
    stage.batches(topic, batches, 100)
    consumer = client.subscribe(Wanted(topic, queue))
    stage.quiet(topic)
    ahead = stage.flows(topic)[1:]
    delivered = stage.delivered(topic)
    lowest = stage.ledger(topic).granted - stage.ledger(topic).spent
    taken = len(consumer.receive(batches * 100))
    stage.quiet(topic)
    flows = stage.flows(topic)
    available = stage.ledger(topic).granted - stage.ledger(topic).spent
    consumer.close()
    refills = flows[1:]
    sizes = "–".join(map(str, sorted({min(refills), max(refills)})))
    text = f"{delivered} delivered, available {lowest}"
    text += f"; all taken: {len(refills)} FLOWs of {sizes}, available {available}"
    return Measured(
        text,
        {"delivered": delivered, "lowest": lowest, "ahead": sum(ahead), "flows": flows,
         "taken": taken, "available": available},
    )  # fmt: skip


behaviour("batches-10", "5 batches of 100 at RQS 10")(partial(overshoot, 10, 5))
behaviour("batches-1000", "30 batches of 100 at RQS 1,000")(partial(overshoot, 1000, 30))


def settled(stage: Stage, true: Callable[[], bool]) -> None:
    """Waits until that is so, of what has passed the relay by then."""

    def now() -> bool:
        stage.settle()
        return true()

    stage.until(now)


def come_since(stage: Stage, topic: str, before: int) -> bool:
    return len(stage.of(topic, "MESSAGE")) > before


def half_acknowledge(stage: Stage, topic: str, consumer: Consumer) -> list[Taken]:
    """Takes a batch of 10, acknowledges five of it; returns the other five."""
    taken = consumer.receive(10)
    assert len(taken) == 10, taken
    consumer.ack(taken[:5])
    settled(stage, lambda: stage.ledger(topic).acknowledged == 5)
    return taken[5:]


@behaviour("half-acked", f"half-acknowledged batch of 10, redelivered {ROUNDS} times, RQS 10")
def half_acked(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("half-acked")
    stage.batches(topic, 1, 10)
    consumer = client.subscribe(Wanted(topic, 10))
    rest = half_acknowledge(stage, topic, consumer)
    available = []
    for _ in range(ROUNDS):
        before = len(stage.of(topic, "MESSAGE"))
        consumer.nack(rest[:1])  # the entry comes again as a whole, and once
        settled(stage, partial(come_since, stage, topic, before))
        stage.quiet(topic)  # what a client credits on arrival must not mix with what is taken
        rest = consumer.receive(5)
        stage.quiet(topic)
        available.append(stage.ledger(topic).granted - stage.ledger(topic).spent)
    debits = [row.permits for row in stage.of(topic, "MESSAGE")]
    consumer.ack(rest)
    off = stage.imbalance(topic, consumer, 10)
    theirs = stage.broker_says(topic)
    consumer.close()
    return Measured(
        f"debits {', '.join(map(str, debits))}; available {', '.join(map(str, available))}; "
        f"{balance(off)}",
        {"debits": debits, "available": available, "imbalance": off, "broker": theirs},
    )


@behaviour("half-acked-unload", "half-acknowledged batch of 10 after an unload, RQS 10")
def half_acked_unload(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("half-acked-unload")
    stage.batches(topic, 1, 10)
    consumer = client.subscribe(Wanted(topic, 10))
    half_acknowledge(stage, topic, consumer)
    stage.quiet(topic)
    stage.unload(topic)
    again = consumer.receive(1, 10.0) + consumer.receive(9, 0.5)
    stage.quiet(topic)
    debit = stage.of(topic, "MESSAGE")[-1].permits
    flows = stage.flows_by_incarnation(topic)[-1]
    consumer.ack(again)
    off = stage.imbalance(topic, consumer, 10)
    consumer.close()
    return Measured(
        f"debit {debit}, {len(again)} delivered, FLOWs {flows}; {balance(off)}",
        {"debit": debit, "again": len(again), "flows": flows, "imbalance": off},
    )
