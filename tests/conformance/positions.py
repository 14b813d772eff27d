"""Positions: what comes first after a seek or at a start, and whether the permits add up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.conformance.driver import Client, Consumer, Taken, Wanted
from tests.conformance.stage import Stage
from tests.conformance.table import Measured, balance, behaviour


def first_of(
    stage: Stage, topic: str, taken: list[Taken], at: int, moved: Callable[[], Consumer], queue: int
) -> Measured:
    """What comes first to whom `moved` gives, counted from the message taken at that place."""
    before = len(stage.flows_by_incarnation(topic))
    consumer = moved()
    stage.until(lambda: len(stage.flows_by_incarnation(topic)) > before)
    got = consumer.receive(1, 3.0)
    place = [_place(each) for each in taken].index(_place(got[0])) - at if got else None
    stage.quiet(topic)
    spent = stage.ledger(topic).spent
    flows = stage.flows_by_incarnation(topic)[-1]
    off = stage.imbalance(topic, consumer, queue)
    consumer.close()
    first = {None: "nothing comes", 0: "the message itself comes first", 1: "the next comes first"}
    return Measured(
        f"{first.get(place, f'{place} on comes first')}; {balance(off)}",
        {"place": place, "flows": flows, "spent": spent, "imbalance": off},
    )


def _place(taken: Taken) -> tuple[int, int, int]:
    return taken.ledger_id, taken.entry_id, taken.batch_index


def filled(stage: Stage, name: str, *, batches: bool = False) -> str:
    """A topic with 20 messages, single ones or in two batches."""
    topic = stage.topic(name)
    if batches:
        stage.batches(topic, 2, 10)
    else:
        stage.produce(topic, 20)
    return topic


def sought(name: str, batches: bool, queue: int, stage: Stage, client: Client) -> Measured:
    """Takes all, seeks to the fifth, and looks what comes."""
    topic = filled(stage, name, batches=batches)
    consumer = client.subscribe(Wanted(topic, queue, "exclusive"))
    taken = consumer.receive(20)
    assert len(taken) == 20, taken
    stage.quiet(topic)

    def moved() -> Consumer:
        consumer.seek(taken[4])
        return consumer

    return first_of(stage, topic, taken, 4, moved, queue)


for _name, _title, _batches, _queue in (
    ("seek-batch", "seek to index 4 of a batch of 10, RQS 10", True, 10),
    ("seek-single", "seek to a single message, RQS 10", False, 10),
    ("seek-single-1", "seek to a single message, RQS 1", False, 1),
):
    behaviour(_name, _title)(partial(sought, _name, _batches, _queue))


def all_of(stage: Stage, client: Client, topic: str) -> list[Taken]:
    """The positions of 20 messages, learned with a consumer."""
    consumer = client.subscribe(Wanted(topic, 1000))
    taken = consumer.receive(20)
    consumer.close()
    stage.quiet(topic)
    return taken


def read_on(queue: int, stage: Stage, client: Client) -> Measured:
    """A reader of single messages that has to connect again after three of them."""
    topic = stage.topic("reader-unload")
    stage.produce(topic, 30)
    taken = all_of(stage, client, topic)
    reader = client.reader(topic, client.at(taken[0].ledger_id, -1, -1), queue)
    assert len(reader.receive(3)) == 3
    stage.quiet(topic)

    def moved() -> Consumer:
        stage.unload(topic)
        return reader

    return first_of(stage, topic, taken, 2, moved, queue)


for _queue in (10, 1):
    behaviour(f"reader-unload-{_queue}", f"reader after an unload, RQS {_queue}", needs="reader")(
        partial(read_on, _queue)
    )


def read_from(
    name: str, batches: bool, index: int | None, queue: int, stage: Stage, client: Client
) -> Measured:
    """Reads from the fifth on. index: a batch index that is written into its position by hand."""
    topic = filled(stage, name, batches=batches)
    taken = all_of(stage, client, topic)
    start = taken[4]
    if index is not None:
        start = client.at(start.ledger_id, start.entry_id, index)
    return first_of(stage, topic, taken, 4, lambda: client.reader(topic, start, queue), queue)


BY_HAND = "reader from a single message, written with batch index 0, RQS 10"
for _name, _title, _batches, _index, _queue in (
    ("start-batch", "reader from index 4 of a batch of 10, RQS 10", True, None, 10),
    ("start-single", "reader from a single message, RQS 10", False, None, 10),
    ("start-single-index", BY_HAND, False, 0, 10),
    ("start-single-index-1", "the same at RQS 1", False, 0, 1),
):
    behaviour(_name, _title, needs="reader")(partial(read_from, _name, _batches, _index, _queue))
