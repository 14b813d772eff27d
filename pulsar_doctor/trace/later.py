"""Rebuilds the accounts of a trace without its beginning.

A ring keeps the ledgers as they were where it starts, and then all is as in a whole trace. This is
for where they are lost: in a copy without the names that begin with a dot, or for a newer program.
A consumer then begins with its first row. What it was granted before is not known, so its numbers
stay unknown until it subscribes again; so does which messages had been delivered before. Who has
sent nothing yet may hold any message: an ack of one that nobody is known to hold is not counted.
"""

from __future__ import annotations

from pulsar_doctor.ledger.before import unknown_consumer
from pulsar_doctor.ledger.consumers import Connection
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.trace.folder import Meta
from pulsar_doctor.trace.index import Expired
from pulsar_doctor.wire.columns import CLOSE, JOINED, OPEN, RETRACTED, Row

ANSWERS = ("SUCCESS", "ERROR")  # they bear a consumer's name after its end, too


class LaterTimeline(Timeline):
    """The ledgers from where a trace starts; see on top of this file."""

    def __init__(self, meta: Meta, expired: Expired) -> None:
        super().__init__(meta.trace_id, meta.told, from_start=False)
        self.next_seq = expired.rows
        self.now_us, self.now_ns = expired.until_us, expired.until_ns

    def apply_sealed(self, row: Row) -> Row:
        """Applies a row that was sealed, as `apply` does: it may show what is not known yet."""
        if row.conn_id is not None and row.command not in (OPEN, CLOSE, JOINED, RETRACTED):
            self._learn(row, row.conn_id)
        return self.apply(row)

    def _learn(self, row: Row, conn_id: int) -> None:
        connection = self.connections.get(conn_id)
        if connection is None:
            connection = self.connections[conn_id] = Connection(
                row.client_addr, row.broker_addr, row.client_version
            )
        if row.producer_id is not None and row.topic and not connection.topic_of(row.producer_id):
            connection.begin_producer(row.producer_id, row.topic)
        if row.incarnation is None or row.consumer_id is None or row.command in ANSWERS:
            return
        if row.command == "SUBSCRIBE":
            self.next_incarnation = row.incarnation
        elif row.consumer_id not in connection.consumers:
            consumer = unknown_consumer(row, self.given.get(row.consumer_name or "", {}))
            self.begin(connection, consumer)
            self.next_incarnation = max(self.next_incarnation, row.incarnation + 1)
