"""Our consumer and the real broker while topics are unloaded and connections are cut."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

from pulsar_doctor.parts.consume.engines import Message
from pulsar_doctor.trace.sealing import open_trace
from tests.clients.payloads import payload
from tests.parts.consume.receiver.received import (
    CODECS,
    ENOUGH,
    NO_MORE,
    SIZE,
    SLOW,
    attached,
    digest_of,
    digest_of_numbers,
    entries_left,
    meddled,
    partitioned,
    plan_of,
    produce,
    stats,
    unload,
)
from tests.parts.consume.receiver.received import contents as contents  # noqa: PLC0414
from tests.support import eventually


@pytest.mark.parametrize("queue", [0, 10])
def test_unloading_in_the_middle_loses_nothing_and_brings_twice_only_a_batch_half_done(
    broker, admin, client, topic, contents, queue
):
    """An orderly unload of 4.0.8 forgets what was acknowledged of a batch, also with batch indexes
    and pulsar-client; so that batch comes again. It forgets whole entries, too, while an
    acknowledgement is on its way, or waits for the ledger of the cursor: not unloaded before. Now
    and then it keeps the half of a batch: then the other half comes."""
    partitioned(admin, topic, 2)
    partitions = [f"{topic}-partition-{each}" for each in range(2)]
    plan = plan_of(topic, queue, batch_index_acks=True)
    seen: dict[tuple[int, int, int | None], Message] = {}
    twice = []
    half_done: set[tuple[int, int]] = set()
    acknowledged: dict[tuple[int, int], set[int | None]] = defaultdict(set)
    with attached(broker.service_url, plan) as consumer:
        produce(client, topic, range(300), 10)
        while (one := consumer.receive(ENOUGH if len(seen) < 300 else NO_MORE)) is not None:
            again = (one.ledger_id, one.entry_id, one.batch_index) in seen
            if again:
                twice.append((one.ledger_id, one.entry_id))
            seen[one.ledger_id, one.entry_id, one.batch_index] = one
            consumer.acknowledge(one)
            acknowledged[one.ledger_id, one.entry_id].add(one.batch_index)
            if len(seen) in (45, 150) and not again:
                begun = {each for each, indexes in acknowledged.items() if len(indexes) < 10}
                half_done |= begun
                kept = len(acknowledged) - len(begun)
                eventually(lambda kept=kept: entries_left(admin, partitions) == 30 - kept)
                for each in partitions:
                    unload(admin, each)
    assert digest_of(list(seen.values()), contents) == digest_of_numbers(range(300))
    assert set(twice) <= half_done


def test_a_connection_that_is_cut_is_made_again(broker, client, topic, tmp_path, contents):
    with meddled(broker, tmp_path / "t.ptrace", plan_of(topic, 10)) as (consumer, meddler):
        produce(client, topic, range(60), 1)
        got = []
        for number in range(60):
            if number == 25:
                meddler.cut()
            got.append(consumer.receive(ENOUGH))
            consumer.acknowledge(got[-1])
        assert consumer.receive(NO_MORE) is None
    assert digest_of(got, contents) == digest_of_numbers(range(60))


@SLOW
@pytest.mark.parametrize("round_", range(20))
def test_whatever_happens_nothing_is_lost_and_no_permit_too_many_is_granted(
    broker, admin, client, topic, tmp_path, contents, round_
):
    """Unloads, cut connections, negative acknowledgements and receives that end without a message,
    at random; the seed is in the name of the test."""
    rng = random.Random(round_)
    queue, partitions = rng.choice((0, 0, 1, 2, 3, 10, 1000)), rng.choice((0, 1, 3))
    plan = plan_of(
        topic, queue, type=rng.choice(("shared", "shared", "exclusive", "key_shared")),
        batch_index_acks=rng.random() < 0.5,
    )  # fmt: skip
    names = [f"{topic}-partition-{each}" for each in range(partitions)] or [topic]
    if partitions:
        partitioned(admin, topic, partitions)
    trace = tmp_path / "t.ptrace"
    got: list[Message] = []
    missing = Counter(payload(number, SIZE) for number in range(400))
    with meddled(broker, trace, plan) as (consumer, meddler):
        for codec in ("", *CODECS):
            first = ["", *CODECS].index(codec) * 80
            produce(client, topic, range(first, first + 80), rng.choice((1, 7, 40)), codec)
        came = time.monotonic()
        while missing and time.monotonic() < came + ENOUGH:
            message = consumer.receive(rng.choice((0.0, 0.05, 0.3)))
            if message is None:
                continue
            came = time.monotonic()
            assert message.corrupt is None
            got.append(message)
            if len(got) < 600 and rng.random() < 0.02:
                consumer.negative_acknowledge(message)
                continue
            missing.pop(contents[message.ledger_id, message.entry_id, message.batch_index], None)
            consumer.acknowledge(message)
            if len(got) < 600 and (event := rng.random()) < 0.02:
                unload(admin, rng.choice(names)) if event < 0.01 else meddler.cut()
        assert not missing, f"{len(missing)} of 400 did not come"
        eventually(lambda: [stats(admin, name)["msgBacklog"] for name in names] == [0] * len(names))
    outstanding: dict[Any, int] = {}
    for row in open_trace(trace).rows():
        if row.command in ("FLOW", "MESSAGE") and row.incarnation is not None:
            cost = row.permits if row.command == "FLOW" else -(row.permits or 0)
            who = row.incarnation, row.consumer_id
            outstanding[who] = outstanding.get(who, 0) + cost
            assert outstanding[who] <= max(1, queue), (row, who)
