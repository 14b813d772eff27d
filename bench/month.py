"""Makes a month of a ring, many small segments, and measures what it takes to list and analyze it.

    python bench/month.py make FOLDER [--segments 100000] [--seconds 26] [--without-times]
    python bench/month.py list FOLDER [--since SECONDS]

make: FOLDER/month.ptrace, a ring of 31 days, sealed: each segment is the same half minute, in which
a consumer comes, works and goes, with its moments and numbers moved on; in the last one it stays,
without permits. --without-times: the list does not tell first_us and last_us, as that of an older
program. list: seconds of the wall clock and of the processor until `analyze` knows its segments,
before a Spark starts; --since: of the newest so many seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent))

from traces import _ids_moved

from pulsar_doctor.trace import folder as folders
from pulsar_doctor.trace import ring
from pulsar_doctor.trace.folder import Meta
from pulsar_doctor.trace.index import Expired, Index, Part, write_index
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.trace.segments import PARQUET, SCHEMA, sha256_of
from pulsar_doctor.wire.journal import FILE_HEADER
from tests.made.wire import Wire

RING_SECONDS = 31 * 86400.0
CHUNK = 500
TRACE_ID = "month"


def body(scratch: Path) -> list[Path]:
    """The first segment, one that has another before it, and one of the end, made by the program.

    In each a consumer comes, on a connection of its own, and goes; in the last one it stays.
    """
    path = scratch / "body.ptrace"
    path.mkdir()
    Meta(TRACE_ID).write(path)
    said, begin = Wire(), 0
    for at in range(3):
        said.wait(1).open(at).attached(1, "worker", conn_id=at)
        said.flow(10, conn_id=at).pushed(range(100 * at, 100 * at + 10), conn_id=at)
        for step in range(100 * at, 100 * at + 8, 2):
            said.wait(0.5).acked([step, step + 1], conn_id=at).flow(2, conn_id=at)
            said.pushed([step + 10, step + 11], conn_id=at)
        said.wait(1)
        if at < 2:
            said.close(at)
        inside, begin = said.blocks[begin:], len(said.blocks)
        (path / folders.journal_name(at + 1)).write_bytes(FILE_HEADER + b"".join(inside))
    open_trace(path)
    return [path / folders.segment_name(number) for number in (1, 2, 3)]


def moved(rows: pa.RecordBatch, at: int, first_seq: int, later_us: int) -> pa.RecordBatch:
    """These rows so many places later: nothing in them has the number of others."""
    more = {
        "mono_ns": later_us * 1000,
        "incarnation": at,
        "conn_id": at,
        "entry_id": at * 100,
    }

    def column(name: str, values: pa.Array) -> pa.Array:
        if name == "seq":
            return pa.array(range(first_seq, first_seq + len(rows)))
        if name in more:
            return pc.add(values, pa.scalar(more[name], values.type))
        if pa.types.is_timestamp(values.type):
            return pc.add(values, pa.scalar(later_us, pa.duration("us")))
        return _ids_moved(values, at * 100) if name == "message_ids" else values

    columns = [*map(column, rows.schema.names, rows.columns)]
    return pa.record_batch(columns, schema=rows.schema)


def write(bodies: list[Path], trace: Path, seconds: float, count: int, places: range) -> list[Part]:
    """The segments of these of so many places; their lines in the list."""
    os.fsync = lambda descriptor: None  # type: ignore[assignment]  # a disk takes 20 ms each time
    first, usual, last = (
        pq.read_table(path, schema=SCHEMA).combine_chunks().to_batches()[0] for path in bodies
    )
    parts = []
    for at in places:
        rows, of = (first, 0) if at == 0 else (last, 2) if at == count - 1 else (usual, 1)
        first_seq = len(first) + (at - 1) * len(usual) if at else 0
        path = trace / folders.segment_name(at + 1)
        batch = moved(rows, at - of, first_seq, round((at - of) * seconds * 1e6))
        table = pa.Table.from_batches([batch])
        pq.write_table(table, path, **PARQUET)
        first_us, until_us = (each.value for each in pc.min_max(table["ts"]).values())
        parts.append(
            Part(
                number=at + 1,
                name=path.name,
                rows=len(rows),
                first_seq=first_seq,
                last_seq=first_seq + len(rows) - 1,
                bytes=path.stat().st_size,
                sha256=sha256_of(path),
                until_us=until_us,
                until_ns=rows["mono_ns"][-1].as_py() + round((at - of) * seconds * 1e6) * 1000,
                gaps=0,
                dropped=0,
                first_us=first_us,
                last_us=until_us,
            )
        )
    return parts


def make(folder: Path, segments: int, seconds: float, *, without_times: bool) -> None:
    trace = folder / "month.ptrace"
    trace.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(2) as pool:
        bodies = body(Path(scratch))
        Meta(TRACE_ID).write(trace)
        ring.begin(trace, ring.shares(RING_SECONDS, None, seconds))
        chunks = [range(at, min(at + CHUNK, segments)) for at in range(0, segments, CHUNK)]
        written = pool.map(partial(write, bodies, trace, seconds, segments), chunks)
        parts = [*chain.from_iterable(written)]
    if without_times:
        parts = [replace(part, first_us=None, last_us=None) for part in parts]
    write_index(trace, Index(Expired(), parts))
    print(f"{len(parts):,} segments, {sum(part.rows for part in parts):,} rows")


def listed(folder: Path, since: float | None) -> None:
    from pulsar_doctor.parts.analyze.reading import look
    from pulsar_doctor.parts.analyze.selection import Selection

    began, worked = time.perf_counter(), time.process_time()
    found = look([str(folder)], here=True, selection=Selection(since=since))
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    print(f"{len(found.segments):,} segments: {seconds:.2f} s, {cpu:.2f} CPU-s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--segments", type=int, default=100_000)
    making.add_argument("--seconds", type=float, default=26.0)
    making.add_argument("--without-times", action="store_true")
    listing = commands.add_parser("list")
    listing.add_argument("folder", type=Path)
    listing.add_argument("--since", type=float)
    asked = parser.parse_args()
    if asked.command == "make":
        make(asked.folder, asked.segments, asked.seconds, without_times=asked.without_times)
    else:
        listed(asked.folder, asked.since)


if __name__ == "__main__":
    main()
