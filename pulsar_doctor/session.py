"""A relay, its observer and our own consumers as one: what `consume` and `demo` run.

The consumers attach through the relay like any client. The observer is polled by whoever waits, in
the same thread or in a worker's; a lock keeps its ledger whole.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pulsar_doctor import attach
from pulsar_doctor.attach import Budget, Worker
from pulsar_doctor.columns import Row
from pulsar_doctor.consumers import Consumer, Subscription
from pulsar_doctor.consuming import Plan
from pulsar_doctor.diagnosis import Diagnosis, Rule, RuleLimits, diagnose_wire
from pulsar_doctor.observer.following import Observer
from pulsar_doctor.settings import Settings
from pulsar_doctor.tap.relaying import Relay, relaying, require_reachable
from pulsar_doctor.timeline import Timeline

POLL_SECONDS = 0.1


class Session:
    """Consumers behind a tap, and the ledger of each."""

    def __init__(
        self, relay: Relay, observer: Observer, client: Any, budget: Budget, *, own_topic: bool
    ) -> None:
        self.client = client
        self.budget = budget
        self._own_topic = own_topic
        self.workers: list[Worker] = []
        self.batch_refused: str | None = None  # who stopped at a batch that its zero queue met
        self._relay = relay
        self._observer = observer
        self._lock = threading.Lock()

    @property
    def timeline(self) -> Timeline:
        """What the wire has shown so far."""
        return self._observer.timeline

    def attach(self, plan: Plan) -> Worker:
        """Subscribes one more consumer and lets it work; its ledger is there on return."""
        worker = Worker(plan, self.budget, taken=self._taken, batch=self._batch)
        self.workers.append(worker)
        worker.start(self.client)
        self.settle()
        return worker

    def poll(self) -> None:
        """Reads what the relay has written down since."""
        with self._lock:
            self._observer.poll()

    def settle(self) -> None:
        """Has everything in the ledger that has passed the relay by now."""
        with self._lock:
            self._relay.flush()
            self._observer.poll()

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

    def consumer(self, name: str) -> Consumer | None:
        """The newest incarnation of that name."""
        return next((c for c in reversed(self.timeline.consumers) if c.consumer_name == name), None)

    def subscriptions(self) -> list[Subscription]:
        """What there is to judge, as of now: silence up to this moment counts."""
        self.settle()
        with self._lock:
            self.timeline.pass_time(time.time_ns() // 1000, time.monotonic_ns())
            return self.timeline.subscriptions()

    def diagnoses(self, rules: Sequence[Rule], limits: RuleLimits) -> list[Diagnosis]:
        """The verdict on each subscription."""
        return diagnose_wire(self.subscriptions(), rules, limits)

    def stop(self) -> None:
        """Closes all consumers; of a topic of our own nothing stays that keeps it alive."""
        for worker in self.workers:
            worker.stop(unsubscribe=self._own_topic and worker is self.workers[-1])

    def _taken(self, plan: Plan, message: Any) -> None:
        message_id = message.message_id()
        self._relay.taken(
            topic=message.topic_name(),
            subscription=plan.subscription,
            consumer_name=plan.name,
            ledger_id=message_id.ledger_id(),
            entry_id=message_id.entry_id(),
            batch_index=message_id.batch_index() if message_id.batch_index() >= 0 else None,
            partition=message_id.partition() if message_id.partition() >= 0 else None,
        )

    def _batch(self, plan: Plan) -> bool:
        """Whether a zero queue may go on: the message is out of a batch of one."""
        self.settle()
        consumer = self.consumer(plan.name)
        if consumer is None or consumer.ledger.largest_batch > 1:
            self.batch_refused = plan.name
            return False
        return True


@contextmanager
def session(
    settings: Settings,
    plans: Sequence[Plan],
    *,
    budget: int | None = None,
    own_topic: bool = False,
    trace_dir: Path | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> Iterator[Session]:
    """A relay in front of the broker, its observer, and a client; consumers are attached later.

    plans: those that will be attached: the ledger is told what they say. budget: messages that
    they may take together. own_topic: nobody else knows it; its subscription is removed in the end,
    so that the broker deletes it. trace_dir: where the trace stays; None: it goes with the session.
    """
    require_reachable(settings.service_url, settings)
    with ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pulsar-doctor-")))
        folder = trace_dir or own / "trace"
        told = {plan.name: plan.told for plan in plans}
        relay = stack.enter_context(
            relaying(settings.service_url, folder, settings=settings, told=told)
        )
        observer = Observer(folder, on_row)
        stack.callback(observer.close)
        stack.callback(_finish, relay, observer)
        client = stack.enter_context(
            attach.connected(relay.service_url, settings, own / "client.log")
        )
        running = Session(relay, observer, client, Budget(budget), own_topic=own_topic)
        stack.callback(running.stop)
        yield running


def _finish(relay: Relay, observer: Observer) -> None:
    """The relay ends first, so that the observer seals all of it."""
    relay.stop()
    observer.finish()
