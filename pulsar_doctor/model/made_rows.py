"""Trace rows as a tap beside a simulated client would write them."""

from __future__ import annotations

from pulsar_doctor.model.scenario import ProducedEntry
from pulsar_doctor.wire.columns import OPEN, TAKEN, TO_BROKER, TO_CLIENT, Row

TOPIC = "persistent://public/default/simulated"
SUBSCRIPTION = "simulated"
TYPES = {
    "shared": "Shared", "exclusive": "Exclusive", "failover": "Failover",
    "key_shared": "Key_Shared",
}  # fmt: skip
REQUEST = 1


def _row(command: str, consumer: int, now_ns: int, direction: str | None) -> Row:
    row = Row()
    row.command = command
    row.ts = now_ns // 1000
    row.mono_ns = now_ns
    row.conn_id = consumer
    row.direction = direction
    if direction is not None:
        row.consumer_id = 0
    return row


def subscribed(consumer: int, name: str, type: str, now_ns: int) -> list[Row]:
    """A connection of its own, SUBSCRIBE and its success."""
    subscribe = _row("SUBSCRIBE", consumer, now_ns, TO_BROKER)
    subscribe.request_id = REQUEST
    subscribe.topic, subscribe.subscription = TOPIC, SUBSCRIPTION
    subscribe.subscription_type, subscribe.consumer_name = TYPES[type], name
    success = _row("SUCCESS", consumer, now_ns, TO_CLIENT)
    success.request_id, success.consumer_id = REQUEST, None
    return [_row(OPEN, consumer, now_ns, None), subscribe, success]


def active_change(consumer: int, active: bool, now_ns: int) -> Row:
    """The broker tells whether it is the active one."""
    row = _row("ACTIVE_CONSUMER_CHANGE", consumer, now_ns, TO_CLIENT)
    row.messages = int(active)
    return row


def flow(consumer: int, permits: int, now_ns: int) -> Row:
    """The client asks for more."""
    row = _row("FLOW", consumer, now_ns, TO_BROKER)
    row.permits = permits
    return row


def message(consumer: int, entry: ProducedEntry, now_ns: int) -> Row:
    """The broker sends an entry; its number is its position."""
    row = _row("MESSAGE", consumer, now_ns, TO_CLIENT)
    row.ledger_id, row.entry_id = 0, entry.number
    row.messages = row.permits = entry.messages
    row.redelivery_count = 0
    row.publish_time = entry.published_ns // 1000
    return row


def taken(name: str, entry: ProducedEntry, now_ns: int) -> Row:
    """The application has taken a message."""
    row = _row(TAKEN, 0, now_ns, None)
    row.conn_id = None
    row.topic, row.subscription, row.consumer_name = TOPIC, SUBSCRIPTION, name
    row.ledger_id, row.entry_id = 0, entry.number
    return row


def ack(consumer: int, entry: ProducedEntry, now_ns: int) -> Row:
    """The application has finished with all of an entry."""
    row = _row("ACK", consumer, now_ns, TO_BROKER)
    row.ack_type = "individual"
    row.ledger_id, row.entry_id, row.messages = 0, entry.number, 1
    return row
