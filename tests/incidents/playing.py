"""Plays a script: events in the order of time, rows as a tap would see them, looks at moments.

Clients are the simulator's (`simulate.consumer`): when a message counts as taken, what is unsent.
Applications are ours: they hang, pause, slow down, acknowledge in groups or never, give back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from typing import Any

from pulsar_doctor.ledger.clients import SIMULATED
from pulsar_doctor.model import made_rows
from pulsar_doctor.model.consumer import Queued
from pulsar_doctor.model.consumer import SimulatedConsumer as Client
from pulsar_doctor.model.scenario import ProducedEntry
from pulsar_doctor.wire.columns import CLOSE, TO_BROKER, TO_CLIENT, MessageId, Row
from tests.incidents.broker import Attached, Broker
from tests.incidents.script import SECOND, Script, Worker

START_US = 1_760_000_000_000_000  # the wall clock at 0
UP_NS = 3600 * SECOND  # the machine has been up for an hour
EVENTS_MOST = 40_000
VERSIONS = {
    "java": "Pulsar-Java-v4.0.8",
    "pulsar-client": "Pulsar-CPP-v3.7.0",
    "pulsar-client-listener": "Pulsar-CPP-v3.7.0",
    "go": "Pulsar-Go-version 0.14.0",
}


class App:
    """One worker: its client, and what its application is doing. Changed in place."""

    def __init__(self, worker: Worker, number: int, attached: Attached) -> None:
        self.worker = worker
        self.attached = attached
        self.client = Client(number, worker.name, SIMULATED[worker.client], worker.queue)
        self.in_hand: set[int] = set()  # messages, by number
        self.open: dict[int, int] = {}  # entry -> messages of it that are not finished
        self.pending: list[int] = []  # entries that wait for their ACK
        self.asked = 0  # a zero queue's receives that wait
        self.gone = False
        self.done = 0  # entries that it has finished
        self.lost = 0  # permits that its client has lost

    def dead(self, now_ns: int) -> bool:
        at = self.worker.dies_ns
        return at is not None and now_ns >= at

    def hangs(self, now_ns: int) -> bool:
        at = self.worker.hangs_ns
        return self.dead(now_ns) or (at is not None and now_ns >= at)

    def paused(self, now_ns: int) -> bool:
        at = self.worker.paused_ns
        return at is not None and now_ns >= at


class Play:
    """A script that is played. rows: what the wire showed, in order. look: called at each of looks.

    ended_ns: how far the script was followed; everything later is not known.
    """

    def __init__(
        self, script: Script, looks: Iterable[int], look: Callable[[Play, int], None]
    ) -> None:
        self.script = script
        self.broker = Broker(
            script.type, script.consumer_limit, script.subscription_limit, script.fault
        )
        self.now_ns = 0
        self.ended_ns = 0
        self.rows: list[Row] = []
        self.apps: list[App] = []
        self.wakes: list[int] = []  # when somebody attached or left
        self._random = Random(script.seed)
        self._looks = tuple(looks)
        self._look = look
        self._events: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._number = 0
        self._retries_ns = 0  # when it tries again what a rate limit held back

    def run(self) -> Play:
        script = self.script
        for at_ns in self._looks:
            self._later(at_ns, self._looked, at_ns)
        if script.entries:
            self._later(script.entries[0].arrives_ns, self._publish, 0)
        for worker in script.workers:
            self._later(worker.attach_ns, self._attach, worker)
        if script.fault.until_ns is not None:
            self._later(script.fault.until_ns, self._dispatch, None)
        for number, due_ns in script.fault.due.items():
            self._later(due_ns, self._is_due, number)
        end_ns, left = script.moments_ns[-1] + script.followed_ns, EVENTS_MOST
        events = self._events
        while events and events[0][0] <= end_ns and left:
            left -= 1
            self.now_ns, _, step, what = heappop(events)
            self.broker.now_ns = self.now_ns
            step(what)
        self.ended_ns = end_ns if left else self.now_ns
        return self

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen any more."""
        return not self._events

    def _later(self, at_ns: int, step: Callable[[Any], None], what: Any) -> None:
        self._number += 1
        heappush(self._events, (at_ns, self._number, step, what))

    def _looked(self, at_ns: int) -> None:
        self._look(self, at_ns)

    def _row(self, row: Row) -> Row:
        row.ts = START_US + self.now_ns // 1000
        row.mono_ns = UP_NS + self.now_ns
        if row.publish_time is not None:
            row.publish_time += START_US
        self.rows.append(row)
        return row

    # The broker.

    def _publish(self, index: int) -> None:
        entries = self.script.entries
        while index < len(entries) and entries[index].arrives_ns <= self.now_ns:
            self.broker.publish(entries[index])
            index += 1
        if index < len(entries):
            self._later(entries[index].arrives_ns, self._publish, index)
        self._dispatch(None)

    def _is_due(self, number: int) -> None:
        self.broker.is_due(number)
        self._dispatch(None)

    def _dispatch(self, _: None) -> None:
        held_back = len(self.broker.throttled)
        for consumer, entry in self.broker.dispatch():
            self._deliver(self.apps[consumer.index], entry)
        if len(self.broker.throttled) > held_back and self.now_ns >= self._retries_ns:
            self._retries_ns = (self.now_ns // SECOND + 1) * SECOND
            self._later(self._retries_ns, self._dispatch, None)

    # The client.

    def _attach(self, worker: Worker) -> None:
        number = len(self.apps)
        attached = self.broker.attach(worker.name)
        app = App(worker, number, attached)
        self.apps.append(app)
        self.wakes.append(self.now_ns)
        first, *others = made_rows.subscribed(number, worker.name, self.script.type, self.now_ns)
        first.client_addr = f"10.0.0.7:{5000 + number}"
        connect = self._plain("CONNECT", app, TO_BROKER)
        connect.consumer_id = None
        connect.client_version = VERSIONS[worker.client]
        for row in (first, connect, *others):
            self._row(row)
        self._tell_active([app] if self.broker.dispatcher.active(number) else [], app)
        if worker.leave_ns is not None:
            self._later(worker.leave_ns, self._leave, app)
        if worker.stays_ns:
            self._later(self.now_ns + worker.stays_ns, self._leave, app)
        if worker.queue:
            self._flow(app, worker.queue)
        self._receive(app)

    def _tell_active(self, active: list[App], app: App | None) -> None:
        if not self.broker.individual:
            told = [app] if app is not None else [each for each in self.apps if not each.gone]
            for each in told:
                is_active = self.broker.dispatcher.active(each.attached.index)
                row = made_rows.active_change(each.client.index, is_active, self.now_ns)
                self._row(row)

    def _leave(self, app: App) -> None:
        if app.gone:
            return
        app.gone = True
        if app.worker.stays_ns:
            self._later(self.now_ns + app.worker.again_ns, self._attach, app.worker)
        self.wakes.append(self.now_ns)
        was_active = self.broker.dispatcher.active(app.attached.index)
        if app.worker.goes == "loses":
            self._row(self._plain(CLOSE, app, None))
        else:
            for command, direction in (("CLOSE_CONSUMER", TO_BROKER), ("SUCCESS", TO_CLIENT)):
                row = self._row(self._plain(command, app, direction))
                row.request_id = 2
                row.consumer_id = 0 if command == "CLOSE_CONSUMER" else None
        self.broker.leave(app.attached)
        if was_active:
            self._tell_active([], None)
        self._dispatch(None)

    def _plain(self, command: str, app: App, direction: str | None) -> Row:
        row = Row()
        row.command, row.direction, row.conn_id = command, direction, app.client.index
        if direction is not None:
            row.consumer_id = 0
        return row

    def _flow(self, app: App, permits: int) -> None:
        self._row(made_rows.flow(app.client.index, permits, self.now_ns))
        self.broker.flow(app.attached, permits)
        self._later(self.now_ns, self._dispatch, None)  # not in the midst of another one

    def _deliver(self, app: App, entry: ProducedEntry) -> None:
        row = made_rows.message(app.client.index, entry, self.now_ns)
        again = self.broker.deliveries[entry.number] - 1
        row.redelivery_count = again if self.broker.individual else 0
        self._row(row)
        messages = range(entry.first, entry.first + entry.messages)
        if not app.worker.queue and entry.messages > 1:
            messages = messages[:1]  # such a client loses the rest
        app.open[entry.number] = entry.messages
        for message in messages:
            app.client.put(Queued(message, entry, self.now_ns, 0))
        app.asked = 0
        if not app.dead(self.now_ns):
            self._move_ahead(app)
            self._receive(app)

    def _credit(self, app: App) -> None:
        if app.worker.leaks and self._random.random() < app.worker.leaks:
            app.lost += 1
        elif app.worker.queue:
            app.client.unsent += 1
            if app.client.unsent >= app.client.threshold and not self._holds_permits(app):
                permits, app.client.unsent = app.client.unsent, 0
                self._flow(app, permits)

    def _holds_permits(self, app: App) -> bool:
        """A Java consumer that is paused asks for nothing."""
        return app.worker.client == "java" and app.paused(self.now_ns)

    def _move_ahead(self, app: App) -> None:
        while app.client.ahead_most and app.client.move_ahead():
            self._credit(app)

    # The application.

    def _receive(self, app: App) -> None:
        """It takes what it has hands for."""
        now_ns, worker = self.now_ns, app.worker
        while len(app.in_hand) < worker.hands and not app.gone and not app.dead(now_ns):
            if app.paused(now_ns):
                return
            if not worker.queue and not app.client.holds and not app.asked:
                app.asked = 1
                self._flow(app, 1)
            queued = app.client.take()
            if queued is None:
                return
            app.client.received += 1
            app.in_hand.add(queued.message)
            if app.client.ahead_most:
                self._move_ahead(app)
            elif app.client.client.credits == "received":
                self._credit(app)
            rests_until = queued.entry.published_ns + self.script.delay_ns
            self._later(max(now_ns, rests_until) + self._work_ns(app), self._finish, (app, queued))

    def _work_ns(self, app: App) -> int:
        worker, mean_ns = app.worker, app.worker.work_ns
        if worker.slows is not None and self.now_ns >= worker.slows[0]:
            mean_ns = worker.slows[1]
        if worker.spread:
            mean_ns = int(mean_ns * (1 + worker.spread * (2 * self._random.random() - 1)))
        return max(1000, mean_ns)

    def _finish(self, what: tuple[App, Queued]) -> None:
        app, queued = what
        if app.gone or app.hangs(self.now_ns):
            return
        app.in_hand.discard(queued.message)
        if app.client.client.credits == "finished":
            self._credit(app)
        entry, worker = queued.entry, app.worker
        if worker.nacks and entry.messages == 1 and self._random.random() < worker.nacks:
            self._later(self.now_ns + worker.nack_ns, self._nack, (app, entry))
        else:
            app.open[entry.number] -= 1
            if not app.open[entry.number]:
                self._done(app, entry)
        self._receive(app)

    def _nack(self, what: tuple[App, ProducedEntry]) -> None:
        app, entry = what
        if app.gone or app.dead(self.now_ns) or entry.number not in app.attached.held:
            return
        row = self._plain("REDELIVER_UNACKNOWLEDGED_MESSAGES", app, TO_BROKER)
        row.message_ids, row.messages = [MessageId(0, entry.number, None)], 1
        self._row(row)
        self.broker.give_back(app.attached, [entry.number])
        self._dispatch(None)

    def _done(self, app: App, entry: ProducedEntry) -> None:
        acks = app.worker.acks
        app.done += 1
        if acks == "never" or app.done in app.worker.skips:
            return
        app.pending.append(entry.number)
        if len(app.pending) >= app.worker.group:
            numbers, app.pending = app.pending, []
            self._ack(app, numbers, cumulative=acks == "cumulative")

    def _ack(self, app: App, numbers: list[int], *, cumulative: bool) -> None:
        row = self._plain("ACK", app, TO_BROKER)
        row.ack_type = "cumulative" if cumulative else "individual"
        ids = [MessageId(0, number, None) for number in (numbers[-1:] if cumulative else numbers)]
        row.messages, row.ledger_id = len(ids), 0
        if len(ids) == 1:
            row.entry_id = ids[0].entry_id
        else:
            row.ledger_id, row.message_ids = None, ids
        self._row(row)
        upto = [number for number in app.attached.held if number <= max(numbers)]
        self.broker.ack(app.attached, upto if cumulative else numbers)
        self._later(self.now_ns, self._dispatch, None)


def wall_us(at_ns: int) -> int:
    """Microseconds since 1970 of a moment of the script."""
    return START_US + at_ns // 1000


def queue_of(app: App) -> deque[Queued]:
    """What lies in its client's queue, untouched by the application."""
    return deque([*app.client.queue, *app.client.ahead])
