"""Which ACK commands acknowledge which messages of a topic or partition."""

from __future__ import annotations

from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.receiver.entries import Entry, Position
from pulsar_doctor.parts.consume.receiver.epochs import Epochs
from pulsar_doctor.parts.consume.receiver.receipts import Receipts
from pulsar_doctor.wire import pulsar_wire_pb2 as wire

INDIVIDUAL, CUMULATIVE = 0, 1


class Acknowledging:
    """The acknowledgements of one consumer id. epochs: hears what need not come again."""

    def __init__(self, plan: Plan, number: int, epochs: Epochs[Entry], receipts: Receipts) -> None:
        self.receipts = receipts
        self._plan = plan
        self._number = number
        self._epochs = epochs
        self._cumulative: Position | None = None  # the last

    def one(self, entry: Entry, index: int | None) -> None:
        """One message; of a batch either its index or, where plan says no, the whole at its end."""
        entry.acknowledge(index)
        if entry.batch_size is None or not entry.open or self._plan.batch_index_acks:
            self._say(INDIVIDUAL, entry.positions, entry)

    def up_to(self, entry: Entry, index: int | None) -> None:
        """This message and all before it."""
        entry.acknowledge(index, and_before=True)
        if entry.batch_size is None or not entry.open or self._plan.batch_index_acks:
            self._cumulative = entry.positions[-1]
            self._say(CUMULATIVE, entry.positions[-1:], entry)
        elif entry.before is not None and entry.before != self._cumulative:
            self._cumulative = entry.before
            self._say(CUMULATIVE, (entry.before,))

    def _say(
        self,
        ack_type: int,
        positions: tuple[Position, ...],
        entry: Entry | None = None,
    ) -> None:
        partly = entry is not None and entry.batch_size is not None and bool(entry.open)
        if ack_type == CUMULATIVE:
            self._epochs.covered(positions[-1], partly=partly)
        elif not partly:
            self._epochs.acknowledged(positions)
        ack = wire.Ack(consumer_id=self._number, ack_type=ack_type)
        for ledger_id, entry_id in positions:
            open_words = entry.ack_set if entry and entry.batch_size is not None else []
            ack.message_id.add(ledger_id=ledger_id, entry_id=entry_id, ack_set=open_words)
        self.receipts.say(ack)
