"""What clients send when their topic was unloaded or their connection has broken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from tests.conformance.driver import Client, Consumer, Taken, Wanted
from tests.conformance.stage import Stage
from tests.conformance.table import Measured, balance, behaviour
from tests.made.meddler import meddling

RECONNECT_SECONDS = 20.0
RACES = 40


def again(stage: Stage, topic: str, before: int) -> None:
    """Waits until it has subscribed anew and its first commands have passed."""
    stage.until(lambda: len(stage.flows_by_incarnation(topic)) > before, RECONNECT_SECONDS)
    stage.quiet(topic, 0.5)


def has_begun(consumer: Consumer, callbacks: int) -> bool:
    return consumer.begun() >= callbacks


@behaviour("unload", "unload with 3 of 30 taken, RQS 10: FLOWs after the new SUBSCRIBE")
def unload(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("unload")
    stage.produce(topic, 30)
    consumer = client.subscribe(Wanted(topic, 10))
    consumer.receive(3)
    stage.quiet(topic)
    stage.unload(topic)
    again(stage, topic, 1)
    *_, after = stage.flows_by_incarnation(topic)
    off = stage.imbalance(topic, consumer, 10)
    consumer.close()
    return Measured(
        f"{', '.join(map(str, after))}; {balance(off)}", {"flows": after, "imbalance": off}
    )


@behaviour("unload-paused", "unload while paused, RQS 10; resumed", needs="pause")
def unload_paused(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("unload-paused")
    stage.produce(topic, 30)
    consumer = client.subscribe(Wanted(topic, 10))
    stage.quiet(topic)
    consumer.pause()
    stage.unload(topic)
    again(stage, topic, 1)
    paused = stage.flows_by_incarnation(topic)[-1]
    consumer.resume()
    stage.quiet(topic, 0.5)
    flows = stage.flows_by_incarnation(topic)[-1][len(paused) :]
    off = stage.imbalance(topic, consumer, 10)
    consumer.close()
    return Measured(
        f"FLOWs {paused}; resume sends {flows}; {balance(off)}",
        {"paused": paused, "resumed": flows, "imbalance": off},
    )


@behaviour(
    "unload-listener-paused", "unload while a listener is paused, RQS 10", needs="listener_pause"
)
def unload_listener_paused(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("unload-listener-paused")
    consumer = client.subscribe(Wanted(topic, 10, listener=True))
    consumer.let(100)
    consumer.pause()
    stage.unload(topic)
    again(stage, topic, 1)
    paused = stage.flows_by_incarnation(topic)[-1]
    consumer.resume()
    stage.quiet(topic, 0.5)
    flows = stage.flows_by_incarnation(topic)[-1][len(paused) :]
    consumer.close()
    return Measured(f"FLOWs {paused}; resume sends {flows}", {"paused": paused, "resumed": flows})


def waiting_at_zero(
    stage: Stage, client: Client, topic: str, disturb: Callable[[], None]
) -> Measured:
    """A receive waits at a zero queue while that happens; then a message is sent."""
    consumer = client.subscribe(Wanted(topic, 0))
    got: list[Taken] = []
    thread = threading.Thread(target=lambda: got.extend(receive(consumer, 15.0)), daemon=True)
    thread.start()
    stage.until(lambda: stage.flows(topic) == [1])
    disturb()
    again(stage, topic, 1)
    flows = stage.flows_by_incarnation(topic)[-1]
    stage.produce(topic, 1)
    thread.join(5)
    returned = bool(got)
    consumer.close()
    word = "returns" if returned else "waits for ever"
    return Measured(f"FLOWs {flows}; the receive {word}", {"flows": flows, "returned": returned})


def receive(consumer: Consumer, seconds: float) -> list[Taken]:
    try:
        return consumer.receive(1, seconds)
    except Exception:  # the consumer was closed under it
        return []


@behaviour("zero-unload", "RQS 0, unload while a receive waits", needs="zero")
def zero_unload(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("zero-unload")
    return waiting_at_zero(stage, client, topic, lambda: stage.unload(topic))


@behaviour("zero-cut", "RQS 0, connection lost while a receive waits", needs="zero")
def zero_cut(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("zero-cut")
    with meddling(stage.service_url) as meddler:
        behind = client.another(meddler.service_url)
        measured = waiting_at_zero(stage, behind, topic, meddler.cut)
        behind.close()
    return measured


def listener_disturbed(cut: bool, stage: Stage, client: Client) -> Measured:
    """Four times, in the middle of a callback, with nine messages that wait for theirs."""
    topic = stage.topic("listener-disturbed")
    stage.produce(topic, 30)
    with meddling(stage.service_url) as meddler:
        behind = client.another(meddler.service_url)
        consumer = behind.subscribe(Wanted(topic, 10, listener=True))
        stage.until(lambda: consumer.begun() == 1)
        stage.quiet(topic)
        for round_ in range(4):
            meddler.cut() if cut else stage.unload(topic)
            again(stage, topic, round_ + 1)
            consumer.let(1)
            stage.until(partial(has_begun, consumer, round_ + 2))
        consumer.let(10_000)
        stage.quiet(topic, 0.5)
        off = drained(stage, topic, 10)
        consumer.close()
        behind.close()
    return Measured(balance(off), {"imbalance": off, "flows": stage.flows_by_incarnation(topic)})


for _name, _what, _cut in (("unload", "unloads", False), ("cut", "lost connections", True)):
    behaviour(
        f"listener-{_name}", f"four {_what} while a callback works, RQS 10", needs="listener"
    )(partial(listener_disturbed, _cut))


def drained(stage: Stage, topic: str, queue: int) -> int | None:
    """As Stage.imbalance, for a listener that takes whatever comes."""
    for _ in range(2 * queue + 2):
        before = len(stage.flows(topic))
        stage.produce(topic, 1)
        stage.quiet(topic)
        if (available := stage.available_at_flow(topic, before)) is not None:
            return available - queue
    return None


def races(queue: int, waits: bool, stage: Stage, client: Client) -> Measured:
    """The topic is unloaded and the connection lost at nearly the same time, many times."""
    topic = stage.topic("races")
    with meddling(stage.service_url) as meddler:
        behind = client.another(meddler.service_url)
        consumer = behind.subscribe(Wanted(topic, queue))
        if waits:
            threading.Thread(target=receive, args=(consumer, 300.0), daemon=True).start()
            stage.until(lambda: stage.flows(topic) == [1])
        for number in range(RACES):
            before = len(stage.flows_by_incarnation(topic))
            threading.Timer(0.002 * (number % 10), meddler.cut).start()
            stage.unload(topic)
            again(stage, topic, before)
        everything = stage.flows_by_incarnation(topic)
        behind.close()  # not the consumer: in Go its close waits for the receive
    wanted = max(queue, 1)
    double = [flows for flows in everything if sum(flows) > wanted]
    # The last one counts in any case; earlier ones may have ended before they could send.
    silent = [] if everything[-1] else [everything[-1]]
    return Measured(
        f"{len(everything)} SUBSCRIBEs: {len(double)} with more than one first FLOW"
        + (", the last without any" if silent else ""),
        {"incarnations": len(everything), "double": double, "silent": len(silent)},
    )


behaviour("races-10", f"{RACES} × unload and lost connection at once, RQS 10")(
    partial(races, 10, False)
)
behaviour("races-zero", f"{RACES} × the same, RQS 0, while a receive waits", needs="zero")(
    partial(races, 0, True)
)
