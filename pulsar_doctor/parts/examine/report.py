"""A process on the terminal: a few lines above the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TextIO

from pulsar_doctor.evidence.process_told import ClientConsumer, ProcessTold, Sitting, TcpConnection
from pulsar_doctor.report.paper import console_on, print_beside
from pulsar_doctor.report.process import address
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


def write(told: ProcessTold, out: TextIO) -> None:
    """Its connections, its consumers, its threads, and what it did not tell."""
    console = console_on(out)
    for line in _lines(told):
        text = line.lstrip(" ")
        print_beside(console, " " * (len(line) - len(text)), printable(text))
    console.print()


def _lines(told: ProcessTold) -> Iterator[str]:
    runtime = f", {told.runtime}" if told.runtime else ""
    yield f"process {told.pid}, {told.name}: {KINDS[told.kind]}{runtime}"
    seen = told.connections
    if seen is not None:
        yield f"  {many(len(seen), 'TCP connection')}"
        yield from _cut([f"    {_connection(each)}" for each in seen])
    if told.looks:
        yield "  consumers in its Pulsar clients" + ("" if told.looks[-1].consumers else ": none")
        yield from _cut([f"    {_consumer(each)}" for each in told.looks[-1].consumers])
    yield from _pools(told)
    if told.threads:
        yield "  threads"
        shown = sorted(
            told.threads, key=lambda each: SHOWN.index(each.role) if each.role in SHOWN else 9
        )
        alike: dict[object, list[Sitting]] = {}
        for each in (each for each in shown if each.role in SHOWN):
            alike.setdefault((each.role, each.where, each.waits, each.chain), []).append(each)
        for threads in islice(alike.values(), LISTED_MOST):
            yield from _threads(threads)
        if len(alike) > LISTED_MOST:
            yield f"    and {sum(map(len, islice(alike.values(), LISTED_MOST, None)))} more"
    for names in told.deadlocks:
        yield f"  deadlock: {' and '.join(names)} wait for each other"
    for sentence in told.not_told:
        yield f"  not reported: {sentence}"


def _pools(told: ProcessTold) -> Iterator[str]:
    """Where tasks of the application wait for a thread."""
    names = {each.id: each.thread for each in told.threads}
    full = [each for each in told.pools if each.waiting is not None]
    if full:
        yield "  pools of threads with tasks that wait"
    lines = []
    for each in full:
        known = [names[thread] for thread in each.threads if thread in names]
        who = f"{listed(known, 2)}: " if known else ""
        lines.append(f"    {who}{each.text(told.looks[-1].read_at_ms)}")
    yield from _cut(lines)


def _threads(alike: Sequence[Sitting]) -> Iterator[str]:
    """Where these are, what they wait for, and each thread in the chain of those that hold that."""
    told = min(alike, key=lambda each: each.seconds or 0.0)
    names = f"{alike[0].thread} and {len(alike) - 1} more" if alike[1:] else told.thread
    yield f"    {names} ({told.role}): {told.where}{_long(told)}"
    yield from _waits(told)
    for each in told.chain:
        yield f"      {each.thread}: {each.where}{_long(each)}"
        yield from _waits(each)


def _long(told: Sitting) -> str:
    if not told.seconds:
        return ""
    longer = "; longer was not measured" if told.since_look else ""
    return f", for {duration(told.seconds)} or longer{longer}"


def _waits(told: Sitting) -> Iterator[str]:
    if told.waits is not None:
        yield f"      waits for {told.waits.text}"


def _cut(lines: list[str]) -> Iterator[str]:
    yield from lines[:LISTED_MOST]
    if len(lines) > LISTED_MOST:
        yield f"    and {len(lines) - LISTED_MOST} more"


def _connection(told: TcpConnection) -> str:
    parts = [f"{address(told.local)} to {address(told.remote)}"]
    if told.unread:
        parts.append(f"{told.unread} bytes not read")
    if told.read_ms is not None:
        parts.append(f"last received {duration(told.read_ms / 1000)} ago")
    if told.written_ms is not None:
        parts.append(f"last sent {duration(told.written_ms / 1000)} ago")
    return ", ".join(parts)


def _consumer(told: ClientConsumer) -> str:
    parts = [f"{told.name or 'unnamed'} on {told.topic}, {told.subscription}"]
    if told.kind == "multi":
        parts.append(f"parent of {many(len(told.children), 'consumer')}")
    elif told.zero_queue:
        parts.append("zero queue")
    elif told.unsent_permits is not None:
        parts.append(f"unsent permits {told.unsent_permits} of {told.refills_at}")
    if told.queue_size:
        parts.append(f"queue {told.queue_size}{', which scales' if told.queue_size_scales else ''}")
    if told.waiting is not None:
        parts.append(f"{told.waiting} waiting")
    if told.listener_waiting:
        parts.append(f"{told.listener_waiting} with its listener")
    parts += ["paused"] if told.paused else []
    parts += ["no connection"] if told.connected is False else []
    parts += [f"not reported: {', '.join(told.missing)}"] if told.missing else []
    return ", ".join(parts)
