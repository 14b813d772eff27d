"""Measures random acks through the ledgers: how long one takes, and how much memory that needs.

    python bench/acks.py [100000 1000000]

Each line is a process of its own. All messages are delivered first (`windows`: those of a window),
then acknowledged in random order, one id a command, which is the dearest way:

random    the order of all is random: mark-delete stands still nearly to the end
windows   random within windows of 1,000 entries, as a consumer with that queue does it
grouped   as random, 1,000 ids a command, as clients group them
indexes   batches of 10 messages, acknowledged message by message (ack_set), the order of all random

`acknowledgements` is the pass that tells mark-delete, ranges and biographies, `permits` the ledgers
that the observer keeps. Seconds are CPU time, without that of making the rows; so is the memory.
ranges, ms: how many there are when half is acknowledged, and how long it takes to ask for them.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from measured import run, table

from pulsar_doctor.ledger.acks.subscription import Acknowledgements
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import TO_BROKER, TO_CLIENT, MessageId, Row
from tests.ledger.rows import attached

KINDS = ("random", "windows", "grouped", "indexes")
WINDOW = GROUP = 1000
BATCH = 10
STEP_US = 10


def message(row: Row, entry: int, batch: int) -> Row:
    row.command, row.direction = "MESSAGE", TO_CLIENT
    row.ledger_id, row.entry_id = 7, entry
    row.messages = row.permits = batch
    row.ack_set = row.message_ids = row.ack_type = None
    row.redelivery_count = 0
    return row


def ack(row: Row, ids: Sequence[MessageId]) -> Row:
    row.command, row.direction, row.ack_type = "ACK", TO_BROKER, "individual"
    row.messages = len(ids)
    row.message_ids = None
    if len(ids) == 1:
        row.ledger_id, row.entry_id, row.ack_set = ids[0]
    else:
        row.ledger_id = row.entry_id = row.ack_set = None
        row.message_ids = list(ids)
    return row


def said(kind: str, count: int) -> Iterator[Row]:
    """The rows of `count` acks and of what they acknowledge. It is the same row again and again."""
    chance, row = random.Random(1), Row()
    row.conn_id, row.consumer_id, row.incarnation = 1, 0, 1
    row.topic, row.subscription, row.subscription_type = "orders", "billing", "Shared"
    batch = BATCH if kind == "indexes" else 1
    window = WINDOW if kind == "windows" else count // batch
    for first in range(0, count // batch, window):
        entries = range(first, min(first + window, count // batch))
        for entry in entries:
            row.ts, row.mono_ns = row.ts + STEP_US, row.mono_ns + STEP_US * 1000
            yield message(row, entry, batch)
        for ids in acks(kind, entries, chance):
            row.ts, row.mono_ns = row.ts + STEP_US, row.mono_ns + STEP_US * 1000
            yield ack(row, ids)


def acks(kind: str, entries: range, chance: random.Random) -> Iterator[list[MessageId]]:
    """The ids of each ack."""
    if kind == "indexes":
        indexes = list(range(len(entries) * BATCH))
        chance.shuffle(indexes)
        full = (1 << BATCH) - 1
        sets = [(full & ~(1 << index)).to_bytes(8, "little") for index in range(BATCH)]
        for index in indexes:
            yield [MessageId(7, entries.start + index // BATCH, sets[index % BATCH])]
        return
    order = list(entries)
    chance.shuffle(order)
    size = GROUP if kind == "grouped" else 1
    for at in range(0, len(order), size):
        yield [MessageId(7, entry, None) for entry in order[at : at + size]]


def one(which: str, kind: str, count: int) -> None:
    """Prints the CPU seconds of acks and of deliveries, and the ranges half way."""
    seconds = {"MESSAGE": 0.0, "ACK": 0.0}
    found, apply = ledger(which)
    ranges, ranges_seconds, acked, command = 0, 0.0, 0, "MESSAGE"
    began = time.process_time()
    for row in said(kind, count):
        if row.command != command:
            now = time.process_time()
            seconds[command] += now - began
            command, began = row.command, now
        apply(row)
        if command == "ACK":
            acked += row.messages or 0
            if found and acked == count // 2:
                before = time.process_time()
                ranges = len(found.ranges())
                ranges_seconds = time.process_time() - before
                began += ranges_seconds
    seconds[command] += time.process_time() - began
    if found:
        assert found.mark_delete == (7, count // (BATCH if kind == "indexes" else 1) - 1)
    print(json.dumps([seconds["ACK"], seconds["MESSAGE"], ranges, ranges_seconds]))


def ledger(which: str) -> tuple[Acknowledgements | None, Callable[[Row], Any]]:
    """What rows are applied to."""
    if which == "nothing":
        return None, lambda row: None
    if which == "acknowledgements":
        found = Acknowledgements()
        return found, found.apply
    timeline = Timeline()
    for row in attached():
        timeline.apply(row)
    return None, timeline.apply


def main(counts: Sequence[int]) -> None:
    lines = [
        ("ledger", "acks", "kind", "acks s", "us an ack", "deliveries s", "ranges", "ms", "MiB")
    ]
    for kind in KINDS:
        for count in counts:
            rows = measure("nothing", kind, count)
            for which in ("acknowledgements", "permits"):
                found = measure(which, kind, count)
                acks_seconds, deliveries = found[0] - rows[0], found[1] - rows[1]
                told = which == "acknowledgements"
                lines.append(
                    (
                        which,
                        f"{count:,}",
                        kind,
                        f"{acks_seconds:.2f}",
                        f"{acks_seconds / count * 1e6:.2f}",
                        f"{deliveries:.2f}",
                        f"{found[2]:,}" if told else "",
                        f"{found[3] * 1e3:.0f}" if told else "",
                        f"{found[4] - rows[4]:.0f}",
                    )
                )
    print(table(lines[:1] + sorted(lines[1:], key=lambda line: line[0])))


def measure(which: str, kind: str, count: int) -> list[float]:
    """What `one` prints in a process of its own, and the most memory of that, in MiB."""
    found = run([sys.executable, __file__, "one", which, kind, str(count)])
    if found.code:
        sys.exit(found.err)
    return [*json.loads(found.out), found.peak_mib]


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main([int(each) for each in sys.argv[1:]] or [100_000, 1_000_000])
