"""Replays the commands of a trace, and assigns each to its consumer.

Rows come in the order of the journal. Applying the rows of a sealed trace again rebuilds the same
state. Changed in place: this is the hot path, and no row costs more where thousands of consumers
come and go. Before a ledger is changed its siblings are informed (see consumers.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from pulsar_doctor.ledger import before, dead_letters, permits
from pulsar_doctor.ledger.consumers import (
    Connection,
    Consumer,
    Subscription,
)
from pulsar_doctor.ledger.incarnations import (
    CONNECTION_EVENTS,
    CONSUMER_EVENTS,
    Incarnations,
    label,
)
from pulsar_doctor.ledger.judged import judged
from pulsar_doctor.wire.columns import (
    GAP,
    LIKELY,
    LIKELY_BY,
    OURS,
    SET_ASIDE,
    TAKEN,
    UNPARSED,
    Row,
    ids_of,
)
from pulsar_doctor.wording.typed_json import of_json, to_json


@dataclass(eq=False)
class Timeline(Incarnations):
    """Commands in, rows with their ledger out.

    given: consumer name -> what is known beside the wire: receiver_queue_size, process_seconds,
    unacked_limit, receiver_delay_seconds (the longest) and delay_from, and takes_told where the
    application reports each message that it takes. from_start: whether nothing came before;
    otherwise any consumer may have had any message.
    """

    _: KW_ONLY
    next_seq: int = 0
    now_us: int = 0
    now_ns: int = 0
    # Something is missing from the trace; its reader knows, and it is not saved.
    incomplete: bool = field(default=False, compare=False)

    def pass_time(self, ts: int, mono_ns: int) -> None:
        """Time went on and nothing else happened."""
        self.now_us = max(self.now_us, ts)
        self.now_ns = max(self.now_ns, mono_ns)

    def apply(self, row: Row) -> Row:
        """Gives the row its number, its consumer and the ledger after it; returns it."""
        row.trace_id = self.trace_id
        row.seq = self.next_seq
        self.next_seq += 1
        self.now_us = row.ts
        self.now_ns = row.mono_ns
        conn_id, command = row.conn_id, row.command
        if conn_id is None:
            self._unconnected(row)
            return row
        connection = self.connections.get(conn_id)
        if connection is None:
            connection = self.connections[conn_id] = Connection()
        if connection.known_by and row.direction is not None:
            _grade(connection, row)
        on_connection = CONNECTION_EVENTS.get(command)
        if on_connection is not None:
            on_connection(self, connection, row)
        row.client_addr = connection.client_addr
        row.broker_addr = connection.broker_addr
        row.client_version = connection.client_version
        consumer_id = row.consumer_id
        if consumer_id is not None:
            consumer = connection.consumers.get(consumer_id)
            if consumer is not None:
                if consumer.turn != consumer.siblings.turn:
                    consumer.siblings.stir(consumer)
                label(row, consumer)
                if command == "ACK":
                    self._ack(consumer, row)
                permits.apply(consumer.ledger, row)
                then = CONSUMER_EVENTS.get(command)
                if then is not None:
                    then(self, connection, consumer, row)
            elif connection.lowest < 0:
                before.somebody(connection)
        elif row.producer_id is not None:
            row.topic = row.topic or connection.topic_of(row.producer_id)
            if row.command == "SEND" and dead_letters.may_be(row, connection):
                self._put_away(row, connection)
        return row

    def _put_away(self, row: Row, connection: Connection) -> None:
        for key in dead_letters.of(row, connection, self.attended):
            siblings = self._siblings.get(key)
            for first in list(siblings.living.values())[:1] if siblings else ():
                first.siblings.stir(first)
                first.ledger.likely |= row.grade is not None
                permits.put_away(first.ledger, row)

    def _unconnected(self, row: Row) -> None:
        if row.command == UNPARSED:
            self.set_aside += row.error_code == SET_ASIDE
        elif row.command == GAP:
            for consumer in self.living:
                consumer.lose_track()
        elif row.command == TAKEN:
            taker = self._taker(row)
            if taker is not None:
                taker.siblings.stir(taker)
                label(row, taker)
                permits.apply(taker.ledger, row)

    def _taker(self, row: Row) -> Consumer | None:
        """Who took this message: the one that holds it, otherwise the newest of that name."""
        position = (row.ledger_id, row.entry_id)
        newest = None
        for consumer in self.living:
            if consumer.consumer_name == row.consumer_name and consumer.topic == row.topic:
                if position in consumer.ledger.deliveries:
                    return consumer
                if newest is None or consumer.incarnation > newest.incarnation:
                    newest = consumer
        return newest

    def _ack(self, consumer: Consumer, row: Row) -> None:
        """Individual acks of messages that another consumer of the subscription holds.

        What nobody is known to hold may be in the hands of one of whom not all is known.
        """
        row.acknowledged_messages = 0
        if row.ack_type != "individual":
            return
        held = consumer.ledger.deliveries
        siblings = consumer.siblings.living
        if len(siblings) == 1 and self.from_start:
            return
        for message_id in ids_of(row):
            position = (message_id.ledger_id, message_id.entry_id)
            if position in held:
                continue
            for other in siblings.values():
                if position in other.ledger.deliveries or position in other.ledger.awaited:
                    other.siblings.stir(other)
                    other.ledger.likely |= row.grade is not None
                    permits.acknowledge(other.ledger, row, [message_id], by_another=True)
                    break
            else:
                known = not any(other.ledger.uncertain for other in siblings.values())
                if not (known and self.from_start):
                    row.acknowledged_messages = None

    def subscriptions(self) -> list[Subscription]:
        """What is to be judged, one value a subscription, in the order of their first consumers."""
        found = judged(self.consumers, self.now_us, self.now_ns, self.published)
        incomplete = self.incomplete or self.set_aside > 0
        return [replace(each, incomplete=True) for each in found] if incomplete else found

    def state(self) -> dict[str, Any]:
        """Everything that the next row depends on, as JSON values."""
        for consumer in self.living:
            consumer.siblings.settle(consumer)
        return to_json(self)

    @classmethod
    def restore(
        cls,
        state: Mapping[str, Any],
        trace_id: str = "",
        given: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Timeline:
        """The timeline that `state` was taken of. Raises Misread."""
        timeline = of_json(cls, state)
        timeline.trace_id, timeline.given = trace_id, given or {}
        for consumer in timeline.ended:
            timeline._siblings_of(consumer).remember(consumer)
        for connection in timeline.connections.values():
            for consumer in connection.consumers.values():
                connection.wait(consumer, consumer.request_id)
        for consumer in sorted(timeline.living, key=lambda consumer: consumer.incarnation):
            consumer.ledger.deliveries = OrderedDict(consumer.ledger.deliveries)
            timeline._siblings_of(consumer).join(consumer)
        return timeline


def _grade(connection: Connection, row: Row) -> None:
    """How it is known that this is a command, and what is only likely makes doubtful."""
    if row.known_by is None:
        row.known_by = connection.known_by.get(row.direction or "")
    if row.known_by not in LIKELY_BY or row.command_code == OURS:
        return
    row.grade = LIKELY
    direction = row.direction or ""
    connection.likely_rows[direction] = connection.likely_rows.get(direction, 0) + 1
    if row.join is None:
        row.join = connection.joins.get(direction)
    consumer = None if row.consumer_id is None else connection.consumers.get(row.consumer_id)
    if consumer is not None:  # noted before the row is applied, since it may also end this consumer
        consumer.ledger.likely = True
