"""A process as JSON: its connections, its consumers, and where its threads are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pulsar_doctor.evidence.process_told import (
    Address,
    ClientConsumer,
    ProcessTold,
    Sitting,
    TcpConnection,
)
from pulsar_doctor.wording.addresses import shown


def process_json(told: ProcessTold) -> dict[str, Any]:
    """All of it. null: not told, or nobody asked."""
    seen, looks = told.connections, told.looks
    return {
        "pid": told.pid,
        "name": told.name,
        "kind": told.kind,
        "runtime": told.runtime,
        "connections": None if seen is None else [_connection(each) for each in seen],
        "consumers": [_consumer(each) for each in looks[-1].consumers] if looks else None,
        "threads": [_sitting(each) for each in told.threads] if told.threads_told else None,
        "pools": [asdict(each) for each in told.pools] if told.threads_told else None,
        "deadlocks": [list(names) for names in told.deadlocks],
        "seconds": told.seconds,
        "not_told": list(told.not_told),
    }


def address(told: Address | None) -> str | None:
    """`10.0.0.7:43668`, `[::1]:43668`."""
    return None if told is None else shown(told)


def _connection(told: TcpConnection) -> dict[str, Any]:
    ends = {"local": address(told.local), "remote": address(told.remote)}
    return asdict(told) | ends


def _consumer(told: ClientConsumer) -> dict[str, Any]:
    ends = {
        "local_address": address(told.local_address),
        "remote_address": address(told.remote_address),
    }
    return asdict(told) | {"refills_at": told.refills_at} | ends


def _sitting(told: Sitting) -> dict[str, Any]:
    return asdict(told) | {"where": told.where}
