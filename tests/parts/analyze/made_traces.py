"""Small traces in which everything happens that a trace can tell of consumers.

Each is a function: a folder that is not there yet -> the traces that it made in it, sealed, by the
program's own code. Their trace_id begins with the name of the function, so that all of them can be
read at once and told apart.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pulsar_doctor.trace import folder as folders
from pulsar_doctor.trace import ring
from pulsar_doctor.trace.index import read_index, write_index
from pulsar_doctor.trace.sealing import Sealer, open_trace
from pulsar_doctor.trace.segments import LEAST, sha256_of
from pulsar_doctor.wire.journal import FILE_HEADER
from tests.made.traces import relay_alive, rotating, write_trace
from tests.made.wire import EXCLUSIVE, FAILOVER, KEY_SHARED, TOPIC, Wire, slow_consumer
from tests.parts.analyze.random_wire import RandomWire

Maker = Callable[[Path], list[Path]]

LIMITED = {"unacked_limit": 4}
PARTS = 10  # of a ring in the making


def sealed(path: Path, said: Wire, trace_id: str, *, parts: int = 1, **meta: Any) -> list[Path]:
    """A trace of what was said, in so many segments."""
    write_trace(path, said.blocks, parts=parts, trace_id=trace_id, **meta)
    open_trace(path)
    return [path]


def slow(path: Path) -> list[Path]:
    """A slow consumer, its permits spent most of the time."""
    return sealed(path, slow_consumer(), "slow", parts=3)


def clock_set(path: Path) -> list[Path]:
    """The wall clock is set forward while a consumer has no permits, which lasts no longer so."""
    said = Wire().open().attached(1, "slow").flow(4).pushed(range(4)).wait(2)
    said.ahead_us = 30_000_000
    said.acked([0, 1]).wait(1).flow(2).pushed([4]).wait(1)
    return sealed(path, said, "clock_set")


def ties(path: Path) -> list[Path]:
    """Many rows at one microsecond, of two connections and both directions."""
    said = Wire().open().open(1)
    said.attached(1, "a").moment().attached(1, "b", conn_id=1)
    said.flow(2).moment().flow(3, conn_id=1).moment()
    said.pushed(range(4)).moment().pushed(range(10, 13), conn_id=1)
    said.wait(1)
    for at in range(0, 20, 2):
        said.acked([at]).moment().acked([at + 1]).moment().flow(2).moment()
        said.pushed(range(at + 4, at + 6))
        said.wait(0.001 * (at % 3))
    return sealed(path, said, "ties")


def gaps(path: Path) -> list[Path]:
    """Commands are missing: while starved, before a close, and then all begins anew."""
    said = Wire().open().attached().flow(2).pushed([1, 2]).wait(1).acked([1])
    said.lost().wait(1).acked([2]).flow(2).pushed([3, 4]).close()
    said.wait(1).open(1).attached(conn_id=1).flow(2, conn_id=1).pushed([5, 6], conn_id=1)
    said.attached(2, "quiet", conn_id=1)  # has no row any more when the GAP comes
    said.wait(1).lost().wait(1).close(1).wait(1)
    return sealed(path, said, "gaps")


def unparsed(path: Path) -> list[Path]:
    """One of two connections cannot be read any more; both have starved consumers."""
    said = Wire().open().open(1).attached(1, "a").attached(1, "b", conn_id=1)
    said.flow(1).flow(1, conn_id=1).pushed([1]).pushed([2], conn_id=1).wait(1)
    said.unparsed().wait(1).flow(5, conn_id=1).pushed(range(3, 8), conn_id=1).wait(1)
    said.acked([1]).flow(1).close().wait(1)
    return sealed(path, said, "unparsed")


def restarts(path: Path) -> list[Path]:
    """Incarnations of one name end in every way there is, most of them while starved."""
    said = Wire().open().attached().flow(1).pushed([1]).wait(1)
    said.close().wait(1)  # the connection is lost, and it comes again
    said.open(1).attached(conn_id=1).flow(1, conn_id=1).pushed([1], again=1, conn_id=1).wait(1)
    said.attached(conn_id=1).flow(1, conn_id=1).pushed([1], again=2, conn_id=1)  # the same id
    said.wait(1).attached(1, "another", conn_id=1)  # the same id and another name
    said.flow(1, conn_id=1).pushed([2], conn_id=1).wait(1)
    said.seek((7, 0), conn_id=1).wait(0.1)
    said.attached(1, "another", conn_id=1).flow(2, conn_id=1).pushed([1, 2], conn_id=1).wait(1)
    said.closing(conn_id=1).refused(501, conn_id=1).wait(1)  # stays
    said.acked([1], conn_id=1).closed(conn_id=1)
    said.asked(2, "late", sub_type=EXCLUSIVE, conn_id=1).refused(2, conn_id=1).wait(1)
    said.attached(3, "last", conn_id=1).flow(1, 3, conn_id=1).pushed([3], 3, conn_id=1).wait(1)
    said.closed(3, conn_id=1, command="UNSUBSCRIBE").attached(3, "last", conn_id=1)
    said.flow(1, 3, conn_id=1).pushed([3], 3, conn_id=1).wait(1).unloaded(3, conn_id=1)
    return sealed(path, said.close(1), "restarts", parts=4)


def back_too_early(path: Path) -> list[Path]:
    """Names that come again before they are gone, or that several consumers share."""
    said = Wire().open().attached().flow(1).pushed([1]).wait(1)
    said.open(1).attached(conn_id=1).flow(1, conn_id=1).wait(1).close()
    said.pushed([1], again=1, conn_id=1).wait(1)
    said.attached(2, "twin", conn_id=1).attached(3, "twin", conn_id=1)
    said.attached(4, "twin", conn_id=1, subscription="other").wait(1).closed(2, conn_id=1)
    said.attached(5, "twin", conn_id=1, subscription="other").closed(3, conn_id=1)
    said.closed(4, conn_id=1).wait(1)
    return sealed(path, said, "back_too_early")


def one_connection(path: Path) -> list[Path]:
    """Several consumers on one connection, and it closes: some starved, some not, some gone."""
    said = Wire().open().produced()
    for consumer_id in range(1, 6):
        said.attached(consumer_id, f"worker-{consumer_id}")
        said.wait(0.01 * consumer_id).flow(3, consumer_id)
    said.pushed([1, 2, 3], 1).wait(1).pushed([4, 5, 6], 2).pushed([7], 3)
    said.closed(3).asked(6, "never answered").flow(7, 6).wait(1).close().wait(1)
    return sealed(path, said, "one_connection")


def ends_starved(path: Path) -> list[Path]:
    """The trace ends and nothing has moved for a while; others still spoke."""
    said = Wire().open().attached(1, "stuck").flow(10).pushed(range(10)).acked([0, 1, 2]).wait(5)
    said.produced().attached(2, "lively").flow(100, 2).pushed([20, 21], 2).wait(60).produced()
    return sealed(path, said, "ends_starved")


def small_queues(path: Path) -> list[Path]:
    """Receiver queues of 0 and of 1, which look alike, then one FLOW that is not 1."""
    said = Wire().open().attached(1, "zero").attached(2, "one").attached(3, "more")
    for at in range(0, 30, 3):
        for consumer_id in (1, 2, 3):
            said.flow(1, consumer_id).wait(0.002 * consumer_id)
            said.pushed([at + consumer_id], consumer_id).acked([at + consumer_id], consumer_id)
    said.flow(5, 3).wait(1)
    return sealed(path, said, "small_queues")


def batches(path: Path) -> list[Path]:
    """Batches: far below zero, half acknowledged, delivered again with what is left of them."""
    said = Wire().open().attached().flow(10).pushed([1, 2, 3], batch=100).wait(1)
    said.acked([1], open_bits=(1 << 100) - 2).acked([1], open_bits=(1 << 100) - 4).wait(1)
    said.acked([2], open_bits=(1 << 70) - 1).flow(400).given_back([1, 2]).wait(0.5)
    said.pushed([1], batch=100, open_bits=(1 << 100) - 4, again=1)
    said.pushed([2], batch=100, open_bits=(1 << 70) - 1, again=1)
    said.pushed([4], batch=70, open_bits=0).pushed([5, 6, 7]).wait(1)
    said.acked([1]).acked([3], open_bits=0).acked([5, 7]).acked([4], open_bits=6).wait(1)
    said.acked([2, 6], open_bits=0).flow(1000).pushed([8], batch=3).wait(1)
    return sealed(path, said, "batches")


def redeliveries(path: Path) -> list[Path]:
    """A storm: the same messages over and over, given back by their ids and all at once."""
    said = Wire().open().attached().flow(8)
    for again in range(6):
        said.pushed(range(4), again=again).wait(0.1)
        said.given_back([] if again % 2 else range(4)).wait(0.05)
        said.flow(4).wait(0.1)
    said.acked([0, 3]).wait(1)
    return sealed(path, said, "redeliveries")


def acks(path: Path) -> list[Path]:
    """Cumulative acks in all types, also of half a batch, and acks of what nobody got here."""
    said = Wire().open()
    said.attached(1, "e", subscription="e", sub_type=EXCLUSIVE).flow(20)
    said.pushed(range(8)).pushed([8], batch=5).pushed([(9, 1), (9, 2)]).wait(0.1)
    said.acked([3], cumulative=True).acked([8], cumulative=True, open_bits=0b11100).wait(0.1)
    said.attached(2, "f", subscription="f", sub_type=FAILOVER).flow(20, 2).pushed(range(9), 2)
    said.acked([2], 2, cumulative=True).acked([6], 2).acked([7], 2, corrupt=True).wait(0.1)
    said.attached(3, "s", subscription="s").flow(20, 3).pushed(range(9), 3).wait(0.1)
    said.acked([7], 3, cumulative=True).acked([1], 3).acked([(8, 0)], 3)
    said.acked([3, 5], 3, transaction=1).acked([5], 3).wait(0.1)
    said.attached(4, "k", subscription="k", sub_type=KEY_SHARED).flow(20, 4).pushed([5, 6], 4)
    said.acked([9], 4, cumulative=True).wait(0.1)
    said.attached(5, "x", subscription="x", sub_type=EXCLUSIVE).flow(9, 5)
    said.pushed([1], 5).pushed([2], 5, batch=4).pushed([3], 5).wait(0.1)
    said.acked([2], 5, cumulative=True, open_bits=0b1100).acked([3], 5).wait(0.1)
    said.attached(6, "y", subscription="only acks").flow(9, 6).acked([100], 6).wait(0.1)
    return sealed(path, said, "acks")


def limits(path: Path) -> list[Path]:
    """The limit of unacknowledged messages sets FLOWs aside, and all that releases them.

    What another consumer acknowledges shows in the next row of the one that held it.
    """
    said = Wire().open()
    for consumer_id, name in enumerate(("a", "b", "c", "d", "e"), 1):
        said.attached(consumer_id, name).flow(4, consumer_id)
        said.pushed(range(10 * consumer_id, 10 * consumer_id + 4), consumer_id)
        said.flow(4, consumer_id).wait(0.2)
    said.acked([10], 1).acked([11, 12], 1).wait(0.1)  # its own
    said.given_back([20], 2).wait(0.1)
    for consumer_id in (3, 4, 5):
        said.acked([10 * consumer_id + n for n in range(3)], 1).wait(0.1)  # by another
    said.pushed([90], 3).closed(4).wait(0.1).took(53, "e").wait(0.1)
    said.pushed([91, 92, 93, 94, 95], 1).wait(1)
    told = dict.fromkeys("abcde", LIMITED)
    return sealed(path, said, "limits", told=told)


def topics(path: Path) -> list[Path]:
    """Partitions, several subscriptions of a topic, and names that nobody would choose."""
    said = Wire().open()
    odd = "persistent://öffentlich/größe/bestellungen-%2F-‘’-\"'=\\-日本-partition-x"
    places = [
        *((f"{TOPIC}-partition-{n}", "billing") for n in range(3)),
        (TOPIC, "billing"),
        (TOPIC, "Rechnung / ü"),
        (odd, "a=b"),
        ("", ""),
        ("non-persistent://public/default/x", "__HIVE_DEFAULT_PARTITION__"),
        ("persistent://public/default/null", "null"),
    ]
    for consumer_id, (topic, subscription) in enumerate(places, 1):
        said.attached(consumer_id, "工人 1", topic=topic, subscription=subscription)
        said.flow(4, consumer_id).pushed(range(consumer_id), consumer_id).wait(0.01)
        said.acked(range(0, consumer_id, 2), consumer_id)
    return sealed(path, said.wait(1), "topics")


def nameless(path: Path) -> list[Path]:
    """Consumers without a name: nobody can say which of them came again."""
    said = Wire().open().attached(1, None).attached(2, None).flow(1).flow(1, 2)
    said.pushed([1]).pushed([2], 2).wait(1).closed(1).attached(1, None).flow(1).wait(1)
    said.close().wait(1).open(1).attached(1, None, conn_id=1).wait(1)
    return sealed(path, said, "nameless")


def dropped_flow(path: Path) -> list[Path]:
    """A FLOW that comes before SUBSCRIBE has succeeded: the broker drops it."""
    said = Wire().open().asked().flow(10).granted().wait(1).flow(3).pushed([1, 2, 3]).wait(1)
    return sealed(path, said, "dropped_flow")


def takes(path: Path) -> list[Path]:
    """An application that tells each message that it takes."""
    said = Wire().open().attached().flow(4).pushed(range(4))
    for entry in range(4):
        said.wait(0.1).took(entry).acked([entry])
    told = {"slow": {"receiver_queue_size": 4, "takes_told": True}}
    return sealed(path, said.flow(2), "takes", told=told)


def two(path: Path) -> list[Path]:
    """Two traces that say the same: nothing of one may be counted for the other."""
    said = Wire().open().attached().flow(2).pushed([1, 2]).wait(1).acked([2]).wait(1)
    again = Wire().open().attached().flow(2).pushed([1, 2]).wait(1).close().wait(1)
    return sealed(path / "a", said, "two-a") + sealed(path / "b", again, "two-b")


def empty(path: Path) -> list[Path]:
    """Nothing was said, or only time went on; and one with a connection and no consumer."""
    return [
        *sealed(path / "none", Wire(), "empty-none"),
        *sealed(path / "time", Wire().wait(3), "empty-time"),
        *sealed(path / "producer", Wire().open().produced().close(), "empty-producer"),
    ]


def copied(path: Path) -> list[Path]:
    """The same trace twice."""
    (first,) = sealed(path / "first", slow_consumer(), "copied", parts=2)
    return [first, Path(shutil.copytree(first, path / "second"))]


# --- rings ---


def long_story() -> Wire:
    """Half a minute of starved consumers: one for all the time, one again and again."""
    said = Wire().open().attached(1, "stuck").flow(3).pushed([1, 2, 3])
    said.open(1).attached(1, "slow", conn_id=1).flow(4, conn_id=1)
    said.pushed(range(10, 14), conn_id=1)
    for at in range(10, 70, 2):
        said.wait(0.4).acked([at, at + 1], conn_id=1).wait(0.6).flow(2, conn_id=1)
        said.pushed([at + 4, at + 5], conn_id=1)
    return said.attached(1, "stuck").flow(1).wait(1)


def gone_in_between() -> Wire:
    """A starved consumer that goes after a while, another that stays to the end."""
    said = Wire().open().attached(1, "gone").flow(1).pushed([1])
    said.open(1).attached(1, "stays", conn_id=1).flow(1, conn_id=1).pushed([2], conn_id=1)
    for at in range(30):
        said.wait(1).produced(conn_id=1)
        if at == 15:
            said.close()
    return said.attached(2, "late", conn_id=1).flow(1, 2, conn_id=1).pushed([3], 2, conn_id=1)


@contextmanager
def growing_ring(
    path: Path, trace_id: str, said: Wire, seconds: float = 5
) -> Iterator[Iterator[tuple[int, Sealer]]]:
    """A ring in the making: the number of the journal that is being written, its sealer."""
    write_trace(path, [], trace_id=trace_id)
    ring.begin(path, ring.RingLimits(ring_seconds=seconds))

    def steps(sealer: Sealer) -> Iterator[tuple[int, Sealer]]:
        for number in rotating(path, said.blocks, parts=PARTS):
            sealer.follow()
            yield number, sealer

    with relay_alive(path), Sealer(path) as sealer:
        yield steps(sealer)


def begun_later(path: Path) -> list[Path]:
    """A ring: its beginning has expired, and both consumers were starved where it starts."""
    with growing_ring(path, "begun_later", long_story()) as steps:
        for _ in steps:
            pass
    open_trace(path)
    return [path]


def acked_later(path: Path) -> list[Path]:
    """A ring: what a starved consumer acknowledged first has expired, and what it did then not."""
    said = Wire().open().attached().flow(20).pushed(range(20))
    for entry in range(20):
        said.wait(1).acked([entry])
    with growing_ring(path, "acked_later", said) as steps:
        for _ in steps:
            pass
    open_trace(path)
    return [path]


def _kept_at(path: Path, trace_id: str, when: int, said: Wire) -> list[Path]:
    kept = None
    with growing_ring(path, trace_id, said) as steps:
        for number, sealer in steps:
            if kept is None and number == when:
                kept = sealer.keep("a stall", number - 1)
    assert kept is not None
    open_trace(path)
    return [path, kept]


def kept(path: Path) -> list[Path]:
    """A ring and what was kept of it, which overlap."""
    return _kept_at(path, "kept", PARTS, long_story())


def kept_before(path: Path) -> list[Path]:
    """A ring and what was kept of it long before: rows between them are missing."""
    return _kept_at(path, "kept_before", 3, long_story())


def kept_of_gone(path: Path) -> list[Path]:
    """Likewise, and who was starved then is not heard of again: it went in between."""
    return _kept_at(path, "kept_of_gone", 2, gone_in_between())


def forgotten(path: Path) -> list[Path]:
    """A ring that has lost its ledgers and goes on: the newest rows know less than those before."""
    said = long_story().wait(0.5).acked([66], conn_id=1)
    said.wait(0.5).flow(2, conn_id=1).close(1).wait(1).unloaded(1).wait(1)
    with growing_ring(path, "forgotten", said, 15) as steps:
        next(number for number, _ in steps if number == PARTS - 1)
    size = -(-len(said.blocks) // PARTS)
    for number in (PARTS - 1, PARTS):
        blocks = said.blocks[(number - 1) * size : number * size]
        (path / folders.journal_name(number)).write_bytes(FILE_HEADER + b"".join(blocks))
    for state in path.glob(".state-*"):
        state.unlink()
    open_trace(path)
    return [path]


# --- an older program, and chance ---


def older(path: Path) -> list[Path]:
    """A trace of a program that did not know the newest columns yet."""
    (made,) = sealed(path / "slow", slow_consumer(), "older-slow", parts=2)
    (restarted,) = sealed(path / "restarts", restarted_story(), "older-restarts")
    for each in (made, restarted):
        without_new_columns(each)
    return [made, restarted]


def partly_older(path: Path) -> list[Path]:
    """A newer program went on with what an older one had begun: only the first segment is older."""
    (made,) = sealed(path, slow_consumer(), "partly_older", parts=3)
    without_new_columns(made, 1)
    return [made]


def restarted_story() -> Wire:
    """A consumer that subscribes again under its number while it is starved, then is closed."""
    said = Wire().open().attached().flow(1).pushed([1]).wait(1)
    return said.attached().flow(1).wait(1).pushed([1], again=1).wait(1).close().wait(1)


def without_new_columns(path: Path, through: int = 1 << 30) -> None:
    """Writes each segment, up to that one, again with the columns of the first version only."""
    index = read_index(path)
    for at, part in enumerate(index.parts):
        if part.name is None or part.number > through:
            continue
        segment = path / part.name
        table = pq.read_table(segment)
        pq.write_table(table.select(table.column_names[:LEAST]), segment)
        size, sha256 = segment.stat().st_size, sha256_of(segment)
        index.parts[at] = replace(part, bytes=size, sha256=sha256)
    write_index(path, index)


def by_chance(path: Path) -> list[Path]:
    """Thousands of rows of everything together, the same every time."""
    traces = []
    for seed in (1, 2, 3):
        said = RandomWire(random.Random(seed)).played(1000)
        told = {f"worker-{n}": {"unacked_limit": 3} for n in range(0, 6, 2)}
        traces += sealed(path / str(seed), said, f"by_chance-{seed}", parts=3, told=told)
    return traces


MAKERS: tuple[Maker, ...] = (
    slow, clock_set, ties, gaps, unparsed, restarts, back_too_early, one_connection, ends_starved,
    small_queues, batches, redeliveries, acks, limits, topics, nameless, dropped_flow, takes, two,
    empty, copied, begun_later, acked_later, kept, kept_before, kept_of_gone, forgotten, older,
    partly_older, by_chance,
)  # fmt: skip
