"""Measures what one connection through the relay costs another: the longest round trip beside it.

    python bench/beside.py [--runs 3]

One client sends a flood, of one kind after the other; another says PING, one in flight, for as long
as that lasts and a second more. Client, broker and relay are processes of their own. `passed`:
until the broker had the whole flood. `RSS`: the most that the relay had by then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peers
from measured import table

from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.wire import pulsar_wire_pb2 as wire

MIB = 1 << 20
MANY = 60_000
AFTER_SECONDS = 1.0


def lookup(size: int) -> bytes:
    """A LOOKUP of about so many bytes."""
    command = wire.BaseCommand(type=23, lookup=wire.Lookup(topic="x" * size, request_id=1))
    return peers.framed(command)


def unknown(number: int) -> bytes:
    """A command of a protocol that is newer than we are, each another."""
    body = b"\x08\x63\x9a\x06" + peers.varint(2 + len(peers.varint(number)) - 1)
    body += b"\x08" + peers.varint(number)
    return struct.pack(">II", 4 + len(body), len(body)) + body


def flow() -> bytes:
    """A FLOW."""
    return peers.framed(wire.BaseCommand(type=11, flow=wire.Flow(consumer_id=1, message_permits=1)))


FLOODS: dict[str, Any] = {
    "nothing": lambda: b"",
    "LOOKUP of 5 MiB": lambda: lookup(5 * MIB),
    "LOOKUP of 64 MiB": lambda: lookup(64 * MIB),
    "60,000 FLOWs": lambda: flow() * MANY,
    "60,000 PINGs": lambda: peers.PING * MANY,
    "60,000 unknown": lambda: b"".join(unknown(number) for number in range(MANY)),
    "60,000 LOOKUPs": lambda: lookup(40) * MANY,
    "60,000 empty frames": lambda: struct.pack(">II", 4, 0) * MANY,
    "400,000 MESSAGEs": lambda: b"".join(data for data, _ in peers.flood_pieces()) * 13,
}


def serve(told: Any) -> None:
    """Whoever comes first sends PINGs, the other one the flood, whose size it says."""
    server = socket.create_server(("127.0.0.1", 0))
    told.send(server.getsockname()[1])
    connected = wire.BaseCommand(type=3)
    connected.connected.max_message_size = 100 * MIB
    socks = []
    for _ in range(2):
        sock, _ = server.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peers.read_frame(sock)
        sock.sendall(peers.framed(connected))
        socks.append(sock)
    size = told.recv()
    sink = FORK.Process(target=swallow, args=(socks[1], size, told), daemon=True)
    sink.start()
    while socks[0].recv(65536):
        socks[0].sendall(peers.PONG)


FORK = multiprocessing.get_context("fork")


def swallow(sock: socket.socket, size: int, told: Any) -> None:
    """Reads the whole flood, and says when it has."""
    buffer, left = bytearray(MIB), size
    while left > 0 and (more := sock.recv_into(buffer)):
        left -= more
    told.send(time.monotonic())
    time.sleep(60)


@contextmanager
def broker() -> Iterator[tuple[int, Any]]:
    """The broker as a process: its port, and a pipe to it."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=serve, args=(there,))
    process.start()
    try:
        yield here.recv(), here
    finally:
        process.terminate()
        process.join()


def greeted(port: int) -> socket.socket:
    """A client that is in."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(peers.connect(None))
    peers.read_frame(sock)
    return sock


def send(sock: socket.socket, flood: bytes) -> None:
    """All of it, from a process of its own."""
    time.sleep(0.3)
    sock.sendall(flood)
    time.sleep(60)


def round_trips(sock: socket.socket, over: Any) -> list[float]:
    """Milliseconds of each."""
    took = []
    until = time.monotonic() + 120
    while time.monotonic() < until:
        began = time.perf_counter()
        sock.sendall(peers.PING)
        peers.read_exactly(sock, len(peers.PONG))
        took.append((time.perf_counter() - began) * 1000)
        if until > 1e17 or over.poll():
            until = min(until, time.monotonic() + AFTER_SECONDS)
            over = Never
    return took


class Never:
    """Nothing more is waited for."""

    @staticmethod
    def poll() -> bool:
        """Nothing came."""
        return False


def rss_most(pid: int) -> float:
    """MiB."""
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) / 1024


def measure(flood: bytes) -> tuple[float, float, float, float]:
    """Longest and 99th percentile of the round trips in ms; seconds until it passed; MiB."""
    folder = Path(tempfile.mkdtemp(prefix="pulsar-doctor-bench-"))
    try:
        with (
            broker() as (port, pipe),
            relaying(f"pulsar://127.0.0.1:{port}", folder / "t") as relay,
        ):
            listening = int(relay.service_url.rpartition(":")[2])
            asking, flooding = greeted(listening), greeted(listening)
            pipe.send(len(flood))
            sender = FORK.Process(target=send, args=(flooding, flood), daemon=True)
            began = time.monotonic() + 0.3
            sender.start()
            took = round_trips(asking, pipe)
            passed = pipe.recv() - began
            sender.terminate()
            cuts = statistics.quantiles(took, n=100)
            return max(took), cuts[98], max(0.0, passed), rss_most(relay.pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows = [("beside", "longest ms, each run", "p99 ms", "passed s", "RSS MiB")]
    for name, made in FLOODS.items():
        if options.only not in name:
            continue
        flood = made()
        runs = [measure(flood) for _ in range(options.runs)]
        rows.append(
            (
                name,
                " ".join(f"{run[0]:.1f}" for run in runs),
                f"{statistics.median(run[1] for run in runs):.2f}",
                f"{statistics.median(run[2] for run in runs):.2f}",
                f"{max(run[3] for run in runs):.0f}",
            )
        )
    print(table(rows))


if __name__ == "__main__":
    main()
