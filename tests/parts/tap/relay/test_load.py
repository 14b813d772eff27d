"""Much at once: floods, readers that stop, thousands of connections, and nothing stays behind.

The long ones are run by hand, with `-m slow -s`: they print what they measured.
"""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from pulsar_doctor.parts.tap.options import RelayOptions
from tests.parts.tap.relay import faulty
from tests.parts.tap.relay.traffic import MIB, at_once, frames, sha256
from tests.parts.tap.tapped import CONNECT, Peer, Tapped, connect_frame, flow, message, tapping
from tests.support import eventually
from tests.support.processes import descriptors, linux, most_of, resident_bytes

pytestmark = linux
RESET = struct.pack("ii", 1, 0)
slow_run = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _enough_descriptors() -> Iterator[None]:
    """This process holds both ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


# A reader that stops.


def small_messages(seed: int, size: int) -> bytes:
    payload = random.Random(seed).randbytes(100)
    return b"".join(message(1, payload, entry_id=number) for number in range(size // 150))


def many_frames(seed: int, size: int) -> bytes:
    return frames(seed, size).data


def round_trips(client: Peer, broker: Peer, over: threading.Event) -> list[float]:
    """Milliseconds of each: there through the relay, and back through it."""
    there, back = flow(1), message(1, b"x" * 100)
    took = []
    while not over.wait(0.002):
        begun = time.perf_counter()
        client.sock.sendall(there)
        assert broker.read(len(there)) == there
        broker.sock.sendall(back)
        assert client.read(len(back)) == back
        took.append((time.perf_counter() - begun) * 1000)
    return took


def read_with_stops(sink: Peer, size: int, stops: int, seconds: float) -> bytes:
    parts = []
    for part in range(stops):
        time.sleep(seconds)  # by now every buffer on the way is full
        begun = size * part // stops
        parts.append(sink.read(size * (part + 1) // stops - begun))
    return b"".join(parts)


@pytest.mark.parametrize("slow", ["client", "broker"])
@pytest.mark.parametrize(
    ("made", "size", "stops", "seconds"),
    [
        (many_frames, 48 * MIB, 3, 0.3),
        pytest.param(many_frames, 200 * MIB, 1, 5.0, marks=slow_run),
        pytest.param(many_frames, 200 * MIB, 10, 0.5, marks=slow_run),
        pytest.param(small_messages, 200 * MIB, 1, 5.0, marks=slow_run),
    ],
)
def test_a_reader_that_stops_holds_up_its_own_writer_only(tapped, slow, made, size, stops, seconds):
    flood = made(1, size)
    client, broker = tapped.connected()
    source, sink = (client, broker) if slow == "broker" else (broker, client)
    source.sock.settimeout(100)
    other, over = tapped.connected(), threading.Event()
    read, took = [], []
    before = most_of(tapped.relay.pid)

    def flood_through() -> None:
        try:
            at_once(
                lambda: source.sock.sendall(flood),
                lambda: read.append(read_with_stops(sink, len(flood), stops, seconds)),
                seconds=100,
            )
        finally:
            over.set()

    at_once(flood_through, lambda: took.extend(round_trips(*other, over)), seconds=110)
    grown = resident_bytes(tapped.relay.pid, "VmHWM") - before
    cuts = statistics.quantiles(took, n=100)
    print(
        f"\n{made.__name__}, {len(flood) / MIB:.0f} MiB, the {slow} stops {stops} x {seconds} s: "
        f"the relay grows by {grown / MIB:.1f} MiB; {len(took)} round trips beside it, "
        f"p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms, longest {max(took):.1f} ms"
    )
    assert sha256(read[0]) == sha256(flood)
    assert grown <= 8 * MIB


# Many connections.


class Crowd:
    """Opens connections, writes to their ends, closes and resets them, as chance will have it."""

    def __init__(self, tapped: Tapped, seed: int) -> None:
        self._tapped = tapped
        self._chance = random.Random(seed)
        self._ends: list[socket.socket] = []
        self._accepted = 0
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._keep(self._tapped.server.accept()[0])
                self._accepted += 1

    def _keep(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._ends.append(end)

    def open(self) -> None:
        part = CONNECT[: self._chance.randrange(len(CONNECT))]
        sayings = (CONNECT, part, connect_frame("a:1"), b"GET ")
        said = self._chance.choices(sayings, (0.85, 0.05, 0.05, 0.05))
        expected = self._accepted + (said[0] == CONNECT)
        client = self._tapped.client()
        client.send(said[0])
        self._keep(client.sock)
        self._wait_for(expected)

    def _wait_for(self, accepted: int) -> None:
        until = time.monotonic() + 10
        while self._accepted < accepted:
            assert time.monotonic() < until, "the broker is not reached"
            time.sleep(0.0005)

    def step(self) -> None:
        if self._ends:
            self._chance.choices((self._write, self._half_close, self._close), (4, 1, 1))[0]()

    def _write(self) -> None:
        said = message(1, self._chance.randbytes(int(2 ** self._chance.uniform(0, 14))))
        if self._chance.random() < 0.2:
            said = said[: self._chance.randrange(len(said))]
        with contextlib.suppress(OSError):
            self._chance.choice(self._ends).send(said)

    def _half_close(self) -> None:
        with contextlib.suppress(OSError):
            self._chance.choice(self._ends).shutdown(socket.SHUT_WR)

    def _close(self) -> None:
        end = self._ends.pop(self._chance.randrange(len(self._ends)))
        if self._chance.random() < 0.5:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        end.close()

    def disperse(self) -> None:
        """All are closed that are still there."""
        self._tapped.server.shutdown(socket.SHUT_RD)
        self._accepting.join()
        while self._ends:
            self._close()


@pytest.mark.parametrize(
    ("connections", "steps"), [(200, 1000), pytest.param(2000, 10_000, marks=slow_run)]
)
def test_nothing_stays_behind_of_connections_that_come_and_go(tmp_path, connections, steps):
    with faulty.relays(tmp_path, "census") as switch, tapping(tmp_path / "t") as tapped:
        for end in tapped.connected():
            end.sock.close()
        time.sleep(0.3)
        pid = tapped.relay.pid
        open_before, alive_before = descriptors(pid), faulty.census_of(switch)
        crowd = Crowd(tapped, seed=1)
        for step in range(steps):
            if step % (steps // connections) == 0:
                crowd.open()
            else:
                crowd.step()
        crowd.disperse()
        eventually(lambda: descriptors(pid) == open_before)
        left = alive_before
        for _ in range(50):
            left = faulty.census_of(switch) - alive_before
            if not left:
                break
            time.sleep(0.1)
        assert not left
        told = tapped.relay.counters()
        assert told["connections_open"] == 0
        print(f"\n{connections} connections, {steps} steps: {told}")


def connect_many(tapped: Tapped, count: int) -> None:
    for _ in range(count):
        tapped.connected()


def test_a_thousand_connections_that_do_nothing_need_little_memory(tapped):
    connect_many(tapped, 1000)
    used = resident_bytes(tapped.relay.pid)
    print(f"\n1000 idle connections: {used / MIB:.0f} MiB")
    assert used <= 150 * MIB


@pytest.mark.parametrize("most", [3, 1000])
def test_one_connection_too_many_is_refused_and_counted(tmp_path, most):
    with tapping(tmp_path / "t", max_connections=most) as tapped:
        connect_many(tapped, most - 1)
        last, broker = tapped.connected()
        for refused in range(1, 4):
            one_too_many = tapped.client()
            with contextlib.suppress(ConnectionError):
                one_too_many.send(CONNECT)
                assert one_too_many.rest() == b""
            assert tapped.relay.counters()["connections_refused"] == refused
        tapped.server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            tapped.server.accept()
        tapped.server.settimeout(10)
        last.send(flow(1))
        assert broker.read(len(flow(1))) == flow(1)
        last.sock.close()
        broker.sock.close()
        eventually(lambda: tapped.relay.counters()["connections_open"] == most - 1)
        tapped.connected()  # there is room again
        assert tapped.relay.counters()["connections_open"] == most


def test_ten_thousand_connections_are_allowed_unless_somebody_says_otherwise():
    assert RelayOptions().max_connections == 10_000
