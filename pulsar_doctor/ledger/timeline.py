"""Follows all connections of a trace: which command belongs to which consumer, and what it did.

A consumer *incarnation* lasts from SUBSCRIBE to its close. The client closes it with CLOSE_CONSUMER
or UNSUBSCRIBE (it ends with the broker's answer, since messages may still be on their way), the
broker with a CLOSE_CONSUMER of its own (unload, seek), and both by losing the connection. A
SUBSCRIBE that fails, or that comes again with the same id, ends what was there.

Rows come in the order of the journal. Applying the rows of a sealed trace again rebuilds the
same state. Changed in place: this is the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pulsar_doctor.ledger import awaited, consumers, permits
from pulsar_doctor.ledger import balance as ledgers
from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.ledger.consumers import (
    Connection,
    Consumer,
    LedgerMoment,
    Subscription,
    split_partition,
)
from pulsar_doctor.ledger.refusals import Refusals
from pulsar_doctor.wire.columns import (
    CLOSE,
    GAP,
    GENERATION_BITS,
    OPEN,
    SET_ASIDE,
    TAKEN,
    TO_BROKER,
    TO_CLIENT,
    UNPARSED,
    Row,
    ids_of,
)

ENDED_KEPT_MOST = 1000  # incarnations that are over and still remembered
PRODUCERS_KEPT_MOST = 10_000  # of a connection: the newest
CREDIT_SKIPPED = ("Pulsar-CPP", "Pulsar-Go")  # clients; see Ledger.credits_skipped
HOLDS_OLD = "pulsar-doctor-"  # our own, drops nothing by epoch: see consume/receiver/epochs.py
DEAD_LETTERS = "-DLQ"
SHUTDOWN_US = 10_000_000  # closes that lie closer together are one shutdown


class Timeline:
    """Commands in, rows with their ledger out.

    told: consumer name -> what is known beside the wire: receiver_queue_size, process_seconds,
    unacked_limit, receiver_delay_seconds (the longest) and delay_from, and takes_told where its
    application tells each message that it takes.
    from_start: whether nothing came before; otherwise any consumer may have had any message.
    """

    def __init__(
        self,
        trace_id: str = "",
        told: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        from_start: bool = True,
    ) -> None:
        self.trace_id = trace_id
        self.told = dict(told or {})
        self.from_start = from_start
        self.next_seq = 0
        self.next_incarnation = 1
        self.now_us = 0
        self.now_ns = 0
        self.connections: dict[int, Connection] = {}
        self.ended: list[Consumer] = []
        self.set_aside = 0  # records that could not be read
        self.refusals = Refusals()
        self._siblings: dict[tuple[str, str], dict[int, Consumer]] = {}  # living, by incarnation

    @property
    def living(self) -> Iterator[Consumer]:
        """Consumers whose incarnation goes on."""
        for connection in self.connections.values():
            yield from connection.consumers.values()

    @property
    def consumers(self) -> list[Consumer]:
        """All incarnations that are remembered, in the order of their numbers."""
        return sorted([*self.ended, *self.living], key=lambda consumer: consumer.incarnation)

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
                _label(row, consumer)
                if command == "ACK":
                    self._ack(consumer, row)
                permits.apply(consumer.ledger, row)
                then = CONSUMER_EVENTS.get(command)
                if then is not None:
                    then(self, connection, consumer, row)
        elif row.producer_id is not None:
            row.topic = row.topic or connection.producers.get(row.producer_id)
            if row.command == "SEND" and (row.topic or "").endswith(DEAD_LETTERS):
                self._put_away(row)
        return row

    def _put_away(self, row: Row) -> None:
        """A dead letter, by the name that clients give its topic: of any of its partitions."""
        for (topic, subscription), siblings in self._siblings.items():
            names = {topic, split_partition(topic)[0]}
            if row.topic in {f"{name}-{subscription}{DEAD_LETTERS}" for name in names}:
                permits.put_away(next(iter(siblings.values())).ledger, row)

    def _unconnected(self, row: Row) -> None:
        if row.command == UNPARSED:
            self.set_aside += row.error_code == SET_ASIDE
        elif row.command == GAP:
            for consumer in self.living:
                permits.lose_track(consumer.ledger)
        elif row.command == TAKEN:
            taker = self._taker(row)
            if taker is not None:
                _label(row, taker)
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
        siblings = self._siblings[consumer.topic, consumer.subscription]
        if len(siblings) == 1 and self.from_start:
            return
        for message_id in ids_of(row):
            position = (message_id.ledger_id, message_id.entry_id)
            if position in held:
                continue
            for other in siblings.values():
                if position in other.ledger.deliveries or position in other.ledger.awaited:
                    permits.acknowledge(other.ledger, row, [message_id], by_another=True)
                    break
            else:
                known = not any(other.ledger.uncertain for other in siblings.values())
                if not (known and self.from_start):
                    row.acknowledged_messages = None

    def begin(self, connection: Connection, consumer: Consumer) -> None:
        """Begins an incarnation."""
        siblings = self._siblings.setdefault((consumer.topic, consumer.subscription), {})
        consumer.ledger.had_before = max(
            (
                other.ledger.highest
                for other in (*self.ended, *siblings.values())
                if other.topic == consumer.topic and other.subscription == consumer.subscription
            ),
            default=ledgers.NOWHERE,
        )
        if not self.from_start:
            consumer.ledger.had_before = ledgers.EVERYWHERE
        connection.consumers[consumer.consumer_id] = siblings[consumer.incarnation] = consumer

    def going(self, consumer: Consumer, row: Row) -> None:
        """Keeps how its subscription stands when a consumer goes; a shutdown is one such moment."""
        siblings = self._siblings[consumer.topic, consumer.subscription]
        kept = consumer.before_shutdown
        newest = siblings[next(reversed(siblings))]
        if kept is None or kept.us < max(row.ts - SHUTDOWN_US, newest.opened_us):
            for sibling in siblings.values():
                ledger = ledgers.as_of_now(sibling.ledger)
                sibling.before_shutdown = LedgerMoment(ledger, row.ts, row.mono_ns)

    def end(self, connection: Connection, consumer: Consumer, row: Row) -> None:
        """Ends an incarnation; the numbers of its ledger stay as they were."""
        self.going(consumer, row)
        permits.end_starvation(consumer.ledger, row)
        consumer.closed_us = row.ts
        consumer.closed_ns = row.mono_ns
        consumer.ledger.deliveries.clear()
        consumer.ledger.awaited.clear()
        connection.consumers.pop(consumer.consumer_id, None)
        siblings = self._siblings[consumer.topic, consumer.subscription]
        del siblings[consumer.incarnation]
        if not siblings:
            del self._siblings[consumer.topic, consumer.subscription]
        self.ended.append(consumer)
        if len(self.ended) > ENDED_KEPT_MOST:
            del self.ended[0]

    def subscriptions(self) -> list[Subscription]:
        """What is to be judged, one value a subscription, in the order of their first consumers."""
        groups: dict[tuple[str, str], list[Consumer]] = {}
        for consumer in self.consumers:
            groups.setdefault((consumer.topic, consumer.subscription), []).append(consumer)
        return [self._judged(consumers) for consumers in groups.values()]

    def _judged(self, consumers: list[Consumer]) -> Subscription:
        now_us, now_ns = self.now_us, self.now_ns
        judged = [consumer for consumer in consumers if consumer.closed_us is None]
        if not judged:
            moments = _last_shutdown(consumers)
            judged = [replace(consumer, ledger=moment.ledger) for consumer, moment in moments]
            now_us = max(moment.us for _, moment in moments)
            now_ns = max(moment.ns for _, moment in moments)
        first = consumers[-1]
        topic, partition = split_partition(first.topic)
        return Subscription(
            topic,
            partition,
            first.subscription,
            first.subscription_type,
            tuple(judged),
            now_us,
            now_ns,
        )

    def state(self) -> dict[str, Any]:
        """Everything that the next row depends on, as JSON values."""
        return {
            "from_start": self.from_start,
            "next_seq": self.next_seq,
            "next_incarnation": self.next_incarnation,
            "now_us": self.now_us,
            "now_ns": self.now_ns,
            "set_aside": self.set_aside,
            "refusals": self.refusals.state(),
            "connections": {
                str(conn_id): {
                    **{name: getattr(connection, name) for name in Connection.__slots__},
                    "consumers": [consumers.state_of(c) for c in connection.consumers.values()],
                    "producers": list(connection.producers.items()),
                }
                for conn_id, connection in self.connections.items()
            },
            "ended": [consumers.state_of(consumer) for consumer in self.ended],
        }

    @classmethod
    def restore(
        cls,
        state: Mapping[str, Any],
        trace_id: str = "",
        told: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Timeline:
        """The timeline that `state` was taken of."""
        timeline = cls(trace_id, told, from_start=state.get("from_start", True))
        for name in ("next_seq", "next_incarnation", "now_us", "now_ns"):
            setattr(timeline, name, state[name])
        timeline.set_aside = state.get("set_aside", 0)
        timeline.refusals = Refusals.restore(state.get("refusals", []))
        for conn_id, saved in state["connections"].items():
            attached = [consumers.from_state(consumer) for consumer in saved["consumers"]]
            timeline.connections[int(conn_id)] = Connection(
                saved["client_addr"],
                saved["broker_addr"],
                saved["client_version"],
                {consumer.consumer_id: consumer for consumer in attached},
                dict(saved["producers"]),
                saved.get("greeted", True),
            )
        timeline.ended = [consumers.from_state(consumer) for consumer in state["ended"]]
        for consumer in sorted(timeline.living, key=lambda consumer: consumer.incarnation):
            key = (consumer.topic, consumer.subscription)
            timeline._siblings.setdefault(key, {})[consumer.incarnation] = consumer
        return timeline


def _last_shutdown(consumers: list[Consumer]) -> list[tuple[Consumer, LedgerMoment]]:
    """Of consumers that all have ended: those that were there to the last, as they stood then."""
    served = [consumer for consumer in consumers if consumer.ledger.ready] or consumers
    last = max(consumer.closed_us or 0 for consumer in served)
    since = max(last - SHUTDOWN_US, *(consumer.opened_us for consumer in served))
    stayed = [consumer for consumer in served if (consumer.closed_us or 0) >= since]
    return [
        (consumer, consumer.before_shutdown)
        for consumer in stayed or served[-1:]  # none where the wall clock was set back
        if consumer.before_shutdown is not None
    ]


def _label(row: Row, consumer: Consumer) -> None:
    row.incarnation = consumer.incarnation
    row.topic = consumer.topic
    row.subscription = consumer.subscription
    row.subscription_type = consumer.subscription_type
    row.consumer_id = consumer.consumer_id
    row.consumer_name = consumer.consumer_name
    row.client_version = consumer.client_version
    if row.partition is None:
        row.partition = consumer.partition


def _open(timeline: Timeline, connection: Connection, row: Row) -> None:
    _end_of_dead_relays(timeline, row)
    connection.client_addr = row.client_addr
    connection.broker_addr = row.broker_addr


def _end_of_dead_relays(timeline: Timeline, row: Row) -> None:
    """Connections of a relay that was killed have no CLOSE: they ended before the next relay.

    So they are older than all of its own, and stand before them.
    """
    generation = (row.conn_id or 0) >> GENERATION_BITS
    if not generation:
        return
    connections = timeline.connections
    while (oldest := next(iter(connections))) >> GENERATION_BITS < generation:
        connection = connections.pop(oldest)
        for consumer in list(connection.consumers.values()):
            permits.lose_track(consumer.ledger)
            timeline.end(connection, consumer, row)
    row.starved_us = row.starved_from = None


def _unparsed(timeline: Timeline, connection: Connection, row: Row) -> None:
    """What follows on this connection is not seen any more, or one command of it was set aside."""
    timeline.set_aside += row.error_code == SET_ASIDE
    for consumer in connection.consumers.values():
        permits.lose_track(consumer.ledger)


def _connect(timeline: Timeline, connection: Connection, row: Row) -> None:
    connection.client_version = row.client_version


def _connected(timeline: Timeline, connection: Connection, row: Row) -> None:
    connection.greeted = True


def _refused(timeline: Timeline, connection: Connection, row: Row) -> None:
    """What a broker answers, or the end: either may say why a client does not get through."""
    row.client_addr, row.client_version = connection.client_addr, connection.client_version
    timeline.refusals.apply(row, greeted=connection.greeted)


def _close(timeline: Timeline, connection: Connection, row: Row) -> None:
    _refused(timeline, connection, row)
    longest_us = 0
    for consumer in list(connection.consumers.values()):
        timeline.end(connection, consumer, row)
        longest_us = max(longest_us, row.starved_us or 0)
    row.starved_us = longest_us or None
    row.starved_from = None  # of nobody in particular
    timeline.connections.pop(row.conn_id or 0, None)


def _subscribe(timeline: Timeline, connection: Connection, row: Row) -> None:
    if row.consumer_id is None:
        return
    before = connection.consumers.get(row.consumer_id)
    if before is not None:
        timeline.end(connection, before, row)
        row.starved_from = None  # starved_us is that of the one before
    told = timeline.told.get(row.consumer_name or "", {})
    individual = row.subscription_type in ("Shared", "Key_Shared")
    drops_old = not individual and not (connection.client_version or "").startswith(HOLDS_OLD)
    consumer = Consumer(
        timeline.next_incarnation,
        row.conn_id or 0,
        row.consumer_id,
        row.topic or "",
        split_partition(row.topic or "")[1],
        row.subscription or "",
        row.subscription_type,
        row.consumer_name,
        connection.client_version,
        connection.client_addr,
        row.ts,
        Ledger(
            individual=individual,
            epoch=row.consumer_epoch if drops_old else None,
            told_receiver_queue_size=told.get("receiver_queue_size"),
            told_process_seconds=told.get("process_seconds"),
            told_delay_us=round((told.get("receiver_delay_seconds") or 0) * 1e6),
            delay_from_receipt=told.get("delay_from") == "receipt",
            unacked_limit=told.get("unacked_limit"),
            credits_skipped=(connection.client_version or "").startswith(CREDIT_SKIPPED),
            taken=0 if told.get("takes_told") else None,
        ),
        request_id=row.request_id,
    )
    timeline.next_incarnation += 1
    timeline.begin(connection, consumer)


def _producer(timeline: Timeline, connection: Connection, row: Row) -> None:
    if row.producer_id is None or not row.topic:
        return
    producers = connection.producers  # closed ones too: their receipts may still be on their way
    producers.pop(row.producer_id, None)
    producers[row.producer_id] = row.topic
    if len(producers) > PRODUCERS_KEPT_MOST:
        del producers[next(iter(producers))]


def _answered(timeline: Timeline, connection: Connection, row: Row) -> None:
    """SUCCESS or ERROR: the answer to a SUBSCRIBE or to a close, among others."""
    if row.command == "ERROR":
        _refused(timeline, connection, row)
    if row.request_id is None or row.direction != TO_CLIENT:
        return
    for consumer in connection.consumers.values():
        if consumer.request_id == row.request_id:
            break
    else:
        return
    consumer.request_id = None
    failed = row.command == "ERROR"
    _label(row, consumer)
    if consumer.closing and not failed:
        permits.apply(consumer.ledger, row)
        timeline.end(connection, consumer, row)
    elif consumer.closing:
        consumer.closing = False
    elif failed:
        timeline.end(connection, consumer, row)
    else:
        permits.subscribed(consumer.ledger, row)
        permits.apply(consumer.ledger, row)


def _close_consumer(
    timeline: Timeline, connection: Connection, consumer: Consumer, row: Row
) -> None:
    if row.direction == TO_BROKER:
        timeline.going(consumer, row)
        consumer.closing = True
        consumer.request_id = row.request_id
    else:
        timeline.end(connection, consumer, row)


def _active_change(
    timeline: Timeline, connection: Connection, consumer: Consumer, row: Row
) -> None:
    consumer.active = bool(row.messages)
    awaited.another_active(consumer.ledger)


CONNECTION_EVENTS: dict[str, Callable[[Timeline, Connection, Row], None]] = {
    OPEN: _open,
    UNPARSED: _unparsed,
    CLOSE: _close,
    "CONNECT": _connect,
    "CONNECTED": _connected,
    "LOOKUP_RESPONSE": _refused,
    "PARTITIONED_METADATA_RESPONSE": _refused,
    "SUBSCRIBE": _subscribe,
    "PRODUCER": _producer,
    "SUCCESS": _answered,
    "ERROR": _answered,
}
CONSUMER_EVENTS: dict[str, Callable[[Timeline, Connection, Consumer, Row], None]] = {
    "CLOSE_CONSUMER": _close_consumer,
    "UNSUBSCRIBE": _close_consumer,
    "ACTIVE_CONSUMER_CHANGE": _active_change,
}
