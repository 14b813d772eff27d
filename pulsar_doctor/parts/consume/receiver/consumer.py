"""A consumer on a topic with all its partitions, with one queue.

Permits are those of each partition, so a queue of N holds up to N messages of each. A zero queue
requests one from every partition when somebody waits and nothing is there: a permit cannot be
withdrawn from an empty partition, so one message of each may be here before it is wanted. It is
handed out before any other is requested; a receive that has ended without one leaves its permits
out, and the next asks for no second.

A message is taken when it is handed out.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.consume.deferring import due_ms
from pulsar_doctor.parts.consume.engines import SHARING, Closed, Message, Plan
from pulsar_doctor.parts.consume.holding import now_ms
from pulsar_doctor.parts.consume.receiver.brokers import Brokers
from pulsar_doctor.parts.consume.receiver.entries import Entry
from pulsar_doctor.parts.consume.receiver.partition import Partition

FIRST_PATIENCE_SECONDS = 15.0
QueuedMessage = tuple["Held", int]  # and the permits that it gives back


class Waiting:
    """Messages that are here, with the permits of each. Lives in the engine's loop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._heap: list[tuple[float, int, QueuedMessage]] = []
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def put(self, what: QueuedMessage, published_ms: int, entry_id: int) -> None:
        due = 0.0
        if self._plan.receiver_delay_seconds:
            due = due_ms(self._plan, published_ms, entry_id, now_ms())
        heapq.heappush(self._heap, (due, next(self._numbers), what))

    def seconds_left(self) -> float | None:
        """Until the first is due, 0 and less: it is; None where nothing is here."""
        if not self._heap:
            return None
        due = self._heap[0][0]
        return 0.0 if not due else (due - now_ms()) / 1000

    def take(self) -> QueuedMessage:
        return heapq.heappop(self._heap)[2]

    def drop(self, wanted: Callable[[QueuedMessage], bool]) -> list[QueuedMessage]:
        dropped = [item[2] for item in self._heap if wanted(item[2])]
        self._heap = [item for item in self._heap if not wanted(item[2])]
        heapq.heapify(self._heap)
        return dropped

    def all(self) -> list[QueuedMessage]:
        return [what for _, _, what in self._heap]


@dataclass(frozen=True, slots=True)
class Held:
    """What we know a message by that was handed out: `Message.handle`."""

    partition: Partition
    entry: Entry
    index: int | None

    @property
    def place(self) -> tuple[tuple[int, int], int]:
        """Where it lies in its partition."""
        return self.entry.positions[-1], self.index or 0


class WireConsumer:
    """Lives in the engine's loop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.partitions: list[Partition] = []
        self._waiting = Waiting(plan)
        self._covering: list[Held] = []  # cumulative acks that wait for what is not due
        self._changed = asyncio.Event()
        self._failure: DoctorError | None = None
        self._closed = False

    async def attach(self, topics: list[str], brokers: Brokers, numbers: Iterator[int]) -> None:
        """Subscribes to all, or raises DoctorError and to none. numbers: free consumer ids."""
        self.partitions = [
            Partition(self.plan, topic, next(numbers), brokers, self) for topic in topics
        ]
        attaching = [each.attach(FIRST_PATIENCE_SECONDS) for each in self.partitions]
        errors = await asyncio.gather(*attaching, return_exceptions=True)
        if error := next((error for error in errors if error is not None), None):
            closing = (each.close() for each in self.partitions)
            await asyncio.gather(*closing, return_exceptions=True)
            raise error

    async def receive(self, seconds: float | None) -> Message | None:
        """Receives a message; see `consuming.Attached.receive`."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while True:
            self.check()
            due = self._waiting.seconds_left()
            if due is not None and due <= 0:
                return self._take()
            if not self._waiting:
                for partition in self.partitions:
                    partition.ask()
            self._changed.clear()
            left = None if until is None else max(0.0, until - loop.time())
            nearest = min((wait for wait in (due, left) if wait is not None), default=None)
            try:
                await asyncio.wait_for(self._changed.wait(), nearest)
            except TimeoutError:
                if until is not None and loop.time() >= until:
                    return None

    def check(self) -> None:
        """Raises Closed, or the DoctorError that has ended it."""
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise Closed

    async def acknowledge(self, held: Held, *, cumulative: bool) -> None:
        """Says so; the receipt is not waited for, a refusal is the error of a later call."""
        self.check()
        if cumulative and self.plan.type in SHARING:
            raise InputError(
                f"{self.plan.subscription} is {self.plan.type}: the broker ignores cumulative "
                "acknowledgements there; use --ack individual"
            )
        if cumulative:
            self._cover(held)
        elif held.entry.corrupt is None:
            held.partition.acks.one(held.entry, held.index)
        await held.partition.drained()

    def _cover(self, held: Held) -> None:
        """Acknowledges up to this message, as soon as nothing before it waits to be due."""
        partition = held.partition
        before = [each.place for each, _ in self._waiting.all() if each.partition is partition]
        first = min(before, default=None) if self.plan.receiver_delay_seconds else None
        mine = [each for each in self._covering if each.partition is partition]
        safe = [each for each in (*mine, held) if first is None or each.place < first]
        others = [each for each in self._covering if each.partition is not partition]
        self._covering = others + [each for each in (*mine, held) if each not in safe]
        if safe:
            last = max(safe, key=lambda each: each.place)
            partition.acks.up_to(last.entry, last.index)

    async def negative_acknowledge(self, held: Held) -> None:
        """Asks for it again, after the plan's delay."""
        self.check()
        loop = asyncio.get_running_loop()
        loop.call_later(self.plan.nack_delay_seconds, self._again, held, held.partition.incarnation)

    def _again(self, held: Held, incarnation: int) -> None:
        if not self._closed and held.partition.incarnation == incarnation:
            held.partition.redeliver(held.entry)

    async def grant(self, permits: int) -> None:
        """To each partition."""
        self.check()
        for partition in self.partitions:
            partition.grant(permits)

    async def unsubscribe(self) -> None:
        """Removes the subscription."""
        self.check()
        await asyncio.gather(*(partition.unsubscribe() for partition in self.partitions))

    async def close(self) -> None:
        """Closes all partitions. Raises DoctorError where one refuses."""
        if self._closed:
            return
        self._closed = True
        self.changed()
        closing = (partition.close() for partition in self.partitions)
        errors = await asyncio.gather(*closing, return_exceptions=True)
        if self._failure is None:
            for error in errors:
                if error is not None:
                    raise error

    def put(self, partition: Partition, entry: Entry) -> None:
        """An entry has come."""
        _, entry_id = entry.positions[-1]
        for index, permits in entry.shares:
            what = Held(partition, entry, index), permits
            self._waiting.put(what, entry.published_ms, entry_id)
        self.changed()

    def drop(self, partition: Partition, only: Entry | None = None) -> int:
        """Drops queued messages; see `partition.Queue.drop`."""
        dropped = self._waiting.drop(
            lambda what: what[0].partition is partition and only in (None, what[0].entry)
        )
        if only is None:
            self._covering = [each for each in self._covering if each.partition is not partition]
        return sum(permits for _, permits in dropped)

    def changed(self) -> None:
        """Wakes whoever waits."""
        self._changed.set()

    def fail(self, error: DoctorError) -> None:
        """Nothing works any more; the first reason counts."""
        self._failure = self._failure or error
        self.changed()

    def _take(self) -> Message:
        held, permits = self._waiting.take()
        partition, entry = held.partition, held.entry
        partition.give_back(permits)
        ledger_id, entry_id = entry.positions[-1]
        return Message(
            topic=partition.topic,
            partition=partition.index,
            ledger_id=ledger_id,
            entry_id=entry_id,
            batch_index=held.index,
            batch_size=entry.batch_size,
            published_ms=entry.published_ms,
            redelivery_count=entry.redelivery_count,
            corrupt=entry.corrupt,
            handle=held,
        )
