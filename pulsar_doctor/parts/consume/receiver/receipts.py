"""Keeps acknowledgements until the broker confirms them, and sends them again if it does not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from pulsar_doctor.parts.consume.receiver.connection import WireConnection
from pulsar_doctor.parts.consume.receiver.refusals import Lost
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES

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
