"""Measures how fast packets become frames, from files that it makes; and what live reading drops.

    python bench/capture.py [--megabytes 200] [--runs 5] [--live SECONDS]

Frames a second of one core (CPU time): MESSAGEs of 100 bytes one to an entry, batches of 100 of
these, and 10 KB singles, in segments of 1,448 bytes and of 64 KB as loopback has them. `frames` is
streams and boundaries alone; `trace` is `pulsar-doctor capture` with all that it writes, sealing
included. Beside it tshark, which only puts the streams together (where it is installed), and the
relay's own cutter on the same bytes without packets. `rss` is the most memory of `trace`.
--live: packets on loopback from a thread that sends as fast as it can, and what the kernel dropped.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from measured import Run, doctor, run, table

from pulsar_doctor.parts.capture.files import FileCounts, packets_of
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.interface import Interface
from pulsar_doctor.wire.framing import Cutter, Frames
from tests.parts.capture.packing import Talk, pcap
from tests.parts.capture.talks import BEGINNING
from tests.parts.tap.tapped import message

READ_BYTES = 256 * 1024
KINDS = {"100 B singles": 100, "batches of 100": 12_000, "10 KB singles": 10_000}
MORE = {"100 B singles": 1, "batches of 100": 100, "10 KB singles": 1}
SEGMENTS = {"1,448 B": 1448, "64 KB": 65_000}


class Counting:
    """A listener that only counts."""

    def __init__(self) -> None:
        self.count = 0

    def event(
        self, conn_id: int, command: str, now_ns: int, way: int | None = None, **columns: object
    ) -> None:
        """Not counted."""

    def frames(self, conn_id: int, direction: int, frames: Frames, now_ns: int) -> None:
        """Frames that are all there."""
        self.count += len(frames)


@dataclass(frozen=True, slots=True)
class Made:
    """A capture file and what it holds."""

    path: Path
    frames: int
    stream: bytes


def make(folder: Path, kind: str, segment: int, stream_bytes: int) -> Made:
    """A file of one connection whose broker sends; acknowledged every eighth segment."""
    talk = Talk(segment_bytes=segment).open()
    for way, data, _ in BEGINNING:
        talk.say(way, data)
    each = message(1, bytes(KINDS[kind]), 1 << 20)
    count = max(1, stream_bytes // len(each))
    stream = each * count
    for at in range(0, len(stream), 8 * segment):
        talk.say(1, stream[at : at + 8 * segment], acked=False).hear(1)
    path = folder / f"{kind} {segment}.pcap".replace(" ", "-")
    path.write_bytes(pcap(talk.packets))
    return Made(path, count, stream)


def cpu_of(work: Callable[[Made], object], made: Made) -> float:
    """CPU seconds of this process."""
    before = time.process_time()
    work(made)
    return time.process_time() - before


def follow(made: Made) -> None:
    """Packets to frames, and no further."""
    out = Counting()
    following = CaptureFollowing(out, [6650])
    with made.path.open("rb") as file:
        for packet in packets_of(iter(lambda: file.read(READ_BYTES), b""), "f", FileCounts()):
            following.packet(packet)
    following.finish()
    if out.count < made.frames:
        raise SystemExit(f"{made.path}: {out.count} frames of {made.frames}")


def cut(made: Made) -> None:
    """The relay's cutter on the stream itself."""
    cutter = Cutter()
    for at in range(0, len(made.stream), READ_BYTES):
        cutter.feed(made.stream[at : at + READ_BYTES])


def whole(made: Made, folder: Path) -> Run:
    """A process that writes a trace."""
    trace = folder / "trace"
    ran = doctor("capture", str(made.path), "--trace", str(trace))
    if ran.code:
        raise SystemExit(ran.err)
    shutil.rmtree(trace)
    return ran


def tshark(made: Made) -> float | None:
    """CPU seconds of tshark, which puts the streams together and writes nothing."""
    if shutil.which("tshark") is None:
        return None
    return run(["tshark", "-r", str(made.path), "-q", "-z", "follow,tcp,raw,0"]).cpu_seconds


def rows(arguments: argparse.Namespace, folder: Path) -> Iterator[list[str]]:
    """A row for each kind of message and of segment."""
    for kind in KINDS:
        for name, segment in SEGMENTS.items():
            made = make(folder, kind, segment, round(arguments.megabytes * 1e6))
            frames = [made.frames / cpu_of(follow, made) for _ in range(arguments.runs)]
            cutter = [made.frames / cpu_of(cut, made) for _ in range(arguments.runs)]
            traced = [whole(made, folder) for _ in range(arguments.runs)]
            beside = tshark(made)
            trace = statistics.median(made.frames / ran.cpu_seconds for ran in traced)
            yield [
                kind,
                name,
                f"{made.frames:,}",
                f"{statistics.median(cutter):,.0f}",
                f"{statistics.median(frames):,.0f}",
                f"{trace:,.0f}",
                f"{trace * MORE[kind]:,.0f}",
                "-" if beside is None else f"{made.frames / beside:,.0f}",
                f"{max(ran.peak_mib for ran in traced):.0f} MiB",
            ]
            made.path.unlink()


def live(seconds: float) -> str:
    """Loopback, as fast as another process sends: rate, drops and the share of a core."""
    ports: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    other = multiprocessing.Process(target=_talk, args=(ports, seconds), daemon=True)
    other.start()
    port = ports.get()
    following = CaptureFollowing(Counting(), [port])
    with Interface("lo", [port]) as interface:
        ports.put(port)  # it begins
        before, began = time.process_time(), time.monotonic()
        for packet in interface.packets():
            if packet is not None:
                following.packet(packet)
            if time.monotonic() - began > seconds:
                break
        spent, took = time.process_time() - before, time.monotonic() - began
        drops = interface.counts().kernel_drops
    following.finish()
    other.join()
    totals = following.totals
    return (
        f"live: {totals.segments / took:,.0f} packets/s, {totals.seen / took / 1e6:,.0f} MB/s, "
        f"dropped by the kernel: {drops:,}; {spent / took:.0%} of a core"
    )


def _talk(ports: multiprocessing.SimpleQueue[int], seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports.put(server.getsockname()[1])
        time.sleep(0.5)
        port = ports.get()
        threading.Thread(target=_send, args=(port, seconds), daemon=True).start()
        taken, _ = server.accept()
        while taken.recv(1 << 20):
            pass


def _send(port: int, seconds: float) -> None:
    each = message(1, bytes(100), 1 << 20) * 100
    ends = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as client:
        for way, data, _ in BEGINNING:
            if way == 0:
                client.sendall(data)
        while time.monotonic() < ends:
            client.sendall(each)


def main() -> None:
    """Prints a table, and a line for what was read live."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--live", type=float, default=0, metavar="SECONDS")
    arguments = parser.parse_args()
    heads = ["messages", "segments", "frames", "cutter/s", "frames/s", "trace/s", "messages/s",
             "tshark/s", "rss"]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        print(table([heads, *rows(arguments, Path(folder))]))
    if arguments.live:
        print(live(arguments.live))
    print(f"of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
