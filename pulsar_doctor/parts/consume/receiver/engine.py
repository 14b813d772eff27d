"""Runs our consumers in the event loop of one thread, for ordinary threads to use."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from pulsar_doctor.broker.admin import topic_name
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.consume.engines import Closed, Message, Plan
from pulsar_doctor.parts.consume.receiver.brokers import Brokers
from pulsar_doctor.parts.consume.receiver.consumer import WireConsumer
from pulsar_doctor.parts.consume.receiver.door import Door
from pulsar_doctor.parts.consume.receiver.refusals import Lost, ServerRefused, sentence

PATIENCE_SECONDS = 60.0
JOIN_SECONDS = 10.0

T = TypeVar("T")


class Receiver:
    """A client of one cluster on the wire; a `consuming.Engine`."""

    def __init__(self, service_url: str, settings: Settings, patience_seconds: float) -> None:
        self._brokers = Brokers(Door(service_url, settings), patience_seconds)
        self._numbers = itertools.count()
        self._attached: list[BlockingConsumer] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="receiver", daemon=True)
        self._thread.start()

    def subscribe(self, plan: Plan) -> BlockingConsumer:
        """Subscribes to the topic, to all partitions where it has some. Raises DoctorError."""
        partitions = self.partitions_of(plan.topic)

        async def attaching() -> WireConsumer:
            consumer = WireConsumer(plan)
            await consumer.attach(partitions, self._brokers, self._numbers)
            return consumer

        attached = BlockingConsumer(self.call(attaching()), self)
        self._attached.append(attached)
        return attached

    def partitions_of(self, topic: str) -> list[str]:
        """The names of a topic's partitions; the topic alone where it has none."""
        name = str(topic_name(topic))
        try:
            partitions = self.call(self._brokers.partitions(name))
        except (Lost, ServerRefused) as error:
            raise sentence(error, name) from None
        return [f"{name}-partition-{index}" for index in range(partitions)] or [name]

    def close(self) -> None:
        """Closes all consumers and connections; what was not acknowledged is sent back."""
        with ExitStack() as stack:
            stack.callback(self._end)
            for attached in self._attached:
                stack.callback(attached.close)

    def _end(self) -> None:
        async def ending() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._brokers.close()  # none of them can dial any more

        if self._loop.is_closed():
            return
        self.call(ending())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_SECONDS)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Has the loop do it, and waits."""
        if self._loop.is_closed():
            work.close()
            raise Closed
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Closed from None
        except BaseException:
            future.cancel()
            raise


class BlockingConsumer:
    """A consumer as an ordinary thread uses it; a `consuming.Granting`."""

    def __init__(self, consumer: WireConsumer, engine: Receiver) -> None:
        self._consumer = consumer
        self._engine = engine

    def receive(self, seconds: float | None) -> Message | None:
        """The next message; None where none came in time. Raises Closed, DoctorError."""
        return self._engine.call(self._consumer.receive(seconds))

    def acknowledge(self, message: Message) -> None:
        """A corrupt message is not."""
        self._engine.call(self._consumer.acknowledge(message.handle, cumulative=False))

    def acknowledge_cumulative(self, message: Message) -> None:
        """Acknowledges every message of its partition up to this one, corrupt ones too."""
        self._engine.call(self._consumer.acknowledge(message.handle, cumulative=True))

    def negative_acknowledge(self, message: Message) -> None:
        """It comes again after the plan's delay; a batch as a whole."""
        self._engine.call(self._consumer.negative_acknowledge(message.handle))

    def grant(self, permits: int) -> None:
        """A FLOW to each partition. An incarnation begins with none."""
        if not 0 < permits < 1 << 31:
            raise InputError(f"{permits} permits cannot be granted; 1 and more can")
        self._engine.call(self._consumer.grant(permits))

    @property
    def active(self) -> dict[str, bool | None]:
        """Whether it is the active consumer of each topic; None: not reported (Shared, lost)."""
        return {partition.topic: partition.active for partition in self._consumer.partitions}

    def unsubscribe(self) -> None:
        """Removes the subscription. Raises DoctorError."""
        self._engine.call(self._consumer.unsubscribe())

    def close(self) -> None:
        """Waits for receipts of acknowledgements, then closes; who waits gets Closed."""
        self._engine.call(self._consumer.close())


@contextmanager
def connected(
    service_url: str, settings: Settings, *, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[Receiver]:
    """An engine on the wire; closed on leaving. Raises InputError for what cannot be used.

    patience_seconds: how long a lost consumer tries to come again before that is an error.
    """
    engine = Receiver(service_url, settings, patience_seconds)
    try:
        yield engine
    finally:
        engine.close()
