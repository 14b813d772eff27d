"""A tap that is left running: after hours it holds what it held after minutes.

The long run is started by hand, with `-m slow -s`: it prints what it measures, minute by minute.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pulsar_doctor.parts.tap.observer.events import Begin
from pulsar_doctor.parts.tap.observing import Observing
from pulsar_doctor.trace.ring import RingLimits
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.tap.relay import faulty
from tests.parts.tap.relay.traffic import MIB
from tests.parts.tap.tapped import Peer, Tapped, command_frame, flow, message, tapping
from tests.support import eventually
from tests.support.processes import descriptors, linux, most_of, resident_bytes

pytestmark = linux
LONG = [pytest.mark.slow, pytest.mark.timeout(900)]
A_SECOND = 5000  # messages
TICKS = 50  # a second
QUEUE = 1000
SUBSCRIBE = command_frame(
    4, "subscribe", topic="persistent://public/default/orders", subscription="billing",
    sub_type=1, consumer_id=1, consumer_name="steady", request_id=1,
)  # fmt: skip
SUCCESS = command_frame(13, "success", request_id=1)
BEGUN = ("OPEN", "CONNECT", "CONNECTED", "SUBSCRIBE", "SUCCESS")


def pushed(first: int, count: int) -> bytes:
    return b"".join(
        message(1, b"x" * 100, entry_id=number) for number in range(first, first + count)
    )


def acked(first: int, count: int) -> bytes:
    """One by one, and a FLOW for them."""
    acks = b"".join(
        command_frame(10, "ack", consumer_id=1, ack_type=0, message_id=[position(number)])
        for number in range(first, first + count)
    )
    return acks + flow(count)


def position(number: int) -> wire.MessageId:
    return wire.MessageId(ledger_id=7, entry_id=number)


class Steady:
    """A consumer that takes and acknowledges at a pace, and another that comes and goes."""

    def __init__(self, tapped: Tapped) -> None:
        self.tapped = tapped
        self.ticks = 0
        self.visits = 0
        self.client, self.broker = tapped.connected()
        passes(self.client, self.broker, SUBSCRIBE)
        passes(self.broker, self.client, SUCCESS)

    @property
    def records(self) -> int:
        """All that has passed, once both ends are closed."""
        each = A_SECOND // TICKS
        visit = len(("OPEN", "CONNECT", "CONNECTED", "CLOSE"))
        return len((*BEGUN, "CLOSE")) + self.ticks * (2 * each + 1) + self.visits * visit

    def run(self, seconds: float) -> None:
        begun = time.monotonic()
        each = A_SECOND // TICKS
        for tick in range(int(seconds * TICKS)):
            first = self.ticks * each
            passes(self.broker, self.client, pushed(first, each))
            passes(self.client, self.broker, acked(first, each))
            self.ticks += 1
            if tick % 5 == 0:
                self._visit()
            time.sleep(max(0.0, begun + (tick + 1) / TICKS - time.monotonic()))

    def _visit(self) -> None:
        client, broker = self.tapped.connected()
        self.visits += 1
        client.sock.close()
        assert broker.rest() == b""
        broker.sock.close()

    def end(self) -> None:
        self.client.sock.close()
        assert self.broker.rest() == b""
        self.broker.sock.close()


def passes(one: Peer, other: Peer, data: bytes) -> None:
    """No more than what the kernel takes at once."""
    one.sock.sendall(data)
    assert other.read(len(data)) == data


class Held(NamedTuple):
    """What the two processes hold at one moment; of memory, the most since the last one."""

    relay_bytes: int
    observer_bytes: int
    relay_descriptors: int
    observer_descriptors: int
    objects: Counter[str]
    journal_bytes: int

    def __str__(self) -> str:
        return (
            f"relay at most {self.relay_bytes / MIB:.1f} MiB, {self.relay_descriptors} "
            f"descriptors, {self.objects['unfinished tasks']} tasks, {self.objects.total()} "
            f"objects; observer at most {self.observer_bytes / MIB:.1f} MiB, "
            f"{self.observer_descriptors} descriptors; "
            f"{self.journal_bytes / MIB:.1f} MiB not sealed"
        )


@contextmanager
def observed(trace_dir: Path) -> Iterator[Observing]:
    """As the tap has it observed: judged every second, and shown to somebody who looks."""
    observing, over = Observing(trace_dir, Begin(), print), threading.Event()

    def look() -> None:
        while not over.is_set():
            observing.next(0.1)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield observing
    finally:
        over.set()
        looking.join()


def held(tapped: Tapped, observing: Observing, switch: Path) -> Held:
    relay, observer = tapped.relay.pid, observing.pid
    assert observer is not None, "the observer has ended"
    journals = tapped.relay.trace_dir.glob(".journal-*.pdj")
    sizes = 0
    for path in journals:
        with suppress(FileNotFoundError):  # sealed just now
            sizes += path.stat().st_size
    most = [resident_bytes(pid, "VmHWM") for pid in (relay, observer)]
    for pid in (relay, observer):
        most_of(pid)
    return Held(
        *most, descriptors(relay), descriptors(observer),
        faulty.census_of(switch), sizes,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rounds", "seconds", "seal_every"),
    [(3, 0.7, 0.5), pytest.param(10, 60.0, 60.0, marks=LONG)],
)
def test_what_passes_all_the_time_leaves_nothing_behind(tmp_path, rounds, seconds, seal_every):
    trace_dir = tmp_path / "t"
    with (
        faulty.relays(tmp_path, "census") as switch,
        tapping(trace_dir, limits=RingLimits(rotate_seconds=seal_every)) as tapped,
    ):
        with observed(trace_dir) as observing:
            steady = Steady(tapped)
            steady.run(seconds / 2)
            measured = []
            for number in range(1, rounds + 1):
                steady.run(seconds)
                measured.append(held(tapped, observing, switch))
                print(f"\n{number * seconds:.0f} s at {A_SECOND}/s: {measured[-1]}", flush=True)
        steady.end()
        eventually(lambda: tapped.relay.counters()["connections_open"] == 0)
        tapped.relay.stop()
        observing.finish()
    first, last = measured[0], measured[-1]
    assert last.relay_descriptors <= first.relay_descriptors + 2  # a journal that just begins
    assert last.observer_descriptors <= first.observer_descriptors + 4  # a segment in the making
    assert not _grown(first.objects, last.objects)
    if rounds > 3:  # so that every buffer has had its fill, and every segment its time
        early, late = measured[: rounds // 2], measured[rounds // 2 :]
        assert most(late, "relay_bytes") <= most(early, "relay_bytes") + 4 * MIB
        assert most(late, "observer_bytes") <= most(early, "observer_bytes") + 16 * MIB
    parts = [json.loads(line) for line in (trace_dir / "_segments.jsonl").read_text().splitlines()]
    assert sum(part["rows"] for part in parts) == steady.records


def most(measured: list[Held], of: str) -> int:
    return max(getattr(held, of) for held in measured)


def _grown(before: Counter[str], after: Counter[str]) -> Counter[str]:
    """Kinds of objects of which there are more; those of a block on its way come and go."""
    return Counter({kind: n for kind, n in (after - before).items() if n > 8})
