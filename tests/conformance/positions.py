"""Positions: what comes first after a seek or at a start, and whether the permits add up."""

from __future__ import annotations

from functools import partial

from tests.conformance.driver import Client, Taken, Wanted
from tests.conformance.stage import Stage
from tests.conformance.table import Measured, balance, behaviour


def sought(stage: Stage, client: Client, topic: str, at: int, queue: int = 10) -> Measured:
    """Takes all, seeks to the one at that place, and looks what comes."""
    consumer = client.subscribe(Wanted(topic, queue, "exclusive"))
    taken = consumer.receive(20)
    assert len(taken) == 20, taken
    stage.quiet(topic)
    before = len(stage.flows_by_incarnation(topic))
    consumer.seek(taken[at])
    stage.until(lambda: len(stage.flows_by_incarnation(topic)) > before)
    got = consumer.receive(1, 3.0)
    place = [_place(each) for each in taken].index(_place(got[0])) - at if got else None
    stage.quiet(topic)
    spent = stage.ledger(topic).spent
    flows = stage.flows_by_incarnation(topic)[-1]
    off = stage.imbalance(topic, consumer, queue)
    consumer.close()
    return described(place, flows, spent, off)


def described(place: int | None, flows: list[int], spent: int, off: int | None) -> Measured:
    """What came first: the message of the position itself, the one behind it, or none."""
    first = {None: "nothing comes", 0: "the message itself comes first", 1: "the next comes first"}
    return Measured(
        f"{first.get(place, f'{place} on comes first')}; {balance(off)}",
        {"place": place, "flows": flows, "spent": spent, "imbalance": off},
    )


def _place(taken: Taken) -> tuple[int, int, int]:
    return taken.ledger_id, taken.entry_id, taken.batch_index


@behaviour("seek-batch", "seek to index 4 of a batch of 10, RQS 10")
def seek_batch(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("seek-batch")
    stage.batches(topic, 2, 10)
    return sought(stage, client, topic, 4)


@behaviour("seek-single", "seek to a single message, RQS 10")
def seek_single(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("seek-single")
    stage.produce(topic, 20)
    return sought(stage, client, topic, 4)


@behaviour("seek-single-1", "seek to a single message, RQS 1")
def seek_single_1(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("seek-single-1")
    stage.produce(topic, 20)
    return sought(stage, client, topic, 4, 1)


def read_from(
    stage: Stage, client: Client, topic: str, at: int, *, index: int | None = None, queue: int = 10
) -> Measured:
    """Learns the positions with a consumer, then reads from one of them on.

    index: a batch index that is written into the position by hand.
    """
    consumer = client.subscribe(Wanted(topic, 1000))
    taken = consumer.receive(20)
    consumer.close()
    stage.quiet(topic)
    before = len(stage.flows_by_incarnation(topic))
    start = taken[at]
    if index is not None:
        start = client.at(start.ledger_id, start.entry_id, index)
    reader = client.reader(topic, start, queue)
    stage.until(lambda: len(stage.flows_by_incarnation(topic)) > before)
    got = reader.receive(1, 3.0)
    place = [_place(each) for each in taken].index(_place(got[0])) - at if got else None
    stage.quiet(topic)
    spent = stage.ledger(topic).spent
    flows = stage.flows_by_incarnation(topic)[-1]
    off = stage.imbalance(topic, reader, queue)
    reader.close()
    return described(place, flows, spent, off)


def read_on(queue: int, stage: Stage, client: Client) -> Measured:
    """A reader of single messages that has to connect again after three of them."""
    topic = stage.topic("reader-unload")
    stage.produce(topic, 30)
    consumer = client.subscribe(Wanted(topic, 1000))
    taken = consumer.receive(20)
    consumer.close()
    stage.quiet(topic)
    reader = client.reader(topic, client.at(taken[0].ledger_id, -1, -1), queue)
    assert len(reader.receive(3)) == 3
    stage.quiet(topic)
    before = len(stage.flows_by_incarnation(topic))
    stage.unload(topic)
    stage.until(lambda: len(stage.flows_by_incarnation(topic)) > before)
    got = reader.receive(1, 3.0)
    place = [_place(each) for each in taken].index(_place(got[0])) - 2 if got else None
    stage.quiet(topic)
    spent = stage.ledger(topic).spent
    flows = stage.flows_by_incarnation(topic)[-1]
    off = stage.imbalance(topic, reader, queue)
    reader.close()
    return described(place, flows, spent, off)


for _queue in (10, 1):
    behaviour(f"reader-unload-{_queue}", f"reader after an unload, RQS {_queue}", needs="reader")(
        partial(read_on, _queue)
    )


@behaviour("start-batch", "reader from index 4 of a batch of 10, RQS 10", needs="reader")
def start_batch(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("start-batch")
    stage.batches(topic, 2, 10)
    return read_from(stage, client, topic, 4)


@behaviour("start-single", "reader from a single message, RQS 10", needs="reader")
def start_single(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("start-single")
    stage.produce(topic, 20)
    return read_from(stage, client, topic, 4)


@behaviour(
    "start-single-index", "reader from a single message, written with batch index 0, RQS 10",
    needs="reader",
)  # fmt: skip
def start_single_index(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("start-single-index")
    stage.produce(topic, 20)
    return read_from(stage, client, topic, 4, index=0)


@behaviour(
    "start-single-index-1", "the same at RQS 1", needs="reader",
)  # fmt: skip
def start_single_index_1(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("start-single-index-1")
    stage.produce(topic, 20)
    return read_from(stage, client, topic, 4, index=0, queue=1)
