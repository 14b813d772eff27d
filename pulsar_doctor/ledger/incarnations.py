"""Which commands start and end a consumer's life on a connection.

A consumer *incarnation* lasts from SUBSCRIBE to its close. The client closes it with CLOSE_CONSUMER
or UNSUBSCRIBE (it ends with the broker's answer, since messages may still be on their way), the
broker with a CLOSE_CONSUMER of its own (unload, seek), and both by losing the connection. A
SUBSCRIBE that fails, or that comes again with the same id, ends what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pulsar_doctor.ledger import before, dead_letters, permits
from pulsar_doctor.ledger.balance import EVERYWHERE
from pulsar_doctor.ledger.clients import client_of
from pulsar_doctor.ledger.consumers import Connection, Consumer, Siblings
from pulsar_doctor.ledger.left_behind import Published
from pulsar_doctor.ledger.refusals import Refusals
from pulsar_doctor.wire.columns import (
    CLOSE,
    GENERATION_BITS,
    JOINED,
    LIKELY_BY,
    OPEN,
    RETRACTED,
    SET_ASIDE,
    STATS,
    TO_BROKER,
    TO_CLIENT,
    UNPARSED,
    Row,
)

ENDED_KEPT_MOST = 1000  # incarnations that are over and still remembered
TOPICS_MOST = 10_000  # of which is remembered what was published
BY_CLIENT = "by the client"  # how the reason of a CLOSE ends: closed or reset


@dataclass(eq=False)
class Incarnations:
    """Incarnations, living and remembered; changes in place. given, from_start: see Timeline.

    What is not compared is not part of what is saved.
    """

    trace_id: str = field(default="", compare=False)
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    _: KW_ONLY
    from_start: bool = True
    next_incarnation: int = 1
    connections: dict[int, Connection] = field(default_factory=dict)
    ended: list[Consumer] = field(default_factory=list)
    set_aside: int = 0  # records that could not be read
    retracted: int = 0  # likely joins that were taken back
    retracted_rows: int = 0  # of these
    refusals: Refusals = field(default_factory=Refusals)
    published: dict[str, Published] = field(default_factory=dict)  # by topic
    # By topic and subscription.
    _siblings: dict[tuple[str, str], Siblings] = field(
        default_factory=dict, init=False, compare=False
    )

    @property
    def living(self) -> Iterator[Consumer]:
        """Consumers of living incarnations."""
        for connection in self.connections.values():
            yield from connection.consumers.values()

    @property
    def consumers(self) -> list[Consumer]:
        """Every incarnation that is remembered, in the order of their numbers."""
        return sorted([*self.ended, *self.living], key=lambda consumer: consumer.incarnation)

    def published_in(self, topic: str | None) -> Published | None:
        """What is known to be stored in a topic; None where too many are remembered."""
        if topic is None or (topic not in self.published and len(self.published) >= TOPICS_MOST):
            return None
        return self.published.setdefault(topic, Published())

    def begin(self, connection: Connection, consumer: Consumer) -> None:
        """Begins an incarnation."""
        siblings = self._siblings_of(consumer)
        highest = siblings.highest()
        consumer.ledger.had_before = highest if self.from_start else EVERYWHERE
        siblings.join(consumer)
        connection.consumers[consumer.consumer_id] = consumer
        connection.wait(consumer, consumer.request_id)

    @property
    def attended(self) -> Iterator[tuple[str, str]]:
        """Topics and their subscriptions that somebody is attached to."""
        return (key for key, siblings in self._siblings.items() if siblings.living)

    def _siblings_of(self, consumer: Consumer) -> Siblings:
        key = consumer.topic, consumer.subscription
        siblings = self._siblings.get(key)
        if siblings is None:
            siblings = self._siblings[key] = Siblings()
            self.published.setdefault(consumer.topic, Published()).subscriptions += 1
        return siblings

    def end(self, connection: Connection, consumer: Consumer, row: Row) -> None:
        """Ends an incarnation; the numbers of its ledger stay as they were."""
        siblings = consumer.siblings
        siblings.going(consumer, row.ts, row.mono_ns)
        siblings.stir(consumer)
        permits.end_starvation(consumer.ledger, row)
        consumer.closed_us = row.ts
        consumer.closed_ns = row.mono_ns
        first = next(iter(consumer.ledger.deliveries.values()), None)
        consumer.held_since_ns = None if first is None else first.at_ns
        consumer.ledger.deliveries.clear()
        consumer.ledger.awaited.clear()
        connection.wait(consumer, None)
        connection.consumers.pop(consumer.consumer_id, None)
        siblings.leave(consumer)
        self.ended.append(consumer)
        if len(self.ended) > ENDED_KEPT_MOST:
            self.forget(self.ended[0])

    def forget(self, consumer: Consumer) -> None:
        """An incarnation that has ended is remembered no more."""
        self.ended.remove(consumer)
        if consumer.siblings.forget(consumer):
            del self._siblings[consumer.topic, consumer.subscription]
            self.published[consumer.topic].subscriptions -= 1
            if not self.published[consumer.topic].subscriptions:
                del self.published[consumer.topic]


def label(row: Row, consumer: Consumer) -> None:
    """The consumer that a command belongs to."""
    row.incarnation = consumer.incarnation
    row.topic = consumer.topic
    row.subscription = consumer.subscription
    row.subscription_type = consumer.subscription_type
    row.consumer_id = consumer.consumer_id
    row.consumer_name = consumer.consumer_name
    row.client_version = consumer.client_version
    if row.partition is None:
        row.partition = consumer.partition


def _open(here: Incarnations, connection: Connection, row: Row) -> None:
    _end_of_dead_relays(here, row)
    connection.client_addr = row.client_addr
    connection.broker_addr = row.broker_addr
    if row.known_by is not None:
        connection.known_by = dict.fromkeys((TO_BROKER, TO_CLIENT), row.known_by)


def _joined(here: Incarnations, connection: Connection, row: Row) -> None:
    connection.greeted = True  # it has had a life before
    direction = row.direction or ""
    connection.known_by[direction] = row.known_by or ""
    connection.joins.pop(direction, None)
    connection.likely_rows.pop(direction, None)
    if row.known_by in LIKELY_BY:
        row.join = connection.joins[direction] = row.seq


def _retracted(here: Incarnations, connection: Connection, row: Row) -> None:
    """The rows of a join were no commands: whoever began with one of them was never there."""
    row.join = connection.joins.get(row.direction or "", row.join)
    row.known_by = None
    here.retracted += 1
    here.retracted_rows += connection.likely_rows.pop(row.direction or "", 0)
    for consumer in list(connection.consumers.values()):
        consumer.lose_track()
        if consumer.join is not None and consumer.join == row.join:
            here.end(connection, consumer, row)
            here.forget(consumer)


def _end_of_dead_relays(here: Incarnations, row: Row) -> None:
    """Connections of a relay that was killed have no CLOSE: they ended before the next relay.

    So they are older than all of its own, and stand before them.
    """
    generation = (row.conn_id or 0) >> GENERATION_BITS
    if not generation:
        return
    connections = here.connections
    while (oldest := next(iter(connections))) >> GENERATION_BITS < generation:
        connection = connections.pop(oldest)
        for consumer in list(connection.consumers.values()):
            consumer.lose_track()
            here.end(connection, consumer, row)
    row.starved_us = row.starved_from = None


def _unparsed(here: Incarnations, connection: Connection, row: Row) -> None:
    """What follows on this connection is not seen any more, or one command of it was set aside."""
    here.set_aside += row.error_code == SET_ASIDE
    for consumer in connection.consumers.values():
        consumer.lose_track()


def _connect(here: Incarnations, connection: Connection, row: Row) -> None:
    connection.client_version = row.client_version


def _connected(here: Incarnations, connection: Connection, row: Row) -> None:
    connection.greeted = True


def _refused(here: Incarnations, connection: Connection, row: Row) -> None:
    """What a broker answers, or the end: either may say why a client does not get through."""
    row.client_addr, row.client_version = connection.client_addr, connection.client_version
    if row.grade is None:
        here.refusals.apply(row, greeted=connection.greeted)


def _close(here: Incarnations, connection: Connection, row: Row) -> None:
    _refused(here, connection, row)
    longest_us = 0
    by_client = (row.error_message or "").endswith(BY_CLIENT)
    for consumer in list(connection.consumers.values()):
        consumer.closed_by = consumer.closed_by or (CLOSE if by_client else None)
        here.end(connection, consumer, row)
        longest_us = max(longest_us, row.starved_us or 0)
    row.starved_us = longest_us or None
    row.starved_from = None  # of nobody in particular
    here.connections.pop(row.conn_id or 0, None)


def _subscribe(here: Incarnations, connection: Connection, row: Row) -> None:
    if row.consumer_id is None:
        return
    before = connection.consumers.get(row.consumer_id)
    if before is not None:
        here.end(connection, before, row)
        row.starved_from = None  # starved_us is that of the one before
    row.client_addr, row.client_version = connection.client_addr, connection.client_version
    client, known = client_of(row.client_version), here.given.get(row.consumer_name or "", {})
    counts = client.drops_old_epochs and row.subscription_type not in ("Shared", "Key_Shared")
    consumer = Consumer.of(
        row,
        here.next_incarnation,
        known,
        epoch=row.consumer_epoch if counts else None,
        given_delay_us=round((known.get("receiver_delay_seconds") or 0) * 1e6),
        delay_from_receipt=known.get("delay_from") == "receipt",
        credits_skipped=client.credits_skipped,
        taken=0 if known.get("takes_told") else None,
    )
    consumer.request_id, consumer.join, consumer.durable = row.request_id, row.join, row.durable
    here.next_incarnation += 1
    here.begin(connection, consumer)


def _producer(here: Incarnations, connection: Connection, row: Row) -> None:
    if row.producer_id is None or not row.topic:
        return
    connection.begin_producer(row.producer_id, row.topic)
    origin = dead_letters.origin_of(row, connection, here.attended)
    if origin is not None:
        connection.letters[row.producer_id] = origin


def _stored(here: Incarnations, connection: Connection, row: Row) -> None:
    """A receipt without a position is that of a duplicate, which is not stored."""
    published = here.published_in(connection.topic_of(row.producer_id or 0))
    if published is None or row.ledger_id is None or row.entry_id is None or row.grade is not None:
        return
    published.stored(row.mono_ns, (row.ledger_id, row.entry_id))


def _sent(here: Incarnations, connection: Connection, row: Row) -> None:
    """A message that is not due before a moment of its own is no backlog until then."""
    if row.deliver_at is None:
        return
    published = here.published_in(connection.topic_of(row.producer_id or 0))
    if published is not None:
        published.delayed_us = max(published.delayed_us, row.deliver_at)


def _close_producer(here: Incarnations, connection: Connection, row: Row) -> None:
    if row.producer_id is not None:
        connection.end_producer(row.producer_id)


def _answered(here: Incarnations, connection: Connection, row: Row) -> None:
    """SUCCESS or ERROR: the answer to a SUBSCRIBE or to a close, among others."""
    if row.command == "ERROR":
        _refused(here, connection, row)
    if row.request_id is None or row.direction != TO_CLIENT:
        return
    consumer = connection.waits_for(row.request_id)
    if consumer is None:
        return
    connection.wait(consumer, None)
    consumer.siblings.stir(consumer)
    failed = row.command == "ERROR"
    label(row, consumer)
    if consumer.closing and not failed:
        permits.apply(consumer.ledger, row)
        here.end(connection, consumer, row)
    elif consumer.closing:
        consumer.closing, consumer.closed_by = False, None
    elif failed:
        here.end(connection, consumer, row)
    else:
        permits.subscribed(consumer.ledger, row)
        permits.apply(consumer.ledger, row)


def _close_consumer(
    here: Incarnations, connection: Connection, consumer: Consumer, row: Row
) -> None:
    if row.direction == TO_BROKER:
        consumer.siblings.going(consumer, row.ts, row.mono_ns)
        consumer.closing, consumer.closed_by = True, row.command
        connection.wait(consumer, row.request_id)
    else:
        here.end(connection, consumer, row)


def _active_change(
    here: Incarnations, connection: Connection, consumer: Consumer, row: Row
) -> None:
    consumer.active = bool(row.messages)
    consumer.ledger.awaited.clear()  # the broker rewinds: all comes again, to whoever is active


CONNECTION_EVENTS: dict[str, Callable[[Incarnations, Connection, Row], None]] = {
    OPEN: _open,
    JOINED: _joined,
    RETRACTED: _retracted,
    STATS: before.reported,
    UNPARSED: _unparsed,
    CLOSE: _close,
    "CONNECT": _connect,
    "CONNECTED": _connected,
    "LOOKUP_RESPONSE": _refused,
    "PARTITIONED_METADATA_RESPONSE": _refused,
    "SUBSCRIBE": _subscribe,
    "PRODUCER": _producer,
    "SEND": _sent,
    "SEND_RECEIPT": _stored,
    "CLOSE_PRODUCER": _close_producer,
    "SUCCESS": _answered,
    "ERROR": _answered,
}
CONSUMER_EVENTS: dict[str, Callable[[Incarnations, Connection, Consumer, Row], None]] = {
    "CLOSE_CONSUMER": _close_consumer,
    "UNSUBSCRIBE": _close_consumer,
    "ACTIVE_CONSUMER_CHANGE": _active_change,
}
