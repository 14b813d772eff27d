"""Runs a relay, its observer and test consumers together, for `consume` and `demo`.

The consumers attach through the relay like any client. The observer is polled by whoever waits, in
the same thread or in a worker's; a lock keeps its ledger whole.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import CauseLimits, diagnose_wire
from pulsar_doctor.ledger.consumers import Consumer, Subscription
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.parts.consume.engines import PULSAR_CLIENT, WIRE, Engine, Message, Plan
from pulsar_doctor.parts.consume.tallies import (
    AckCommands,
    Handed,
    RunTotals,
    delay_totals,
)
from pulsar_doctor.parts.consume.working import Budget, Watcher, Worker
from pulsar_doctor.parts.tap.observer.following import LOCK_WAIT_SECONDS
from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wire.columns import Row

POLL_SECONDS = 0.1
NACKS_AWAITED_SECONDS = 5.0
JOURNAL_LAG_MS = 2000  # by then the observer has read what came before a message was handed out


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How consumers of our own are run."""

    engine: str = PULSAR_CLIENT  # or WIRE
    budget: int | None = None  # messages that they may take together
    trace_dir: Path | None = None  # where the trace stays; None: it ends with the session
    on_row: Callable[[Row], None] | None = None


@dataclass(slots=True, eq=False)
class Session(Watcher):
    """Consumers behind a tap, and the ledger of each."""

    _settings: Settings
    _relay: Relay
    _observer: Sealer
    engine: Engine
    budget: Budget
    acks: AckCommands  # ACK commands that have passed
    own_queue: bool
    workers: list[Worker] = field(default_factory=list)
    batch_refused: str | None = None  # who stopped at a batch that its zero queue met
    handed_out: Handed = field(default_factory=Handed)  # what a receiver delay costs
    say: Callable[[str], object] = lambda text: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def timeline(self) -> Timeline:
        """What the wire has shown so far."""
        return self._observer.timeline

    def attach(self, plan: Plan) -> Worker:
        """Subscribes one more consumer and lets it work; its ledger is there on return."""
        worker = Worker(plan, self.budget, self, own_queue=self.own_queue)
        self.workers.append(worker)
        worker.start(self.engine)
        self.settle()
        return worker

    def produce(self, topic: str, messages: int, *, keys: int = 0) -> None:
        """Sends so many messages of ours. keys: different ones, in turn; 0: none."""
        from pulsar_doctor.parts.consume import attach

        if isinstance(self.engine, attach.PulsarClient):
            attach.produce(self.engine.client, topic, messages, keys=keys)
            return
        with (
            tempfile.TemporaryDirectory(prefix="pulsar-doctor-") as own,
            attach.connected(self._relay.service_url, self._settings, Path(own) / "log") as client,
        ):
            attach.produce(client, topic, messages, keys=keys)

    def poll(self) -> None:
        """Reads what the relay has written down since."""
        with self._lock:
            self._observer.follow()
            self.handed_out.judge(self.acks.released, time.time() * 1000 - JOURNAL_LAG_MS)

    def settle(self) -> None:
        """Has everything in the ledger that has passed the relay by now."""
        with self._lock:
            now_ms = time.time() * 1000
            self._relay.flush()
            self._observer.follow()
            self.handed_out.judge(self.acks.released, now_ms)

    def wait(self, until: Callable[[], bool], seconds: float | None = None) -> bool:
        """Waits, watching, until the condition holds; False where the time ran out first."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not until():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
            self.poll()
        return True

    @property
    def acknowledged(self) -> bool:
        """Whether all acknowledgements of the workers have passed the relay."""
        done = sum(consumer.ledger.acknowledged for consumer in self.timeline.living)
        return done >= sum(worker.acknowledged for worker in self.workers)

    @property
    def interrupted_again(self) -> bool:
        """Whether all that the workers refused has been requested again."""
        refused = sum(worker.refused for worker in self.workers)
        return self.acks.returned >= refused or self.acks.returned_all > 0

    @property
    def nack_seconds(self) -> float:
        """How long that may take, but no longer than anybody would wait."""
        delays = (worker.plan.nack_delay_seconds for worker in self.workers)
        return min(NACKS_AWAITED_SECONDS, max(delays, default=0.0))

    def consumer(self, name: str) -> Consumer | None:
        """The newest incarnation of that name."""
        return next((c for c in reversed(self.timeline.consumers) if c.consumer_name == name), None)

    @property
    def delivered(self) -> int:
        """Messages that the broker has sent to the consumers that go on."""
        return sum(consumer.ledger.messages for consumer in self.timeline.living)

    def totals(self, plans: Sequence[Plan]) -> RunTotals:
        """What the run adds up to, as of now."""
        workers = self.workers
        seen = deepcopy(self.handed_out.all)
        return RunTotals(
            sum(worker.acknowledged for worker in workers),
            sum(worker.refused for worker in workers),
            sum(worker.corrupt for worker in workers),
            replace(self.acks),
            delay_totals(plans[0], len(plans), seen, own_queue=self.own_queue),
        )

    def subscriptions(self) -> list[Subscription]:
        """What there is to judge, as of now: silence up to this moment counts."""
        self.settle()
        with self._lock:
            self.timeline.pass_time(time.time_ns() // 1000, time.monotonic_ns())
            return self.timeline.subscriptions()

    def diagnoses(self, causes: Sequence[Cause], limits: CauseLimits) -> list[Diagnosis]:
        """The verdict on each subscription."""
        return diagnose_wire(self.subscriptions(), causes, limits)

    def stop(self) -> None:
        """Closes all consumers."""
        for worker in self.workers:
            worker.stop()

    def taken(self, plan: Plan, message: Message) -> None:
        self._relay.taken(
            topic=message.topic,
            subscription=plan.subscription,
            consumer_name=plan.name,
            ledger_id=message.ledger_id,
            entry_id=message.entry_id,
            batch_index=message.batch_index,
            partition=message.partition,
        )

    def handed(self, plan: Plan, message: Message, at_ms: float) -> None:
        self.handed_out.add(plan, message, at_ms)

    def batched(self, plan: Plan) -> bool:
        """pulsar-client loses the rest of a batch: go on only if it is a batch of one."""
        if self.own_queue:
            return True
        self.settle()
        consumer = self.consumer(plan.name)
        if consumer is None or consumer.ledger.largest_batch > 1:
            self.batch_refused = plan.name
            return False
        return True

    def show_line(self, text: str) -> None:
        self.say(text)


DEFAULT = RunOptions()


@contextmanager
def session(
    settings: Settings,
    plans: Sequence[Plan],
    run: RunOptions = DEFAULT,
) -> Iterator[Session]:
    """A relay in front of the broker, its observer, and an engine; consumers are attached later.

    plans: those that will be attached: the ledger gets their settings.
    """
    acks = AckCommands(any(plan.receiver_delay_seconds for plan in plans))

    def seen(row: Row) -> None:
        acks.add(row)
        if run.on_row is not None:
            run.on_row(row)

    with ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pulsar-doctor-")))
        folder = run.trace_dir or own / "trace"
        given = {plan.name: plan.for_meta for plan in plans}
        options = RelayOptions(settings=settings, given=given, probe=True)
        relay = stack.enter_context(relaying(settings.service_url, folder, options))
        observer = Sealer(folder, seen, LOCK_WAIT_SECONDS)
        stack.callback(observer.close)
        stack.callback(_finish, relay, observer)
        if run.engine == WIRE:
            from pulsar_doctor.parts.consume import receiver

            engine: Engine = stack.enter_context(receiver.connected(relay.service_url, settings))
        else:
            from pulsar_doctor.parts.consume import attach

            client: Any = attach.connected(relay.service_url, settings, own / "client.log")
            engine = attach.PulsarClient(stack.enter_context(client))
        budget, own_queue = Budget(run.budget), run.engine == WIRE
        running = Session(settings, relay, observer, engine, budget, acks, own_queue)
        stack.callback(running.stop)
        yield running


def _finish(relay: Relay, observer: Sealer) -> None:
    """The relay ends first, so that the observer seals all of it."""
    relay.stop()
    observer.finish()
