"""Which consumers of a subscription the broker serves, and since when.

Changed in place: it is filled from every row of a trace.
"""

from __future__ import annotations

from pulsar_doctor.wire.columns import TO_BROKER, Row


class Serving:
    """Consumers by the number of their incarnation; moments are µs since 1970."""

    def __init__(self) -> None:
        self._conns: set[int | None] = set()
        self._since: dict[int | None, int] = {}
        self._subscribing: set[int | None] = set()  # their SUBSCRIBE is not answered
        self._closing: dict[int | None, bool] = {}  # whether it gives up the subscription
        self._active: set[int | None] = set()
        self._broken_us = 0  # when a connection last went, or the broker closed a consumer

    def subscribe(self, row: Row) -> None:
        """SUBSCRIBE, not answered yet."""
        self._subscribing.add(row.incarnation)
        self._conns.add(row.conn_id)

    def answered(self, row: Row) -> bool:
        """SUCCESS or ERROR of a SUBSCRIBE or a close; whether the subscription is gone now."""
        if row.incarnation in self._subscribing:
            self._subscribing.discard(row.incarnation)
            self._since[row.incarnation] = row.ts
            return False
        return self._closing.pop(row.incarnation, False) and row.command != "ERROR"

    def close_consumer(self, row: Row) -> None:
        """CLOSE_CONSUMER or UNSUBSCRIBE, of either side."""
        if row.direction == TO_BROKER:
            self._closing[row.incarnation] = row.command == "UNSUBSCRIBE"
        else:
            self._broken_us = row.ts

    def close(self, row: Row) -> None:
        """A connection has gone."""
        if row.conn_id in self._conns:
            self._conns.discard(row.conn_id)
            self._broken_us = row.ts

    def active(self, row: Row) -> None:
        """ACTIVE_CONSUMER_CHANGE."""
        if row.messages:
            self._since[row.incarnation] = row.ts
            self._active.add(row.incarnation)

    def concerns(self, row: Row) -> bool:
        """Whether this is of a connection that one of these consumers is on."""
        return row.conn_id in self._conns

    def heeds(self, row: Row) -> bool:
        """Whether the broker takes an ack of this consumer: neither too early nor too late."""
        return row.incarnation not in self._subscribing and row.incarnation not in self._closing

    def too_early(self, row: Row) -> bool:
        """Whether this consumer of a Failover is sent what was read for the one before it.

        Until activeConsumerFailoverDelayTimeMillis is over, the broker reads on where it was; then
        it returns to mark-delete and says who is active (seen on 4.0.8).
        """
        failover = row.subscription_type == "Failover"
        return failover and self.began(row) and row.incarnation not in self._active

    def began(self, row: Row) -> bool:
        """Whether the beginning of this consumer was seen."""
        return row.incarnation in self._since

    def since_us(self, row: Row) -> int:
        """What this consumer is sent was decided after this moment; 0: not known.

        That is: acks before it are in what the broker sends, unless they were lost.
        """
        return max(self._since.get(row.incarnation, 0), self._broken_us)
