"""A process on the terminal: a few lines above the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TextIO

from pulsar_doctor.evidence.process_report import (
    ClientConsumer,
    ProcessReport,
    Sitting,
    TcpConnection,
)
from pulsar_doctor.report.paper import console_on, print_beside
from pulsar_doctor.wording.addresses import shown
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed, many, printable

LISTED_MOST = 20
KINDS = {
    "jvm": "a JVM",
    "native-image": "a native image of GraalVM",
    "python": "Python",
    "go": "a Go program",
    "other": "a program",
}
SHOWN = ("listens", "receives", "acknowledges", "application")


def write(process: ProcessReport, out: TextIO) -> None:
    """Writes the process's connections, its consumers, its threads, and what is not known."""
    console = console_on(out)
    for line in _lines(process):
        text = line.lstrip(" ")
        print_beside(console, " " * (len(line) - len(text)), printable(text))
    console.print()


def _lines(process: ProcessReport) -> Iterator[str]:
    runtime = f", {process.runtime}" if process.runtime else ""
    yield f"process {process.pid}, {process.name}: {KINDS[process.kind]}{runtime}"
    seen = process.connections
    if seen is not None:
        yield f"  {many(len(seen), 'TCP connection')}"
        yield from _cut([f"    {_connection(each)}" for each in seen])
    if process.inspections:
        yield "  consumers in its Pulsar clients" + (
            "" if process.inspections[-1].consumers else ": none"
        )
        yield from _cut([f"    {_consumer(each)}" for each in process.inspections[-1].consumers])
    yield from _pools(process)
    if process.threads:
        yield "  threads"
        shown = sorted(
            process.threads, key=lambda each: SHOWN.index(each.role) if each.role in SHOWN else 9
        )
        alike: dict[object, list[Sitting]] = {}
        for each in (each for each in shown if each.role in SHOWN):
            alike.setdefault((each.role, each.where, each.waits, each.chain), []).append(each)
        for threads in islice(alike.values(), LISTED_MOST):
            yield from _threads(threads)
        if len(alike) > LISTED_MOST:
            yield f"    and {sum(map(len, islice(alike.values(), LISTED_MOST, None)))} more"
    for names in process.deadlocks:
        yield f"  deadlock: {' and '.join(names)} wait for each other"
    for sentence in process.unknowns:
        yield f"  not reported: {sentence}"


def _pools(process: ProcessReport) -> Iterator[str]:
    """Where tasks of the application wait for a thread."""
    names = {each.id: each.thread for each in process.threads}
    full = [each for each in process.pools if each.waiting is not None]
    if full:
        yield "  pools of threads with tasks that wait"
    lines = []
    for each in full:
        known = [names[thread] for thread in each.threads if thread in names]
        who = f"{listed(known, 2)}: " if known else ""
        lines.append(f"    {who}{each.text(process.inspections[-1].read_at_ms)}")
    yield from _cut(lines)


def _threads(alike: Sequence[Sitting]) -> Iterator[str]:
    """Where these are, what they wait for, and each thread in the chain of those that hold that."""
    shortest = min(alike, key=lambda each: each.seconds or 0.0)
    names = f"{alike[0].thread} and {len(alike) - 1} more" if alike[1:] else shortest.thread
    yield f"    {names} ({shortest.role}): {shortest.where}{_long(shortest)}"
    yield from _waits(shortest)
    for each in shortest.chain:
        yield f"      {each.thread}: {each.where}{_long(each)}"
        yield from _waits(each)


def _long(sitting: Sitting) -> str:
    if not sitting.seconds:
        return ""
    longer = "; longer was not measured" if sitting.since_look else ""
    return f", for {duration(sitting.seconds)} or longer{longer}"


def _waits(sitting: Sitting) -> Iterator[str]:
    if sitting.waits is not None:
        yield f"      waits for {sitting.waits.text}"


def _cut(lines: list[str]) -> Iterator[str]:
    yield from lines[:LISTED_MOST]
    if len(lines) > LISTED_MOST:
        yield f"    and {len(lines) - LISTED_MOST} more"


def _connection(connection: TcpConnection) -> str:
    parts = [f"{shown(connection.local)} to {shown(connection.remote)}"]
    if connection.unread:
        parts.append(f"{connection.unread} bytes not read")
    if connection.read_ms is not None:
        parts.append(f"last received {duration(connection.read_ms / 1000)} ago")
    if connection.written_ms is not None:
        parts.append(f"last sent {duration(connection.written_ms / 1000)} ago")
    return ", ".join(parts)


def _consumer(consumer: ClientConsumer) -> str:
    parts = [f"{consumer.name or 'unnamed'} on {consumer.topic}, {consumer.subscription}"]
    if consumer.kind == "multi":
        parts.append(f"parent of {many(len(consumer.children), 'consumer')}")
    elif consumer.zero_queue:
        parts.append("zero queue")
    elif consumer.unsent_permits is not None:
        parts.append(f"unsent permits {consumer.unsent_permits} of {consumer.refills_at}")
    if consumer.queue_size:
        parts.append(
            f"queue {consumer.queue_size}{', which scales' if consumer.queue_size_scales else ''}"
        )
    if consumer.waiting is not None:
        parts.append(f"{consumer.waiting} waiting")
    if consumer.listener_waiting:
        parts.append(f"{consumer.listener_waiting} with its listener")
    parts += ["paused"] if consumer.paused else []
    parts += ["no connection"] if consumer.connected is False else []
    parts += [f"not reported: {', '.join(consumer.missing)}"] if consumer.missing else []
    return ", ".join(parts)
