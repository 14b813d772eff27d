"""Messages that never reach the application: do their permits come back?"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tests.conformance.driver import Client, Wanted
from tests.conformance.raw_producer import LZ4, ZLIB, batch_payload
from tests.conformance.stage import Stage
from tests.conformance.table import Measured, balance, behaviour
from tests.made.meddler import as_it_is, flip_last_byte, meddling

BATCH = 8  # more than half of a queue of 10: that one would stand still
ODD = 6
Entry = dict[str, Any]  # what a raw producer is asked for


def leak(
    name: str, entries: list[Entry], stage: Stage, client: Client, queue: int = 10, **wanted: Any
) -> Measured:
    """Odd entries, then good ones: how many permits are missing in the end."""
    topic = stage.topic(name)
    consumer = client.subscribe(Wanted(topic, queue, **wanted))
    with stage.raw(topic) as producer:
        for entry in entries:
            producer.entry(**entry)
    stage.quiet(topic)
    spent = stage.ledger(topic).spent
    flows = stage.flows(topic)
    off = stage.imbalance(topic, consumer, queue)
    consumer.close()
    return Measured(
        f"{spent} spent, {balance(off)}", {"spent": spent, "flows": flows, "imbalance": off}
    )


SINGLES: list[Entry] = [{"encrypted": True}] * ODD
BATCHED: list[Entry] = [
    {"encrypted": True, "batch": BATCH, "payload": batch_payload(*[b"x"] * BATCH)}
]
CRUSHED: Entry = {"compressed": (ZLIB, 100), "payload": b"this cannot be decompressed" * 3}

for _name, _title, _entries, _more in (
    ("no-key-discard", f"{ODD} singles that cannot be decrypted, DISCARD, RQS 10", SINGLES, {}),
    ("no-key-discard-batch", f"a batch of {BATCH} likewise, RQS 40", BATCHED, {"queue": 40}),
    ("no-key-fail", f"{ODD} singles that cannot be decrypted, FAIL, RQS 10", SINGLES,
     {"crypto": "fail"}),
    ("crushed", f"{ODD} singles that cannot be decompressed, RQS 10", [CRUSHED] * ODD, {}),
    ("crushed-batch", f"a batch of {BATCH} likewise, RQS 40", [CRUSHED | {"batch": BATCH}],
     {"queue": 40}),
):  # fmt: skip
    behaviour(_name, _title)(partial(leak, _name, _entries, **{"crypto": "discard"} | _more))


@behaviour("crushed-lz4", "one single that is no LZ4: SUBSCRIBEs in 3 s")
def crushed_lz4(stage: Stage, client: Client) -> Measured:
    """With a client of its own: its connection may suffer."""
    topic = stage.topic("crushed-lz4")
    behind = client.another(stage.service_url)
    consumer = behind.subscribe(Wanted(topic, 10))
    with stage.raw(topic) as producer:
        producer.entry(**(CRUSHED | {"compressed": (LZ4, 100)}))
    time.sleep(3)
    stage.settle()
    subscribed = len(stage.of(topic, "SUBSCRIBE"))
    acks = [row.error_code for row in stage.of(topic, "ACK")]
    consumer.close()
    behind.close()
    text = f"{subscribed} SUBSCRIBE, " + (", ".join(map(str, acks)) or "never acknowledged")
    return Measured(text, {"subscribed": subscribed, "acks": acks})


def spoiled(batch: bool, queue: int, stage: Stage, client: Client) -> Measured:
    """Messages whose checksum is broken on their way to the client."""
    topic = stage.topic("spoiled")
    with meddling(stage.service_url) as meddler:
        behind = client.another(meddler.service_url)
        consumer = behind.subscribe(Wanted(topic, queue))
        meddler.meddle = flip_last_byte
        if batch:
            stage.batches(topic, 1, BATCH)
        else:
            stage.produce(topic, ODD)
        stage.quiet(topic)
        meddler.meddle = as_it_is
        spent = stage.ledger(topic).spent
        acks = [row.error_code for row in stage.of(topic, "ACK")]
        off = stage.imbalance(topic, consumer, queue)
        consumer.close()
        behind.close()
    return Measured(
        f"{spent} spent, {balance(off)}", {"spent": spent, "acks": acks, "imbalance": off}
    )


behaviour("spoiled", f"{ODD} singles with a broken checksum, RQS 10")(partial(spoiled, False, 10))
behaviour("spoiled-batch", f"a batch of {BATCH} with a broken checksum, RQS 40")(
    partial(spoiled, True, 40)
)


def chunked(uuid: str, of: int, *numbers: int) -> list[Entry]:
    return [{"chunk": (uuid, number, of)} for number in numbers]


WHOLE = [entry for at in range(3) for entry in chunked(f"u{at}", 4, 0, 1, 2, 3)]
CHUNKS: list[tuple[str, str, list[Entry], dict[str, Any]]] = [
    ("chunks", "3 whole messages of 4 chunks", WHOLE, {}),
    ("chunk-last-twice", "last chunk twice", chunked("u", 3, 0, 1, 2, 2), {}),
    ("chunk-middle-twice", "a chunk in the middle twice", chunked("u", 3, 0, 1, 1, 2), {}),
    ("chunk-first-twice", "first chunk twice", chunked("u", 3, 0, 0, 1, 2), {}),
    ("chunk-first-missing", "2 of 3 chunks, the first is missing", chunked("u", 3, 1, 2), {}),
    ("chunk-gap", "chunks 0 and 2 of 3", chunked("u", 3, 0, 2), {}),
    ("chunk-only-first", "6 messages of which only chunk 0 comes",
     [entry for at in range(6) for entry in chunked(f"u{at}", 3, 0)], {}),
    ("chunk-too-many", "6 begun, at most 2 pending",
     [entry for at in range(6) for entry in chunked(f"u{at}", 3, 0)], {"chunks_most": 2}),
    ("chunk-too-many-then-rest", "3 begun, at most 1 pending, then the rest of them",
     [e for at in range(3) for e in chunked(f"u{at}", 3, 0)]
     + [e for at in range(3) for e in chunked(f"u{at}", 3, 1, 2)], {"chunks_most": 1}),
    ("chunk-crushed", "3 messages of 2 chunks that cannot be decompressed",
     [e | CRUSHED for at in range(3) for e in chunked(f"u{at}", 2, 0, 1)], {}),
]  # fmt: skip
for _name, _title, _entries, _wanted in CHUNKS:
    behaviour(_name, f"chunks: {_title}")(
        partial(leak, _name, _entries, type="exclusive", **_wanted)
    )


@behaviour("chunk-expired", "chunks: 4 begun, expired, then the rest of them", needs="expire")
def chunk_expired(stage: Stage, client: Client) -> Measured:
    topic = stage.topic("chunk-expired")
    consumer = client.subscribe(Wanted(topic, 10, "exclusive", expire_chunks_ms=500))
    with stage.raw(topic) as producer:
        for at in range(4):
            producer.entry(**chunked(f"u{at}", 3, 0)[0])
        stage.quiet(topic, 2.5)
        expired = len(stage.of(topic, "ACK"))
        for at in range(4):
            for entry in chunked(f"u{at}", 3, 1, 2):
                producer.entry(**entry)
    stage.quiet(topic)
    off = stage.imbalance(topic, consumer, 10)
    consumer.close()
    return Measured(balance(off), {"acks_of_expired": expired, "imbalance": off})


@behaviour("chunk-small-queue", "chunks: a message of 8 chunks at RQS 1, 2, 3")
def chunk_small_queue(stage: Stage, client: Client) -> Measured:
    arrived = {}
    for queue in (1, 2, 3):
        topic = stage.topic(f"chunk-small-{queue}")
        consumer = client.subscribe(Wanted(topic, queue, "exclusive"))
        with stage.raw(topic) as producer:
            for entry in chunked("u", 8, *range(8)):
                producer.entry(**entry)
        arrived[queue] = len(consumer.receive(1, 3.0))
        consumer.close()
    done = [str(queue) for queue, count in arrived.items() if count]
    stuck = [str(queue) for queue, count in arrived.items() if not count]
    text = f"arrives at RQS {', '.join(done)}" if done else ""
    if stuck:
        text += f"{'; ' if text else ''}never at RQS {', '.join(stuck)}"
    return Measured(text, {"arrived": arrived})
