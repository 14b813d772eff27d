"""A process as JSON: its connections, its consumers, and where its threads are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pulsar_doctor.evidence.process_report import (
    Address,
    ClientConsumer,
    ProcessReport,
    Sitting,
    TcpConnection,
)
from pulsar_doctor.wording.addresses import shown


def process_json(process: ProcessReport) -> dict[str, Any]:
    """The process as JSON. null: not reported, or not requested."""
    seen, inspections = process.connections, process.inspections
    return {
        "pid": process.pid,
        "name": process.name,
        "kind": process.kind,
        "runtime": process.runtime,
        "connections": None if seen is None else [_connection(each) for each in seen],
        "consumers": [_consumer(each) for each in inspections[-1].consumers]
        if inspections
        else None,
        "threads": [_thread(each) for each in process.threads] if process.has_threads else None,
        "pools": [asdict(each) for each in process.pools] if process.has_threads else None,
        "deadlocks": [list(names) for names in process.deadlocks],
        "seconds": process.seconds,
        "not_told": list(process.unknowns),
    }


def address(end: Address | None) -> str | None:
    """The end of a connection as text: `10.0.0.7:43668`, `[::1]:43668`."""
    return None if end is None else shown(end)


def _connection(connection: TcpConnection) -> dict[str, Any]:
    ends = {"local": address(connection.local), "remote": address(connection.remote)}
    return asdict(connection) | ends


def _consumer(consumer: ClientConsumer) -> dict[str, Any]:
    ends = {
        "local_address": address(consumer.local_address),
        "remote_address": address(consumer.remote_address),
    }
    return asdict(consumer) | {"refills_at": consumer.refills_at} | ends


def _thread(thread: Sitting) -> dict[str, Any]:
    return asdict(thread) | {"where": thread.where}
