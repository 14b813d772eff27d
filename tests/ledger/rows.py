"""Rows as the wire gives them, before a timeline has seen them: `flow(10)`, `message(3)`, …

Time is in seconds: `at=1.5` sets both ts and mono_ns. An id is an entry of ledger 1, or a pair
(ledger, entry). A batch's `open` lists the indexes whose bit of the ack_set is set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pulsar_doctor.wire.columns import (
    CLOSE,
    GAP,
    NAMES,
    OPEN,
    OURS,
    TAKEN,
    TO_BROKER,
    TO_CLIENT,
    MessageId,
    Row,
)
from pulsar_doctor.wire.commands import CODES

TOPIC = "persistent://public/default/orders"
EPOCH_US = 1_700_000_000_000_000

Id = int | tuple[int, int]


def row(command: str, *, at: float = 0.0, conn: int | None = 1, **columns: Any) -> Row:
    made = Row()
    made.command = command
    made.command_code = CODES.get(command, OURS)
    made.ts = EPOCH_US + round(at * 1e6)
    made.mono_ns = round(at * 1e9)
    made.conn_id = conn
    for name, value in columns.items():
        assert name in NAMES, name
        setattr(made, name, value)
    return made


def to_broker(command: str, **columns: Any) -> Row:
    return row(command, direction=TO_BROKER, **columns)


def to_client(command: str, **columns: Any) -> Row:
    return row(command, direction=TO_CLIENT, **columns)


def opened(**columns: Any) -> Row:
    return row(OPEN, **{"client_addr": "10.0.0.1:50000", "broker_addr": "10.0.0.9:6650", **columns})


def closed(**columns: Any) -> Row:
    return row(CLOSE, **columns)


def connect(version: str = "Pulsar-CPP-v3.8.0", **columns: Any) -> Row:
    return to_broker("CONNECT", client_version=version, **columns)


def subscribe(
    consumer: int = 0,
    request: int = 1,
    *,
    type: str = "Shared",
    name: str | None = "c",
    **columns: Any,
) -> Row:
    settings = {"topic": TOPIC, "subscription": "sub", **columns}
    return to_broker(
        "SUBSCRIBE", consumer_id=consumer, request_id=request, subscription_type=type,
        consumer_name=name, **settings,
    )  # fmt: skip


def success(request: int = 1, **columns: Any) -> Row:
    return to_client("SUCCESS", request_id=request, **columns)


def error(request: int = 1, code: str = "ConsumerBusy", **columns: Any) -> Row:
    return to_client("ERROR", request_id=request, error_code=code, **columns)


def flow(permits: int, consumer: int = 0, **columns: Any) -> Row:
    return to_broker("FLOW", consumer_id=consumer, permits=permits, **columns)


def position(id: Id) -> tuple[int, int]:
    return id if isinstance(id, tuple) else (1, id)


def ack_set(open: Collection[int], batch: int) -> bytes:
    """The words of an ack_set in which the bits of these indexes are set."""
    words = -(-batch // 64)
    return sum(1 << index for index in open).to_bytes(8 * words, "little")


def message(
    id: Id,
    batch: int = 1,
    consumer: int = 0,
    *,
    open: Collection[int] | None = None,
    **columns: Any,
) -> Row:
    """A MESSAGE. open: indexes that are not acknowledged yet, None where it has no ack_set."""
    ledger_id, entry_id = position(id)
    settings = {
        "permits": batch if open is None else len(open),
        "redelivery_count": 0,
        "ack_set": None if open is None else ack_set(open, batch),
        **columns,
    }
    return to_client(
        "MESSAGE", consumer_id=consumer, ledger_id=ledger_id, entry_id=entry_id, messages=batch,
        **settings,
    )  # fmt: skip


def ids(of: Iterable[Id]) -> dict[str, Any]:
    """The columns of these ids: one stands in the row, several in a list."""
    positions = [position(id) for id in of]
    if len(positions) == 1:
        return {"messages": 1, "ledger_id": positions[0][0], "entry_id": positions[0][1]}
    listed = [MessageId(*each, None) for each in positions]
    return {"messages": len(listed), "message_ids": listed or None}


def ack(*of: Id, consumer: int = 0, type: str = "individual", **columns: Any) -> Row:
    return to_broker("ACK", consumer_id=consumer, ack_type=type, **{**ids(of), **columns})


def ack_batch(id: Id, open: Collection[int], batch: int, **columns: Any) -> Row:
    """An ACK of a batch in which these indexes stay open."""
    return ack(id, ack_set=ack_set(open, batch), **columns)


def redeliver(*of: Id, consumer: int = 0, **columns: Any) -> Row:
    """Asks for these messages again, without ids for all that is not acknowledged."""
    return to_broker(
        "REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=consumer, **{**ids(of), **columns}
    )


def close_consumer(consumer: int = 0, request: int = 2, **columns: Any) -> Row:
    return to_broker("CLOSE_CONSUMER", consumer_id=consumer, request_id=request, **columns)


def closed_by_broker(consumer: int = 0, **columns: Any) -> Row:
    return to_client("CLOSE_CONSUMER", consumer_id=consumer, **columns)


def unsubscribe(consumer: int = 0, request: int = 2, **columns: Any) -> Row:
    return to_broker("UNSUBSCRIBE", consumer_id=consumer, request_id=request, **columns)


def gap(dropped: int = 1, **columns: Any) -> Row:
    return row(GAP, conn=None, dropped=dropped, **columns)


def taken(id: Id, *, name: str = "c", topic: str = TOPIC, **columns: Any) -> Row:
    ledger_id, entry_id = position(id)
    return row(
        TAKEN, conn=None, consumer_name=name, topic=topic, ledger_id=ledger_id, entry_id=entry_id,
        **columns,
    )  # fmt: skip


def attached(
    type: str = "Shared", *, consumer: int = 0, conn: int = 1, **columns: Any
) -> list[Row]:
    """A connection with one consumer that is ready, at second 0."""
    request = 100 + consumer
    return [
        opened(conn=conn),
        connect(conn=conn),
        subscribe(consumer, request, type=type, conn=conn, **columns),
        success(request, conn=conn),
    ]


def paced(rows: Sequence[Row], seconds: float = 1.0, start: float = 0.0) -> list[Row]:
    """The same rows, one every so many seconds."""
    for number, each in enumerate(rows):
        each.ts = EPOCH_US + round((start + number * seconds) * 1e6)
        each.mono_ns = round((start + number * seconds) * 1e9)
    return list(rows)
