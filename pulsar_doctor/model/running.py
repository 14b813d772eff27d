"""Runs one scenario with one queue size, event by event, without a clock."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.model import made_rows
from pulsar_doctor.model.broker import DISPATCHERS
from pulsar_doctor.model.consumer import Queued, SentFlow, SimulatedConsumer
from pulsar_doctor.model.scenario import ProducedEntry, Scenario
from pulsar_doctor.wire.columns import Row

Movement = Callable[[Any], None]
OnRow = Callable[[Row, SimulatedConsumer], None]


class Simulation:
    """One run, with the ledgers of a trace. on_row: gets each row and its consumer."""

    def __init__(
        self, scenario: Scenario, receiver_queue_size: int, on_row: OnRow | None = None
    ) -> None:
        self.scenario = scenario
        self.receiver_queue_size = receiver_queue_size
        self.now_ns = 0
        self.finished_ns = 0  # when the last message was done
        self.broker = DISPATCHERS[scenario.type]()
        names = scenario.names or [f"consumer-{n + 1}" for n in range(len(scenario.attach_ns))]
        self.consumers = [
            SimulatedConsumer(index, name, scenario.client, receiver_queue_size)
            for index, name in enumerate(names)
        ]
        given = {"receiver_queue_size": receiver_queue_size, "takes_told": True}
        self.timeline = Timeline(given={c.name: self._given(c, given) for c in self.consumers})
        self._on_row = on_row
        self._events: list[tuple[int, int, Movement, Any]] = []
        self._number = 0
        self._open = [entry.messages for entry in scenario.entries]
        self._idle: set[int] = set()  # consumers with an application that waits for a message
        self._idle_ns = 0  # how long there has been one
        self._idle_since_ns = 0

    def run(self) -> Simulation:
        """Runs the whole scenario up to its end; returns itself."""
        scenario = self.scenario
        self._arrives(0)
        for consumer, at in zip(self.consumers, scenario.attach_ns, strict=True):
            self._later(at, self._attach, consumer)
        events, end_ns = self._events, scenario.end_ns
        while events and (end_ns is None or events[0][0] <= end_ns):
            self.now_ns, _, step, what = heappop(events)
            step(what)
        if end_ns is not None:
            self.now_ns = end_ns
        self.timeline.pass_time(self.now_ns // 1000, self.now_ns)
        for consumer in self.consumers:
            consumer.end(self.now_ns, self._idle_until_now())
        return self

    def _given(self, consumer: SimulatedConsumer, given: dict[str, Any]) -> dict[str, Any]:
        of_consumer = self.scenario.work.of_consumer
        mean_ns = of_consumer[min(consumer.index, len(of_consumer) - 1)]
        return {**given, "process_seconds": mean_ns / 1e9}

    def _later(self, at_ns: int, step: Movement, what: Any) -> None:
        self._number += 1
        heappush(self._events, (at_ns, self._number, step, what))

    def _apply(self, row: Row, consumer: SimulatedConsumer) -> None:
        self.timeline.apply(row)
        consumer.look(self.now_ns)
        if self._on_row is not None:
            self._on_row(row, consumer)

    # The broker.

    def _arrives(self, index: int) -> None:
        """Entry `index` is next: one event at a time, however many there are."""
        if index < len(self.scenario.entries):
            self._later(self.scenario.entries[index].arrives_ns, self._arrived, index)

    def _arrived(self, index: int) -> None:
        """It has come, and all that came with it."""
        entries = self.scenario.entries
        while index < len(entries) and entries[index].arrives_ns <= self.now_ns:
            self.broker.add(entries[index])
            index += 1
        self._arrives(index)
        self._dispatch()

    def _flow_came(self, flow: tuple[int, int]) -> None:
        self.broker.flow(*flow)
        self._dispatch()

    def _dispatch(self) -> None:
        for index, entry in self.broker.dispatch():
            self._deliver(self.consumers[index], entry)

    # The client.

    def _attach(self, consumer: SimulatedConsumer) -> None:
        for row in made_rows.subscribed(
            consumer.index, consumer.name, self.scenario.type, self.now_ns
        ):
            self.timeline.apply(row)
        consumer.ledger = self.timeline.connections[consumer.index].consumers[0].ledger
        self.broker.attach()
        if self.scenario.type in ("exclusive", "failover"):
            active = self.broker.active(consumer.index)
            self._apply(made_rows.active_change(consumer.index, active, self.now_ns), consumer)
        if self.receiver_queue_size:
            self._send_flow(consumer, self.receiver_queue_size)
        self._receive(consumer)

    def _send_flow(self, consumer: SimulatedConsumer, permits: int) -> None:
        consumer.flows.append(SentFlow(self.now_ns, permits, consumer.received))
        self._apply(made_rows.flow(consumer.index, permits, self.now_ns), consumer)
        came_ns = self.now_ns + self.scenario.round_trip_ns
        self._later(came_ns, self._flow_came, (consumer.index, permits))

    def _owe(self, consumer: SimulatedConsumer) -> None:
        """One message more counts as taken; a queue of 0 asks otherwise."""
        if self.receiver_queue_size:
            consumer.unsent += 1

    def _refill(self, consumer: SimulatedConsumer) -> None:
        """What it owes becomes a FLOW, where it is enough."""
        if consumer.unsent >= consumer.threshold:
            permits, consumer.unsent = consumer.unsent, 0
            self._send_flow(consumer, permits)

    def _move_ahead(self, consumer: SimulatedConsumer) -> None:
        while consumer.move_ahead():
            self._owe(consumer)
            self._refill(consumer)

    def _deliver(self, consumer: SimulatedConsumer, entry: ProducedEntry) -> None:
        idle_ns = self._idle_until_now()
        for message in range(entry.first, entry.first + entry.messages):
            consumer.put(Queued(message, entry, self.now_ns, idle_ns))
        self._apply(made_rows.message(consumer.index, entry, self.now_ns), consumer)
        self._move_ahead(consumer)
        self._serve(consumer)

    # The application.

    def _receive(self, consumer: SimulatedConsumer) -> None:
        """It wants the next message."""
        consumer.asking = True
        each = consumer.client.zero_batches == "each"
        if not self.receiver_queue_size and (each or not consumer.holds):
            self._send_flow(consumer, 1)
        self._serve(consumer)

    def _serve(self, consumer: SimulatedConsumer) -> None:
        """Gives it a message, where it wants one and one is there."""
        if not consumer.asking:
            return
        queued = consumer.take()
        if queued is None:
            self._set_idle(consumer, not consumer.holds and self.broker.active(consumer.index))
            consumer.look(self.now_ns)
            return
        consumer.asking = False
        self._set_idle(consumer, False)
        consumer.received += 1
        consumer.waited(queued, self.now_ns, self._idle_until_now())
        if consumer.client.credits != "finished":
            self._take(consumer, queued)
        took_ns = self.scenario.work.ns(queued.message, consumer.index)
        self._later(self.now_ns + took_ns, self._finish, (consumer, queued))

    def _take(self, consumer: SimulatedConsumer, queued: Queued) -> None:
        """The application has it, as its client counts."""
        ahead = bool(consumer.ahead_most)
        if not ahead:
            self._owe(consumer)
        self._apply(made_rows.taken(consumer.name, queued.entry, self.now_ns), consumer)
        if ahead:
            self._move_ahead(consumer)
        else:
            self._refill(consumer)

    def _finish(self, what: tuple[SimulatedConsumer, Queued]) -> None:
        consumer, queued = what
        consumer.finished += 1
        self.finished_ns = self.now_ns
        number = queued.entry.number
        self._open[number] -= 1
        if consumer.client.credits == "finished":
            self._take(consumer, queued)
        if not self._open[number]:
            self._apply(made_rows.ack(consumer.index, queued.entry, self.now_ns), consumer)
        self._receive(consumer)

    # Who has nothing to do.

    def _set_idle(self, consumer: SimulatedConsumer, idle: bool) -> None:
        if idle == (consumer.index in self._idle):
            return
        self._idle_ns = self._idle_until_now()
        self._idle_since_ns = self.now_ns
        (self._idle.add if idle else self._idle.discard)(consumer.index)

    def _idle_until_now(self) -> int:
        return self._idle_ns + (self.now_ns - self._idle_since_ns if self._idle else 0)
