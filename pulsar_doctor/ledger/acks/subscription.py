"""The entries of one subscription after delivery: acknowledged when, by what, or not.

Theory of operation
-------------------
Follows one subscription through the rows of a trace and keeps what the broker keeps: mark-delete,
and the entries behind it that are acknowledged one by one (ManagedCursorImpl in the broker).

- An individual ack closes an entry; mark-delete advances as long as the next entry is closed.
- A cumulative ack moves mark-delete forward, never back. On Shared and Key_Shared, and with more
  than one id, the broker drops it in silence.
- An ack with an ack_set closes some indexes of a batch. The broker keeps them only with
  acknowledgmentAtBatchIndexLevelEnabled; otherwise it drops an individual one and takes a
  cumulative one for the entry before. The entry is closed once no index is open.
  Even then a topic that is unloaded forgets which indexes of a batch were acknowledged, unless
  its ranges stand in a ledger of their own (seen in 4.0.8; more than 1,000 ranges).
- An ack is dropped that comes before its SUBSCRIBE has succeeded or after its close, and one of an
  entry that does not exist yet drops all behind it in the same command.
- An ack in a transaction moves nothing until the commit, which a consumer's wire does not show.
- A seek puts mark-delete before its target and opens everything behind it.

The wire does not say where a subscription began nor where a ledger ends. Exclusive and Failover
are delivered in order until a redelivery is requested: what is passed over has been acknowledged,
or is the broker's own marker, which it acknowledges itself. Not so for a new active consumer that
the broker sends to before it calls it active: that was read for the one before it. Shared and
Key_Shared may withhold entries (delayed, or their key is busy): there mark-delete is at most the
entry before the lowest that was delivered, what is passed over is a hole, and a ledger is taken to
end at its last known entry once the first of the next one is acknowledged.
`doubts` says which of this was needed.

An entry that is delivered again after its ack: the ack was lost, if the consumer came, or a
connection went, in between; otherwise the two have crossed on the wire, and the ack holds.

Where the setting is not reported, both are followed from the first such ack on (`otherwise`), until
the broker shows that it keeps them: it sends a batch again with an ack_set.

Consumers that did not pass through the tap are not seen, nor are skips by an administrator before
the next delivery. A reader of a compacted topic passes over entries that nobody has acknowledged.

Memory: 41 bytes for each entry behind mark-delete, and for the newest 262,144 before it.
Changed in place: a pass over rows. It knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pulsar_doctor.ledger.acks.acked import Acked, acked_of
from pulsar_doctor.ledger.acks.biographies import Biography, lives_of
from pulsar_doctor.ledger.acks.cursor import START, Cursor, Position, before, bits_of
from pulsar_doctor.ledger.acks.doubts import (
    IN_TRANSACTIONS,
    MISSING,
    OLDER,
    doubts_of,
    ends,
    passed,
)
from pulsar_doctor.ledger.acks.entries import (
    HOW,
    INDIVIDUAL,
    OPEN,
    PAGE,
    SEEK,
    UNSEEN,
    VALIDATION_ERROR,
)
from pulsar_doctor.ledger.acks.ranges import Range
from pulsar_doctor.ledger.acks.serving import Serving
from pulsar_doctor.wire.columns import CLOSE, GAP, TO_CLIENT, UNPARSED, MessageId, Row, ids_of

UNANSWERED_MOST = 10_000  # acks and seeks that wait for their answer
IN_ORDER = ("Exclusive", "Failover")
OF_NO_SUBSCRIPTION = frozenset(("SUCCESS", "ERROR", CLOSE, GAP, UNPARSED))


def of_rows(
    rows: Iterable[Row], *, until_us: int | None = None, batch_index_acks: bool | None = None
) -> dict[tuple[str, str], Acknowledgements]:
    """What the rows of a trace, or rows that a timeline has seen, say: by (topic, subscription).

    until_us: as it was at that moment, microseconds since 1970. batch_index_acks: the broker's
    acknowledgmentAtBatchIndexLevelEnabled; None: not reported.
    """
    found: dict[tuple[str, str], Acknowledgements] = {}
    for row in rows:
        if until_us is not None and row.ts > until_us:
            break
        if row.command not in EVENTS:
            continue
        if row.topic is not None and row.subscription is not None:
            each = found.get((row.topic, row.subscription))
            if each is None:
                each = Acknowledgements(batch_index_acks=batch_index_acks)
                found[row.topic, row.subscription] = each
            each.apply(row)
        else:  # of a connection, or of nobody
            for each in found.values():
                each.apply(row)
    return found


class Acknowledgements:
    """One subscription of one topic or partition. batch_index_acks: None: not known."""

    def __init__(self, *, batch_index_acks: bool | None = None) -> None:
        # Entries and messages, each once; ids of acks that the broker drops; acks that were lost.
        self.delivered = self.delivered_messages = self.dropped = self.lost = 0
        self.in_transactions: set[Position] = set()  # entries that only these have acknowledged
        self.given_up: Acked | None = None  # not acknowledged when the subscription was removed
        self.type: str | None = None  # of the subscription; None: not known
        self.otherwise: Acknowledgements | None = None  # without batch_index_acks, if not known
        self._either = batch_index_acks is None
        self._cursor = Cursor(batch_index_acks=batch_index_acks is not False)
        self._in_order = True
        self._left_unsent = False
        self._doubts: dict[str, None] = {}
        self._names: dict[int, str] = {}
        self._serving = Serving()
        # Delivered to an incarnation in order, None: it does not get them in order any more.
        self._newest: dict[int | None, Position | None] = {}
        self._unanswered: dict[Any, list[Position]] = {}  # acks, by connection and request
        self._seeks: dict[Any, Position | None] = {}

    @property
    def mark_delete(self) -> Position | None:
        """Everything up to this position is consumed; None while nothing tells.

        `(ledger, -1)` is the end of the ledger before, as the broker may say, too.
        """
        return self._cursor.mark_delete

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the broker's numbers may be others: sentences; none where everything was seen."""
        other = None if self.otherwise is None else self.otherwise._cursor
        return doubts_of(self._doubts, self._cursor, other, in_order=self._in_order)

    def ends(self) -> int:
        """Where ledgers end; see `doubts.ends`."""
        return ends(self._cursor, in_order=self._in_order)

    def passed(self) -> list[Position]:
        """Where mark-delete has passed; see `doubts.passed`."""
        return passed(self._cursor)

    @property
    def acknowledged(self) -> dict[str, int]:
        """Entries by what acknowledged them: words of entries.HOW."""
        counts = self._cursor.acknowledged
        return {name: counts[how] for how, name in enumerate(HOW) if name and counts[how]}

    def ranges(self) -> list[Range]:
        """Acknowledged ranges behind mark-delete, in order, as the broker has them."""
        return list(self._cursor.ranges())

    def biographies(self, *, open_only: bool = False) -> list[Biography]:
        """Delivered entries: first those that are open behind mark-delete, then others; by id."""
        return lives_of(self._cursor, self._names, self.in_transactions, open_only=open_only)

    def last_delivered(self) -> dict[int, int]:
        """By ledger the last of the delivered entries that are remembered."""
        return {ledger_id: entry for ledger_id, _, _, entry in self._cursor.delivered()}

    def acked(self) -> Acked:
        """How many of the messages that were delivered are acknowledged."""
        counted = acked_of(self._cursor, self._names, self.in_transactions, self.delivered_messages)
        if self.given_up is not None:
            counted = counted.beside(self.given_up)
        if MISSING in self._doubts:  # an ack, or a delivery
            counted = replace(counted, open_least=0, open_most=max(1, counted.delivered))
        return counted if self.otherwise is None else counted.or_else(self.otherwise.acked())

    def apply(self, row: Row) -> None:
        """Moves on by one row of this subscription, or by one that is of no subscription."""
        event = EVENTS.get(row.command)
        if event is None:
            return
        if row.subscription is not None:
            self._in_order = row.subscription_type in IN_ORDER
            self.type = row.subscription_type or self.type
        elif row.command not in OF_NO_SUBSCRIPTION:
            return  # of a consumer that has gone: the broker drops it
        if self._either and row.command == "ACK" and self.otherwise is None:
            self._part_ways(row)
        event(self, row)
        if self.otherwise is not None:
            self.otherwise.apply(row)

    def _part_ways(self, row: Row) -> None:
        """From the first ack of a part of a batch on the setting of the broker counts."""
        if any(each.ack_set is not None for each in ids_of(row)):
            self.otherwise = deepcopy(self)
            self.otherwise._either = self.otherwise._cursor.batch_index_acks = False

    def _answered(self, row: Row) -> None:
        """SUCCESS or ERROR: of a SUBSCRIBE, of a close, or of a seek."""
        request = (row.conn_id, row.request_id)
        if row.incarnation is not None:
            if self._serving.answered(row):
                self.given_up = self.acked()
                self._reset(None, row.ts)
                self._cursor.forget()
        elif request in self._seeks:
            target = self._seeks.pop(request)
            if row.command != "ERROR":
                self._reset(target, row.ts)

    def _close_consumer(self, row: Row) -> None:
        self._serving.close_consumer(row)
        if row.direction == TO_CLIENT:
            self._left_unsent |= not self.delivered
            self._cursor.partial.clear()  # an unload forgets them; else the next MESSAGE says so

    def _close(self, row: Row) -> None:
        self._left_unsent |= not self.delivered and self._serving.concerns(row)
        self._serving.close(row)

    def _missing(self, row: Row) -> None:
        if row.command == GAP or self._serving.concerns(row):
            self._doubts[MISSING] = None

    def _seek(self, row: Row) -> None:
        known = row.ledger_id is not None and row.entry_id is not None
        target = (row.ledger_id or 0, row.entry_id or 0) if known else None
        _remember(self._seeks, (row.conn_id, row.request_id), target)

    def _reset(self, target: Position | None, us: int) -> None:
        self._cursor.reset(target, us)
        self.in_transactions.clear()
        if target is not None:  # it is the beginning now
            self._doubts.pop(OLDER, None)

    def _message(self, row: Row) -> None:
        if row.ledger_id is None or row.entry_id is None:
            return
        ledger_id, entry = position = (row.ledger_id, row.entry_id)
        incarnation = row.incarnation or 0
        entries = self._cursor.entries(ledger_id)
        again = entry <= entries.highest
        if not again:
            entries.highest = entry
        if self._cursor.mark_delete is None:
            self._begin(position, row)
        if self._in_order:
            self._in_between(position, row)
        if again:
            self._delivered_again(position, row)
        else:
            self._cursor.fall_back(position)
        page, at = entries.page(entry // PAGE), entry % PAGE
        if page.deliveries[at] == 0:
            self.delivered += 1
            self.delivered_messages += _sent(row)
            page.first_us[at] = row.ts
            page.first_by[at] = incarnation
        page.deliveries[at] += 1
        page.last_us[at] = row.ts
        page.last_by[at] = incarnation
        page.messages[at] = row.messages or 1
        if incarnation not in self._names:
            self._names[incarnation] = row.consumer_name or f"#{incarnation}"
        if row.ack_set is not None and not page.how[at]:
            self._cursor.batch_index_acks = True  # it shows that it keeps them
            self._either, self.otherwise = False, None
            left = self._cursor.open_bits(position, page.messages[at]) & bits_of(row.ack_set)
            self._cursor.partial[position] = left

    def _begin(self, position: Position, row: Row) -> None:
        """A consumer in order begins behind mark-delete, if its beginning was seen."""
        self._cursor.mark_delete = before(position)
        at_mark_delete = self._serving.began(row) and not self._serving.too_early(row)
        earlier = self._left_unsent or self._cursor.known(-1, position[0] - 1)
        if not at_mark_delete if self._in_order else position[1] or earlier:
            self._doubts[OLDER] = None

    def _in_between(self, position: Position, row: Row) -> None:
        """Delivered in order: what lies before it and was not delivered now is acknowledged."""
        first = None if self._serving.too_early(row) else START
        newest = self._newest.setdefault(row.incarnation, first)
        if newest is None:
            return
        ledger_id, entry = position
        self._newest[row.incarnation] = max(position, newest)
        if newest == START:
            self._cursor.pass_over((ledger_id, entry - 1), UNSEEN, row.ts)
        elif position > newest != (ledger_id, entry - 1):
            self._cursor.skip(newest, position, row.ts)

    def _delivered_again(self, position: Position, row: Row) -> None:
        """It may have been acknowledged, or have been taken to be."""
        cursor = self._cursor
        page, at = cursor.entries(position[0]).page(position[1] // PAGE), position[1] % PAGE
        how = page.how[at]
        self.in_transactions.discard(position)
        if how in (UNSEEN, SEEK):
            cursor.reopen(position)
        elif self._serving.since_us(row) > page.acked_us[at]:
            self.lost += how != OPEN
            cursor.reopen(position)
            cursor.partial.pop(position, None)

    def _redeliver(self, row: Row) -> None:
        """What was acknowledged before it of a batch, the broker knows when it sends that again."""
        if self._in_order:
            self._newest[row.incarnation] = None  # from here on reads of the broker overlap
        positions = [(each.ledger_id, each.entry_id) for each in ids_of(row)]
        for position in positions or self._cursor.partial:
            self._cursor.partly_acknowledged_before(position)

    def _ack(self, row: Row) -> None:
        ids = ids_of(row)
        if not self._serving.heeds(row):
            self.dropped += len(ids)
        elif row.transaction is not None:
            self._doubts[IN_TRANSACTIONS] = None
            self.in_transactions.update((each.ledger_id, each.entry_id) for each in ids)
        elif row.ack_type == "cumulative":
            self._cumulative(ids, row)
        else:
            self._individual(ids, row)

    def _cumulative(self, ids: list[MessageId], row: Row) -> None:
        if self._in_order and len(ids) == 1 and self._cursor.exists(*ids[0][:2]):
            self._cursor.mark(ids[0], row.ts)
        else:
            self.dropped += len(ids)

    def _individual(self, ids: list[MessageId], row: Row) -> None:
        how = INDIVIDUAL if row.error_code is None else VALIDATION_ERROR
        cursor, closed = self._cursor, []
        seen = self._serving.began(row) or cursor.mark_delete is not None
        for number, each in enumerate(ids):
            if seen and not cursor.exists(each.ledger_id, each.entry_id):
                self.dropped += len(ids) - number
                break
            if cursor.close(each, how, row.ts):
                closed.append((each.ledger_id, each.entry_id))
        if closed:
            cursor.advance()
            if row.request_id is not None:
                _remember(self._unanswered, (row.conn_id, row.request_id), closed)

    def _receipt(self, row: Row) -> None:
        """ACK_RESPONSE: an ack that failed has moved nothing."""
        closed = self._unanswered.pop((row.conn_id, row.request_id), [])
        if row.error_code is not None:
            for position in closed:
                self._cursor.reopen(position)


def _sent(row: Row) -> int:
    """Messages of the entry that the broker has not sent as acknowledged."""
    messages = row.messages or 1
    return (
        messages
        if row.ack_set is None
        else (bits_of(row.ack_set) & ((1 << messages) - 1)).bit_count()
    )


def _remember(kept: dict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    if len(kept) > UNANSWERED_MOST:
        del kept[next(iter(kept))]


EVENTS: dict[str, Callable[[Acknowledgements, Row], None]] = {
    "SUBSCRIBE": lambda its, row: its._serving.subscribe(row),
    "SUCCESS": Acknowledgements._answered,
    "ERROR": Acknowledgements._answered,
    "MESSAGE": Acknowledgements._message,
    "ACK": Acknowledgements._ack,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": Acknowledgements._redeliver,
    "ACK_RESPONSE": Acknowledgements._receipt,
    "CLOSE_CONSUMER": Acknowledgements._close_consumer,
    "UNSUBSCRIBE": Acknowledgements._close_consumer,
    "ACTIVE_CONSUMER_CHANGE": lambda its, row: its._serving.active(row),
    "SEEK": Acknowledgements._seek,
    CLOSE: Acknowledgements._close,
    GAP: Acknowledgements._missing,
    UNPARSED: Acknowledgements._missing,
}
