"""Which ACK commands acknowledge which messages of a topic or partition.

An acknowledgement is kept until the broker confirms it, and sent again if it does not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from pulsar_doctor.parts.consume.engines import Plan
from pulsar_doctor.parts.consume.receiver.connection import WireConnection
from pulsar_doctor.parts.consume.receiver.entries import Entry, Position
from pulsar_doctor.parts.consume.receiver.epochs import Epochs
from pulsar_doctor.parts.consume.receiver.refusals import Lost
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES

INDIVIDUAL, CUMULATIVE = 0, 1
RECEIPT_SECONDS = 5.0  # how long the close of a consumer waits for the last one
LOOK_SECONDS = 0.005


class Receipts:
    """The receipts of one consumer. connection: the present one. refused: gets each error."""

    def __init__(
        self,
        connection: Callable[[], WireConnection | None],
        refused: Callable[[BaseException], None],
    ) -> None:
        self._connection = connection
        self._refused = refused
        self._numbers = itertools.count()
        self._open: dict[int, wire.Ack] = {}

    def say(self, ack: wire.Ack) -> None:
        """Sends it now, or when there is a connection again."""
        number = next(self._numbers)
        self._open[number] = ack
        if (connection := self._connection()) is not None:
            self._say(number, connection)

    def say_again(self) -> None:
        """Repeats every acknowledgement without a receipt, in order."""
        if (connection := self._connection()) is not None:
            for number in list(self._open):
                self._say(number, connection)

    async def wait(self) -> None:
        """For all of them, but not for ever."""
        connection, loop = self._connection(), asyncio.get_running_loop()
        until = loop.time() + RECEIPT_SECONDS
        while self._open and connection and not connection.over and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)

    def _say(self, number: int, connection: WireConnection) -> None:
        ack = self._open[number]
        if not connection.receipts:  # an old broker
            del self._open[number]
            connection.send(wire.BaseCommand(type=CODES["ACK"], ack=ack))
            return

        def question(request_id: int) -> Any:
            ack.request_id = request_id
            return wire.BaseCommand(type=CODES["ACK"], ack=ack)

        connection.ask(question).add_done_callback(lambda receipt: self._come(number, receipt))

    def _come(self, number: int, receipt: asyncio.Future[Any]) -> None:
        error = None if receipt.cancelled() else receipt.exception()
        if isinstance(error, Lost):
            return
        self._open.pop(number, None)
        if error is not None:
            self._refused(error)


class Acknowledging:
    """The acknowledgements of one consumer id. epochs: hears what need not come again."""

    def __init__(self, plan: Plan, number: int, epochs: Epochs, receipts: Receipts) -> None:
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
