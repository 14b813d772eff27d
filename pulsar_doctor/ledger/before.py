"""Starts the account of consumers that connected before the trace, from the broker's stats.

A capture may begin in the middle of a consumer's life. Its SUBSCRIBE is not there, so who it is and
what it was granted is known by the broker's stats alone: a row STATS. One that has sent nothing yet
has no number; it gets that of the first STATS of its name that has one. Until a STATS reports
permits the numbers of its ledger are not known. Where a STATS was mistaken about the owner of a
number, another corrects it: that incarnation ends, its ledger not known, and its number is nobody's
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pulsar_doctor.ledger import permits
from pulsar_doctor.ledger.consumers import Connection, Consumer
from pulsar_doctor.wire.columns import MISTAKEN, Row


class Beginning(Protocol):
    """Where incarnations begin: see Incarnations."""

    given: Mapping[str, Mapping[str, Any]]
    next_incarnation: int

    def begin(self, connection: Connection, consumer: Consumer) -> None:
        """Begins an incarnation."""

    def end(self, connection: Connection, consumer: Consumer, row: Row) -> None:
        """Ends one."""


def reported(here: Beginning, connection: Connection, row: Row) -> None:
    """STATS: the broker's own words about a consumer of this connection."""
    connection.client_version = row.client_version = connection.client_version or row.client_version
    row.client_addr = connection.client_addr
    connection.greeted = True
    if row.known_by == MISTAKEN:
        _take_back(here, connection, row)
        return
    consumer = _meant(connection, row)
    if consumer is None:
        row.incarnation = here.next_incarnation
        here.next_incarnation += 1
        consumer = unknown_consumer(row, here.given.get(row.consumer_name or "", {}))
        if row.consumer_id is None:
            connection.lowest -= 1
            consumer.consumer_id = connection.lowest
        here.begin(connection, consumer)
    if row.consumer_id is not None and consumer.consumer_id != row.consumer_id:
        del connection.consumers[consumer.consumer_id]
        consumer.consumer_id = row.consumer_id
        connection.consumers[row.consumer_id] = consumer
    if consumer.turn != consumer.siblings.turn:
        consumer.siblings.stir(consumer)
    row.incarnation, row.subscription_type = consumer.incarnation, consumer.subscription_type
    if row.permits is not None:
        permits.joined(consumer.ledger, row)
    if row.consumer_id is None:
        permits.apply(consumer.ledger, row)


def _take_back(here: Beginning, connection: Connection, row: Row) -> None:
    """What this number did was somebody else's."""
    consumer = connection.consumers.get(-1 if row.consumer_id is None else row.consumer_id)
    if consumer is not None:
        row.incarnation, row.subscription_type = consumer.incarnation, consumer.subscription_type
        consumer.lose_track()
        here.end(connection, consumer, row)


def _meant(connection: Connection, row: Row) -> Consumer | None:
    """Whom a STATS means: the one of that number, or one without a number that has these names."""
    if row.consumer_id in connection.consumers:
        return connection.consumers[row.consumer_id]
    names = row.topic, row.subscription, row.consumer_name
    for number, consumer in connection.consumers.items():
        if (consumer.topic, consumer.subscription, consumer.consumer_name) == names and (
            number < 0 or row.consumer_id is None
        ):
            return consumer
    return None


def somebody(connection: Connection) -> None:
    """A command of a number that nobody is known to have: it may be any of those without one."""
    for number, consumer in connection.consumers.items():
        if number < 0:
            consumer.lose_track()


def unknown_consumer(row: Row, beside: Mapping[str, Any]) -> Consumer:
    """Who begins with this row, whatever came before. beside: what is known of it; see Timeline."""
    consumer = Consumer.of(row, row.incarnation or 0, beside, ready=True)
    permits.lose_track(consumer.ledger)
    return consumer
