"""Runs the work of a test consumer: receives, works, acknowledges, as planned.

A worker stops between two messages or in the middle of its work, never in the middle of a call:
closing the consumer ends a waiting receive.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume.engines import (
    Attached,
    Closed,
    Engine,
    Message,
    Plan,
    is_partitioned,
)
from pulsar_doctor.parts.consume.holding import Head, Heads, now_ms

RECEIVE_SECONDS = 0.2  # how long a worker waits before it checks whether to stop
JOIN_SECONDS = 15


class Budget:
    """How many messages the workers may still take together; None is no limit."""

    def __init__(self, messages: int | None) -> None:
        self._left = messages
        self._lock = threading.Lock()

    def spend(self) -> bool:
        """Takes one; False where none is left."""
        with self._lock:
            if self._left is None:
                return True
            self._left -= 1
            return self._left >= 0

    @property
    def spent(self) -> bool:
        """Whether none is left."""
        return self._left is not None and self._left <= 0

    @property
    def missing(self) -> int:
        """Messages that were requested and have not come."""
        return max(0, self._left or 0)


class Watcher:
    """What a worker tells of its work. Called in its thread; does nothing by itself."""

    def taken(self, plan: Plan, message: Message) -> None:
        """The engine counts the message as taken, now."""

    def handed(self, plan: Plan, message: Message, at_ms: float) -> None:
        """The application has it, at that moment, and begins its work."""

    def batched(self, plan: Plan) -> bool:
        """A zero queue got a message out of a batch; False stops the worker before its work."""
        return True

    def show_line(self, text: str) -> None:
        """Something that a person wants to know as it happens."""


class Worker:
    """One consumer with a thread. own_queue: the engine itself holds back what is not due."""

    def __init__(
        self, plan: Plan, budget: Budget, watcher: Watcher, *, own_queue: bool = False
    ) -> None:
        self.plan = plan
        self.error: DoctorError | None = None
        # Messages; calls of acknowledge and negative_acknowledge; unreadable messages.
        self.handled = self.acknowledged = self.refused = self.corrupt = 0
        self._budget = budget
        self._watcher = watcher
        self._hold = bool(plan.receiver_delay_seconds) and not own_queue
        self._reserved = False  # a zero queue has spent of the budget and waits for the message
        self._stop = threading.Event()
        self._attached: Attached | None = None
        self._thread = threading.Thread(target=self._until_closed, name=plan.name)
        self._thread.daemon = True

    def start(self, engine: Engine) -> None:
        """Subscribes, then works in the background. Raises DoctorError where it is refused."""
        self._attached = self._subscribed(engine)
        self._thread.start()

    def _subscribed(self, engine: Engine) -> Attached:
        apart = self._hold and self.plan.receiver_queue_size
        names = engine.partitions_of(self.plan.topic) if apart else ()
        if not is_partitioned(self.plan.topic, names):
            return self._head(engine, self.plan.topic)
        heads: dict[str, Head] = {}
        try:
            for name in names:
                heads[name] = self._head(engine, name)
        except DoctorError:
            for head in heads.values():
                head.close()
            raise
        return Heads(heads)

    def _head(self, engine: Engine, topic: str) -> Head:
        plan = replace(self.plan, topic=topic)
        return Head(engine.subscribe(plan), self._taken, plan if self._hold else None)

    @property
    def working(self) -> bool:
        """Whether it works on."""
        return self._thread.is_alive()

    @property
    def attached(self) -> Attached:
        """The worker's consumer, once it has started."""
        assert self._attached is not None
        return self._attached

    def stop(self) -> None:
        """Ends its work and closes the consumer; what it did not acknowledge is sent back."""
        self._stop.set()
        if self._attached is not None:
            try:
                self._attached.close()
            except (DoctorError, Closed) as error:
                self.error = self.error or DoctorError(f"{self.plan.name} did not close: {error}")
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    def _taken(self, message: Message) -> None:
        self._watcher.taken(self.plan, message)

    def _until_closed(self) -> None:
        try:
            self._run()
        except Closed:
            return
        except Exception as error:
            self.error = self.error or DoctorError(f"{self.plan.name} stopped receiving: {error}")

    def _run(self) -> None:
        while not self._stop.is_set() and not self._budget.spent:
            message = self._one()
            if message is not None and not self._handle(message):
                return

    def _one(self) -> Message | None:
        # Each receive of a zero queue asks for a message: ask for no more than may be taken.
        if not self.plan.receiver_queue_size and not self._reserved:
            self._reserved = self._budget.spend()
            if not self._reserved:
                self._stop.set()
                return None
        return self.attached.receive(RECEIVE_SECONDS)

    def _handle(self, message: Message) -> bool:
        """Works on one message; False where the worker is to end."""
        plan = self.plan
        if message.corrupt is not None:
            self.corrupt += 1
            at = f"{message.ledger_id}:{message.entry_id} of {message.topic}"
            self._watcher.show_line(
                f"{plan.name} cannot read {at}: {message.corrupt}; not acknowledged"
            )
            return True
        if (
            message.batch_index is not None
            and not plan.receiver_queue_size
            and not self._watcher.batched(plan)
        ):
            return False
        if self._reserved:
            self._reserved = False
        elif not self._budget.spend():
            return False
        self._watcher.handed(plan, message, now_ms())
        if self._stop.wait(plan.process_seconds or 0):
            return False
        self._settle(message)
        return True

    def _settle(self, message: Message) -> None:
        """Acknowledges the message or not, by its number among those handled."""
        plan = self.plan
        self.handled += 1
        before, share = self.handled - 1, plan.nack_share
        if int(self.handled * share + 1e-9) > int(before * share + 1e-9):
            self.attached.negative_acknowledge(message)
            self.refused += 1
        elif plan.ack != "none" and self.handled % plan.ack_every == 0:
            if plan.ack == "cumulative":
                self.attached.acknowledge_cumulative(message)
            else:
                self.attached.acknowledge(message)
            self.acknowledged += 1
