"""A consumer on one partition: subscribes, sends FLOW, and reconnects.

An incarnation is what lies between one SUBSCRIBE and the loss of its connection. With it go its
permits and what was queued of it: the broker sends that again to the next one. Acknowledgements
(see acknowledging) without a receipt are sent again before the first FLOW, so that it does
not. What a REDELIVER on Exclusive and Failover brings again, and what not, is in epochs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Protocol

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.parts.consume.engines import SHARING, Plan
from pulsar_doctor.parts.consume.receiver import entries
from pulsar_doctor.parts.consume.receiver import spoken_pb2 as spoken
from pulsar_doctor.parts.consume.receiver.acknowledging import Acknowledging, Receipts
from pulsar_doctor.parts.consume.receiver.brake import Brake
from pulsar_doctor.parts.consume.receiver.brokers import Brokers
from pulsar_doctor.parts.consume.receiver.connection import WireConnection
from pulsar_doctor.parts.consume.receiver.entries import Chunks, Entry, Position
from pulsar_doctor.parts.consume.receiver.epochs import QUIET_SECONDS, REMEMBERED, Epochs
from pulsar_doctor.parts.consume.receiver.refusals import (
    PASSING,
    PASSING_AGAIN,
    Lost,
    ServerRefused,
    refused,
)
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.commands import CODES

TYPES = {"exclusive": 0, "shared": 1, "failover": 2, "key_shared": 3}
EARLIEST = 1
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 5.0


class Queue(Protocol):
    """Where the messages of all partitions go."""

    def put(self, partition: Partition, entry: Entry) -> None: ...
    def drop(self, partition: Partition, only: Entry | None = None) -> int:
        """Drops what is queued of it; returns the permits that had been spent on that."""

    def changed(self) -> None:
        """Who waits should look again."""

    def fail(self, error: DoctorError) -> None: ...


class Partition:
    """Lives in the engine's loop."""

    def __init__(self, plan: Plan, topic: str, number: int, brokers: Brokers, queue: Queue) -> None:
        self.topic = topic
        self.index = split_partition(topic)[1]
        self.active: bool | None = None  # None: not reported
        self.incarnation = 0
        self._plan = plan
        self._number = number  # consumer id
        self._brokers = brokers
        self._queue = queue
        self._last: Position | None = None
        self._epochs: Epochs = Epochs(REMEMBERED + plan.receiver_queue_size)
        self._stirred_at = 0.0  # the last MESSAGE or FLOW, in the loop's time
        self._looking: asyncio.TimerHandle | None = None
        self._begin()
        self._connection: WireConnection | None = None
        self._mending: asyncio.Task[None] | None = None
        self._closed = False
        receipts = Receipts(lambda: self._connection, self._ack_refused)
        self.acks = Acknowledging(plan, number, self._epochs, receipts)

    async def attach(self, patience_seconds: float, *, again: bool = False) -> None:
        """Subscribes, for so long again and again where what is in the way passes by itself.

        again: it has been subscribed before. Raises DoctorError.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_seconds
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                return await self._subscribe()
            except (Lost, ServerRefused) as error:
                passing = PASSING_AGAIN if again else PASSING
                hopeless = not again if isinstance(error, Lost) else error.name not in passing
                if hopeless or loop.time() + wait > until:
                    raise refused(error, self._plan) from None
            await asyncio.sleep(wait * random.uniform(0.8, 1.0))
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    async def _subscribe(self) -> None:
        connection = await self._brokers.of(self.topic)
        connection.consumers[self._number] = self
        try:
            await connection.request(self._subscription)
        except BaseException as error:
            connection.consumers.pop(self._number, None)
            if not isinstance(error, ServerRefused):  # the broker may make it all the same
                connection.send(self._closing(0))
            raise
        if connection.consumers.get(self._number) is not self:
            raise Lost("the broker has closed the consumer at once")
        self._connection = connection
        self._begin()
        self.incarnation += 1
        self.acks.receipts.say_again()
        self._flow(self._brake.first())
        self._queue.changed()

    def _subscription(self, number: int) -> Any:
        plan = self._plan
        subscribe = spoken.Subscribe(
            topic=self.topic,
            subscription=plan.subscription,
            sub_type=TYPES[plan.type],
            consumer_id=self._number,
            request_id=number,
            consumer_name=plan.name,
            durable=True,
            initial_position=EARLIEST,
            consumer_epoch=self._epochs.number,
        )
        return spoken.BaseCommand(type=CODES["SUBSCRIBE"], subscribe=subscribe)

    def _closing(self, number: int) -> Any:
        close = wire.CloseConsumer(consumer_id=self._number, request_id=number)
        return wire.BaseCommand(type=CODES["CLOSE_CONSUMER"], close_consumer=close)

    def _begin(self) -> None:
        plan = self._plan
        self._brake = Brake(plan.receiver_queue_size, by_hand=plan.permits == "manual")
        self._chunks = Chunks()
        self._last = None
        self._epochs.begin()

    # What the connection tells.

    def arrived(self, command: Any, part: memoryview) -> None:
        """A MESSAGE."""
        entry, metadata, payload = entries.read(command, part)
        self._brake.debited(entry.debit)
        self._stirred_at = asyncio.get_running_loop().time()
        if metadata.num_chunks_from_msg > 1:
            entry.chunk = metadata, payload
        else:
            entries.look_into(entry, metadata, payload)
        due = [entry]
        if command.HasField("consumer_epoch") and self._plan.type not in SHARING:
            due = self._epochs.arrived(entry, command.consumer_epoch)
        if not any(each is entry for each in due):
            self._return(entry)
        for each in due:
            self._hand_out(each)
        self._watch()

    def _hand_out(self, entry: Entry) -> None:
        if entry.given_up:
            return
        if entry.chunk is not None:
            metadata, payload = entry.chunk
            whole = self._chunks.add(entry, metadata, payload)
            if whole is None:
                self._return(entry)
                return
            entry, payload = whole
            entry.chunk = None
            entries.look_into(entry, metadata, payload)
            self._epochs.joined(entry)
        self._follow_on(entry)
        if entry.shares:
            self._queue.put(self, entry)
        else:
            self._return(entry)

    def _follow_on(self, entry: Entry) -> None:
        """What comes behind its turn has nothing before it that an ack of it may cover."""
        last, position = self._last, entry.positions[-1]
        entry.before = last if last is None or last < position else None
        self._last = position if last is None else max(last, position)

    def _return(self, entry: Entry) -> None:
        """Gives its permits back, once, without handing it out."""
        permits, entry.debit = entry.debit, 0
        self.give_back(permits)

    def _watch(self) -> None:
        """Checks after a while whether what is held comes again."""
        if self._epochs.holds and self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        quiet = asyncio.get_running_loop().time() - self._stirred_at
        if self._connection is not None and quiet >= QUIET_SECONDS and self._brake.outstanding > 0:
            for entry in self._epochs.overdue():
                self._hand_out(entry)
        self._watch()

    def lost(self, why: str) -> None:
        """The incarnation is over."""
        self._connection = None
        self.active = None
        self._queue.drop(self)
        self._epochs.begin()
        if self._mending is None and not self._closed:
            self._mending = asyncio.get_running_loop().create_task(self._mend())

    def active_changed(self, active: bool) -> None:
        """ACTIVE_CONSUMER_CHANGE."""
        self.active = active
        if not active:
            self._epochs.stood_by()

    async def _mend(self) -> None:
        try:
            await self.attach(self._brokers.patience_seconds, again=True)
        except DoctorError as error:
            self._queue.fail(error)
        finally:
            self._mending = None

    # What the application does.

    def give_back(self, permits: int) -> None:
        """What they were spent on has left the queue."""
        self._flow(self._brake.taken(permits))
        self._queue.changed()

    def ask(self) -> None:
        """Somebody waits for a message, and there is none."""
        if self._connection is not None:
            self._flow(self._brake.wanted())

    def grant(self, permits: int) -> None:
        """By hand. While there is no connection nothing is granted."""
        if self._connection is not None:
            self._flow(self._brake.by_hand(permits))

    def redeliver(self, entry: Entry) -> None:
        """Asks for it again; in Exclusive and Failover the broker knows only: for everything."""
        if self._connection is None:
            return  # all of it comes again
        command = spoken.Redeliver(consumer_id=self._number)
        if self._plan.type in SHARING:
            permits = self._queue.drop(self, entry)
            for ledger_id, entry_id in entry.positions:
                command.message_ids.add(ledger_id=ledger_id, entry_id=entry_id)
        else:
            permits = self._queue.drop(self)
            self._ask_for_everything()
            command.consumer_epoch = self._epochs.number
        self._connection.send(
            spoken.BaseCommand(type=CODES["REDELIVER_UNACKNOWLEDGED_MESSAGES"], redeliver=command)
        )
        self.give_back(permits)

    def _ask_for_everything(self) -> None:
        for entry in self._epochs.again():
            entry.debit = 0  # what was left of it has been dropped from the queue
        if self.active is False:  # the broker takes no notice: another one has it
            self._epochs.stood_by()
        self._chunks = Chunks()
        self._last = None
        self._watch()

    async def drained(self) -> None:
        """Waits while the broker is slow to read."""
        if self._connection is not None:
            await self._connection.drained()

    async def unsubscribe(self) -> None:
        """Removes the subscription. Raises DoctorError."""

        def question(number: int) -> Any:
            request = wire.OfConsumer(consumer_id=self._number, request_id=number)
            return wire.BaseCommand(type=CODES["UNSUBSCRIBE"], unsubscribe=request)

        try:
            if self._connection is None:
                raise Lost("the connection is lost")
            await self._request(question)
        except (Lost, ServerRefused) as error:
            raise refused(error, self._plan) from None

    async def close(self) -> None:
        """Closes the consumer, when the receipts of its acknowledgements have come."""
        if self._closed:
            return
        self._closed = True
        if self._mending is not None:
            self._mending.cancel()
        await self.acks.receipts.wait()
        try:
            await self._request(self._closing)
        except Lost:
            pass  # with its connection the consumer is gone too
        except ServerRefused as error:
            raise refused(error, self._plan) from None
        finally:
            self._epochs.begin()
            if self._connection is not None:
                self._connection.consumers.pop(self._number, None)
                self._connection = None

    async def _request(self, question: Callable[[int], Any]) -> None:
        if self._connection is not None:
            await self._connection.request(question)

    def _flow(self, permits: int) -> None:
        if permits and self._connection is not None:  # a FLOW of 0 ends the connection
            self._stirred_at = asyncio.get_running_loop().time()
            flow = wire.Flow(consumer_id=self._number, message_permits=permits)
            self._connection.send(wire.BaseCommand(type=CODES["FLOW"], flow=flow))

    def _ack_refused(self, error: BaseException) -> None:
        what = f"{self._plan.subscription} on {self.topic}"
        self._queue.fail(DoctorError(f"an acknowledgement of {what} is refused: {error}"))
