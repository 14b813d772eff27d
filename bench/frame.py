"""Where the relay's time goes: the parts of a frame's way from the socket to the masked journal.

    python bench/frame.py

Microseconds of one core for each frame, without sockets: the least of many runs. The same MESSAGE
frames as in bench/relay.py, 256 KiB at once; then PINGs, few at a time, which come frame by frame.
`walk` is the least that a process must do that only moves bytes and hands them to another to mask:
the head of each frame, so that it finds those that are rewritten, and a copy into shared memory.
"""

from __future__ import annotations

import mmap
import struct
import time
import zlib
from collections.abc import Callable

import peers
from measured import table

from pulsar_doctor.parts.tap.relay.rewrites import HELD_TO_BROKER, HELD_TO_CLIENT
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Cutter, Frames
from pulsar_doctor.wire.masking import Mask, Read

BYTES = 256 * 1024
RUNS = 30
TOGETHER = (1, 2, 4, 8, 16, 32, 64, 128)
HEAD = struct.Struct(">IIH")


def least(work: Callable[[], object]) -> float:
    """Microseconds of the fastest of many runs."""
    found = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found) * 1e6


def walk(data: bytes, shared: mmap.mmap) -> int:
    """The heads of all frames, and a copy for whoever looks into them."""
    at, held = 0, 0
    while at <= len(data) - HEAD.size:
        total, _, first = HEAD.unpack_from(data, at)
        held += first & 0x7F in HELD_TO_CLIENT
        at += 4 + total
    shared[: len(data)] = data
    return held


def parts_of(data: bytes) -> list[tuple[str, float, str]]:
    """Name, microseconds of a frame, what it is."""
    frames = Cutter(HELD_TO_CLIENT).feed(data)
    mask = Mask(b"0123456789abcdef")
    joined = b"\x0a" + b"\x0a".join(frames.commands) + b"\x12" + b"\x12".join(frames.metadata)
    known = wire.Batch.FromString(joined)
    known.DiscardUnknownFields()
    masked = known.SerializeToString()
    shared = mmap.mmap(-1, BYTES)
    found = [
        ("cut", least(lambda: Cutter(HELD_TO_CLIENT).feed(data)), "bytes to frames"),
        ("mask", least(lambda: mask.pack_all(frames)), "frames to a record"),
        ("- parse", least(lambda: wire.Batch.FromString(joined)), "protobuf, within mask"),
        ("- write", least(known.SerializeToString), "protobuf, within mask"),
        ("checksum", least(lambda: zlib.crc32(masked)), "of the record, in its block"),
        ("walk", least(lambda: walk(data, shared)), "and a copy: not done today"),
    ]
    return [(name, microseconds / len(frames), what) for name, microseconds, what in found]


def together(frames: Frames, count: int) -> float:
    """Masking so many reads of one frame each at once: microseconds of each."""
    mask = Mask(b"0123456789abcdef")
    reads = [Read(1, 1, 1, 0, frames)] * count
    return least(lambda: mask.pack_reads(reads)) / count


def main() -> None:
    """Measures and prints."""
    data = peers.flood_pieces()[0][0][:BYTES]
    rows = [("part", "us / frame", "what")]
    rows += [(name, f"{each:.2f}", what) for name, each, what in parts_of(data)]
    print(table(rows))
    print()
    ping = Cutter(HELD_TO_BROKER).feed(peers.PING)
    rows = [("reads masked together", "us each", "us in all")]
    for count in TOGETHER:
        each = together(ping, count)
        rows.append((str(count), f"{each:.2f}", f"{each * count:.0f}"))
    print(table(rows))


if __name__ == "__main__":
    main()
