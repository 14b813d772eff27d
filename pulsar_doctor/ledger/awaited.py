"""What a consumer waits to get redelivered: entries from before its last REDELIVER.

On Exclusive and Failover a client that asks for everything again counts it, its *epoch*, and drops
what it is sent of an older one. The broker may never send that again (the rule
lost-to-redeliver-race says why), so it is remembered until it comes in the present epoch or is
acknowledged, up to a bound. A client that tells no epoch drops nothing: of it nothing is kept.

Changes the ledger in place, as permits does; costs nothing before the first REDELIVER.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pulsar_doctor.ledger.balance import NOWHERE, Ledger, Position
from pulsar_doctor.wire.columns import MessageId, Row

AWAITED_MOST = 1000  # entries, the newest


def redelivery_requested(ledger: Ledger, row: Row) -> None:
    """REDELIVER: from here on another epoch counts; the client drops what it was sent before."""
    ledger.epoch, ledger.late, ledger.epoch_highest = row.consumer_epoch, 0, NOWHERE
    for position in sorted(islice(reversed(ledger.deliveries), AWAITED_MOST)):
        _await(ledger, position, ledger.deliveries[position].open_bits, row.mono_ns)


def came(ledger: Ledger, row: Row, position: Position, bits: int) -> None:
    """MESSAGE: what is of an older epoch is dropped, and should come again in the present one.

    What lies behind something of the present epoch has come in it already.
    """
    if (row.consumer_epoch or 0) >= (ledger.epoch or 0):
        ledger.epoch_highest = max(ledger.epoch_highest, position)
        if ledger.awaited.pop(position, None) is not None:
            ledger.awaited_ns = row.mono_ns
    elif bits:
        ledger.late += 1
        if position > ledger.epoch_highest:
            _await(ledger, position, bits, row.mono_ns)


def settled(ledger: Ledger, row: Row, ids: Iterable[MessageId]) -> None:
    """These are acknowledged, of a batch perhaps not all: nobody misses them."""
    for ledger_id, entry_id, ack_set in ids:
        bits = ledger.awaited.get((ledger_id, entry_id))
        if bits is None:
            continue
        ledger.awaited_ns = row.mono_ns
        left = 0 if ack_set is None else bits & int.from_bytes(ack_set, "little")
        if left:
            ledger.awaited[ledger_id, entry_id] = left
        else:
            del ledger.awaited[ledger_id, entry_id]


def covered(ledger: Ledger, row: Row, last: MessageId) -> None:
    """A cumulative acknowledgement of this id, and of all before it."""
    until = (last.ledger_id, last.entry_id)
    before = [MessageId(*place, None) for place in ledger.awaited if place < until]
    settled(ledger, row, [*before, last])


def _await(ledger: Ledger, position: Position, bits: int, now_ns: int) -> None:
    awaited = ledger.awaited
    if bits and position not in awaited:
        awaited[position] = bits
        if len(awaited) > AWAITED_MOST:
            del awaited[next(iter(awaited))]
    ledger.awaited_ns = now_ns
