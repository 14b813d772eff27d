"""A broker, a relay in front of it, and what the relay saw: where behaviours are measured."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pulsar

from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from pulsar_doctor.trace.sealing import Sealer
from pulsar_doctor.wire.columns import Row
from tests.conformance.driver import Consumer
from tests.conformance.raw_producer import RawProducer
from tests.support import eventually

QUIET_SECONDS = 0.25
DRAIN_SECONDS = 0.6  # nothing comes for so long: nothing is left
STEP_SECONDS = 0.1  # how long a FLOW may take to follow the message that it is for
PATIENCE_SECONDS = 20.0


class Stage:
    """Topics of its own for each behaviour; all clients come through one relay."""

    def __init__(self, broker: Sandbox, relay: Relay, observer: Sealer, admin: httpx2.Client):
        self.broker = broker
        self.service_url = relay.service_url
        self.admin = admin
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self.versions: set[str] = set()
        self._relay = relay
        self.observer = observer
        self._lock = threading.Lock()
        quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
        self._direct = pulsar.Client(broker.service_url, logger=quiet)

    # Setting the scene.

    def topic(self, what: str, partitions: int = 0) -> str:
        """A new topic, with so many partitions."""
        topic = f"persistent://public/default/{what}-{secrets.token_hex(4)}"
        path = topic.replace("persistent://", "/admin/v2/persistent/")
        if partitions:
            self.admin.put(f"{path}/partitions", json=partitions).raise_for_status()
        else:
            self.admin.put(path).raise_for_status()
        return topic

    def produce(self, topic: str, messages: int) -> None:
        """So many single messages, past the relay."""
        attach.produce(self._direct, topic, messages)

    def batches(self, topic: str, count: int, size: int) -> None:
        """So many batches of that size, past the relay."""
        producer = self._direct.create_producer(
            topic, batching_enabled=True, batching_max_messages=size, block_if_queue_full=True,
            batching_max_publish_delay_ms=60_000,
        )  # fmt: skip
        for _ in range(count * size):
            producer.send_async(b"in a batch", lambda result, message_id: None)
        producer.flush()
        producer.close()

    @contextlib.contextmanager
    def raw(self, topic: str) -> Iterator[RawProducer]:
        """A producer of odd entries."""
        self.admin.get(f"{self.path(topic)}/stats").raise_for_status()  # it is loaded now
        producer = RawProducer(self.broker.service_url, topic)
        try:
            yield producer
        finally:
            producer.close()

    def path(self, topic: str) -> str:
        namespace, _, local = topic.removeprefix("persistent://").rpartition("/")
        return f"/admin/v2/persistent/{namespace}/{quote(local, safe='')}"

    def unload(self, topic: str) -> None:
        self.admin.put(f"{self.path(topic)}/unload").raise_for_status()

    def broker_says(self, topic: str) -> int:
        """availablePermits of the one consumer of the topic."""
        subscriptions = self.admin.get(f"{self.path(topic)}/stats").json()["subscriptions"]
        (consumer,) = [one for each in subscriptions.values() for one in each["consumers"]]
        return int(consumer["availablePermits"])

    # What the relay saw.

    def note(self, row: Row) -> None:
        if row.client_version:
            self.versions.add(row.client_version)
        if row.topic and row.incarnation is not None:
            self.rows[row.topic].append(row)

    def settle(self) -> None:
        """Everything that has passed the relay by now is in the rows."""
        with self._lock:
            self._relay.flush()
            self.observer.follow()

    def quiet(self, topic: str, seconds: float = QUIET_SECONDS) -> None:
        """Waits until nothing passes any more for this topic and its partitions."""
        seen, since = -1, time.monotonic()
        deadline = since + PATIENCE_SECONDS
        while time.monotonic() - since < seconds and time.monotonic() < deadline:
            time.sleep(0.02)
            self.settle()
            now = len(self.all_rows(topic))
            if now != seen:
                seen, since = now, time.monotonic()

    def all_rows(self, topic: str) -> list[Row]:
        """Of a topic and its partitions, in the order of the trace."""
        rows = [
            row
            for name, rows in list(self.rows.items())
            if name == topic or name.startswith(f"{topic}-partition-")
            for row in rows
        ]
        return sorted(rows, key=lambda row: row.seq)

    def of(self, topic: str, command: str) -> list[Row]:
        """The rows of one command."""
        return [row for row in self.all_rows(topic) if row.command == command]

    def flows(self, topic: str) -> list[int]:
        """The permits of each FLOW so far, over all incarnations."""
        self.settle()
        return [row.permits or 0 for row in self.of(topic, "FLOW")]

    def flows_by_incarnation(self, topic: str) -> list[list[int]]:
        """The same for each incarnation that has subscribed, in order; [] where none was sent."""
        self.settle()
        flows: dict[int, list[int]] = {}
        for row in self.all_rows(topic):
            assert row.incarnation is not None
            of_it = flows.setdefault(row.incarnation, [])
            if row.command == "FLOW":
                of_it.append(row.permits or 0)
        return [flows[number] for number in sorted(flows)]

    def ledger(self, topic: str) -> Ledger:
        """Of the newest incarnation."""
        self.settle()
        consumers = [c for c in self.observer.timeline.consumers if c.topic == topic]
        return consumers[-1].ledger

    def delivered(self, topic: str) -> int:
        """Messages that the broker has pushed so far; of batches all that were debited."""
        self.settle()
        return sum(row.permits or 0 for row in self.of(topic, "MESSAGE"))

    def until(self, true: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        return eventually(true, seconds)

    def take_until_flow(
        self, topic: str, consumer: Consumer, *, at_once: int, most: int
    ) -> tuple[int, int | None]:
        """Takes single messages until one more FLOW passes: how many that took, and its size.

        at_once: taken first without a look. None where `most` were taken and none came.
        """
        before = len(self.flows(topic))
        taken = len(consumer.receive(at_once)) if at_once > 0 else 0
        while True:
            self.quiet(topic, STEP_SECONDS)
            flows = self.flows(topic)
            if len(flows) > before:
                return taken, flows[before]
            if taken >= most or not consumer.receive(1, 1.0):
                return taken, None
            taken += 1

    def imbalance(self, topic: str, consumer: Consumer, queue: int) -> int | None:
        """Permits that are there above the queue size (below it: that were lost), all taken.

        Takes what is left, then sends one message at a time until a FLOW follows: at that moment
        the client owes nothing, and available permits must be the queue size. None where nothing
        is delivered any more.
        """
        while consumer.receive(1, DRAIN_SECONDS):
            pass
        for _ in range(2 * queue + 2):
            before = len(self.flows(topic))
            self.produce(topic, 1)
            if not consumer.receive(1, 2.0):
                return None
            self.quiet(topic, STEP_SECONDS)
            if (available := self.available_at_flow(topic, before)) is not None:
                return available - queue
        return None

    def available_at_flow(self, topic: str, flows_before: int) -> int | None:
        """Available permits right after a new FLOW that came last, when all was taken."""
        if len(self.flows(topic)) == flows_before:
            return None
        if self.of(topic, "FLOW")[-1].seq < self.of(topic, "MESSAGE")[-1].seq:
            return None  # it was late, and a further message has been taken since
        ledger = self.ledger(topic)
        return ledger.granted - ledger.spent

    def close(self) -> None:
        self._direct.close()


@contextlib.contextmanager
def staging(broker: Sandbox) -> Iterator[Stage]:
    """A relay in front of this broker, and its trace, gone at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as folder,
        httpx2.Client(base_url=broker.admin_url, timeout=30, trust_env=False) as admin,
        relaying(broker.service_url, Path(folder) / "t.ptrace") as relay,
        contextlib.ExitStack() as stack,
    ):
        noted: list[Stage] = []
        observer = Sealer(
            Path(folder) / "t.ptrace", on_row=lambda row: noted[0].note(row) if noted else None
        )
        stack.callback(observer.close)
        stage = Stage(broker, relay, observer, admin)
        noted.append(stage)
        stack.callback(stage.close)
        yield stage
